"""The directory keeps for delivery: traits of batches, back-off, selectors of receivers; through snapshots and digests."""

from __future__ import annotations

import tracemalloc

import pytest

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.batch_traits import PLAIN, Traits
from holdfast.destination.command import Attach, Configure, Create, Detach, Release
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Attached, Returned
from holdfast.destination.settings import Settings
from holdfast.errors import BadSelector, Refused
from holdfast.event.position import of
from tests.machines import Manager, manager_at_work, ranges

MIXED = [PLAIN, Traits(9), Traits(0, True), Traits(4, False, 700), Traits(4, False, 0, 900, 900)]


def restored(manager: Manager) -> Directory:
    return Directory.restore(manager.directory.snapshot())


def test_traits_live_through_a_snapshot_and_are_part_of_the_digest() -> None:
    manager, plain = manager_at_work(), manager_at_work()
    entries = [manager.send("orders", 2, traits=traits) for traits in MIXED]
    for _ in MIXED:
        plain.send("orders", 2)

    copy = restored(manager)

    backlog = copy.backlog(("orders", ""))
    assert [backlog.lane_of(entry) for entry in entries] == [traits.lane for traits in MIXED]
    assert [backlog.not_before_over(of(entry), of(entry))[0][2] for entry in entries] == [0, 0, 0, 700, 0]
    assert [backlog.expiry_of(entry) for entry in entries] == [0, 0, 0, 0, 900]
    assert copy.digest() == manager.directory.digest() != plain.directory.digest()
    assert (backlog.has_delays, backlog.has_expiries) == (True, True)


def test_a_batch_that_is_held_back_keeps_its_traits_through_a_snapshot_rule_6() -> None:
    from holdfast.destination.command import OpenProducer

    manager = manager_at_work()
    manager.ask(OpenProducer("press", "ann"))
    entry = manager.send("orders", 1, "press", 2, traits=Traits(9, False, 700))
    copy = Manager()
    copy.directory, copy.log = restored(manager), list(manager.log)

    for each in (manager, copy):
        each.send("orders", 1, "press", 1)

    assert copy.directory.backlog(("orders", "")).lane_of(entry) == Traits(9).lane
    assert copy.directory.digest() == manager.directory.digest()


@pytest.mark.parametrize(("deliveries", "waits_ms"), [(1, 100), (2, 300), (3, 500)])
def test_a_release_waits_longer_with_every_delivery_up_to_the_limit(deliveries: int, waits_ms: int) -> None:
    manager = manager_at_work()
    settings = Settings(redelivery_delay_ms=100, redelivery_factor=3, redelivery_delay_max_ms=500)
    manager.ask(Configure("orders", settings, changed=["redelivery_delay_ms", "redelivery_factor", "redelivery_delay_max_ms"]))
    entry = manager.send("orders")

    for _ in range(deliveries):
        manager.ask(Release("orders", "", "ann", ranges(entry), at_ms=1_000))

    assert manager.directory.backlog(("orders", "")).not_before_over(of(entry), of(entry)) == [
        (of(entry), of(entry), 1_000 + waits_ms)
    ]


def test_a_release_waits_for_the_later_of_what_was_asked_and_the_back_off_and_an_uncounted_one_does_not_back_off() -> None:
    manager = Manager()
    for command in (Create("orders", "queue", Settings(redelivery_delay_ms=100)), Attach("ann", 1, "orders")):
        manager.ask(command)
    entry = manager.send("orders", 3)
    backlog = manager.directory.backlog(("orders", ""))

    manager.ask(Release("orders", "", "ann", ranges((of(entry), of(entry))), 5_000, at_ms=1_000))
    manager.ask(Release("orders", "", "ann", ranges((of(entry, 1), of(entry, 1))), 1_050, at_ms=1_000))
    manager.ask(Release("orders", "", "ann", ranges((of(entry, 2), of(entry, 2))), is_counted=False, at_ms=1_000))

    assert [run[2] for run in backlog.not_before_over(of(entry), of(entry, 2))] == [5_000, 1_100, 0]
    assert isinstance(manager.effects[0], Returned)


def test_the_selector_of_a_receiver_is_told_kept_and_forgotten_with_it() -> None:
    manager = manager_at_work()
    manager.ask(Attach("bob", 1, "orders", selector="amount > 1"))
    assert manager.effects[0] == Attached("bob", 1, ("orders", ""), "amount > 1")

    copy = restored(manager)

    assert copy.queue(("orders", "")).receivers.selector_of(("bob", 1)) == "amount > 1"
    assert copy.digest() == manager.directory.digest()
    manager.ask(Detach("bob", 1))
    assert manager.directory.queue(("orders", "")).receivers.selector_of(("bob", 1)) == ""
    assert list(manager.directory.queue(("orders", "")).receivers.selectors()) == []


def test_a_receiver_cannot_change_its_selector_and_a_wrong_one_is_refused() -> None:
    manager = manager_at_work()
    manager.ask(Attach("bob", 1, "orders", selector="amount > 1"))
    manager.ask(Attach("bob", 1, "orders", selector="amount > 1"))

    assert isinstance(manager.refusal(Attach("bob", 1, "orders", selector="amount > 2")), Refused)
    assert isinstance(manager.refusal(Attach("bob", 2, "orders", selector="amount >")), BadSelector)
    assert isinstance(manager.refusal(Attach("bob", 2, "alerts", "audit", selector="amount > 1")), Refused)


def bytes_a_batch(traits: Traits) -> float:
    count = 50_000
    tracemalloc.start()
    backlog = Backlog()
    for entry in range(1, count + 1):
        backlog.place(entry, 1, 0, traits)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / count


@pytest.mark.parametrize(
    ("traits", "bytes_max"),
    [(PLAIN, 13), (Traits(9), 14), (Traits(not_before_ms=1), 21), (Traits(9, True, 1, 1, 1), 31)],
    ids=["plain", "priority", "delay", "all"],
)
def test_a_batch_costs_what_its_traits_cost_and_a_plain_one_twelve_bytes(traits: Traits, bytes_max: int) -> None:
    assert bytes_a_batch(traits) < bytes_max
