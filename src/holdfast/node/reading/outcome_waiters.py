"""Outcome waiters: programs that ask what became of events, and wait until something of it is finished.

    question ──▶ outcomes of what it names ──┬─ something is finished, or no wait ──▶ answered
                                             └─ all of it waits ──▶ looked at again when one who counts finishes some of it,
                                                                    or is deleted; answered after its time with what there is

A waiter costs nothing until a backlog that counts for it finishes something between its first and its last position.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.bus.bus import Bus
from holdfast.bus.message import Question, Reply
from holdfast.channel.channel import Channel
from holdfast.destination.directory import Directory
from holdfast.destination.effect import BacklogDeleted, BacklogKey, Effect, Finished
from holdfast.destination.outcomes import Outcomes, counting, outcomes_of
from holdfast.errors import BadSetting
from holdfast.event.position import Ranges
from holdfast.node.administration import arguments
from holdfast.node.clock import Clock
from holdfast.node.reading.extents import identity_of, queue_in
from holdfast.node.reading.place_readers import WAIT_MS_MAX

QUESTION = "outcomes"
# Ranges that are asked for at a time: half of a frame. Looking at so many takes some tens of milliseconds.
RANGES_ASKED_MAX = 32_768


class OutcomeWaiters:
    def __init__(self, directory: Directory, channel: Channel, bus: Bus, clock: Clock) -> None:
        self._directory = directory
        self._channel_id = channel.id
        self._bus = bus
        self._clock = clock
        self._waiting: dict[_Waiting, None] = {}
        self._due: dict[_Waiting, None] = {}

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def begin(self, question: Question) -> None:
        """Answer a question, now or later. HoldfastError when it is refused at once."""
        asked = question.arguments
        if not 0 <= asked.wait_ms <= WAIT_MS_MAX:
            raise BadSetting(f"a wait of {asked.wait_ms!r:.40} ms is not possible; give 0 to {WAIT_MS_MAX}", setting="wait_ms")
        waiting = _Waiting(self._directory, question, read_asked(asked.ranges))
        found = waiting.look()
        if not asked.wait_ms or not waiting.is_all_waiting(found):
            self._answer(waiting, found)
            return
        self._waiting[waiting] = None
        waiting.timer = self._clock.call_later(asked.wait_ms, lambda: self._end(waiting, waiting.look()))

    def touched(self, each: Effect) -> None:
        """A command was applied, with this effect."""
        if isinstance(each, Finished):
            self._due.update((waiting, None) for waiting in self._waiting if waiting.is_about(each.backlog, each.ranges))
        elif isinstance(each, BacklogDeleted):
            self._due.update((waiting, None) for waiting in self._waiting if each.backlog in waiting.counting)

    def answer_waiting(self) -> None:
        """Commands were applied: answer those for whom something is finished, or whose subscription is gone."""
        due, self._due = self._due, {}
        for waiting in due:
            if not waiting.is_there:  # it is told so when it asks again
                self._end(waiting, Outcomes(waiting.asked, (), Ranges(), waiting.asked.last))
            elif not waiting.is_all_waiting(found := waiting.look()):
                self._end(waiting, found)

    def _end(self, waiting: _Waiting, found: Outcomes) -> None:
        del self._waiting[waiting]
        self._due.pop(waiting, None)
        if waiting.timer is not None:
            waiting.timer.cancel()
        self._answer(waiting, found)

    def _answer(self, waiting: _Waiting, found: Outcomes) -> None:
        answer: dict[str, Any] = {
            "waiting": found.waiting.to_bytes(),
            "dead": [(each.ranges.to_bytes(), each.code, each.reason, each.subscription) for each in found.dead],
            "nobody": found.nobody.to_bytes(),
            "through": found.through,
            "counting": len(waiting.counting),
            "identity": waiting.identity(self._channel_id),
        }
        self._bus.publish(waiting.question.client_manager, Reply(waiting.question.token, answer, None))

    def stop(self) -> None:
        for waiting in self._waiting:
            if waiting.timer is not None:
                waiting.timer.cancel()
        self._waiting.clear()


def read_asked(data: bytes) -> Ranges:
    """The ranges that are asked about; BadSetting if they are none, or too many."""
    try:
        ranges = Ranges.from_bytes(data)
    except ValueError as problem:
        raise BadSetting(f"these ranges cannot be read: {problem}", setting="ranges") from problem
    if len(ranges) > RANGES_ASKED_MAX:
        raise BadSetting(f"{len(ranges)} ranges are asked about at once; ask about {RANGES_ASKED_MAX} at most", setting="ranges")
    return ranges


class _Waiting:
    """A program that waits until something of these ranges is finished."""

    def __init__(self, directory: Directory, question: Question, asked: Ranges) -> None:
        self.question = question
        self.asked = asked
        self.timer: asyncio.TimerHandle | None = None
        self._directory = directory
        self._where: arguments.OfSubscription = question.arguments
        self._named = queue_in(directory, self._where) if self._where.subscription else None
        self.counting = {each.key for each in counting(directory, self._where.key, self._where.subscription)}

    @property
    def is_there(self) -> bool:
        """Whether the subscription that was named still exists."""
        return self._named is None or self._directory.catalog.queues.get(self._named.key) is self._named

    def identity(self, channel_id: str) -> str:
        return "" if self._named is None else identity_of(channel_id, self._named)

    def is_about(self, backlog: BacklogKey, finished: Ranges) -> bool:
        return backlog in self.counting and finished.first <= self.asked.last and self.asked.first <= finished.last

    def is_all_waiting(self, found: Outcomes) -> bool:
        return bool(self.asked) and found.waiting == self.asked

    def look(self) -> Outcomes:
        return outcomes_of(self._directory, self._where.key, self._where.subscription, self.asked)
