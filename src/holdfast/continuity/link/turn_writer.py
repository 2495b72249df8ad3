"""Writes of an answer link: the first message of a turn of the loop goes at once, further ones of that turn together.

    turn:   write ──▶ socket      write, write, write ──gathered──▶ end of the turn: one write ──▶ socket

A lone message is not held up. Among many requests the messages of one turn cost one call of the system instead of one each, and
the other side is woken once. Over a local socket a write costs less than gathering does: there every message goes at once.
"""

from __future__ import annotations

import asyncio
import socket


def is_local(transport: asyncio.Transport) -> bool:
    """Whether the other end is on this machine, over a local socket."""
    made = transport.get_extra_info("socket")
    return made is not None and made.family == socket.AF_UNIX


class TurnWriter:
    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, is_gathering: bool = True) -> None:
        self._transport = transport
        self._is_gathering = is_gathering
        self._loop = loop
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._is_in_turn = False

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() + self._gathered_bytes

    def write(self, data: bytes) -> None:
        if not self._is_gathering:
            self._transport.write(data)
        elif self._is_in_turn:
            self._gathered.append(data)
            self._gathered_bytes += len(data)
        else:
            self._transport.write(data)
            self._is_in_turn = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        if not self._gathered:
            self._is_in_turn = False
            return
        self.flush()
        self._loop.call_soon(self._end_turn)

    def flush(self) -> None:
        """Write what was gathered; before the link is closed, for one."""
        if self._gathered and not self._transport.is_closing():
            self._transport.write(self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered))
        self._gathered.clear()
        self._gathered_bytes = 0
