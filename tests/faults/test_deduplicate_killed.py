"""B10, A5: the server is killed while events are sent, and whoever does not know an outcome sends the same id again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import OutcomeUnknown, Unavailable
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import until

KILLS = effort.rounds(short=3, long=8)
SEED = 20_261_118
SALES_BETWEEN = 10
# Shorter than a start, so that the outcome is not known. It doubles with every failure: a slow machine needs more.
IMPATIENT_S = 0.3


class Till:
    """Sends numbers, each until it has a receipt, with a new client for every attempt that failed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.receipts: dict[int, holdfast.Receipt] = {}
        self.repeated = 0
        self.is_over = asyncio.Event()

    async def sell(self) -> None:
        number, id, timeout = 0, None, IMPATIENT_S
        while not self.is_over.is_set():
            try:
                async with holdfast.connect(self._url, name="till", timeout=timeout) as client:
                    while not self.is_over.is_set():
                        self.receipts[number] = receipt = await client.queue("sales").send(number, id=id)
                        self.repeated += receipt.is_repeated
                        number, id, timeout = number + 1, None, IMPATIENT_S
            except OutcomeUnknown as unknown:
                id, timeout = unknown.id or id, 2 * timeout
            except Unavailable:
                timeout *= 2
                await asyncio.sleep(0.02)  # not to ask a server that is gone as fast as the loop can

    async def reached(self, receipts: int) -> None:
        await until(lambda: len(self.receipts) >= receipts, f"{receipts} sales are receipted")


@pytest.mark.slow
@pytest.mark.faults
async def test_whoever_sends_the_same_id_again_after_a_kill_finds_it_stored_once_under_its_receipt(tmp_path: Path) -> None:
    random.seed(effort.seed(SEED))
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "500") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_queue("sales", deduplicate="1h")
        till = Till(server.url)
        selling = asyncio.create_task(till.sell())
        for _ in range(KILLS):
            await till.reached(len(till.receipts) + SALES_BETWEEN)
            await asyncio.sleep(random.uniform(0.0, 0.4))  # the moment is part of what is tried
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await till.reached(len(till.receipts) + SALES_BETWEEN)
        till.is_over.set()
        await asyncio.wait_for(selling, 120)

        async with holdfast.connect(server.url) as client, client.queue("sales").receive() as incoming:
            waiting = (await client.describe("sales"))["waiting"]
            events = [await incoming.next(timeout=60) for _ in range(waiting)]

    numbers = [event.data for event in events]
    assert numbers == sorted(set(numbers)), "stored once, in order"
    assert set(till.receipts) <= set(numbers)
    stored = {event.data: (event.position, event.id) for event in events}
    told = {number: (receipt.position, receipt.id) for number, receipt in till.receipts.items()}
    assert {number: where for number, where in told.items() if where[0] and where != stored[number]} == {}
