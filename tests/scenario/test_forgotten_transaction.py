"""A transaction that its program has forgotten keeps space from others only for so long (rules 8 and 10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TransactionAborted
from holdfast.node.messages import assembly_timeout
from tests.running_server import SETTINGS, running
from tests.waiting import until

IDLE_MS = 300


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly_timeout, "CHECK_MS", 50)


async def test_a_transaction_in_which_nothing_comes_is_abandoned_and_its_space_is_free(tmp_path: Path) -> None:
    settings = replace(SETTINGS, assembly_idle_ms=IDLE_MS)
    async with running(tmp_path / "data", settings) as server, holdfast.connect(server.url, timeout=10) as client:
        transaction = client.transaction()
        await transaction.queue("orders").send_many([bytes(900)] * 300)  # enough that parts are sent ahead of the commit
        directory = server.node.messages.directory
        await until(lambda: bool(list(directory.assemblies)), "parts have arrived")

        await until(lambda: not list(directory.assemblies), "it is abandoned")

        assert directory.oldest_needed() == directory.applied + 1
        with pytest.raises(TransactionAborted):
            await transaction.commit()


async def test_while_space_is_short_a_forgotten_transaction_stops_nobody_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly_timeout, "SHORT_MS", IDLE_MS)
    async with (
        running(tmp_path / "data") as server,
        holdfast.connect(server.url, timeout=20) as client,
        holdfast.connect(server.url) as forgetful,
    ):
        transaction = forgetful.transaction()
        await transaction.queue("orders").send_many([bytes(900)] * 300)

        async with client.queue("traffic").receive(credit=100) as incoming:
            for _ in range(100):  # three times the journal
                await _accepted(client)
                for _ in range(50):
                    await (await incoming.next(10)).confirm()
                await incoming.settled()

        assert not list(server.node.messages.directory.assemblies)
        await transaction.rollback()


async def _accepted(client: holdfast.Client) -> None:
    """Sends that find no room are said again, as a program would."""
    async with asyncio.timeout(20):
        while True:
            try:
                await client.queue("traffic").send_many([bytes(2_000)] * 50)
                return
            except holdfast.errors.Blocked:
                await asyncio.sleep(0.1)
