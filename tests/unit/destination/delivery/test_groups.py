"""Groups: who has which, and the bounds of what is known of them. Their order is in tests/property/test_delivery_order.py."""

from __future__ import annotations

import pytest

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.batch_traits import Traits
from holdfast.destination.delivery import groups as grouped
from holdfast.destination.delivery import view
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.delivery.view import Found
from holdfast.event.position import Ranges, entry_of, of

ANN, BOB = ("ann", 1), ("bob", 1)
GROUPED = Traits(has_groups=True)


def delivery_of(groups: str, *holders: tuple[str, int]) -> tuple[Backlog, Delivery]:
    """One batch of one event for each letter, which names its group."""
    backlog = Backlog()
    for entry, _ in enumerate(groups, 1):
        backlog.place(entry, 1, 0, GROUPED)
    delivery = Delivery(backlog)
    for holder in holders:
        delivery.attach(holder, Ranges())
    return backlog, delivery


def look(delivery: Delivery, groups: str) -> int:
    """Answer all head reads; how many heads were read."""
    heads_read = 0
    while reads := delivery.head_reads(0, 64):
        for each in reads:
            heads_read += each.last - each.first + 1
            delivery.heads_read(each, [Found(each.first, each.last, groups[entry_of(each.first) - 1])])
    return heads_read


def take(delivery: Delivery, events_max: int = 1_000) -> dict[tuple[str, int], list[int]]:
    taken: dict[tuple[str, int], list[int]] = {}
    while (handout := delivery.next(0, events_max)) is not None:
        taken.setdefault(handout.holder, []).extend(entry_of(each.first) for each in handout.slices)
    return taken


def test_new_groups_go_to_the_receiver_that_has_the_fewest() -> None:
    groups = "abcdef"
    _, delivery = delivery_of(groups, ANN, BOB)
    delivery.grant(ANN, 100, 100)
    delivery.grant(BOB, 100, 100)
    look(delivery, groups)

    taken = take(delivery)

    assert sorted(map(len, taken.values())) == [3, 3]


def test_nobody_else_gets_what_is_of_a_group_whose_receiver_has_no_credit() -> None:
    groups = "aab"
    _, delivery = delivery_of(groups, ANN, BOB)
    delivery.grant(ANN, 1, 100)
    look(delivery, groups)
    assert take(delivery) == {ANN: [1]}

    delivery.grant(BOB, 10, 100)
    look(delivery, groups)

    assert take(delivery) == {BOB: [3]}


def test_what_is_known_ahead_is_bounded_and_past_the_bound_a_slow_receiver_holds_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view, "MATCHES_MAX", 5)
    groups = "a" * 20 + "b"
    _, delivery = delivery_of(groups, ANN, BOB)
    delivery.grant(ANN, 1, 100)
    look(delivery, groups)
    assert take(delivery) == {ANN: [1]}
    delivery.grant(BOB, 100, 100)

    heads_read = look(delivery, groups)

    assert heads_read < 10 and take(delivery) == {}
    delivery.grant(ANN, 100, 100)
    while handed := take(delivery):
        assert handed
        look(delivery, groups)
    assert delivery.in_flight == 21


def test_groups_of_which_nothing_is_left_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped, "IDLE_MAX", 3)
    groups = "abcdefgh"
    backlog, delivery = delivery_of(groups, ANN)
    delivery.grant(ANN, 100, 100)
    look(delivery, groups)
    assert take(delivery) == {ANN: list(range(1, 9))}

    delivery.finished(backlog.finish(Ranges.of((of(1), of(8)))))

    known = delivery._state.views[""].groups
    assert [known.owner_of(name) is not None for name in groups] == [False] * 5 + [True] * 3


def test_an_idle_group_stays_with_its_receiver() -> None:
    groups = "ab"
    backlog, delivery = delivery_of(groups, ANN, BOB)
    delivery.grant(ANN, 100, 100)
    delivery.grant(BOB, 100, 100)
    look(delivery, groups)
    first = take(delivery)
    delivery.finished(backlog.finish(Ranges.of((of(1), of(2)))))

    for entry in range(3, 9):
        backlog.place(entry, 1, 0, GROUPED)
        delivery.placed(of(entry), 1)
    look(delivery, "abababab")

    assert {holder: {entry % 2 for entry in entries} for holder, entries in take(delivery).items()} == {
        holder: {entry % 2 for entry in entries} for holder, entries in first.items()
    }


def test_heads_that_cannot_be_read_now_are_looked_at_again_later() -> None:
    groups = "a"
    _, delivery = delivery_of(groups, ANN)
    delivery.grant(ANN, 10, 100)
    (asked,) = delivery.head_reads(0, 10)

    delivery.read_later(asked, 500)

    assert delivery.next(0) is None and not delivery.head_reads(499, 10)
    assert delivery.wake_at_ms == 500
    (again,) = delivery.head_reads(500, 10)
    delivery.heads_read(again, [Found(again.first, again.last, "a")])
    assert delivery.next(500) is not None


def test_a_large_batch_is_looked_at_in_pieces() -> None:
    backlog = Backlog()
    backlog.place(1, 60_000, 0, GROUPED)
    delivery = Delivery(backlog)
    delivery.attach(ANN, Ranges())
    delivery.grant(ANN, 10, 100)

    reads = delivery.head_reads(0, 10)

    assert all(read.last - read.first < view.READ_EVENTS_MAX for read in reads)
