"""A link: one transport connection between a client and a client manager, whatever it is made of.

    TCP          tcp_link          frames as bytes
    in process   in_process_link   the same frames, handed over as they are (embedded mode, tests)
    to a thread  thread_link       the same between two loops of one process (`memory:NAME`)

A link hands over frames in order, or is lost; it never reorders, repeats or invents. Its user sets `received` and `lost` before
the first turn of the loop after it was made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from holdfast.wire.frame import Frame

log = logging.getLogger("holdfast.link")


def report_fault(peer: str, problem: Exception) -> None:
    """Log that a frame could not be taken, by a fault of ours. It costs the link."""
    log.error("the link to %s ends: a frame could not be taken: %r", peer, problem)
    log.debug("a frame could not be taken", exc_info=problem)


class Link(Protocol):
    received: Callable[[Frame], None]
    lost: Callable[[Exception | None], None]  # called once; None when it was closed in good order

    @property
    def peer(self) -> str:
        """The name of the other end, for people."""

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """The names in the TLS certificate of the other end; none without a certificate."""

    @property
    def heard(self) -> bytes:
        """The first bytes that came and were no frame; empty if there are none."""

    @property
    def is_congested(self) -> bool:
        """More waits to be sent than the other side takes: a sender that can wait should."""

    @property
    def bytes_waiting(self) -> int:
        """Bytes that were sent and are still here."""

    def send(self, frame: Frame) -> None:
        """Hand over a frame. It never waits. On a lost link the frame is dropped (`lost` tells)."""

    def send_now(self, frame: Frame) -> None:
        """Send and flush in one call, for a frame that no other will join."""

    def flush(self) -> None:
        """Send gathered frames now. Otherwise all frames of one turn of the loop travel together at its end."""

    async def drained(self) -> None:
        """Wait until the link is not congested, or lost."""

    def admit(self) -> None:
        """Lift the limits of links that have not logged in: the other side is known and welcome."""

    def close(self) -> None:
        """Send all that waits, then end."""


def unset_received(frame: Frame) -> None:
    raise AssertionError("`received` of a link was not set before its first frame came")


def unset_lost(error: Exception | None) -> None:
    pass
