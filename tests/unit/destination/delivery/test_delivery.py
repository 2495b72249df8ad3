"""Delivery: who gets what next. The rest of its promises are in tests/property/test_delivery.py."""

from __future__ import annotations

import pytest

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.delivery.handout import HandoutSlice
from holdfast.event.position import Ranges, of

ANN, BOB = ("ann", 1), ("bob", 1)


def delivery_of(*batches: tuple[int, int], limit: int = 0, bodies: Bodies | None = None) -> tuple[Backlog, Delivery]:
    """A delivery over a backlog with batches (entry, events); ann is attached with plenty of credit, bob with none."""
    backlog = Backlog(bodies)
    for entry, events in batches:
        backlog.place(entry, events)
    delivery = Delivery(backlog, limit)
    for holder in (ANN, BOB):
        delivery.attach(holder, Ranges())
    delivery.grant(ANN, 1_000, 1_000)
    return backlog, delivery


def slices(delivery: Delivery, now_ms: int = 0, events_max: int = 1000) -> list[HandoutSlice]:
    handout = delivery.next(now_ms, events_max)
    return handout.slices if handout else []


def test_a_handout_is_one_slice_for_each_batch_and_as_many_events_as_allowed() -> None:
    _, delivery = delivery_of((1, 3), (2, 3))

    assert slices(delivery, events_max=4) == [HandoutSlice(of(1), 3, 0, False), HandoutSlice(of(2), 1, 0, True)]
    assert slices(delivery) == [HandoutSlice(of(2, 1), 2, 0, True)]
    assert delivery.in_flight == 6


def test_holders_with_credit_take_turns_and_those_without_are_passed_over() -> None:
    _, delivery = delivery_of(*((entry, 1) for entry in range(1, 7)))
    delivery.grant(BOB, 2, 1_000)

    turns = [handout.holder for _ in range(6) if (handout := delivery.next(0, 1))]

    assert turns == [ANN, BOB, ANN, BOB, ANN, ANN]


def test_a_holder_whose_credit_in_bytes_is_used_up_gets_nothing_more_until_it_grants_again() -> None:
    _, delivery = delivery_of((1, 1), (2, 1))
    assert slices(delivery, events_max=1)

    delivery.charge(ANN, 1_000)
    assert delivery.next(0) is None and not delivery.has_credit(ANN)

    delivery.grant(ANN, 0, 1)
    assert slices(delivery)


def test_what_comes_back_goes_out_before_anything_new_first_placed_first() -> None:
    backlog, delivery = delivery_of((1, 1), (5, 1), (3, 1), (6, 1))
    assert len(slices(delivery, events_max=3)) == 3
    backlog.give_back(Ranges.of((of(3), of(5))), 0, is_counted=True)

    delivery.returned(Ranges.of((of(3), of(3)), (of(5), of(5))), 0)

    assert [each[:3] for each in slices(delivery)] == [(of(5), 1, 1), (of(3), 1, 1), (of(6), 1, 0)]


def test_what_came_back_uncounted_is_marked_and_is_a_slice_of_its_own_with_a_new_primary_too() -> None:
    backlog, delivery = delivery_of((1, 6), (2, 1), limit=1)
    slices(delivery)
    for _ in range(3):
        backlog.give_back(Ranges.of((of(1, 2), of(1, 3))), 0, is_counted=False)
    delivery.returned(Ranges.of((of(1, 2), of(1, 3))), 0)
    assert slices(delivery) == [HandoutSlice(of(1, 2), 2, 0, False, True)]

    successor = Delivery(backlog, 1)
    successor.attach(ANN, Ranges())
    successor.grant(ANN, 100, 100)

    assert slices(successor) == [
        HandoutSlice(of(1), 2, 0, False),
        HandoutSlice(of(1, 2), 2, 0, True, True),
        HandoutSlice(of(1, 4), 2, 0, True),
        HandoutSlice(of(2), 1, 0, True),
    ]


def test_credit_that_is_withdrawn_is_not_used_and_what_was_under_way_is_taken_off_the_next() -> None:
    _, delivery = delivery_of((1, 20))
    delivery.grant(BOB, 10, 1_000)
    delivery.grant(ANN, 0, 0, 1_000)
    assert sum(each.events for each in slices(delivery, events_max=4)) == 4

    delivery.grant(BOB, 0, 0, 10)  # it had not heard of the four
    assert delivery.next(0) is None

    delivery.grant(BOB, 6, 0)
    assert sum(each.events for each in slices(delivery)) == 2


def test_a_delayed_return_waits_for_its_time_and_says_when_that_is() -> None:
    backlog, delivery = delivery_of((1, 1))
    slices(delivery)
    backlog.give_back(Ranges.of((of(1), of(1))), 500, is_counted=True)
    delivery.returned(Ranges.of((of(1), of(1))), 500)

    assert delivery.wake_at_ms == 500
    assert slices(delivery, now_ms=499) == [] and not delivery.is_ready(499)
    assert delivery.is_ready(500)
    assert slices(delivery, now_ms=500) == [HandoutSlice(of(1), 1, 1, False)]
    assert delivery.wake_at_ms is None


