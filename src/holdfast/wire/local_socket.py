"""Local sockets: programs on one machine talk over them instead of TCP, which takes half the time for each message.

    who listens    draws a name, and tells it beside its address
    who dials      tries the name first; if that is refused, the address by TCP

A name is in the abstract space of Linux: it leaves no file, ends with its program, and is not seen from another machine, nor from
a container that has a network of its own. After its program has ended, any other may take it. So whoever dials goes on only
if the other end runs as the same user, or as root. What is to be encrypted goes by TCP.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys

BACKLOG_MAX = 1024
_PREFIX = "\0holdfast-"
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def listen() -> tuple[str, socket.socket] | None:
    """A new name, and the socket that listens there; None where this system has none."""
    if sys.platform != "linux":
        return None
    name, listening = _PREFIX + secrets.token_hex(16), socket.socket(socket.AF_UNIX)
    try:
        listening.bind(name)
        listening.listen(BACKLOG_MAX)
        listening.setblocking(False)
    except OSError:
        listening.close()
        return None
    return name.lstrip("\0"), listening


def dial(name: str) -> socket.socket | None:
    """A connection to the program that listens at this name; None if none does here, or it runs as another user."""
    if not name or sys.platform != "linux":
        return None
    dialled = socket.socket(socket.AF_UNIX)
    try:
        dialled.setblocking(False)
        dialled.connect(f"\0{name}")
        _, user, _ = _CREDENTIALS.unpack(dialled.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if user in (0, os.geteuid()):
            return dialled
    except OSError:
        pass
    dialled.close()
    return None
