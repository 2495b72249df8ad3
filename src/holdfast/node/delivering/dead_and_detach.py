"""Commands about events that can no longer be delivered, and about sessions and receivers that did not come back.

    events   ──▶ `Dead`: they go to the dead queue, with the reason
    session  ──▶ `Release` of what its programs were handed, counted, and of the rest, uncounted, then `Detach`
    receiver ──▶ `Detach`

Each is a command, and so counts when it is applied, here and at a backup. A command that finds no room is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from holdfast.channel.channel import Channel, Purpose, Receipt
from holdfast.destination import command, effect
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.effect import Holder
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock

log = logging.getLogger("holdfast.deliverer")

BacklogKey = effect.BacklogKey
Returning = tuple[BacklogKey, Ranges]

# A command that finds no room is tried again after this.
AGAIN_MS = 1_000


class DeadAndDetach:
    def __init__(self, channel: Channel, clock: Clock, find: Callable[[BacklogKey], Delivery | None]) -> None:
        """`find` gives the running delivery of a backlog."""
        self.epoch = 0  # that of the own claim, once it is applied
        self._channel = channel
        self._clock = clock
        self._find = find

    async def bury(self, key: BacklogKey, ranges: Ranges, reason: str, code: str) -> None:
        """Send these events to the dead queue; those that find no room there wait again."""
        if not ranges:
            return
        for part in ranges.portions(command.RANGES_MAX):
            dead = command.Dead(self.epoch, *key, part.to_bytes(), reason, code, self._clock.now_ms())
            try:
                await self._channel.append(command.encode(dead), Purpose.UPKEEP)
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("events of %s cannot be buried yet: %s", key, problem)
                delivery = self._find(key)
                if delivery is not None:
                    delivery.returned(part, self._clock.now_ms() + AGAIN_MS)

    async def note_in_hand(self, key: BacklogKey, holder: Holder, ranges: Ranges) -> None:
        """Return when it is durable that these are handed to a receiver's program. Unavailable or OutcomeUnknown when not."""
        noted = command.InHand(self.epoch, key, holder, ranges.to_bytes())
        await self._channel.append(command.encode(noted), Purpose.UPKEEP)

    def detach_session(self, session: str, seen: Iterable[Returning], unseen: Iterable[Returning], link: int) -> None:
        """Release what a session held that did not come back, and detach it, unless it has come by a later link since."""
        self.release(session, seen, unseen)
        self._detach(session, 0, link)

    def release(self, session: str, seen: Iterable[Returning], unseen: Iterable[Returning], link: int = 0) -> None:
        """Release the events of a session that is about to be detached. Those its programs were handed (`seen`) count (rule 5).
        The others do not, but come again marked: its programs may have been handed them too, and others have had later
        ones."""
        for returning, is_counted in ((seen, True), (unseen, False)):
            for key, ranges in returning:
                for part in ranges.portions(command.RANGES_MAX):
                    self._release(key, session, part, is_counted, link)

    def _release(self, key: BacklogKey, session: str, ranges: Ranges, is_counted: bool, link: int) -> None:
        released = command.Release(
            *key, session, ranges.to_bytes(), is_counted=is_counted, at_ms=self._clock.now_ms(), often_ms=command.OFTEN_MS,
            epoch=self.epoch, link=link,
        )  # fmt: skip
        self._issue(released)

    def detach_receiver(self, holder: Holder) -> None:
        """Detach a receiver that did not come back, although its session did."""
        self._detach(*holder)

    def detach_lost(self, session: str, link: int, seen: Iterable[Returning], unseen: Iterable[Returning]) -> None:
        """Detach a session whose client manager is gone, unless it has come by a later link of its client, and release what it
        holds."""
        self.release(session, seen, unseen, link)
        self._detach(session, 0, link)

    def _detach(self, session: str, receiver: int, link: int = 0) -> None:
        """Others get what it holds (rule 4); until it is detached, nobody does. So it is tried again where there was no room, but
        nothing is released a second time: another event would be next by then, and would be counted."""

        def tried(done: asyncio.Future[Receipt]) -> None:
            problem = None if done.cancelled() else done.exception()
            if isinstance(problem, Unavailable | OutcomeUnknown):
                what = f"receiver {receiver} of session {session}" if receiver else f"session {session}"
                log.error("%s cannot be detached yet: %s", what, problem)
                self._clock.call_later(AGAIN_MS, lambda: self._detach(session, receiver, link))

        detach = command.Detach(session, receiver, self._clock.now_ms(), self.epoch, link=link)
        self._issue(detach).add_done_callback(tried)

    def _issue(self, issued: command.Command) -> asyncio.Future[Receipt]:
        future = self._channel.append(command.encode(issued), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future
