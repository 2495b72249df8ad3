"""The power goes at every single call to the disk while a wildcard with a selector, made by a command, is filled (A5, rule 12).

The production code of node and client runs on the simulated disk. Whatever survives, the second life must give the wildcard's
subscription what was receipted and matches, where it was sent, and nothing that does not match.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast.errors import HoldfastError
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk, Survival, by_seed, everything_survives, nothing_survives
from tests import effort
from tests.simulation.test_node_crash_at_every_write import open_client

Sent = list[tuple[str, int]]
LEVELS = (1, 7, 2, 9)
SELECTOR = "level > 5"


async def live(disk: SimulatedDisk, receipted: Sent) -> None:
    """One life: subscribe, then send to two topics that come into being with their first event."""
    client = await open_client(disk)
    try:
        await client.create_subscription("alerts.*", "pager", selector=SELECTOR)
        temporary = await client.temporary_queue()
        for level in LEVELS:
            topic = f"alerts.{level % 2}"
            await client.topic(topic).send(level, properties={"level": level})
            receipted.append((topic, level))
        await temporary.send("for nobody")
    finally:
        await client.close()


async def drain(disk: SimulatedDisk) -> Sent:
    """The life after the crash: what the subscription has, made again if it was not durable yet."""
    found: Sent = []
    client = await open_client(disk)
    try:
        async with client.subscribe("alerts.*", "pager", selector=SELECTOR) as incoming:
            (subscription,) = await client.subscriptions("alerts.*")
            for _ in range(subscription["waiting"]):
                event = await incoming.next()
                found.append((event.destination, event.data))
                await event.confirm()
        return found
    finally:
        await client.close()


def run_until_cut(cut_at: int | None) -> tuple[SimulatedDisk, Sent]:
    disk = SimulatedDisk(cut_at=cut_at)
    receipted: Sent = []
    try:
        asyncio.run(live(disk, receipted))
    except (HoldfastError, PowerCut):
        assert cut_at is not None
    return disk, receipted


@pytest.mark.slow
@pytest.mark.parametrize("survives", [nothing_survives, everything_survives, "by seed"])
def test_whatever_a_crash_leaves_a_wildcard_gets_what_was_receipted_and_matches(
    survives: Survival | str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    whole, complete = run_until_cut(None)
    assert len(complete) == len(LEVELS)

    for cut_at in range(0, whole.calls, effort.rounds(short=3, long=1)):
        disk, receipted = run_until_cut(cut_at)
        left = disk.after_crash(by_seed(cut_at) if isinstance(survives, str) else survives)

        found = asyncio.run(drain(left))

        wanted = [(topic, level) for topic, level in receipted if level > 5]
        assert found[: len(wanted)] == wanted, f"cut at {cut_at}: {found} where {wanted} was receipted"
        assert all(level > 5 for _, level in found)
