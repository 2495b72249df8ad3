"""Delivery over random commands, credit, links lost and found: what it promises to holders, checked from outside."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies

from holdfast.destination.backlog import slots
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.delivery.handout import Handout
from holdfast.destination.delivery.view import Found
from holdfast.destination.effect import Attached, BacklogDeleted, DetachedReceiver, Finished, Placed, Returned
from holdfast.event.position import Ranges, entry_of
from tests import effort
from tests.naive_directory import Key, traits_for
from tests.random_commands import Choice, Driver, number

Holder = tuple[str, int]
LIMIT = 3
steps = strategies.lists(strategies.tuples(number, number, number, number), min_size=5, max_size=80)


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    """Pages of three slots, so that a few batches fill several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLOTS_MAX", 3)
        yield


class Primary:
    """A primary without a shell: the deliveries of all backlogs, and what every holder was handed, event by event."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.now_ms = 1
        self.deliveries: dict[Key, Delivery] = {}
        self.held: dict[Key, dict[int, Holder]] = {}
        self.exhausted: dict[Key, set[int]] = {}
        self.last: dict[Holder, int] = {}
        self.prefetched: dict[Holder, list[int]] = {}  # what its program was not handed, in order; as the holder knows it
        self.told: dict[Holder, list[int]] = {}  # the same, as the holder has said it
        self.spans: list[tuple[Key, int, int]] = []
        for key in driver.manager.directory.backlogs():
            self.open(key)
        for session in driver.manager.directory.sessions():
            for receiver, key in driver.manager.directory.receivers_of(session).items():
                self.deliveries[key].attach((session, receiver), Ranges())

    def open(self, key: Key) -> None:
        self.deliveries[key] = Delivery(self.driver.manager.directory.backlog(key), LIMIT)
        self.held[key], self.exhausted[key] = {}, set()

    def step(self, choice: Choice) -> None:
        """A command, its effects, and what happened to the holders by them."""
        if not self.driver.step(choice):
            return
        for key in self.driver.manager.directory.backlogs():
            if key not in self.deliveries:
                self.open(key)
        for effect in self.driver.manager.effects:
            match effect:
                case Placed(key, first, events):
                    self.check_late_arrivals(key, first, events)
                    self.deliveries[key].placed(first, events)
                case Finished(key, ranges):
                    self.decide(key, ranges)
                    self.deliveries[key].finished(ranges)
                    self.drop(key, ranges)
                case Returned(key, ranges, not_before_ms, _):
                    self.decide(key, ranges)
                    self.deliveries[key].returned(ranges, not_before_ms)
                    self.drop(key, ranges)
                case Attached(session, receiver, key):
                    self.attach(key, (session, receiver))
                case DetachedReceiver(session, receiver, key, _):
                    expected = [each for each, holder in self.held[key].items() if holder == (session, receiver)]
                    told = self.deliveries[key].detach((session, receiver))
                    assert sorted(expected) == [each for first, last in told for each in range(first, last + 1)]
                    self.drop(key, told)
                case BacklogDeleted(key):
                    del self.deliveries[key], self.held[key], self.exhausted[key]
                    self.spans = [span for span in self.spans if span[0] != key]

    def decide(self, key: Key, ranges: Ranges) -> None:
        """Whoever decides on something was handed it, and says so."""
        for first, last in ranges:
            for each in range(first, last + 1):
                holder = self.held[key].get(each)
                if holder is not None and each in self.told.get(holder, ()):
                    self.told[holder] = self.told[holder][self.told[holder].index(each) + 1 :]
                    self.prefetched[holder] = [other for other in self.prefetched[holder] if other in self.told[holder]]
                    self.deliveries[key].reached(holder, each)

    def drop(self, key: Key, ranges: Ranges) -> None:
        for first, last in ranges:
            for each in range(first, last + 1):
                self.held[key].pop(each, None)
                self.exhausted[key].discard(each)

    def attach(self, key: Key, holder: Holder) -> None:
        """It comes again, having lost every second event it held."""
        kept = [each for each, by in self.held[key].items() if by == holder][::2]
        self.held[key] = {each: by for each, by in self.held[key].items() if by != holder or each in kept}
        self.prefetched[holder] = [each for each in self.prefetched.get(holder, []) if each in kept]
        self.told[holder] = list(self.prefetched[holder])
        prefetched = [(each, each) for each in self.prefetched[holder]]
        self.deliveries[key].attach(holder, Ranges.gather((each, each) for each in kept), "", prefetched)
        self.last.pop(holder, None)

    def hand_on(self, dice: random.Random) -> None:
        """Programs take events, and some of their clients say how far they are."""
        for delivery in self.deliveries.values():
            for holder in delivery.holders():
                prefetched, taken = self.prefetched.setdefault(holder, []), dice.randrange(4)
                newest = prefetched[:taken][-1:]
                del prefetched[:taken]
                if newest and dice.random() < 0.5:
                    self.told[holder] = list(prefetched)
                    delivery.reached(holder, newest[0])

    def grant(self, dice: random.Random) -> None:
        for delivery in self.deliveries.values():
            for holder in delivery.holders():
                if dice.random() < 0.5:
                    delivery.grant(holder, dice.randrange(1, 6), 1_000)

    def hand_out(self, dice: random.Random) -> None:
        for key, delivery in self.deliveries.items():
            self.read(delivery)
            while dice.random() < 0.8 and (handout := delivery.next(self.now_ms, dice.randrange(1, 7))) is not None:
                self.take(key, handout)
            self.exhausted[key].update(each for first, last in delivery.take_exhausted() for each in range(first, last + 1))

    def read(self, delivery: Delivery) -> None:
        """What the shell does: heads are read, and their groups are told."""
        while reads := delivery.head_reads(self.now_ms, 5):
            for read in reads:
                delivery.heads_read(read, [Found(each, each, "ab"[each % 2]) for each in range(read.first, read.last + 1)])

    def take(self, key: Key, handout: Handout) -> None:
        """Everything a holder may expect of what it is handed."""
        backlog = self.driver.manager.directory.backlog(key)
        for first, events, deliveries, is_adjoining, _ in handout.slices:
            for each in range(first, first + events):
                assert backlog.is_waiting(each), "only what waits is handed out"
                assert each not in self.held[key], "nobody is handed what another holds"
                assert backlog.deliveries(each) == deliveries <= LIMIT
                assert backlog.not_before_over(each, each)[0][2] <= self.now_ms
                self.held[key][each] = handout.holder
                self.prefetched.setdefault(handout.holder, []).append(each)
                self.told.setdefault(handout.holder, []).append(each)
            if is_adjoining:
                self.check_adjoining(key, handout.holder, self.last[handout.holder], first)
            self.last[handout.holder] = first + events - 1

    def check_adjoining(self, key: Key, holder: Holder, before: int, first: int) -> None:
        between = [each for each in self.driver.manager.waiting(*key) if before < each < first]
        assert all(self.held[key].get(each) == holder for each in between), "a range would span what the holder was not handed"
        self.spans.append((key, before, first))

    def check(self) -> None:
        for key, delivery in self.deliveries.items():
            assert delivery.in_flight == len(self.held[key])
            for holder in delivery.holders():
                told = [each for first, last in delivery.held(holder) for each in range(first, last + 1)]
                assert told == sorted(each for each, by in self.held[key].items() if by == holder)
                self.check_seen(delivery, holder, told)

    def check_seen(self, delivery: Delivery, holder: Holder, held: list[int]) -> None:
        """Rule 5: what the holder has said that its program was handed, and the next one."""
        prefetched = [each for each in self.told.get(holder, []) if each in held]
        seen = [each for first, last in delivery.seen(holder) for each in range(first, last + 1)]
        assert seen == sorted({*held} - {*prefetched[1:]})

    def check_late_arrivals(self, key: Key, first: int, events: int) -> None:
        """Nothing placed now may lie in a span that was called adjoining before."""
        for spanned, before, after in self.spans:
            assert spanned != key or first + events <= before or after <= first, "a late batch lies within a span"

    def drain(self) -> None:
        """With endless credit and time, everything that waits is handed out, or exhausted."""
        self.now_ms = 10**9
        for key, delivery in self.deliveries.items():
            if not delivery.holders():
                delivery.attach(("last", 1), Ranges())
            for holder in delivery.holders():
                delivery.grant(holder, 10**6, 10**9)
            self.read(delivery)
            while (handout := delivery.next(self.now_ms)) is not None:
                self.take(key, handout)
                self.read(delivery)
            self.exhausted[key].update(each for first, last in delivery.take_exhausted() for each in range(first, last + 1))
            assert {*self.held[key], *self.exhausted[key]} == set(self.driver.manager.waiting(*key))
            assert delivery.wake_at_ms is None


@given(steps, number)
def test_everything_that_waits_is_handed_to_one_holder_at_a_time_whatever_happens(made: list[Choice], seed: int) -> None:
    primary, dice = Primary(Driver()), random.Random(seed)
    for choice in made:
        primary.step(choice)
        primary.grant(dice)
        primary.hand_out(dice)
        primary.hand_on(dice)
        primary.check()
        primary.now_ms += dice.randrange(60)
    primary.drain()


@given(steps, number)
def test_a_new_primary_delivers_everything_but_what_holders_report(made: list[Choice], seed: int) -> None:
    """Rule 15: what a holder still has is not delivered again."""
    primary, dice = Primary(Driver()), random.Random(seed)
    for choice in made:
        primary.step(choice)
        primary.grant(dice)
        primary.hand_out(dice)

    successor = Primary(primary.driver)
    for key, held in primary.held.items():
        for holder in successor.deliveries[key].holders():
            kept = [each for each, by in held.items() if by == holder and dice.random() < 0.7]
            successor.held[key].update(dict.fromkeys(kept, holder))
            successor.deliveries[key].attach(holder, Ranges.gather((each, each) for each in kept), "", [])

    successor.check()
    successor.drain()


@pytest.mark.parametrize("seed", effort.cases(range(5), long=range(5, 20)))
def test_fresh_events_go_out_in_the_order_in_which_they_were_placed(seed: int) -> None:
    """Rule 14: within one producer its sequence order wins, also where a batch was held back."""
    dice = random.Random(seed)
    driver = Driver(["send"])
    for _ in range(60):
        driver.step((dice.randrange(256), dice.randrange(256), dice.randrange(256), dice.randrange(256)))
    delivery = Delivery(driver.manager.directory.backlog(("orders", "")))
    delivery.attach(("ann", 1), Ranges())
    delivery.grant(("ann", 1), 10_000, 10_000)
    while reads := delivery.head_reads(10**6, 5):
        for read in reads:
            delivery.heads_read(read, [Found(read.first, read.last, None)])

    handed: list[int] = []
    while (handout := delivery.next(10**6, 7)) is not None:
        handed += [each for slice in handout.slices for each in range(slice.first, slice.first + slice.events)]

    assert handed == sorted(driver.manager.waiting("orders"), key=lambda each: -traits_for(entry_of(each)).priority)
