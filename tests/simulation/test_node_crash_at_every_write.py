"""The power goes at every single call that a whole node makes to its disk: sends, receipts, confirms, a restart (A2, A5, A7).

The production code of node and client runs on the simulated disk. For each cut, nothing, everything, and by seed any mixture of
what was not synced survives; then a second life must deliver what was receipted and not settled, in order, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import HoldfastError
from holdfast.node.identity import Identity
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from holdfast.simulation.checkers.account import Account
from holdfast.simulation.simulated_disk import PowerCut, SimulatedDisk, Survival, by_seed, everything_survives, nothing_survives
from tests import effort
from tests.client_of import client_of

KIB = 1 << 10
JOURNAL = JournalSettings(
    size_bytes=512 * KIB, initial_bytes=128 * KIB, segment_bytes=16 * KIB, reserve_bytes=8 * KIB, upkeep_bytes=32 * KIB
)
SETTINGS = NodeSettings(journal=JOURNAL, start_grace_ms=1, session_grace_ms=1_000, snapshot_bytes=4 * KIB)
FOLDER = Path("/simulated/journal")
PAD = "x" * 1500
# Of a node whose disk fails nothing is waited for; of any other as long as a busy machine may need.
TIMEOUT_S = 0.5
PATIENCE_S = 20.0


async def open_client(disk: SimulatedDisk) -> holdfast.Client:
    """A client of a node on this disk. PowerCut when the disk is gone before it is open."""
    node = await Node.over(await JournalChannel.open(FOLDER, JOURNAL, disk=disk), Identity.in_memory(), SETTINGS)
    return await client_of(node, timeout=PATIENCE_S if disk.cut_at is None else TIMEOUT_S).open()


async def waiting_in(client: holdfast.Client, queue: str) -> int:
    """Return how many events wait in a queue, which may not exist."""
    return sum(row["waiting"] for row in await client.destinations() if row["name"] == queue)


async def live(disk: SimulatedDisk, account: Account) -> None:
    """One life: send one by one and together, confirm some, until it is done or the disk is gone."""
    client = await open_client(disk)
    try:
        queue = client.queue("orders")
        await send(queue, account, 1, 2)
        async with queue.receive(credit=4) as incoming:
            await confirm(incoming, account, 1)
            await send(queue, account, 3, 10)
            await confirm(incoming, account, 5)
    finally:
        await client.close()


async def send(queue: holdfast.client.destination.Queue, account: Account, first: int, last: int) -> None:
    for number in range(first, last + 1):
        account.sent("producer", number)
        await queue.send({"number": number, "pad": PAD})
        account.accepted("producer", number)


async def confirm(incoming: holdfast.Incoming, account: Account, count: int) -> None:
    numbers = []
    for _ in range(count):
        event = await incoming.next()
        numbers.append(event.data["number"])
        account.delivered("audience", "first life", "producer", numbers[-1])
        await event.confirm()
    await incoming.settled()
    for number in numbers:
        account.settled("audience", "producer", number)


async def drain(disk: SimulatedDisk, account: Account) -> None:
    """The life after the crash: take everything there is."""
    client = await open_client(disk)
    try:
        waiting = await waiting_in(client, "orders")
        async with client.queue("orders").receive() as incoming:
            for _ in range(waiting):
                event = await incoming.next()
                account.delivered("audience", "second life", "producer", event.data["number"])
                await event.confirm()
            await incoming.settled()
        assert await waiting_in(client, "orders") == 0
    finally:
        await client.close()


def run_until_cut(cut_at: int | None) -> tuple[SimulatedDisk, Account]:
    disk, account = SimulatedDisk(cut_at=cut_at), Account("audience")
    try:
        asyncio.run(live(disk, account))
    except (HoldfastError, PowerCut):
        assert cut_at is not None
    return disk, account


@pytest.mark.slow
@pytest.mark.parametrize("survives", [nothing_survives, everything_survives, "by seed"])
def test_whatever_a_crash_leaves_a_node_delivers_what_was_receipted_and_not_settled_in_order(
    survives: Survival | str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    whole, complete = run_until_cut(None)
    assert whole.calls > 60, "the life must be long enough to be worth cutting"
    assert complete.verdict().accepted == 10

    for cut_at in range(0, whole.calls, effort.rounds(short=3, long=1)):
        disk, account = run_until_cut(cut_at)
        left = disk.after_crash(by_seed(cut_at) if isinstance(survives, str) else survives)
        asyncio.run(drain(left, account))

        verdict = account.verdict()
        assert verdict.is_kept, f"cut at {cut_at}: {verdict}"
