"""Two message managers in one process, killed at random moments under load: each keeps what it has receipted (ADR 22)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast
from holdfast.simulation.checkers.account import Account
from tests import effort
from tests.faults.test_server_killed import Load
from tests.managed_server_process import ManagedServerProcess
from tests.waiting import until

KILLS = effort.rounds(short=3, long=30)
ACCEPTED_BETWEEN = 10
SEED = 20_261_118


class LoadByPattern(Load):
    """The topic is received by a pattern: one receiver in each channel."""

    TOPIC = "pri*"


@pytest.mark.slow
@pytest.mark.faults
async def test_what_either_manager_receipted_is_delivered_in_order_and_what_was_settled_stays_so(tmp_path: Path) -> None:
    random.seed(effort.seed(SEED))
    account = Account("orders", "prices")
    with ManagedServerProcess(tmp_path / "data") as server:
        load = LoadByPattern(server.url, account, (1, 1, 10, 200))
        async with holdfast.connect(server.url) as client:
            await client.create_topic("prices")
            await client.create_queue("orders")
            await client.create_subscription(LoadByPattern.TOPIC, "audit")
            assert [row["destinations"] for row in (await client.status())["managers"]] == [4, 4]
        producers = [asyncio.create_task(load.produce(number)) for number in range(3)]
        recipients = [
            asyncio.create_task(load.receive(*each))
            for each in (("orders", "clerk-1"), ("orders", "clerk-2"), ("prices", "auditor"))
        ]

        for _ in range(KILLS):
            wanted = load.accepted + ACCEPTED_BETWEEN
            await until(lambda: load.accepted >= wanted, "the load goes on after a kill")  # noqa: B023  # used at once
            await asyncio.sleep(random.uniform(0.0, 0.4))  # the moment is part of what is tried
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        load.is_over.set()
        await asyncio.wait_for(asyncio.gather(*producers), 90)
        await until(lambda: any(task.done() for task in recipients) or not account.missing(), "everything has come", 120, 0.1)
        assert not any(task.done() for task in recipients), "a recipient gave up"
        load.is_drained.set()
        await asyncio.wait_for(asyncio.gather(*recipients), 90)

    verdict = account.verdict()
    assert verdict.is_kept, str(verdict)
    assert verdict.accepted >= KILLS * ACCEPTED_BETWEEN
    print(verdict)
