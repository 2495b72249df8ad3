"""Crash care over random programs that die of an event, and take the primary with them: what is counted (rule 5)."""

from __future__ import annotations

import random

import pytest

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.delivery import crash_care
from holdfast.destination.delivery.delivery import Delivery
from holdfast.event.position import Ranges, of
from tests import effort

Holder = tuple[str, int]
LIMIT = 3


class Life:
    """One life of a primary and of the programs that receive from its backlog: until an event kills them, or nothing waits."""

    def __init__(self, backlog: Backlog, is_first: bool, dice: random.Random) -> None:
        self.backlog = backlog
        self.delivery = Delivery(backlog, LIMIT)
        if not is_first:
            self.delivery.begin_crash_care()
        self.in_hand: dict[Holder, list[int]] = {("ann", number): [] for number in range(1, dice.randrange(2, 4))}
        self.buffers: dict[Holder, list[int]] = {holder: [] for holder in self.in_hand}
        for holder in self.in_hand:
            self.delivery.attach(holder, Ranges(), "", [])
            self.delivery.grant(holder, 100, 10**9)

    def live(self, poison: set[int], dice: random.Random, noted_max: int) -> bool:
        """Whether it ended well. Programs gather up to `noted_max` verdicts before they give them."""
        while True:
            self.hand_out()
            able = [holder for holder in self.in_hand if self.buffers[holder]]
            if not able:
                if self.give_verdicts():
                    continue
                return True
            holder = dice.choice(able)
            self.in_hand[holder].append(self.buffers[holder].pop(0))
            if self.in_hand[holder][-1] in poison:
                return False
            if len(self.in_hand[holder]) >= noted_max:
                self.confirm(holder)
            if not self.buffers[holder]:  # the client is asked for the next: it says all it knows
                self.confirm(holder)
                self.delivery.grant(holder, 1, 1)

    def hand_out(self) -> None:
        while (handout := self.delivery.next(0)) is not None:
            handed = [each for part in handout.slices for each in range(part.first, part.first + part.events)]
            if handout.is_careful:
                assert len(handed) == 1 and not self.buffers[handout.holder]
                self.backlog.note_in_hand(Ranges.of((handed[0], handed[0])), handout.holder)
            self.buffers[handout.holder] += handed
        for first, last in self.delivery.take_exhausted():
            self.finish((first, last))

    def give_verdicts(self) -> bool:
        return sum(self.confirm(holder) for holder in self.in_hand) > 0

    def confirm(self, holder: Holder) -> bool:
        decided, self.in_hand[holder] = self.in_hand[holder], []
        for each in decided:
            self.finish((each, each))
        return bool(decided)

    def finish(self, span: tuple[int, int]) -> None:
        self.delivery.finished(self.backlog.finish(Ranges.of(span)))


@pytest.mark.parametrize("seed", effort.cases(range(15), long=range(15, 60)))
def test_an_event_that_kills_program_and_primary_reaches_its_limit_after_two_more_crashes_and_no_other_does(seed: int) -> None:
    dice = random.Random(seed)
    backlog = Backlog()
    for entry in range(1, 40):
        backlog.place(entry, dice.randrange(1, 5))
    everything = [of(entry, index) for entry in range(1, 40) for index in range(backlog.events_of(entry))]
    poison = dice.choice(everything)

    crashes = 0
    while not Life(backlog, crashes == 0, dice).live({poison}, dice, noted_max=dice.choice([1, 5, 100])):
        counts = {each: backlog.deliveries(each) for each in everything if backlog.is_waiting(each)}
        backlog.begin_epoch()
        crashes += 1
        assert all(count <= LIMIT for each, count in counts.items() if each != poison), "nothing else is given up"

    assert crashes <= LIMIT + 2
    assert backlog.waiting == 0


def test_care_is_over_after_so_many_were_finished_and_then_as_many_go_out_as_ever() -> None:
    backlog = Backlog()
    backlog.place(1, crash_care.FINISHED_MAX + 500)
    life = Life(backlog, False, random.Random(0))

    handed = 0
    while handed < crash_care.FINISHED_MAX:
        life.hand_out()
        assert sum(map(len, life.buffers.values())) <= len(life.buffers), "one at a time for each"
        for holder, buffer in life.buffers.items():
            handed += len(buffer)
            life.in_hand[holder] += buffer
            buffer.clear()
            life.confirm(holder)
            life.delivery.grant(holder, 1, 1)

    assert not life.delivery.is_careful
    life.hand_out()
    assert sum(map(len, life.buffers.values())) > 100


def test_one_event_for_all_receivers_until_one_is_finished_and_who_holds_it_undecided_may_ask_for_more() -> None:
    backlog = Backlog()
    backlog.place(1, 10)
    delivery = Delivery(backlog)
    delivery.begin_crash_care()
    for holder in (("ann", 1), ("bob", 1)):
        delivery.attach(holder, Ranges(), "", [])
        delivery.grant(holder, 100, 10**9)

    first = delivery.next(0)
    assert first is not None and delivery.next(0) is None and not delivery.is_ready(0)

    delivery.grant(first.holder, 1, 1)
    second = delivery.next(0)
    assert second is not None and delivery.next(0) is None

    delivery.finished(backlog.finish(Ranges.of((of(1), of(1)))))
    assert delivery.next(0) is not None and delivery.next(0) is None


def test_who_is_at_work_for_long_holds_up_nobody_else() -> None:
    """A program may decide on one event only when it has another, from another receiver; or take an hour."""
    backlog = Backlog()
    backlog.place(1, 10)
    delivery = Delivery(backlog)
    delivery.begin_crash_care()
    for holder in (("ann", 1), ("bob", 1)):
        delivery.attach(holder, Ranges(), "", [])
        delivery.grant(holder, 100, 10**9)
    assert delivery.next(1_000) is not None and delivery.next(1_000) is None

    at_ms = 1_000 + crash_care.ALONE_MS_MAX
    assert (delivery.is_ready(at_ms - 1), delivery.wake_at_ms) == (False, at_ms)
    assert (delivery.is_ready(at_ms), delivery.wake_at_ms) == (True, None)
    second = delivery.next(at_ms)

    assert second is not None and second.is_careful
    assert delivery.next(10**9) is None, "one for each"


def test_a_client_that_does_not_say_how_far_it_is_gets_as_much_as_ever_while_others_are_handed_out_to_with_care() -> None:
    backlog = Backlog()
    backlog.place(1, 10)
    delivery = Delivery(backlog)
    delivery.begin_crash_care()
    delivery.attach(("old", 1), Ranges())
    delivery.grant(("old", 1), 100, 10**9)

    handout = delivery.next(0)

    assert handout is not None and not handout.is_careful and handout.slices[0].events == 10
