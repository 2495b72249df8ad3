"""Events that may have been on their way to somebody who never got them are marked; others are not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.destination.delivery.doubt import Doubt
from holdfast.event.position import Ranges, of
from tests.unit.destination.delivery.test_delivery import ANN, BOB, delivery_of, slices

LAST = 12
Step = tuple[str, int, int]


@given(st.lists(st.tuples(st.sampled_from(["add", "forget", "until"]), st.integers(1, LAST), st.integers(1, LAST))))
def test_doubt_is_what_was_added_and_not_forgotten_and_all_up_to_its_limit(steps: list[Step]) -> None:
    doubt, lost, until = Doubt(), set[int](), 0
    for what, first, last in steps:
        positions = range(first, max(first, last) + 1)
        if what == "add":
            doubt.add(positions[0], positions[-1])
            lost |= set(positions)
        elif what == "forget":
            doubt.forget(positions[0], positions[-1])
            lost -= set(positions)
        else:
            doubt.raise_until(first)
            until = max(until, first)

    at, found = 1, dict[int, bool]()
    while at <= LAST:
        end, is_marked = doubt.marked_until(at, LAST)
        assert at <= end <= LAST
        found |= dict.fromkeys(range(at, end + 1), is_marked)
        at = end + 1
    assert found == {position: position in lost or position <= until for position in range(1, LAST + 1)}


def test_what_one_of_several_lost_on_its_way_comes_again_marked() -> None:
    _, delivery = delivery_of((1, 1), (2, 1), (3, 1))
    delivery.grant(BOB, 1, 1_000)
    assert [handout.holder for _ in range(2) if (handout := delivery.next(0, 1))] == [ANN, BOB]

    delivery.attach(ANN, Ranges())  # the first never came to her, and bob has the second
    delivery.grant(BOB, 2, 1_000)

    assert [(each.first, each.is_returned) for _ in range(2) for each in slices(delivery)] == [(of(1), True), (of(3), False)]


def test_what_the_only_one_lost_on_its_way_comes_in_order_and_is_not_marked() -> None:
    _, delivery = delivery_of((1, 1), (2, 1))
    delivery.detach(BOB)
    assert slices(delivery, events_max=1)

    delivery.attach(ANN, Ranges())
    delivery.grant(ANN, 2, 1_000)

    assert [(each.first, each.is_returned) for each in slices(delivery)] == [(of(1), False), (of(2), False)]


def test_a_backlog_knows_the_newest_position_that_was_finished() -> None:
    backlog, delivery = delivery_of((1, 1), (2, 3), (3, 1))
    assert backlog.furthest == 0

    backlog.finish(Ranges.of((of(2, 1), of(2, 1))))
    backlog.finish(Ranges.of((of(1), of(1))))

    assert backlog.furthest == of(2, 1)
    delivery.doubt_until(backlog.furthest)
    found = [(each.first, each.events, each.is_returned) for each in slices(delivery)]
    assert found == [(of(2), 1, True), (of(2, 2), 1, False), (of(3), 1, False)]
