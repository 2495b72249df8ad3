"""Snapshots: whole or refused, of one moment, in chunks; digests: equal for equal states however they were reached."""

from __future__ import annotations

import random

import pytest

from holdfast.destination.command import Attach, Confirm, Create, Release, Subscribe
from holdfast.destination.directory import Directory
from holdfast.destination.snapshots import snapshot_parts
from holdfast.destination.snapshots.restore import parts_of
from holdfast.destination.snapshots.snapshot import CHUNK_BYTES_MAX
from holdfast.errors import Damaged, UnknownVersion
from holdfast.event.position import of
from tests.machines import Manager, ranges
from tests.random_commands import Driver


def manager_with(batches: int) -> Manager:
    manager = Manager()
    manager.ask(Create("orders", "queue"))
    manager.ask(Attach("ann", 1, "orders"))
    for _ in range(batches):
        manager.send("orders", 2)
    return manager


def busy_driver(seed: int) -> Driver:
    dice, driver = random.Random(seed), Driver()
    for _ in range(120):
        driver.step((dice.randrange(256), dice.randrange(256), dice.randrange(256), dice.randrange(256)))
    return driver


def test_the_snapshot_of_a_single_server_has_no_part_that_former_releases_do_not_know() -> None:
    parts = {type(part) for part in parts_of(busy_driver(3).manager.directory.snapshot())}

    of_a_cluster = {
        snapshot_parts.TransactionImage, snapshot_parts.TransactionOutcomesImage, snapshot_parts.WaitingImage,
        snapshot_parts.OriginImage, snapshot_parts.RevisionsImage,
    }  # fmt: skip
    assert len(parts) > 10 and not parts & of_a_cluster


def test_a_snapshot_is_of_the_moment_of_the_call_whatever_is_applied_while_it_is_taken() -> None:
    manager = manager_with(50)
    expected = manager.directory.digest()

    chunks = manager.directory.snapshot()
    manager.ask(Confirm("orders", "", "ann", ranges(*range(1, 40))))
    manager.send("orders")

    assert Directory.restore(chunks).digest() == expected != manager.directory.digest()


def test_what_came_back_uncounted_is_marked_in_a_restored_directory_too() -> None:
    manager = manager_with(2)
    manager.ask(Release("orders", "", "ann", ranges(3), is_counted=False))
    manager.ask(Release("orders", "", "ann", ranges(4)))

    restored = Directory.restore(manager.directory.snapshot()).backlog(("orders", "")).history

    assert list(restored.returns) == [(of(3), of(3, 1), 0), (of(4), of(4, 1), 1)]
    assert restored.counted == 2


def test_chunks_are_of_a_convenient_size_and_there_are_as_many_as_needed() -> None:
    manager = manager_with(0)
    backlog = manager.directory.backlog(("orders", ""))
    for entry in range(10, 100_010):
        backlog.place(entry, 1)

    chunks = list(manager.directory.snapshot())

    assert len(chunks) >= 3
    assert max(map(len, chunks)) <= CHUNK_BYTES_MAX
    assert Directory.restore(chunks).digest() == manager.directory.digest()


def test_a_restored_directory_knows_which_entry_comes_next() -> None:
    manager = manager_with(3)

    restored = Directory.restore(manager.directory.snapshot())

    assert restored.applied == len(manager.log)
    with pytest.raises(AssertionError):
        restored.apply(len(manager.log), manager.log[-1])


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_cut_anywhere_is_refused(seed: int) -> None:
    (chunk,) = busy_driver(seed).manager.directory.snapshot()

    for length in range(0, len(chunk), 7):
        with pytest.raises(Damaged):
            Directory.restore([chunk[:length]])


def test_no_snapshot_at_all_is_refused() -> None:
    with pytest.raises(Damaged, match="before its end"):
        Directory.restore([])


def test_a_snapshot_of_a_later_format_is_refused_as_such() -> None:
    (chunk,) = manager_with(1).directory.snapshot()

    with pytest.raises(UnknownVersion, match="snapshot format 9"):
        Directory.restore([chunk[:4] + b"\x09\x00" + chunk[6:]])


def test_the_digest_does_not_depend_on_the_order_in_which_the_state_was_reached() -> None:
    one, other = manager_with(10), manager_with(10)
    for manager, order in ((one, (3, 4, 5, 6, 7)), (other, (7, 5, 3, 6, 4))):
        for entry in order:
            manager.ask(Confirm("orders", "", "ann", ranges(entry)))
    for manager, names in ((one, ("left", "right")), (other, ("right", "left"))):
        for name in names:
            manager.ask(Create(name, "topic"))

    assert one.directory.digest() == other.directory.digest()


def test_the_digest_differs_when_anything_differs() -> None:
    found = set()
    for change in (
        Create("invoices", "queue"),
        Create("invoices", "topic"),
        Confirm("orders", "", "ann", ranges(3)),
        Confirm("orders", "", "ann", ranges(4)),
        Confirm("orders", "", "ann", b"", 3 << 16),
        Attach("ann", 2, "orders"),
        Attach("bob", 1, "orders"),
    ):
        manager = manager_with(5)
        manager.ask(change)
        found.add(manager.directory.digest())

    assert len(found) == 7


def test_subscriptions_are_filled_in_the_same_order_after_a_restore() -> None:
    manager = manager_with(0)
    manager.ask(Create("alerts", "topic"))
    for name in ("pager", "audit", "beacon"):
        manager.ask(Subscribe("alerts", name, True))
    restored = Directory.restore(manager.directory.snapshot())

    manager.send("alerts")

    assert restored.apply(len(manager.log), manager.log[-1]) == manager.effects
