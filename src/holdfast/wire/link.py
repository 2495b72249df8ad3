"""A link: one transport connection between a client and a client manager, whatever it is made of.

    TCP          wire/tcp.py          frames as bytes
    in process   wire/in_process.py   the same frames, handed over as they are (embedded mode, tests)

A link hands over what it is given, in order, or is lost; it never reorders, repeats or invents. Whoever uses it sets `received`
and `lost` before the first turn of the loop after it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.wire.frame import Frame


class Link(Protocol):
    received: Callable[[Frame], None]
    lost: Callable[[Exception | None], None]  # called once; None when it was closed in good order

    @property
    def peer(self) -> str:
        """Who is at the other end, for people."""

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """The names by which the other end proved itself with a TLS certificate; none without."""

    @property
    def is_congested(self) -> bool:
        """More is waiting to be sent than the other side takes; whoever can wait should."""

    @property
    def bytes_waiting(self) -> int:
        """What was sent and is still here."""

    def send(self, frame: Frame) -> None:
        """Hand over a frame. Never waits; what is sent on a lost link is dropped (`lost` tells)."""

    def send_now(self, frame: Frame) -> None:
        """`send` and `flush` in one, for a frame that nothing will come to travel with."""

    def flush(self) -> None:
        """Frames that are handed over in one turn of the loop travel together at its end; this sends them now."""

    async def drained(self) -> None:
        """Wait until the link is not congested, or lost."""

    def close(self) -> None:
        """Send what waits, then end."""
