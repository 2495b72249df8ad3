"""The prefetch watch: gives back, uncounted, events that lie here although their program does not take them.

    delivered ─▶ every quarter of a second, while more than one event lies here ─▶ window.keep ─▶ give back the rest
                                                                                        │ withdraw the credit, release

First the credit is withdrawn, or the events would come back at once. Events that are on their way meanwhile are given back as
they come, until the program asks again. A release is a command: the server remembers with the events that they came back, also
over a restart. So they are marked as redelivered wherever they come, and may come after later ones (ADR 13).

Events of a subscription that has one receiver stay here: nobody else could take them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.client.receiving.verdict_buffer import Settlement
from holdfast.event.position import Ranges

if TYPE_CHECKING:
    from holdfast.client.receiving.receiver import Receiver

log = logging.getLogger("holdfast.client")

# How often a program is looked at that has events before it.
LOOK_S = 0.25


class PrefetchWatch:
    def __init__(self, receiver: Receiver, *, is_shared: bool) -> None:
        """`is_shared`: others may receive the same events."""
        self._receiver = receiver
        self._is_watching = is_shared and receiver.credit.window.is_adapting
        self._timer: asyncio.TimerHandle | None = None
        self.kept: int | None = None  # events that were kept of what was given back; None: the program takes what comes

    def delivered(self) -> None:
        """Events came."""
        if self.kept is not None:
            self.give_back(self.kept)
        elif self._is_watching and self._timer is None:
            self._timer = self._receiver.session.connection.loop.call_later(LOOK_S, self._look)

    def asked(self) -> None:
        """The program asks for an event: what comes is for it."""
        if self.kept is not None:
            self.kept = None
            self.delivered()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        receiver, now_s = self._receiver, self._receiver.session.connection.loop.time()
        window, buffer = receiver.credit.window, receiver.buffer
        ahead = buffer.ahead()
        if not receiver.is_open or ahead <= 1:
            return
        if not receiver.session.is_ready or buffer.paused is not None:
            window.rest(now_s)
        else:
            window.look(now_s, buffer.handed())
            keep = window.keep(now_s, ahead)
            if keep < ahead:
                log.debug("%d events of %s are given back: its program does not take them", ahead - keep, receiver.destination)
                self.give_back(keep)
        if self.kept is None:
            self.delivered()

    def give_back(self, keep: int = 0) -> None:
        """Give back what the program was not handed, but for the first so many. More comes when the program asks for it."""
        receiver = self._receiver
        if receiver.is_asked:  # nothing lies here, and what comes is for the program
            return
        self.kept = keep
        receiver.credit.withdraw(sum(each.events for each in receiver.buffer.unused()))
        dropped = receiver.buffer.give_back(receiver.credit, keep)
        for first, last in (*dropped, *receiver.buffer.untaken()):  # the program is handed them anew
            receiver.mode.forget(first, last)
        if dropped:
            receiver.outbox.settle(Settlement("release", Ranges.gather(dropped), is_counted=False))
