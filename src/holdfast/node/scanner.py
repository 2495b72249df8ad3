"""The scanner: carries out the looks of deliveries. It reads heads and says what matches a selector, and which group it has.

    delivery ──looks──▶ read heads ──▶ select, a millisecond at a time ──▶ delivery ──▶ more can be handed out

One small task a backlog, alive while its delivery wants something looked at: a selector that matches one event in a thousand
goes through a deep queue in turns, and everybody else has theirs in between. A batch that cannot be read is found to match for
receivers without a selector, so that whoever fetches it buries it; a selector it does not match.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from holdfast.destination import effect
from holdfast.destination.delivery import Delivery
from holdfast.destination.view import Found, Look
from holdfast.errors import Closed, HoldfastError, NoSuchPosition, Refused
from holdfast.event import position
from holdfast.event.batch import Batch
from holdfast.event.selector import compile_selector
from holdfast.node.clock import Clock
from holdfast.node.heads import Heads, group_in

log = logging.getLogger("holdfast.scanner")

BacklogKey = effect.BacklogKey
LOOKS_AT_ONCE = 128
# The loop is left to others after so long.
TURN_S = 0.001
# What cannot be read is tried again after this.
AGAIN_MS = 1_000


class Scanner:
    def __init__(self, heads: Heads, clock: Clock, found_some: Callable[[BacklogKey], None]) -> None:
        """`found_some` is called when a backlog may have more to hand out."""
        self.events_looked_at = 0
        self._heads = heads
        self._clock = clock
        self._found_some = found_some
        self._looking: dict[BacklogKey, asyncio.Task[None]] = {}

    def look(self, key: BacklogKey, delivery: Delivery) -> None:
        """Start looking, if there is something to look at and nobody is at it."""
        if key in self._looking:
            return
        looks = delivery.looks(self._clock.now_ms(), LOOKS_AT_ONCE)
        if looks:
            task = asyncio.create_task(self._scan(key, delivery, looks), name=f"looks at {key}")
            self._looking[key] = task
            task.add_done_callback(lambda _: self._looked(key))

    def _looked(self, key: BacklogKey) -> None:
        del self._looking[key]
        self._found_some(key)

    async def _scan(self, key: BacklogKey, delivery: Delivery, looks: list[Look]) -> None:
        try:
            while looks:
                await self._carry_out(delivery, looks)
                self._found_some(key)
                await asyncio.sleep(0)  # a turn for everyone else
                looks = delivery.looks(self._clock.now_ms(), LOOKS_AT_ONCE)
        except Closed:
            pass

    async def _carry_out(self, delivery: Delivery, looks: list[Look]) -> None:
        """Each is answered: with what was found, or with when to try again."""
        while looks:
            entries = list(dict.fromkeys(position.entry_of(look.first) for look in looks))
            try:
                read = await self._heads.read(entries)
            except NoSuchPosition:
                self._put_off(delivery, looks, 0)
                return
            except Closed:
                raise
            except HoldfastError as problem:
                log.error("heads cannot be read, and are tried again: %s", problem)
                self._put_off(delivery, looks, AGAIN_MS)
                return
            done = [look for look in looks if position.entry_of(look.first) in read]
            await self._answer(delivery, done, read)
            looks = [look for look in looks if position.entry_of(look.first) not in read]

    def _put_off(self, delivery: Delivery, looks: Iterable[Look], delay_ms: int) -> None:
        for look in looks:
            delivery.look_later(look, self._clock.now_ms() + delay_ms)

    async def _answer(self, delivery: Delivery, looks: Iterable[Look], read: dict[int, Batch | None]) -> None:
        began = time.perf_counter()
        for look in looks:
            batch = read[position.entry_of(look.first)]
            delivery.looked_at(look, found_in(look, batch))
            self.events_looked_at += look.last - look.first + 1
            if time.perf_counter() - began > TURN_S:
                await asyncio.sleep(0)
                began = time.perf_counter()

    async def stop(self) -> None:
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def found_in(look: Look, batch: Batch | None) -> list[Found]:
    """What of the events of a look matches its selector, in runs of one group."""
    first, last = position.index_of(look.first), position.index_of(look.last)
    if batch is None or last >= batch.count:
        return [] if look.selector else [Found(look.first, look.last, None)]
    indexes = _selected(look.selector, batch, range(first, last + 1))
    base = look.first - first
    found: list[Found] = []
    for index in indexes:
        group = group_in(batch, index) if batch.has_groups else None
        if found and found[-1].last == base + index - 1 and found[-1].group == group:
            found[-1] = found[-1]._replace(last=base + index)
        else:
            found.append(Found(base + index, base + index, group))
    return found


def _selected(selector: str, batch: Batch, indexes: range) -> Iterable[int]:
    if not selector:
        return indexes
    try:
        return compile_selector(selector).select(batch, indexes)
    except Refused:  # written down by a release that could read it
        return []