def test_a_new_primary_keeps_the_delays_that_were_asked_for_before() -> None:
    backlog, _ = delivery_of((1, 2))
    backlog.give_back(Ranges.of((of(1), of(1))), 500, is_counted=True)

    successor = Delivery(backlog)
    successor.attach(ANN, Ranges())
    successor.grant(ANN, 10, 10)

    assert slices(successor) == [HandoutSlice(of(1, 1), 1, 0, False)]
    assert successor.wake_at_ms == 500


def test_an_event_is_redelivered_as_often_as_the_limit_says_and_is_then_exhausted() -> None:
    backlog, delivery = delivery_of((1, 1), limit=2)
    seen = []
    while handed := slices(delivery):
        seen.append(handed[0].deliveries)
        backlog.give_back(Ranges.of((of(1), of(1))), 0, is_counted=True)
        delivery.returned(Ranges.of((of(1), of(1))), 0)

    assert seen == [0, 1, 2]
    assert delivery.is_ready(0)
    assert delivery.take_exhausted() == Ranges.of((of(1), of(1)))
    assert not delivery.take_exhausted()


def test_exhausted_events_that_could_not_be_given_up_are_told_again() -> None:
    backlog, delivery = delivery_of((1, 1), limit=1)
    for _ in range(2):
        backlog.give_back(Ranges.of((of(1), of(1))), 0, is_counted=True)
    assert slices(delivery) == []
    exhausted = delivery.take_exhausted()

    delivery.returned(exhausted, 0)

    assert delivery.take_exhausted() == exhausted == Ranges.of((of(1), of(1)))


def test_what_a_detached_holder_held_goes_to_others_rule_4() -> None:
    _, delivery = delivery_of((1, 4))
    slices(delivery, events_max=3)
    delivery.finished(Ranges.of((of(1, 1), of(1, 1))))

    held = delivery.detach(ANN)
    delivery.grant(BOB, 10, 10)

    assert held == Ranges.of((of(1), of(1)), (of(1, 2), of(1, 2)))
    assert delivery.in_flight == 0 and delivery.holders() == [BOB]


def test_what_a_holder_reports_when_it_attaches_is_not_delivered_again_and_what_it_lost_is_rule_15() -> None:
    _, delivery = delivery_of((1, 4))
    slices(delivery)

    delivery.attach(ANN, Ranges.of((of(1, 2), of(9))))
    delivery.grant(ANN, 10, 10)

    assert delivery.held(ANN) == Ranges.of((of(1, 2), of(1, 3)))
    assert [each[:2] for each in slices(delivery)] == [(of(1), 2)]


def test_what_could_not_be_sent_is_given_back_with_its_credit() -> None:
    backlog = Backlog()
    for entry in (1, 2):
        backlog.place(entry, 5)
    delivery = Delivery(backlog)
    delivery.attach(ANN, Ranges())
    delivery.grant(ANN, 10, 10)
    handed = slices(delivery)
    assert not delivery.has_credit(ANN)

    delivery.give_back(ANN, handed[1:])

    assert slices(delivery) == [HandoutSlice(of(2), 5, 0, False)]


def test_a_lost_link_voids_credit_and_keeps_what_is_held() -> None:
    _, delivery = delivery_of((1, 1), (2, 1))
    slices(delivery, events_max=1)

    delivery.revoke(ANN)

    assert delivery.next(0) is None
    assert delivery.held(ANN) == Ranges.of((of(1), of(1)))


def test_preferred_events_go_out_before_all_others_a7() -> None:
    _, delivery = delivery_of((1, 1), (2, 1), (3, 1))

    delivery.prefer(Ranges.of((of(3), of(3))))

    assert [each.first for each in slices(delivery)] == [of(3), of(1), of(2)]


def test_slices_adjoin_only_if_nothing_that_others_hold_lies_between() -> None:
    _, delivery = delivery_of(*((entry, 1) for entry in (10, 20, 30, 40)))
    assert [each.is_adjoining for each in slices(delivery, events_max=2)] == [False, True]
    delivery.grant(BOB, 1, 1)
    delivery.next(0, 1)

    assert slices(delivery) == [HandoutSlice(of(40), 1, 0, False)]


def test_a_new_slice_does_not_adjoin_one_that_was_delivered_again() -> None:
    """Between 10 and 30 lies 20, which came back and is not with ann any more."""
    backlog, delivery = delivery_of(*((entry, 1) for entry in (10, 20, 30)))
    slices(delivery, events_max=2)
    backlog.give_back(Ranges.of((of(10), of(20))), 0, is_counted=False)
    delivery.returned(Ranges.of((of(10), of(20))), 0)
    delivery.next(0, 1)
    delivery.grant(BOB, 1, 1)
    delivery.revoke(ANN)
    assert [each.first for each in slices(delivery)] == [of(20)]
    delivery.grant(ANN, 10, 10)

    assert slices(delivery) == [HandoutSlice(of(30), 1, 0, False)]


