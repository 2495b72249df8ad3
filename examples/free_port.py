"""A port for a server that another process starts."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port() -> int:
    """Find a port that the system gives to nobody by itself: somebody's connection could have it before the server starts."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
