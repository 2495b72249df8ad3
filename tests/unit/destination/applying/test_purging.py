"""Purging throws away what waits in a queue, and nothing else."""

from __future__ import annotations

import pytest

from holdfast.destination.command import Attach, Confirm, Create, Purge, Subscribe
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Finished, Purged
from holdfast.errors import BadName, NoSuchDestination, WrongKind
from holdfast.event.position import Ranges
from tests.machines import Manager, positions, ranges


@pytest.fixture
def manager() -> Manager:
    made = Manager()
    made.ask(Create("orders", "queue"))
    made.ask(Create("others", "queue"))
    made.ask(Create("news", "topic"))
    made.ask(Subscribe("news", "audit", True))
    made.ask(Attach("ann", 1, "orders"))
    return made


def test_all_that_waits_is_finished_and_counted_and_what_comes_later_stays(manager: Manager) -> None:
    first, second, other = manager.send("orders", 3), manager.send("orders", 2), manager.send("others", 1)
    manager.append(Confirm("orders", "", "ann", ranges((positions(first, 1)[0],) * 2)))

    effects = manager.append(Purge("orders"))
    later = manager.send("orders", 2)

    gone = positions(first, 3)[1:] + positions(second, 2)
    finished, purged = effects
    assert isinstance(finished, Finished)
    assert finished.ranges == Ranges.gather((each, each) for each in gone)
    assert purged == Purged(("orders", ""), 4)
    assert manager.waiting("orders") == positions(later, 2)
    assert manager.waiting("others") == positions(other, 1)
    assert manager.waiting("_DMQ") == []
    assert manager.directory.queue(("orders", "")).account() == {"accepted": 7, "confirmed": 5, "dead": 0, "expired": 0}


def test_the_answer_is_the_count_and_an_empty_queue_has_none(manager: Manager) -> None:
    manager.send("orders", 3)

    assert manager.ask(Purge("orders")) == 3
    assert manager.ask(Purge("orders")) == 0
    assert manager.append(Purge("orders")) == []


def test_a_verdict_on_what_was_purged_finds_it_finished(manager: Manager) -> None:
    held = manager.send("orders", 2)
    manager.ask(Purge("orders"))

    assert manager.ask(Confirm("orders", "", "ann", ranges(held))) == 0


def test_a_reader_of_a_snapshot_arrives_at_the_same_state(manager: Manager) -> None:
    manager.send("orders", 3)
    restored = Directory.restore(manager.directory.snapshot())

    manager.append(Purge("orders"))
    restored.apply(manager.directory.applied, manager.log[-1])

    assert restored.digest() == manager.directory.digest()


@pytest.mark.parametrize(
    ("name", "refusal"),
    [("news", WrongKind), ("nowhere", NoSuchDestination), ("_DMQ", BadName), ("_ADMIN", BadName), ("_LOG", BadName)],
)
def test_only_a_queue_of_a_user_is_purged(manager: Manager, name: str, refusal: type[Exception]) -> None:
    manager.send("news", 1)
    before = manager.directory.digest()

    assert type(manager.refusal(Purge(name))) is refusal

    assert manager.directory.digest() == before
