"""The account of a queue or subscription: accepted = confirmed + dead + waiting, since it was made (D4)."""

from __future__ import annotations

import pytest

from holdfast.destination.command import (
    BatchCommand,
    Commit,
    Confirm,
    Create,
    Dead,
    Delete,
    Detach,
    Part,
    Reject,
    Release,
    Settled,
    Subscribe,
    Unsubscribe,
)
from holdfast.destination.directory import Directory
from holdfast.event import batch, position
from holdfast.event.event import Head, encode_head
from tests.machines import Manager, batch_of, manager_at_work, ranges


@pytest.fixture
def manager() -> Manager:
    return manager_at_work()


def account(directory: Directory, name: str, subscription: str = "") -> tuple[int, int, int, int, int]:
    """(accepted, confirmed, dead, expired, waiting)"""
    found = directory.queue((name, subscription)).describe()
    assert found["accepted"] == found["confirmed"] + found["dead"] + found["waiting"]
    return found["accepted"], found["confirmed"], found["dead"], found["expired"], found["waiting"]


def test_every_event_is_counted_where_it_ends(manager: Manager) -> None:
    first, second, third = (manager.send("orders", 10) for _ in range(3))
    manager.send("orders", 5)

    manager.ask(Confirm("orders", "", "ann", ranges(first), 0))
    manager.ask(Reject("orders", "", "ann", ranges((position.of(second), position.of(second, 3))), "not for us"))
    manager.append(Dead(1, "orders", "", ranges((position.of(third, 2), position.of(third, 4))), "too late", "expired"))

    assert account(manager.directory, "orders") == (35, 10, 7, 3, 18)
    assert account(manager.directory, "_DMQ") == (7, 0, 0, 0, 7)


def test_what_is_said_twice_is_counted_once(manager: Manager) -> None:
    entry = manager.send("orders", 10)

    for _ in range(2):
        manager.ask(Confirm("orders", "", "ann", ranges((position.of(entry), position.of(entry, 5))), 0))
        manager.ask(Release("orders", "", "ann", ranges(entry)))
        manager.append(Dead(1, "orders", "", ranges((position.of(entry, 4), position.of(entry, 7))), "late", "expired"))

    assert account(manager.directory, "orders") == (10, 6, 2, 2, 2)


def test_each_subscription_has_its_own_account_and_counts_only_what_it_takes(manager: Manager) -> None:
    manager.ask(Subscribe("alerts", "big", True, selector="amount > 5"))
    heads = [encode_head(Head(properties={"amount": amount})) for amount in range(10)]
    made = batch.encode(heads, [b""] * 10, source="test", first_id=1)
    manager.append(BatchCommand("alerts", "", 0), made)
    manager.ask(Confirm("alerts", "audit", "ann", ranges(len(manager.log)), 0))

    assert account(manager.directory, "alerts", "audit") == (10, 10, 0, 0, 0)
    assert account(manager.directory, "alerts", "big") == (4, 0, 0, 0, 4)
    assert manager.directory.describe("alerts")["accepted"] == 10


def test_a_topic_counts_what_is_sent_to_it_while_nobody_subscribes() -> None:
    manager = Manager()
    manager.ask(Create("alerts", "topic"))

    manager.send("alerts", 7)

    assert manager.directory.describe("alerts")["accepted"] == 7


def test_what_a_transaction_sends_and_confirms_is_counted(manager: Manager) -> None:
    entry = manager.send("orders", 4)
    manager.append(Part("ann", "t1", 1, "orders"), batch_of(3))
    manager.ask(Commit("ann", "t1", 1, [Settled("orders", "", ranges((position.of(entry), position.of(entry, 3))))]))

    assert account(manager.directory, "orders") == (7, 4, 0, 0, 3)


def test_what_waited_in_a_queue_that_is_deleted_came_to_the_dead_queue_whole_pages_of_it_too(manager: Manager) -> None:
    for _ in range(5_000):
        manager.send("orders", 2)

    manager.ask(Delete("orders"))

    assert account(manager.directory, "_DMQ") == (10_000, 0, 0, 0, 10_000)


def test_an_account_begins_with_its_subscription(manager: Manager) -> None:
    manager.send("alerts", 3)
    manager.ask(Detach("ann", 2))
    manager.ask(Unsubscribe("alerts", "audit"))
    manager.ask(Subscribe("alerts", "audit", True))
    manager.send("alerts", 2)

    assert account(manager.directory, "alerts", "audit") == (2, 0, 0, 0, 2)
    assert manager.directory.describe("alerts")["accepted"] == 5


def test_the_account_is_part_of_snapshot_and_digest(manager: Manager) -> None:
    entry = manager.send("orders", 10)
    manager.send("alerts", 3)
    manager.ask(Confirm("orders", "", "ann", ranges((position.of(entry), position.of(entry, 5))), 0))
    manager.append(Dead(1, "orders", "", ranges((position.of(entry, 6), position.of(entry, 7))), "late", "expired"))

    restored = Directory.restore(manager.directory.snapshot())

    assert account(restored, "orders") == account(manager.directory, "orders") == (10, 6, 2, 2, 2)
    assert restored.describe("alerts")["accepted"] == 3
    assert restored.digest() == manager.directory.digest()
