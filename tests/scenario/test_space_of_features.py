"""Rules 8 and 10, B13: what transactions and large events take of the journal comes back, whether they are committed or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.journal.settings import JournalSettings
from holdfast.node.settings import NodeSettings
from holdfast.simulation.checkers.free_space import still_needed
from tests.running_server import KIB, running

JOURNAL = JournalSettings(
    size_bytes=6144 * KIB, initial_bytes=2048 * KIB, segment_bytes=512 * KIB, reserve_bytes=512 * KIB, upkeep_bytes=1024 * KIB
)
SETTINGS = NodeSettings(journal=JOURNAL, session_grace_ms=300, start_grace_ms=300, snapshot_bytes=256 * KIB)
CONTENT = b"x" * 300_000
# Four large events a round: together some six times what the journal has room for.
ROUNDS = 6 * JOURNAL.size_bytes // (4 * len(CONTENT))


async def move_large(client: holdfast.Client) -> None:
    """A large event comes, is moved by a transaction together with a small one, and both are confirmed."""
    await client.unblocked(10)
    await client.queue("in").send_stream(CONTENT)
    await client.unblocked(10)
    async with client.queue("in").receive() as incoming:
        event = await incoming.next(10)
        async with client.transaction() as tx:
            await tx.queue("out").send_stream(CONTENT, priority=7)
            await tx.queue("out").send("small", group="g")
            await tx.confirm(event)
    async with client.queue("out").receive() as incoming:
        for _ in range(2):
            await (await incoming.next(10)).confirm()
        await incoming.settled()


async def give_up_large(client: holdfast.Client) -> None:
    def broken() -> Iterator[bytes]:
        yield CONTENT
        raise OSError("the source is gone")

    await client.unblocked(10)
    with pytest.raises(OSError, match="the source is gone"):
        await client.queue("in").send_stream(broken())
    await client.unblocked(10)
    tx = client.transaction()
    await tx.queue("out").send_stream(CONTENT)
    await tx.rollback()


async def test_six_times_the_journals_size_goes_through_it_in_transactions_and_large_events(tmp_path: Path) -> None:
    async with running(tmp_path / "data", SETTINGS) as server, holdfast.connect(server.url) as client:
        for _ in range(ROUNDS):
            await move_large(client)
            await give_up_large(client)

        directory = server.node.messages.directory
        assert directory.bodies.oldest_pinned() is None
        assert not still_needed(directory)
        used = sum(file.stat().st_size for file in (tmp_path / "data" / "journal").iterdir())
        assert used <= JOURNAL.size_bytes + 64 * 1024


async def test_a_transaction_left_open_keeps_its_space_until_its_session_ends(tmp_path: Path) -> None:
    async with running(tmp_path / "data", SETTINGS) as server, holdfast.connect(server.url) as client:
        directory = server.node.messages.directory
        async with client.session() as session:
            await session.transaction().queue("out").send_stream(CONTENT)
            await client.queue("other").send("later")  # after it in the channel, so that its parts are applied
            async with client.queue("other").receive() as incoming:
                await (await incoming.next(10)).confirm()
                await incoming.settled()
            assert directory.oldest_needed() < directory.applied

        await client.describe("other")
        assert not still_needed(directory)
