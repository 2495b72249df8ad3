"""A peer: something that keeps events, driven the way its users drive it, durable before it acknowledges.

    Peer      starts and stops the thing itself; hands out clients
    Client    one program's connection: sends, receives and confirms; belongs to one thread

Counts, not durations, bound the work: whoever measures takes the time. Every wait inside a client ends after `WAIT_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

# No single operation of a healthy peer takes this long here; one that does has failed.
WAIT_SECONDS = 120.0

# How many events a recipient asks for, or acknowledges, at once, where a client offers that: the usual advice for each of them.
PREFETCH = 500
# How many sends may be under way in pipelined sending, where a client leaves that to its user.
WINDOW = 1_000


class CannotRun(Exception):
    """This peer is not installed here, or does not start; it is left out and the reason is reported."""


class Client(Protocol):
    def send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        """Send each body and wait until it is durable before the next is asked for."""

    def send_pipelined(self, body: bytes, count: int) -> None:
        """Send a body so many times, as fast as the client allows; return when all are durable."""

    def receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        """Receive so many events, show each to `seen`, confirm it; return when the confirmations are with the server."""

    def close(self) -> None: ...


class Peer(Protocol):
    name: str
    # Events of one repetition, so that each takes about a second on two ordinary cores.
    one_by_one_count: int
    pipelined_count: int
    is_broker: bool

    def start(self, folder: Path) -> None:
        """Start with everything it keeps in this (existing, empty) folder. CannotRun when that is impossible here."""

    @property
    def connect(self) -> Callable[[], Client]:
        """Makes a client. It can be pickled, so that another process may connect too."""

    def stop(self) -> None:
        """Stop whatever `start` started; also after a start that failed midway."""
