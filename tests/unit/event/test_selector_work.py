"""The work of a selector is in proportion to what it reads, and is done in small steps (requirement B5)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import pytest

from holdfast.event.batch import Batch, encode
from holdfast.event.event import Head, PropertyValue, encode_head
from holdfast.event.selector.like import STEP_COST, Likeness
from holdfast.event.selector.parser import LENGTH_MAX
from holdfast.event.selector.selector import Selector
from holdfast.node.clients.client_link import PARSED_MAX
from holdfast.node.node import Node
from holdfast.node.reading.shared_turn import SharedTurn
from holdfast.wire.frame import Answered, Attach, Failed, Goodbye
from tests.raw_client import RawClient
from tests.running_server import SETTINGS
from tests.waiting import turn_loop

Result = TypeVar("Result")
# A head is at most a MiB, and read in one step, whatever is in it: every byte costs what comparing with all names does.
HEAD_COST_MAX = 9 << 20
HARD = {
    "a letter in two": ("a", "%" + "a_" * 49 + "b%"),
    "all but the last": ("ab", "%" + "a_" * 49 + "c%"),
    "of many letters": ("".join(map(chr, range(0x100, 0x132))), "%" + "_".join(map(chr, range(0x100, 0x131))) + "!%"),
    "plain": ("a", "%" + "a" * 3_000 + "b%"),
    "many stretches": ("a", ("%" + "a_" * 49 + "a") * 38 + "b%"),
    "beyond 16 bits": ("😀", "%" + "😀_" * 49 + "b%"),
}


def ran(steps: Generator[int, None, Result]) -> tuple[list[int], Result]:
    costs = []
    while True:
        try:
            costs.append(next(steps))
        except StopIteration as done:
            return costs, done.value


def batch_of(*properties: Mapping[str, PropertyValue]) -> Batch:
    heads = [encode_head(Head(properties=dict(each))) for each in properties]
    return Batch(encode(heads, [b""] * len(heads), source="test", first_id=1))


@pytest.mark.parametrize("hard", HARD)
def test_like_costs_in_proportion_to_the_text_whatever_the_pattern(hard: str) -> None:
    letters, pattern = HARD[hard]
    likeness = Likeness(pattern, None)

    (few, no), (many, still_no) = (ran(likeness.in_steps((letters * length)[:length])) for length in (100_000, 400_000))

    assert (no, still_no) == (False, False)
    assert sum(many) <= 400_000 * likeness.cost + STEP_COST
    assert sum(many) <= 4.5 * sum(few) + 2 * STEP_COST
    assert max(many) <= 2 * STEP_COST


@pytest.mark.parametrize("hard", HARD)
def test_like_finds_in_steps_what_is_there(hard: str) -> None:
    letters, pattern = HARD[hard]
    text = letters * 20_000 + pattern.replace("%", "").replace("_", letters[0]) + letters * 20_000

    _, found = ran(Likeness(pattern, None).in_steps(text))

    assert found is True
    assert Likeness(pattern, None).matches(text)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["p LIKE '%" + "a_" * 49 + "b%'"] * 30)[:LENGTH_MAX].rsplit(" OR ", 1)[0],
        " OR ".join(f"p LIKE '%{number}b%'" for number in range(100)),
        " OR ".join(["p = q"] * 100),
        "p = 'a' OR q IN ('a', 'b') OR p <> q",
    ],
    ids=["many that are hard", "many", "names compared", "few"],
)
def test_a_selector_leaves_off_often_within_one_large_event(text: str) -> None:
    batch = batch_of({"p": "a" * 450_000, "q": "a" * 449_999 + "b"})
    selector = Selector(text)

    costs, found = ran(selector.select_in_steps(batch, [0]))

    assert found == selector.select(batch, [0])
    assert max(costs[2:], default=0) <= 2 * STEP_COST  # the first is that of the head
    assert max(costs) <= HEAD_COST_MAX


def test_a_selector_leaves_off_often_among_many_small_events_and_seldom_among_few() -> None:
    batch = batch_of(*[{"p": number} for number in range(10_000)])
    selector = Selector("p > 4998 AND p < 5001")

    costs, found = ran(selector.select_in_steps(batch, range(10_000)))
    of_few, _ = ran(selector.select_in_steps(batch, range(100)))

    assert found == [4999, 5000]
    assert len(costs) > 10 and max(costs) <= STEP_COST
    assert len(of_few) == 1


async def test_all_selectors_together_take_one_turn_of_each_pass_of_the_loop() -> None:
    turn = SharedTurn()
    passes, is_over = 0, False

    def forever(until: int) -> Generator[int, None, int]:
        for _ in range(until):
            before = passes
            while passes == before:  # until others had their turn
                yield 1
        return until

    async def canary() -> None:
        nonlocal passes
        while not is_over:
            passes += 1
            await turn_loop()

    async def work(*each: Any) -> list[int]:
        return list(await asyncio.gather(*(turn.take(forever(3)) for _ in each)))

    watching = asyncio.create_task(canary())
    results = await work(*range(5))
    is_over = True
    await watching

    assert results == [3] * 5
    assert passes >= turn.turns >= 15


async def test_many_long_selectors_that_come_at_once_are_parsed_one_in_each_pass_of_the_loop() -> None:
    node = await Node.in_memory(SETTINGS)
    await node.messages.wait_until_primary()
    client = RawClient(node)
    await client.greet()
    count = 20

    for number in range(count):
        text = f"a = {number}" + " OR b = 1" * 60
        client.say(Attach(number + 1, number + 1, "q", "queue", selector=text))
    client.say(Attach(count + 1, count + 1, "q", "queue", selector="a = (" + "1" * 300))

    assert len(await client.hear(Answered, count)) == count
    (failed,) = await client.hear(Failed)
    assert failed.code == "bad-selector"
    assert node.messages.turn.turns >= count
    client.cut()
    await node.close()


async def test_who_asks_for_too_many_long_selectors_at_once_loses_the_link() -> None:
    node = await Node.in_memory(SETTINGS)
    client = RawClient(node)
    await client.greet()

    for number in range(PARSED_MAX + 1):
        client.say(Attach(number + 1, number + 1, "q", "queue", selector=f"a = {number}" + " OR b = 1" * 60))

    await client.until_lost()
    (goodbye,) = client.of(Goodbye)
    assert "long selectors" in goodbye.sentence
    await node.close()
