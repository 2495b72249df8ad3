"""Which event goes to whom next, over random priorities, delays, groups, selectors, returns and restarts: checked from outside,
event by event, against what a naive twin says may go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import example, given, strategies

from holdfast.destination.backlog import slots
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.batch_traits import Traits
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.delivery.handout import Handout
from holdfast.destination.delivery.view import Found
from holdfast.event.position import Ranges, entry_of, index_of, of

Holder = tuple[str, int]
HOLDERS: list[Holder] = [("ann", 1), ("bob", 1), ("cyd", 1), ("dan", 1)]
SELECTORS = ["", "", "even", "thirds"]
GROUPS = [None, None, "a", "b", "c"]


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    """Pages of three slots, so that a few batches fill several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLOTS_MAX", 3)
        yield


@dataclass
class Event:
    position: int
    place: int
    priority: int
    group: str | None
    delayed_until_ms: int
    not_before_ms: int
    released_until_ms: int = 0
    holder: Holder | None = None
    view: str = ""  # the selector of who held it last
    is_returned: bool = False


def matches(selector: str, position: int) -> bool:
    number = entry_of(position) + index_of(position)
    return {"": True, "even": number % 2 == 0, "thirds": number % 3 == 0}[selector]


class Queue:
    """A backlog with its delivery, and the naive twin of both: one object an event."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.backlog = Backlog()
        self.delivery = Delivery(self.backlog)
        self.events: dict[int, Event] = {}
        self.selectors: dict[Holder, str] = {}
        self.owners: dict[tuple[str, str], Holder] = {}  # (selector, group)
        self.last: dict[Holder, int] = {}
        self.now_ms = 1_000
        self.entry = 0
        self.slot = -1

    # --- what happens ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        getattr(self, self.dice.choice(["place"] * 4 + ["settle"] * 3 + ["attach", "detach", "grant", "tick", "restart"]))()
        self.read()
        for _ in range(self.dice.randrange(3)):
            self.hand_out(self.dice.randrange(1, 5))

    def place(self) -> None:
        dice = self.dice
        self.entry += dice.randrange(1, 3)
        self.slot += 1
        count, priority = dice.randrange(1, 5), dice.choice([4, 4, 4, 0, 9])
        groups = [dice.choice(GROUPS) for _ in range(count)] if dice.random() < 0.4 else [None] * count
        delay = self.now_ms + dice.randrange(1, 60) if dice.random() < 0.2 else 0
        self.backlog.place(self.entry, count, 0, Traits(priority, any(groups), delay))
        self.delivery.placed(of(self.entry), count)
        for index, group in enumerate(groups):
            where = of(self.entry, index)
            self.events[where] = Event(where, self.slot << 16 | index, priority, group, delay, delay)

    def settle(self) -> None:
        """A holder confirms, releases, or releases with a delay some of what it holds."""
        held = [event for event in self.events.values() if event.holder is not None]
        if not held:
            return
        first = self.dice.choice(held)
        some = [event for event in held if event.holder == first.holder and self.dice.random() < 0.5] or [first]
        ranges = Ranges.gather((event.position, event.position) for event in some)
        if self.dice.random() < 0.5:
            self.delivery.finished(self.backlog.finish(ranges))
            for event in some:
                del self.events[event.position]
            return
        later = self.now_ms + self.dice.randrange(1, 60) if self.dice.random() < 0.4 else 0
        assert first.holder is not None
        self.backlog.give_back(ranges, later, is_counted=True)
        self.delivery.returned(ranges, later, first.holder[0])
        for event in some:
            event.released_until_ms = later
            self.came_back(event)

    def came_back(self, event: Event) -> None:
        event.holder, event.is_returned = None, True
        event.not_before_ms = max(event.delayed_until_ms, event.released_until_ms)

    def attach(self) -> None:
        holder = self.dice.choice(HOLDERS)
        selector = self.selectors.get(holder, self.dice.choice(SELECTORS))
        kept = [event for event in self.events.values() if event.holder == holder and self.dice.random() < 0.5]
        self.gone(holder)
        self.selectors[holder] = selector
        self.delivery.attach(holder, Ranges.gather((event.position, event.position) for event in kept), selector)
        self.keep(holder, kept)
        self.grant(holder)

    def keep(self, holder: Holder, kept: list[Event]) -> None:
        for event in kept:
            event.holder = holder
            if event.group is not None:
                self.owners[(self.selectors[holder], event.group)] = holder

    def detach(self) -> None:
        holder = self.dice.choice(HOLDERS)
        self.delivery.detach(holder)
        self.gone(holder)
        self.selectors.pop(holder, None)

    def gone(self, holder: Holder) -> None:
        for event in self.events.values():
            if event.holder == holder:
                self.came_back(event)
        self.owners = {key: owner for key, owner in self.owners.items() if owner != holder}
        self.last.pop(holder, None)

    def grant(self, holder: Holder | None = None) -> None:
        for each in [holder] if holder else list(self.selectors):
            self.delivery.grant(each, self.dice.randrange(1, 6), 10_000)

    def tick(self) -> None:
        self.now_ms += self.dice.randrange(1, 40)

    def restart(self) -> None:
        """Another primary: receivers come again and say what they hold; that, and delays, is all it knows."""
        if self.dice.random() < 0.7:
            return
        self.delivery = Delivery(self.backlog)
        self.owners.clear()
        self.last.clear()
        for event in self.events.values():
            event.is_returned = event.group is not None and event.released_until_ms > 0
        for holder, selector in self.selectors.items():
            kept = [event for event in self.events.values() if event.holder == holder]
            self.delivery.attach(holder, Ranges.gather((event.position, event.position) for event in kept), selector)
            self.keep(holder, kept)

    def read(self) -> None:
        """What the shell does: read heads, and say what was found."""
        while reads := self.delivery.head_reads(self.now_ms, 3):
            for read in reads:
                asked = [each for each in range(read.first, read.last + 1) if each in self.events]
                found = [Found(each, each, self.events[each].group) for each in asked if matches(read.selector, each)]
                self.delivery.heads_read(read, found)

    # --- what must hold ----------------------------------------------------------------------------------------------

    def hand_out(self, events_max: int) -> bool:
        handout = self.delivery.next(self.now_ms, events_max)
        if handout is not None:
            self.take(handout)
        return handout is not None

    def take(self, handout: Handout) -> None:
        for first, count, _, is_adjoining, _ in handout.slices:
            for each in range(first, first + count):
                self.check(handout.holder, self.events[each])
                self.hold(handout.holder, self.events[each])
            if is_adjoining:
                between = [event for where, event in self.events.items() if self.last[handout.holder] < where < first]
                assert all(event.holder == handout.holder for event in between), "a range would span what it was not handed"
            self.last[handout.holder] = first + count - 1

    def hold(self, holder: Holder, event: Event) -> None:
        event.holder, event.view = holder, self.selectors[holder]
        if event.group is not None:
            self.owners[(self.selectors[holder], event.group)] = holder

    def check(self, holder: Holder, event: Event) -> None:
        """This event may go to this holder now, and nothing that should have gone to it first is left."""
        assert event.holder is None, "nobody is handed what another holds"
        assert event.not_before_ms <= self.now_ms, "nothing goes out before its time"
        assert matches(self.selectors[holder], event.position), "a receiver gets only what it wants"
        if event.group is not None:
            owner = self.owners.get((self.selectors[holder], event.group))
            assert owner in (None, holder), "a group belongs to one receiver"
            stopping = self.stopping(holder, event)
            assert not stopping, f"{event} of a group overtakes {stopping} of it, which wait again"
        before = [other for other in self.events.values() if self.goes_first(other, event) and self.may_have(holder, other)]
        assert not before, f"{before} should have gone to {holder} before {event}"

    def stopping(self, holder: Holder, event: Event) -> list[Event]:
        """What of the same group waits again, given back by a receiver with the same selector, and must go first."""
        return [
            other
            for other in self.events.values()
            if other is not event
            and other.group == event.group
            and other.holder is None
            and other.is_returned
            and other.view == self.selectors[holder]
            and (not event.is_returned or other.not_before_ms > self.now_ms)
            and matches(self.selectors[holder], other.position)
        ]

    def goes_first(self, other: Event, event: Event) -> bool:
        """A higher priority; within one what came back, and then the first placed. What was delayed goes when its time comes."""
        if other.priority != event.priority or event.is_returned or event.not_before_ms:
            return other.priority > event.priority
        return other.is_returned or other.place < event.place

    def may_have(self, holder: Holder, event: Event) -> bool:
        """It is certain that this holder may be handed this event now. Of groups that nobody has, others may take it."""
        if event.holder is not None or event.not_before_ms > self.now_ms or not matches(self.selectors[holder], event.position):
            return False
        return event.group is None and (event.is_returned or not event.not_before_ms)

    def drain(self) -> None:
        """With endless credit and time, everything goes out, if somebody wants it."""
        self.now_ms += 10**6
        self.delivery.attach(("last", 1), Ranges())
        self.selectors[("last", 1)] = ""
        for holder in self.selectors:
            self.delivery.grant(holder, 10**6, 10**9)
        self.read()
        while self.hand_out(1_000):
            self.read()
        assert all(event.holder is not None for event in self.events.values())
        assert self.delivery.in_flight == len(self.events)
        assert self.delivery.wake_at_ms is None


@given(strategies.integers(0, 10**9))
@example(444)  # what came back went after what is new, to a receiver whose selector nobody had before
def test_what_goes_out_next_is_what_should_whatever_happens(seed: int) -> None:
    queue = Queue(seed)
    for _ in range(60):
        queue.step()
    queue.drain()
