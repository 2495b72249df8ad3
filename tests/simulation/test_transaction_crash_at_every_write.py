"""The power goes at every single call that a node makes to its disk while transactions are committed and large events sent (B11,
B13): each transaction is there whole or not at all, a large event whole or not at all, and what was committed is there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any

import pytest

import holdfast
from holdfast.client.assembly import stream_sender
from holdfast.errors import HoldfastError
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk, Survival, by_seed, everything_survives, nothing_survives
from tests import effort
from tests.simulation.test_node_crash_at_every_write import open_client, waiting_in

LARGE = hashlib.shake_128(b"content").digest(5_000)
# So that a large event of some fragments fits the small journal.
FRAGMENT_BYTES = 2_000
# Of the calls that a whole life makes to the disk, every so many are cut.
STEP = effort.rounds(short=4, long=1)
ROUNDS = 4


class Story:
    """What the program was told."""

    def __init__(self) -> None:
        self.begun: set[int] = set()
        self.committed: set[int] = set()
        self.is_large_sent = False


async def live(disk: SimulatedDisk, story: Story) -> None:
    client = await open_client(disk)
    try:
        await client.queue("in").send_many(range(ROUNDS))
        async with client.queue("in").receive() as incoming:
            for _ in range(ROUNDS):
                event = await incoming.next(5)
                story.begun.add(event.data)
                async with client.transaction() as tx:
                    await tx.queue("left").send(event.data)
                    await tx.queue("right").send(event.data, priority=7)
                    await tx.queue("large").send_stream(LARGE)
                    await tx.confirm(event)
                story.committed.add(event.data)
        await client.queue("alone").send_stream(LARGE)
        story.is_large_sent = True
    finally:
        await client.close()


async def taken(client: holdfast.Client, queue: str) -> list[Any]:
    found: list[Any] = []
    waiting = await waiting_in(client, queue)
    async with client.queue(queue).receive() as incoming:
        for _ in range(waiting):
            event = await incoming.next()
            if event.is_large:
                async with event.open_stream() as opened:
                    found.append(await opened.read())
            else:
                found.append(event.data)
            await event.confirm()
    return found


async def check(disk: SimulatedDisk, story: Story) -> None:
    """The life after the crash."""
    client = await open_client(disk)
    try:
        left = await taken(client, "left")
        assert sorted(await taken(client, "right")) == sorted(left)
        assert await taken(client, "large") == [LARGE] * len(left)
        assert len(set(left)) == len(left)
        assert story.committed <= set(left) <= story.begun
        waiting = await taken(client, "in")
        if story.begun:
            assert sorted([*waiting, *left]) == list(range(ROUNDS))
        alone = await taken(client, "alone")
        assert alone in ([], [LARGE])
        assert alone or not story.is_large_sent
    finally:
        await client.close()


def run_until_cut(cut_at: int | None) -> tuple[SimulatedDisk, Story]:
    disk, story = SimulatedDisk(cut_at=cut_at), Story()
    try:
        asyncio.run(live(disk, story))
    except (HoldfastError, PowerCut):
        assert cut_at is not None
    return disk, story


@pytest.mark.slow
@pytest.mark.parametrize("survives", [nothing_survives, everything_survives, "by seed"])
def test_whatever_a_crash_leaves_a_transaction_happened_whole_or_not_at_all(
    survives: Survival | str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    monkeypatch.setattr(stream_sender, "FRAGMENT_BYTES", FRAGMENT_BYTES)
    whole, complete = run_until_cut(None)
    assert complete.committed == set(range(ROUNDS)) and complete.is_large_sent
    assert whole.calls > 60

    for cut_at in range(0, whole.calls, STEP if survives == "by seed" else 3 * STEP):
        disk, story = run_until_cut(cut_at)
        left = disk.after_crash(by_seed(cut_at) if isinstance(survives, str) else survives)
        try:
            asyncio.run(check(left, story))
        except AssertionError as problem:
            raise AssertionError(f"cut at {cut_at}: {problem}") from problem
