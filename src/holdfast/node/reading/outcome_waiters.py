"""Outcome waiters: programs that ask what became of events, and wait until something of it is finished.

    question ──▶ look at all it names ──┬─ something is finished, or no wait ──▶ answered
                                        └─ all of it waits ──▶ look at what one who counts decides on, or at all again when one
                                                               is deleted; answered after its time with what there is

A waiter costs nothing until a backlog that counts for it decides on something that it asks about. Many ranges are looked at in
turns with everyone else. If all waiters together ask about too many, the one with the most is answered as if its time were over.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from holdfast.bus.bus import Bus
from holdfast.bus.message import Question, Reply
from holdfast.channel.channel import Channel
from holdfast.destination.directory import Directory
from holdfast.destination.effect import BacklogDeleted, BacklogKey, Effect, Finished
from holdfast.destination.outcomes import RANGES_MAX, Outcomes, counting, joined, outcomes_of, outcomes_since
from holdfast.errors import BadSetting
from holdfast.event.position import Ranges
from holdfast.node import supervision
from holdfast.node.administration import arguments
from holdfast.node.clock import Clock
from holdfast.node.reading.extents import identity_of, queue_in
from holdfast.node.reading.place_readers import WAIT_MS_MAX

QUESTION = "outcomes"
# Ranges of all who wait, in 4 MiB; each who waits counts as so many more. At a time as many are asked about as an answer names:
# it tells whether all of them wait.
RANGES_WAITING_MAX = 1 << 18
RANGES_OF_ONE = 64
# Ranges that are looked at in one step, over all who count: a millisecond. Then others have a turn.
LOOKED_AT_ONCE = 512
TURN_S = 0.001


class OutcomeWaiters:
    def __init__(self, directory: Directory, channel: Channel, bus: Bus, clock: Clock) -> None:
        self._directory = directory
        self._channel_id = channel.id
        self._bus = bus
        self._clock = clock
        self._ranges = 0  # of all who wait
        self._waiting: dict[_Waiting, None] = {}
        self._by_backlog: dict[BacklogKey, dict[_Waiting, None]] = {}  # for whom it counts
        self._due: dict[_Waiting, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def begin(self, question: Question) -> None:
        """Answer a question, now or later. HoldfastError when it is refused at once."""
        asked = question.arguments
        if not 0 <= asked.wait_ms <= WAIT_MS_MAX:
            raise BadSetting(f"a wait of {asked.wait_ms!r:.40} ms is not possible; give 0 to {WAIT_MS_MAX}", setting="wait_ms")
        waiting = _Waiting(self._directory, question, read_asked(asked.ranges))
        self._waiting[waiting] = None
        self._ranges += waiting.weight
        for key in waiting.counting:
            self._by_backlog.setdefault(key, {})[waiting] = None
        if asked.wait_ms:
            waiting.timer = self._clock.call_later(asked.wait_ms, lambda: self._over(waiting))
        self._look(waiting)
        self._bound()

    def touched(self, each: Effect) -> None:
        """A command was applied, with this effect."""
        if isinstance(each, Finished):
            here = self._by_backlog.get(each.backlog, ())
            self._due.update((waiting, None) for waiting in here if waiting.note_decided(each.ranges))
        elif isinstance(each, BacklogDeleted):
            for waiting in self._by_backlog.get(each.backlog, ()):
                waiting.must_look = True
                self._due[waiting] = None

    def answer_waiting(self) -> None:
        """Commands were applied: answer those for whom something is finished, or whose subscription is gone."""
        due, self._due = self._due, {}
        for waiting in due:
            if waiting not in self._waiting or waiting.is_looking:
                continue
            if waiting.must_look:
                self._look(waiting)
            elif not waiting.is_all_waiting(found := waiting.look_again()):
                self._end(waiting, found)

    # --- looking at all that is asked about --------------------------------------------------------------------------

    def _look(self, waiting: _Waiting) -> None:
        if waiting.cost <= LOOKED_AT_ONCE:
            self._looked(waiting, waiting.look())
            return
        waiting.begin_to_look()
        task = supervision.start(self._look_in_turns(waiting), "looking at outcomes")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_in_turns(self, waiting: _Waiting) -> None:
        try:
            until_s, parts = time.perf_counter() + TURN_S, []
            for part in waiting.parts():
                parts.append((part, waiting.look(part)))
                if time.perf_counter() > until_s:
                    await asyncio.sleep(0)
                    until_s = time.perf_counter() + TURN_S
            waiting.is_looking = False
            self._looked(waiting, joined(parts))
        except Exception as problem:  # the asker gets it, whatever it is
            self._forget(waiting)
            refusal = supervision.as_refusal(problem)
            self._bus.publish(waiting.question.client_manager, Reply(waiting.question.token, None, refusal))

    def _looked(self, waiting: _Waiting, found: Outcomes) -> None:
        if waiting.is_over or waiting.timer is None or not waiting.is_all_waiting(found):
            self._end(waiting, found)
        elif waiting.has_news:  # while it looked
            self._due[waiting] = None
            self.answer_waiting()

    def _over(self, waiting: _Waiting) -> None:
        """Its time is over: answer with what there is."""
        waiting.is_over = True
        if not waiting.is_looking:
            self._end(waiting, waiting.look_again())

    def _bound(self) -> None:
        while self._ranges > RANGES_WAITING_MAX:
            largest = max((each for each in self._waiting if not each.is_looking), key=lambda each: each.weight, default=None)
            if largest is None:
                return
            self._over(largest)

    # --- answering ---------------------------------------------------------------------------------------------------

    def _end(self, waiting: _Waiting, found: Outcomes) -> None:
        self._forget(waiting)
        answer: dict[str, Any] = {
            "waiting": found.waiting.to_bytes(),
            "dead": [(each.ranges.to_bytes(), each.code, each.reason, each.subscription) for each in found.dead],
            "nobody": found.nobody.to_bytes(),
            "through": found.through,
            "counting": len(waiting.counting),
            "identity": waiting.identity(self._channel_id),
        }
        self._bus.publish(waiting.question.client_manager, Reply(waiting.question.token, answer, None))

    def _forget(self, waiting: _Waiting) -> None:
        del self._waiting[waiting]
        self._ranges -= waiting.weight
        for key in waiting.counting:
            here = self._by_backlog[key]
            del here[waiting]
            if not here:
                del self._by_backlog[key]
        self._due.pop(waiting, None)
        if waiting.timer is not None:
            waiting.timer.cancel()

    async def stop(self) -> None:
        for waiting in self._waiting:
            if waiting.timer is not None:
                waiting.timer.cancel()
        self._waiting.clear()
        self._by_backlog.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def read_asked(data: bytes) -> Ranges:
    """The ranges that are asked about; BadSetting if they are none, or too many."""
    try:
        ranges = Ranges.from_bytes(data)
    except ValueError as problem:
        raise BadSetting(f"these ranges cannot be read: {problem}", setting="ranges") from problem
    if len(ranges) > RANGES_MAX:
        raise BadSetting(f"{len(ranges)} ranges are asked about at once; ask about {RANGES_MAX} at most", setting="ranges")
    return ranges


class _Waiting:
    """A program that waits until something of these ranges is finished."""

    def __init__(self, directory: Directory, question: Question, asked: Ranges) -> None:
        self.question = question
        self.asked = asked
        self.timer: asyncio.TimerHandle | None = None  # None: it does not wait
        self.is_looking = False
        self.is_over = False  # its time
        self.must_look = False  # at all of them again
        self._decided: list[tuple[int, int]] = []  # positions of these that somebody who counts decided on since it looked
        self._directory = directory
        self._where: arguments.OfSubscription = question.arguments
        self._named = queue_in(directory, self._where) if self._where.subscription else None
        self.counting = {each.key for each in counting(directory, self._where.key, self._where.subscription)}

    @property
    def weight(self) -> int:
        """The ranges that it counts as."""
        return len(self.asked) + RANGES_OF_ONE

    @property
    def cost(self) -> int:
        return len(self.asked) * (1 + len(self.counting))

    def parts(self) -> list[Ranges]:
        return list(self.asked.portions(max(1, LOOKED_AT_ONCE // (1 + len(self.counting)))))

    def begin_to_look(self) -> None:
        """Look at all of them, in turns: what is decided on meanwhile is looked at afterwards."""
        self.is_looking, self.must_look, self._decided = True, False, []

    @property
    def has_news(self) -> bool:
        return self.must_look or bool(self._decided)

    def identity(self, channel_id: str) -> str:
        return "" if self._named is None else identity_of(channel_id, self._named)

    def note_decided(self, decided: Ranges) -> bool:
        """Somebody who counts has decided on these; whether that matters here."""
        if not self.asked or decided.first > self.asked.last or decided.last < self.asked.first:
            return False
        about = self.asked.common(decided)
        self._decided.extend(about)
        return bool(about)

    def is_all_waiting(self, found: Outcomes) -> bool:
        return bool(self.asked) and found.waiting.count == self.asked.count and self._is_there

    @property
    def _is_there(self) -> bool:
        """Whether the subscription that was named still exists. If not, its program is told so when it asks again."""
        return self._named is None or self._directory.catalog.queues.get(self._named.key) is self._named

    def look(self, part: Ranges | None = None) -> Outcomes:
        """Look at all of them, or at a part."""
        if part is None:
            self._decided, self.must_look = [], False
        asked = self.asked if part is None else part
        if not self._is_there:
            return Outcomes(asked, (), Ranges(), asked.last if asked else 0)
        return outcomes_of(self._directory, self._where.key, self._where.subscription, asked)

    def look_again(self) -> Outcomes:
        """All of them waited: look at those that somebody decided on since."""
        decided, self._decided = Ranges.gather(self._decided), []
        if self.must_look or not self._is_there:
            return self.look()
        return outcomes_since(self._directory, self._where.key, self._where.subscription, self.asked, decided)