def test_slices_do_not_adjoin_over_a_batch_that_is_still_held_back_rule_6() -> None:
    """A confirm that spans 10 .. 12 must not finish 11, which will be placed later."""
    bodies = Bodies()
    bodies.hold(11)

    _, delivery = delivery_of((10, 1), (12, 1), (13, 1), bodies=bodies)

    assert [each.is_adjoining for each in slices(delivery)] == [False, False, True]


def test_what_is_finished_by_another_is_not_handed_out() -> None:
    backlog, delivery = delivery_of((1, 3), (2, 1))
    delivery.finished(backlog.finish(Ranges.of((of(1), of(1, 1)))))

    assert [each[:2] for each in slices(delivery)] == [(of(1, 2), 1), (of(2), 1)]


def test_slices_are_split_where_delivery_counts_differ_rule_5() -> None:
    backlog, delivery = delivery_of((1, 4))
    backlog.give_back(Ranges.of((of(1, 1), of(1, 2))), 0, is_counted=True)

    assert [each[:3] for each in slices(delivery)] == [(of(1), 1, 0), (of(1, 1), 2, 1), (of(1, 3), 1, 0)]


@pytest.mark.parametrize("rounds", [5_000])
def test_holders_that_come_and_go_without_taking_anything_leave_nothing_behind(rounds: int) -> None:
    _, delivery = delivery_of((1, 1), (2, 1))
    slices(delivery)
    for _ in range(rounds):
        delivery.attach(ANN, Ranges.of((of(1), of(2))))
        delivery.detach(ANN)

    assert delivery._state.hints < 1_100


def test_a_holder_that_comes_again_is_told_what_it_holds_no_longer() -> None:
    backlog, delivery = delivery_of((1, 4), (2, 2))
    delivery.grant(BOB, 1, 1_000)
    assert slices(delivery, events_max=1) and slices(delivery, events_max=1)  # ann has the first, bob the second
    delivery.finished(backlog.finish(Ranges.of((of(1, 3), of(1, 3)))))

    lost = delivery.attach(ANN, Ranges.of((of(1), of(1, 3)), (of(2), of(2))))

    assert lost == Ranges.of((of(1, 1), of(1, 1)), (of(1, 3), of(1, 3)))
    assert delivery.held(ANN) == Ranges.of((of(1), of(1)), (of(1, 2), of(1, 2)), (of(2), of(2)))
    assert delivery.held(BOB) == Ranges.of((of(1, 1), of(1, 1)))


def test_what_is_lost_in_more_pieces_than_can_be_told_is_lost_from_the_last_of_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.destination.delivery.delivery.LOST_MAX", 2)
    backlog, delivery = delivery_of((1, 10))
    delivery.finished(backlog.finish(Ranges.of(*((of(1, index), of(1, index)) for index in (1, 3, 5)))))

    lost = delivery.attach(ANN, Ranges.of((of(1), of(1, 9))))

    assert lost == Ranges.of((of(1, 1), of(1, 1)), (of(1, 3), of(1, 9)))
    assert delivery.held(ANN) == Ranges.of((of(1), of(1)), (of(1, 2), of(1, 2)))
    delivery.grant(ANN, 10, 1_000)
    assert [handed.first for handed in slices(delivery)] == [of(1, 4), of(1, 6)]


def test_a_keeper_comes_holding_what_waits_with_nobody_else_and_nothing_of_it_counts_when_it_is_gone() -> None:
    backlog, delivery = delivery_of((1, 2), (2, 2), (3, 2))
    assert len(slices(delivery, events_max=2)) == 1
    backlog.finish(Ranges.of((of(2), of(2))))
    delivery.finished(Ranges.of((of(2), of(2))))
    claimed = Ranges.of((of(1), of(1, 1)), (of(2), of(2, 1)), (of(3), of(3)))

    lost = delivery.attach(BOB, claimed, prefetched=(), is_keeping=True)

    assert lost == Ranges.of((of(1), of(1, 1)), (of(2), of(2)))
    assert delivery.held(BOB) == Ranges.of((of(2, 1), of(2, 1)), (of(3), of(3)))
    assert [each[:2] for each in slices(delivery)] == [(of(3, 1), 1)]
    delivery.grant(BOB, 10, 10)
    delivery.reached(BOB, of(3))
    assert delivery.seen(BOB) == Ranges() and delivery.unseen(BOB) == delivery.held(BOB)
    assert delivery.seen(ANN) != Ranges()

    assert delivery.detach(BOB) == Ranges.of((of(2, 1), of(2, 1)), (of(3), of(3)))


def test_a_keeper_is_handed_as_many_as_ever_after_a_crash() -> None:
    _, delivery = delivery_of((1, 3))
    delivery.detach(ANN)
    delivery.attach(BOB, Ranges(), prefetched=(), is_keeping=True)
    delivery.grant(BOB, 10, 10)
    delivery.begin_crash_care()

    assert [each.events for each in slices(delivery)] == [3]
