"""A start costs in proportion to what there is, and what nobody uses costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast.destination import command
from holdfast.destination.directory import Directory
from holdfast.destination.snapshots import snapshot_parts
from holdfast.destination.snapshots.restore import parts_of
from holdfast.destination.state.producers import WINDOW
from holdfast.event.batch import encode
from holdfast.node.messages.start import StartOrder
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings

QUEUES = 300


def calls_of(work: Callable[[], Any]) -> int:
    """How many Python functions are called: a measure of work that is the same on every machine."""
    count = 0

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def with_subscriptions(count: int, selector: str = "") -> Directory:
    directory = Directory()
    directory.apply(1, command.encode(command.Create("t", "topic")))
    for number in range(count):
        made = command.Subscribe("t", f"s{number}", True, selector=selector and f"{selector} = {number}")
        directory.apply(2 + number, command.encode(made))
    return directory


def with_batches_of_a_producer(queues: int) -> Directory:
    directory = Directory()
    directory.apply(1, command.encode(command.OpenProducer("p", "", True)))
    for number in range(queues):
        directory.apply(2 + number, command.encode(command.Create(f"q{number}", "queue")))
    payload = encode([b"\x80"], [b""], source="test", first_id=1)
    for sequence in range(1, WINDOW + 1):
        sent = command.BatchCommand("gone", "p", sequence)
        directory.apply(queues + 1 + sequence, command.encode(sent, payload))
    return directory


@pytest.mark.parametrize("selector", ["", "a"])
def test_restoring_twice_the_subscriptions_of_a_topic_is_twice_the_work(selector: str) -> None:
    few, many = (list(with_subscriptions(count, selector).snapshot()) for count in (200, 400))

    assert calls_of(lambda: Directory.restore(many)) < 2.5 * calls_of(lambda: Directory.restore(few))


def test_subscribing_costs_the_same_beside_any_number_of_subscriptions() -> None:
    def one_more(directory: Directory) -> int:
        return calls_of(lambda: directory.apply(9_999, command.encode(command.Subscribe("t", "last", True))))

    assert one_more(with_subscriptions(400)) <= one_more(with_subscriptions(4)) + 5


def test_whose_events_are_unfinished_is_found_without_asking_queues_in_which_nothing_waits() -> None:
    few, many = (with_batches_of_a_producer(count) for count in (10, 1_000))

    of_few, of_many = (calls_of(partial(StartOrder().reached_tail, directory)) for directory in (few, many))

    assert of_many < of_few + 10


async def test_a_start_makes_no_delivery_for_a_queue_that_nobody_uses(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}") as client:
        for number in range(QUEUES):
            await client.create_queue(f"q{number}")
        await client.queue("q7").send(1)
        await client.queue("q8").send(2, ttl_ms=600_000)

    node = await Node.open(tmp_path, NodeSettings())
    await node.messages.wait_until_primary()

    assert list(node.messages.deliverer.deliveries) == [("q8", "")]  # what is in it expires
    await node.close()


def test_of_a_queue_that_was_never_used_a_snapshot_says_that_it_was_made_and_no_more() -> None:
    directory = with_batches_of_a_producer(QUEUES)
    directory.apply(9_000, command.encode(command.BatchCommand("q7", "", 0), encode([b"\x80"], [b""], source="test", first_id=1)))

    parts = list(parts_of(directory.snapshot()))

    assert [part.destination for part in parts if isinstance(part, snapshot_parts.BacklogImage)] == ["_DMQ", "q7"]
    assert Directory.restore(directory.snapshot()).digest() == directory.digest()
