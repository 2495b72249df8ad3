"""Places in a backlog: confirming up to one finishes what waits before it and nothing else; what it costs (ADR 5, ADR 10)."""

from __future__ import annotations

import time
from array import array

import pytest

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.command import Attach, BatchCommand, Confirm, Create, OpenProducer, Subscribe
from holdfast.destination.directory import Directory
from holdfast.destination.state.places import Places, extent_of, waiting_before
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import Detached, NoSuchPosition, WrongKind
from holdfast.event import position
from tests.machines import Manager, batch_of

KEY = ("alerts", "lake")


@pytest.fixture
def manager() -> Manager:
    made = Manager()
    for command in (Create("alerts", "topic"), Subscribe(*KEY, True), Attach("ann", 1, *KEY), OpenProducer("press", "ann")):
        made.ask(command)
    return made


def backlog_of(manager: Manager) -> Backlog:
    return manager.directory.backlog(KEY)


def subscription_of(manager: Manager) -> Subscription:
    return manager.directory.catalog.subscription(*KEY)


def test_batches_in_order_are_confirmed_with_one_range(manager: Manager) -> None:
    entries = [manager.send("alerts", 3) for _ in range(50)]

    ranges, up_to = waiting_before(backlog_of(manager), 40 << 16 | 1, 2_048)

    assert list(ranges) == [(position.of(entries[0]), position.of(entries[40]))]
    assert up_to == 40 << 16 | 1


def test_what_is_held_back_among_them_is_not_confirmed_when_it_is_placed_meanwhile(manager: Manager) -> None:
    """Batch 2 of a producer comes before batch 1: it is placed when that has come, at a later place and a lower position."""
    manager.send("alerts", 1)
    manager.append(BatchCommand("alerts", "press", 2), batch_of(1))
    held = len(manager.log)
    manager.send("alerts", 1)

    ranges, up_to = waiting_before(backlog_of(manager), 2 << 16, 2_048)
    manager.append(BatchCommand("alerts", "press", 1), batch_of(1))
    assert manager.ask(Confirm(*KEY, "ann", ranges.to_bytes(), up_to=up_to)) == 2

    assert manager.waiting(*KEY) == [position.of(len(manager.log) - 1), position.of(held)]


def test_a_displaced_batch_before_the_place_is_confirmed_and_one_behind_it_is_not(manager: Manager) -> None:
    manager.append(BatchCommand("alerts", "press", 2), batch_of(1))
    displaced = len(manager.log)
    first = manager.send("alerts", 1)
    manager.append(BatchCommand("alerts", "press", 1), batch_of(1))  # and then batch 2: the places are first, 1, 2

    ranges, up_to = waiting_before(backlog_of(manager), 2 << 16, 2_048)
    manager.ask(Confirm(*KEY, "ann", ranges.to_bytes(), up_to=up_to))
    assert manager.waiting(*KEY) == [position.of(displaced)] and displaced < first

    ranges, up_to = waiting_before(backlog_of(manager), 3 << 16, 2_048)
    manager.ask(Confirm(*KEY, "ann", ranges.to_bytes(), up_to=up_to))
    assert manager.waiting(*KEY) == []


def test_a_confirm_up_to_what_is_no_place_or_by_who_is_not_attached_changes_nothing(manager: Manager) -> None:
    manager.send("alerts", 2)
    manager.ask(Create("orders", "queue"))
    manager.ask(Attach("ann", 2, "orders"))

    assert isinstance(manager.refusal(Confirm(*KEY, "ann", b"", up_to=(1 << 16) + 1)), NoSuchPosition)
    assert isinstance(manager.refusal(Confirm(*KEY, "bob", b"", up_to=1 << 16)), Detached)
    assert isinstance(manager.refusal(Confirm("orders", "", "ann", b"", up_to=1)), WrongKind)


def test_identity_and_what_was_confirmed_up_to_outlive_a_snapshot(manager: Manager) -> None:
    manager.send("alerts", 2)
    manager.ask(Confirm(*KEY, "ann", b"", up_to=1))

    restored = Directory.restore(list(manager.directory.snapshot()))

    found = restored.catalog.subscription(*KEY)
    assert (found.made_at, found.confirmed_up_to) == (2, 1)
    assert restored.digest() == manager.directory.digest()


def test_what_was_confirmed_up_to_never_falls(manager: Manager) -> None:
    manager.send("alerts", 2)
    for up_to in (2, 1, 0):
        manager.ask(Confirm(*KEY, "ann", b"", up_to=up_to))

    assert subscription_of(manager).confirmed_up_to == 2


@pytest.mark.parametrize("events", [1, 2])
def test_an_extent_of_ten_million_batches_is_known_in_milliseconds(events: int) -> None:
    backlog = Backlog()
    for page in range(2_442):
        first = page * 4_096 + 1
        backlog._slots.extend(array("Q", range(first, first + 4_096)), array("H", [events]) * 4_096)
    backlog.waiting = sum(page.waiting for page in backlog.pages())

    began = time.thread_time()
    extent = extent_of(backlog, 5_000_000 << 16, 3_000_000)
    places = Places(backlog)
    cuts = [places.nth(number * 300_000) for number in range(1, 33)]
    seconds = time.thread_time() - began

    assert extent.end == 5_000_000 + 3_000_000 // events << 16
    assert cuts == [number * 300_000 // events << 16 for number in range(1, 33)]
    assert seconds < 0.25  # of work; it takes some 5 ms
