"""Events that a prepared transaction has locked are handed to nobody until it is decided (ADR 25)."""

from __future__ import annotations

import pytest

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.delivery.delivery import Delivery
from holdfast.event.position import Ranges, of
from tests.unit.destination.delivery.test_delivery import ANN, BOB, delivery_of, slices


def handed(delivery: Delivery) -> list[int]:
    """The positions that are handed out now."""
    return [each for handout in slices(delivery) for each in range(handout.first, handout.first + handout.events)]


def lock(backlog: Backlog, delivery: Delivery, ranges: Ranges) -> None:
    backlog.lock(ranges)
    delivery.locked(ranges)


def test_what_is_locked_and_never_was_handed_out_is_passed_over_and_comes_after_an_abort() -> None:
    backlog, delivery = delivery_of((1, 3), (2, 2))
    locked = Ranges.of((of(1, 1), of(1, 2)))
    lock(backlog, delivery, locked)

    assert handed(delivery) == [of(1), of(2), of(2, 1)]
    backlog.unlock(locked)
    delivery.unlocked(locked)

    assert handed(delivery) == [of(1, 1), of(1, 2)]


def test_what_nobody_had_reached_stays_in_its_order_after_an_abort() -> None:
    backlog, delivery = delivery_of((1, 3), (2, 1))
    locked = Ranges.of((of(1, 1), of(1, 2)))
    lock(backlog, delivery, locked)

    backlog.unlock(locked)
    delivery.unlocked(locked)

    assert handed(delivery) == [of(1), of(1, 1), of(1, 2), of(2)]


def test_who_holds_what_is_locked_keeps_it_and_after_an_abort_too() -> None:
    backlog, delivery = delivery_of((1, 3))
    handed(delivery)
    locked = Ranges.of((of(1), of(1, 1)))

    lock(backlog, delivery, locked)
    assert delivery.held(ANN) == Ranges.of((of(1), of(1, 2)))
    backlog.unlock(locked)
    delivery.unlocked(locked)

    assert delivery.held(ANN) == Ranges.of((of(1), of(1, 2)))
    assert delivery.in_flight == 3


def test_when_the_holder_goes_others_get_what_is_not_locked() -> None:
    backlog, delivery = delivery_of((1, 3))
    handed(delivery)
    locked = Ranges.of((of(1, 1), of(1, 1)))
    lock(backlog, delivery, locked)
    delivery.grant(BOB, 100, 1_000)

    delivery.detach(ANN)
    assert handed(delivery) == [of(1), of(1, 2)]
    backlog.unlock(locked)
    backlog.finish(locked)
    delivery.finished(locked)

    assert handed(delivery) == [] and delivery.in_flight == 2


def test_a_new_primary_knows_what_is_locked_and_a_recipient_that_reports_it_holds_it() -> None:
    backlog, _ = delivery_of((1, 3))
    locked = Ranges.of((of(1), of(1)))
    backlog.lock(locked)

    delivery = Delivery(backlog)
    lost = delivery.attach(ANN, locked)
    delivery.attach(BOB, Ranges())
    delivery.grant(BOB, 100, 1_000)

    assert not lost and delivery.held(ANN) == locked
    assert handed(delivery) == [of(1, 1), of(1, 2)]
    delivery.detach(ANN)
    assert handed(delivery) == []


@pytest.mark.parametrize("is_held", [False, True])
def test_what_is_locked_does_not_expire(is_held: bool) -> None:
    backlog, delivery = delivery_of((1, 2))
    locked = Ranges.of((of(1), of(1)))
    if is_held:
        handed(delivery)
    lock(backlog, delivery, locked)

    expired = delivery.expire(Ranges.of((of(1), of(1, 1))))

    assert expired == (Ranges() if is_held else Ranges.of((of(1, 1), of(1, 1))))
