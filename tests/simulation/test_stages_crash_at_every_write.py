"""The power goes at every single call that a node makes to its disk while events are staged and published (D3, rule 10): what was
sealed is there, what was published is there once and whole, and publishing it again in the next life does it once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import holdfast
from holdfast.client.assembly.stage import Staged
from holdfast.errors import HoldfastError, NotPublished
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk, Survival, by_seed, everything_survives, nothing_survives
from tests import effort
from tests.simulation.test_node_crash_at_every_write import open_client, waiting_in

# Of the calls that a whole life makes to the disk, every so many are cut.
STEP = effort.rounds(short=4, long=1)
ROUNDS = 3
PAD = "x" * 700


class Story:
    """What the program was told, of each round."""

    def __init__(self) -> None:
        self.sealed: dict[int, list[Staged]] = {}
        self.asked: set[int] = set()
        self.published: set[int] = set()


async def live(disk: SimulatedDisk, story: Story) -> None:
    client = await open_client(disk)
    try:
        for number in range(ROUNDS):
            stages = []
            for task in ("left", "right"):
                stage = client.stage(f"{number}-{task}")
                await stage.send(task, [number, PAD])
                await stage.send("both", [number, task], priority=7)
                stages.append(await stage.seal())
            story.sealed[number] = stages
            story.asked.add(number)
            assert (await client.publish("story", number, stages)).is_new
            story.published.add(number)
        lost = client.stage("lost")
        await lost.send("left", "never")
        await client.drop_stages([(await lost.seal()).name])
    finally:
        await client.close()


async def check(disk: SimulatedDisk, story: Story) -> None:
    """The life after the crash: the newest round that was sealed is published again."""
    client = await open_client(disk)
    try:
        before = await counted(client)
        assert story.published <= before <= story.asked
        for number in sorted(story.sealed)[-1:]:
            try:
                again = await client.publish("story", number, story.sealed[number])
            except NotPublished as problem:
                raise AssertionError(f"{number} was sealed: {problem}") from problem
            assert again.is_new == (number not in before)
            assert again.events == (4 if again.is_new else 0)
            assert await counted(client) == {number} - before, "once, and nothing else"
    finally:
        await client.close()


async def taken(client: holdfast.Client, queue: str) -> list[list[Any]]:
    waiting = await waiting_in(client, queue)
    found = []
    if waiting:
        async with client.queue(queue).receive() as incoming:
            for _ in range(waiting):
                event = await incoming.next(5)
                found.append(event.data)
                await event.confirm()
    return found


async def counted(client: holdfast.Client) -> set[int]:
    """The rounds of which everything is here, once; nothing is here of any other. They are taken."""
    left, right, both = [await taken(client, queue) for queue in ("left", "right", "both")]
    numbers = [number for number, _ in left]
    assert [number for number, _ in right] == numbers
    assert both == [[number, task] for number in numbers for task in ("left", "right")]
    assert len(set(numbers)) == len(numbers)
    return set(numbers)


def run_until_cut(cut_at: int | None) -> tuple[SimulatedDisk, Story]:
    disk, story = SimulatedDisk(cut_at=cut_at), Story()
    try:
        asyncio.run(live(disk, story))
    except (HoldfastError, PowerCut):
        assert cut_at is not None
    return disk, story


@pytest.mark.slow
@pytest.mark.parametrize("survives", [nothing_survives, everything_survives, "by seed"])
def test_whatever_a_crash_leaves_what_was_published_is_there_once_and_what_was_sealed_can_be(
    survives: Survival | str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    whole, complete = run_until_cut(None)
    assert complete.published == set(range(ROUNDS))
    assert whole.calls > 40

    for cut_at in range(0, whole.calls, STEP if survives == "by seed" else 3 * STEP):
        disk, story = run_until_cut(cut_at)
        left = disk.after_crash(by_seed(cut_at) if isinstance(survives, str) else survives)
        try:
            asyncio.run(check(left, story))
        except AssertionError as problem:
            raise AssertionError(f"cut at {cut_at}: {problem}") from problem
