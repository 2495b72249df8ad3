"""Conditions over time: when the events of one key give reason for an alert.

    Every                      each event does
    Count(n, within)           the n-th event within a time does; counting then begins anew
    Absence(after, expect)     no event for so long; once, until the key is seen again. Expected keys are missed from the start
    Change(field, from, to)    the field has another value than in the event before
    Silence(after)             the first event, and the first one after so long without

A condition keeps one small state for each key, which is a list that JSON can hold; None means that nothing is kept. Times are
those of acceptance, in microseconds.

    state of Count     times of the events that count, the oldest first, fewer than n
    state of Absence   [the newest event, whether the absence was told, the value by which its alert is gathered]
    state of Change    [the value]
    state of Silence   [the newest event]
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from holdfast.actions.machines.seen import Seen, field_of_event, key_of

State = list[Any]


class Fired(msgspec.Struct, frozen=True):
    """The condition holds. `count` is how many events it holds because of."""

    at_us: int
    reason: str
    count: int = 1


class Condition(msgspec.Struct, frozen=True):
    """What all conditions have."""

    is_timed: ClassVar[bool] = False  # time alone can make it hold
    keeps_state: ClassVar[bool] = True

    def event(self, state: State | None, event: Seen, at_us: int, group: str) -> tuple[State | None, list[Fired]]:
        """An event of a key came: the new state of the key, and whether the condition holds."""
        raise NotImplementedError

    def due_us(self, state: State) -> int | None:
        """When it holds if no event of the key comes; None for never."""
        return None

    def missed(self, state: State) -> tuple[State, Fired]:
        """No event of the key came until then."""
        raise NotImplementedError

    def progress(self, state: State | None, at_us: int) -> str:
        """What is still wanting, for people."""
        raise NotImplementedError


class Every(Condition, frozen=True):
    keeps_state = False

    def event(self, state: State | None, event: Seen, at_us: int, group: str) -> tuple[State | None, list[Fired]]:
        return None, [Fired(at_us, "an event came")]

    def progress(self, state: State | None, at_us: int) -> str:
        return "every event is enough"


class Count(Condition, frozen=True):
    events: int
    within_us: int

    def event(self, state: State | None, event: Seen, at_us: int, group: str) -> tuple[State | None, list[Fired]]:
        times = [*(time for time in state or () if time > at_us - self.within_us), at_us]
        if len(times) < self.events:
            return times, []
        return None, [Fired(at_us, f"{self.events} events within {seconds_text(self.within_us)}", self.events)]

    def progress(self, state: State | None, at_us: int) -> str:
        found = sum(1 for time in state or () if time > at_us - self.within_us)
        return f"{found} of {self.events} events within {seconds_text(self.within_us)}"


class Absence(Condition, frozen=True):
    after_us: int
    expect: tuple[str, ...] = ()
    is_timed = True

    def event(self, state: State | None, event: Seen, at_us: int, group: str) -> tuple[State | None, list[Fired]]:
        return [_newest(state, at_us), False, group], []

    def due_us(self, state: State) -> int | None:
        return None if state[1] else state[0] + self.after_us

    def missed(self, state: State) -> tuple[State, Fired]:
        due_us = state[0] + self.after_us
        return [state[0], True, state[2]], Fired(due_us, f"no event for {seconds_text(self.after_us)}", 0)

    def progress(self, state: State | None, at_us: int) -> str:
        return f"an alert follows when no event comes for {seconds_text(self.after_us)}"


class Change(Condition, frozen=True):
    field: str
    before: tuple[str, ...] = ()  # only from one of these values; none: from any
    after: tuple[str, ...] = ()  # only to one of these

    def event(self, state: State | None, event: Seen, at_us: int, group: str) -> tuple[State | None, list[Fired]]:
        value = key_of(field_of_event(event, self.field))
        known = None if state is None else state[0]
        is_change = known is not None and known != value
        is_meant = (not self.before or known in self.before) and (not self.after or value in self.after)
        fired = [Fired(at_us, f"{self.field} went from {known!r} to {value!r}")] if is_change and is_meant else []
        return [value], fired

    def progress(self, state: State | None, at_us: int) -> str:
        return f"{self.field} is {state[0]!r} now" if state else f"{self.field} was not seen before"


class Silence(Condition, frozen=True):
    after_us: int

    def event(self, state: State | None, event: Seen, at_us: int, group: str) -> tuple[State | None, list[Fired]]:
        is_first = state is None
        if state is not None and at_us - state[0] < self.after_us:
            return [_newest(state, at_us)], []
        return [at_us], [Fired(at_us, "the first event" if is_first else f"the first event in {seconds_text(self.after_us)}")]

    def progress(self, state: State | None, at_us: int) -> str:
        return f"an event came less than {seconds_text(self.after_us)} ago"


def _newest(state: State | None, at_us: int) -> int:
    """The time of the newest event; one that was overtaken by others of a higher priority is older."""
    return at_us if state is None else max(state[0], at_us)


def seconds_text(time_us: int) -> str:
    """A duration as people write it: 5 min."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if time_us >= size * 1_000_000 and time_us % (size * 1_000_000) == 0:
            return f"{time_us // (size * 1_000_000)} {unit}"
    return f"{time_us / 1_000_000:g} s"
