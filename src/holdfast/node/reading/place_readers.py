"""Readers by place: their questions are answered once each, some of them only after a while.

    extent         answered when the sizes of batches were read             a task for each
    more           answered when an event waits at or after a place         checked when commands were applied; False after a time
    ranges_before  answered at once

A reader that waits costs nothing until something is placed where it waits.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.bus.bus import Bus
from holdfast.bus.message import Question, Reply
from holdfast.channel.channel import Channel
from holdfast.destination.directory import Directory
from holdfast.destination.state.places import newest_of, next_waiting
from holdfast.destination.state.queue import Queue
from holdfast.errors import BadSetting
from holdfast.node import supervision
from holdfast.node.clock import Clock
from holdfast.node.reading.extents import Extents, checked_place, queue_in, ranges_before

QUESTIONS = ("extent", "more", "ranges_before")
# Questions that clients may ask; the ranges before a place are asked for by their client manager.
ASKED_BY_CLIENTS = ("extent", "more")
# A reader that waits longer asks again, so that one that is gone is not kept for long.
WAIT_MS_MAX = 10_000
# Extents that are measured at the same time: each has at most some hundred KiB in memory.
EXTENTS_AT_ONCE = 4


class PlaceReaders:
    def __init__(self, directory: Directory, channel: Channel, bus: Bus, clock: Clock) -> None:
        self._directory = directory
        self._bus = bus
        self._clock = clock
        self._extents = Extents(directory, channel)
        self._room = asyncio.Semaphore(EXTENTS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[_Waiting, None] = {}

    @property
    def are_waiting(self) -> bool:
        """A reader waits for the next events."""
        return bool(self._waiting)

    def begin(self, question: Question) -> None:
        """Answer a question, now or later. HoldfastError when it is refused at once."""
        if question.action == "more":
            self._wait(question)
        elif question.action == "extent":
            task = supervision.start(self._measure(question), "measuring an extent")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answer(question, ranges_before(self._directory, question.arguments))

    async def _measure(self, question: Question) -> None:
        try:
            async with self._room:
                self._answer(question, await self._extents.extent(question.arguments))
        except Exception as problem:  # the asker gets it, whatever it is
            self._bus.publish(question.client_manager, Reply(question.token, None, supervision.as_refusal(problem)))

    def _answer(self, question: Question, value: Any) -> None:
        self._bus.publish(question.client_manager, Reply(question.token, value, None))

    # --- waiting for more --------------------------------------------------------------------------------------------

    def _wait(self, question: Question) -> None:
        asked = question.arguments
        queue, wait_ms = queue_in(self._directory, asked), asked.wait_ms
        if not 0 <= wait_ms <= WAIT_MS_MAX:
            raise BadSetting(f"a wait of {wait_ms!r:.40} ms is not possible; give 0 to {WAIT_MS_MAX}", setting="wait_ms")
        waiting = _Waiting(question, queue, checked_place(asked.after, "after"))
        has_more = waiting.has_more()
        if has_more or not wait_ms:
            self._answer(question, has_more)
            return
        self._waiting[waiting] = None
        waiting.timer = self._clock.call_later(wait_ms, lambda: self._end(waiting, False))

    def answer_waiting(self) -> None:
        """Commands were applied: answer the readers for whom there is more, or whose subscription is gone."""
        for waiting in [
            each for each in self._waiting if each.queue.backlog.next_slot > each.seen_slot or not self._is_there(each)
        ]:
            if not self._is_there(waiting) or waiting.has_more():
                self._end(waiting, self._is_there(waiting))

    def _is_there(self, waiting: _Waiting) -> bool:
        """Whether its queue still exists. A reader of a deleted one is told so when it asks again."""
        return self._directory.catalog.queues.get(waiting.queue.key) is waiting.queue

    def _end(self, waiting: _Waiting, has_more: bool) -> None:
        del self._waiting[waiting]
        if waiting.timer is not None:
            waiting.timer.cancel()
        self._answer(waiting.question, has_more)

    async def stop(self) -> None:
        for waiting in self._waiting:
            if waiting.timer is not None:
                waiting.timer.cancel()
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Waiting:
    """A reader that waits for an event at or after a place."""

    def __init__(self, question: Question, queue: Queue, after: int) -> None:
        self.question = question
        self.queue = queue
        self.timer: asyncio.TimerHandle | None = None
        self.seen_slot = 0  # nothing waits between the place and this slot
        self._after = after

    def has_more(self) -> bool:
        backlog = self.queue.backlog
        if next_waiting(backlog, self._after) < newest_of(backlog):
            return True
        self.seen_slot = backlog.next_slot
        self._after = max(self._after, newest_of(backlog))
        return False
