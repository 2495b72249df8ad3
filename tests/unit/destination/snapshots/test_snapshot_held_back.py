"""Rules 6 and 16, B12: a batch that is held back for its producer's order is placed after a restore as it would have been before:
by its selectors, with its traits, counted with its bytes, and not for its own client where that is not wanted."""

from __future__ import annotations

from holdfast.client.sending.outgoing import prepare
from holdfast.destination.command import BatchCommand, Create, ForgetProducer, OpenProducer, Subscribe
from holdfast.destination.directory import Directory
from holdfast.destination.settings import Settings
from holdfast.event import batch
from tests.machines import Manager


def payload(*numbers: int, priority: int = 4, group: str | None = None, not_before_ms: int = 0) -> bytes:
    made = [prepare(b"x" * 50, {"properties": {"n": number}, "group": group}) for number in numbers]
    return batch.encode(
        [each.head for each in made], [each.body for each in made], source="test", first_id=numbers[0] << 32,
        priority=priority, has_groups=group is not None, not_before_ms=not_before_ms,
    )  # fmt: skip


def manager_holding_back() -> Manager:
    """Batches of two producers wait for the first of each, which has not come."""
    manager = Manager()
    for command in (
        Create("orders", "queue", Settings(bytes_max=10_000)),
        Create("alerts", "topic", Settings(bytes_max=5_000)),
        Subscribe("alerts", "pager", True, selector="n > 5"),
        Subscribe("alerts", "others", True, no_local=True, client="ann's"),
        Subscribe("al*", "all", True, match="glob", selector="n < 5"),
        OpenProducer("press", "ann", client="ann's"),
        OpenProducer("mill", "bob", client="bob's"),
    ):
        manager.ask(command)
    manager.append(BatchCommand("orders", "", 0), payload(1, 1, 1))
    manager.append(BatchCommand("orders", "press", 2), payload(1, 9, priority=7))
    manager.append(BatchCommand("alerts", "press", 3), payload(1, 9, group="g"))
    manager.append(BatchCommand("alerts", "mill", 2), payload(1, 9, not_before_ms=1 << 41))
    return manager


def fill_holes(manager: Manager) -> list[object]:
    found: list[object] = [*manager.append(BatchCommand("orders", "press", 1), payload(2))]
    found += manager.append(ForgetProducer("mill"))
    return found


def test_what_is_held_back_is_placed_after_a_restore_as_without_one() -> None:
    plain, restored = manager_holding_back(), Manager()
    restored.log = list(plain.log)
    restored.directory = Directory.restore(list(plain.directory.snapshot()))
    assert restored.directory.digest() == plain.directory.digest()

    assert fill_holes(restored) == fill_holes(plain)

    for key, backlog in plain.directory.backlogs().items():
        assert restored.waiting(*key) == plain.waiting(*key)
        assert restored.directory.backlog(key).lanes == backlog.lanes
    assert len(plain.waiting("alerts", "pager")) == len(plain.waiting("glob:al*", "all")) == 2
    assert len(plain.waiting("alerts", "others")) == 2
    assert restored.directory.digest() == plain.directory.digest()


def test_the_bytes_that_wait_are_known_after_a_restore() -> None:
    manager = manager_holding_back()
    fill_holes(manager)

    restored = Directory.restore(list(manager.directory.snapshot()))

    for key in (("orders", ""), ("alerts", "pager"), ("alerts", "others")):
        sizes, before = restored.backlog(key).sizes, manager.directory.backlog(key).sizes
        assert sizes is not None and before is not None
        assert sizes.total == before.total > 0
