"""The history of a domain: it is given up to the snapshots of its servers, and does not grow past its quota."""

from __future__ import annotations

import asyncio
from pathlib import Path

import holdfast
from holdfast.continuity.domain import HISTORY, HistoryLimit
from tests.bank_branch import branch
from tests.bank_process import BankProcess
from tests.waiting import until


async def test_the_history_is_given_up_to_the_oldest_snapshot_once_every_server_has_one(tmp_path: Path) -> None:
    async with branch(tmp_path) as domain:
        for name in "ab":
            bank = domain.banks[name] = domain._stack.enter_context(BankProcess(tmp_path, name))
            await domain.listen(name, snapshot=bank.snapshot, snapshot_every="20" if name == "a" else "")
        await domain.deposit(50)
        await until(lambda: domain.snapshot("a", seen_by="a"), "a has a snapshot")
        client = domain.engine.client
        assert await _given_up(client) == 0
        domain.listeners["b"]._snapshots.want(0.0)

        await until(lambda: _given_up(client), "history is given up", poll_s=0.1)
        assert await _given_up(client) <= min(domain.snapshot(name, seen_by="a") for name in "ab")
        await domain.say("rebuild", "b")
        await until(lambda: domain.banks["b"].resets, "b was reset")
        await domain.until_current("b")
        await domain.until_equal()


async def test_a_history_at_its_quota_forces_snapshots_and_is_given_up_to_them(tmp_path: Path) -> None:
    async with branch(tmp_path, history_max=HistoryLimit(events=80)) as domain:
        bank = domain.banks["a"] = domain._stack.enter_context(BankProcess(tmp_path, "a"))
        await domain.listen("a", snapshot=bank.snapshot)
        await domain.add("b")  # takes none, and does not hold the history
        client = domain.engine.client
        async with asyncio.timeout(60):
            while await _given_up(client) <= 100:
                await domain.deposit(10)

        assert domain.snapshot("a", seen_by="b") >= await _given_up(client)
        await domain.say("rebuild", "a")
        await until(lambda: bank.resets, "a was reset")
        await domain.until_current("a")
        await domain.until_equal()


async def _given_up(client: holdfast.Client) -> int:
    (history,) = [each for each in await client.subscriptions("domain.bank.requests") if each["name"] == HISTORY]
    return history["confirmed"]
