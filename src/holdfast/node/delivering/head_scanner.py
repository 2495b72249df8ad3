"""The head scanner: reads the heads that deliveries ask for, and tells them which events match a selector, and their groups.

    delivery ──head reads──▶ read heads ──▶ select, in a shared turn ──▶ delivery ──▶ more can be delivered

Each backlog has one small task, alive while its delivery wants heads read: a selector that matches one event in a thousand goes
through a deep queue in turns, and everybody else has theirs in between. A batch that cannot be read matches for receivers without
a selector, so that it is buried when it is fetched; it matches no selector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from holdfast.destination import effect
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.delivery.view import Found, HeadRead
from holdfast.errors import Closed, NoSuchPosition, Refused
from holdfast.event import position
from holdfast.event.batch import Batch
from holdfast.event.selector.selector import stored_selector
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.node.reading.head_reader import HeadReader, group_in
from holdfast.node.reading.shared_turn import SharedTurn

log = logging.getLogger("holdfast.scanner")

BacklogKey = effect.BacklogKey
Result = TypeVar("Result")
Steps = Generator[int, None, Result]
LOOKS_AT_ONCE = 128
# Heads that cannot be read are tried again after this.
AGAIN_MS = 1_000


class HeadScanner:
    def __init__(self, heads: HeadReader, clock: Clock, turn: SharedTurn, found_some: Callable[[BacklogKey], None]) -> None:
        """`found_some` is called when a backlog may have more to deliver."""
        self._heads = heads
        self._clock = clock
        self._turn = turn
        self._found_some = found_some
        self._tasks: dict[BacklogKey, asyncio.Task[None]] = {}

    def scan(self, key: BacklogKey, delivery: Delivery) -> None:
        """Start a task that reads heads, if some are wanted and no task is at it."""
        if key in self._tasks:
            return
        looks = delivery.head_reads(self._clock.now_ms(), LOOKS_AT_ONCE)
        if looks:
            task = supervision.start(self._scan(key, delivery, looks), f"reading heads of {key}")
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._task_ended(key))

    def _task_ended(self, key: BacklogKey) -> None:
        del self._tasks[key]
        self._found_some(key)

    async def _scan(self, key: BacklogKey, delivery: Delivery, looks: list[HeadRead]) -> None:
        try:
            while looks:
                await self._carry_out(delivery, looks)
                self._found_some(key)
                await asyncio.sleep(0)  # a turn for everyone else
                looks = delivery.head_reads(self._clock.now_ms(), LOOKS_AT_ONCE)
        except Closed:
            pass

    async def _carry_out(self, delivery: Delivery, looks: list[HeadRead]) -> None:
        """Answer each: with what was found, or with when to try again."""
        while looks:
            entries = list(dict.fromkeys(position.entry_of(look.first) for look in looks))
            try:
                read = await self._heads.read(entries)
            except NoSuchPosition:
                self._put_off(delivery, looks, 0)
                return
            except Closed:
                raise
            except Exception as problem:  # whatever it is, it is tried again later
                log.error("heads cannot be read, and are tried again: %s", supervision.described(problem))
                self._put_off(delivery, looks, AGAIN_MS)
                return
            done = [look for look in looks if position.entry_of(look.first) in read]
            await self._answer(delivery, done, read)
            looks = [look for look in looks if position.entry_of(look.first) not in read]

    def _put_off(self, delivery: Delivery, looks: Iterable[HeadRead], delay_ms: int) -> None:
        for look in looks:
            delivery.read_later(look, self._clock.now_ms() + delay_ms)

    async def _answer(self, delivery: Delivery, looks: Iterable[HeadRead], read: dict[int, Batch | None]) -> None:
        await self._turn.take(self._answers(delivery, looks, read))

    def _answers(self, delivery: Delivery, looks: Iterable[HeadRead], read: dict[int, Batch | None]) -> Steps[None]:
        for look in looks:
            delivery.heads_read(look, (yield from _found_in(look, read[position.entry_of(look.first)])))

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _found_in(look: HeadRead, batch: Batch | None) -> Steps[list[Found]]:
    """As `found_in`; a batch at which that fails, for whatever reason, counts as one that cannot be read."""
    try:
        return (yield from found_in(look, batch))
    except Exception as problem:
        supervision.report(f"reading the heads of entry {position.entry_of(look.first)}", problem)
        return (yield from found_in(look, None))


def found_in(look: HeadRead, batch: Batch | None) -> Steps[list[Found]]:
    """The events of a read that match its selector, in runs of one group. In steps, each of which says what it cost."""
    first, last = position.index_of(look.first), position.index_of(look.last)
    if batch is None or last >= batch.count:
        return [] if look.selector else [Found(look.first, look.last, None)]
    indexes = yield from _selected(look.selector, batch, range(first, last + 1))
    base = look.first - first
    found: list[Found] = []
    for index in indexes:
        if batch.has_groups:
            group = group_in(batch, index)
            yield len(batch.head(index))
        else:
            group = None
        if found and found[-1].last == base + index - 1 and found[-1].group == group:
            found[-1] = found[-1]._replace(last=base + index)
        else:
            found.append(Found(base + index, base + index, group))
    return found


def _selected(selector: str, batch: Batch, indexes: range) -> Steps[Iterable[int]]:
    compiled = stored_selector(selector)
    if compiled is None:
        return indexes
    try:
        return (yield from compiled.select_in_steps(batch, indexes))
    except Refused:  # written down by a release that could read it
        return []
