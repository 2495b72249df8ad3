"""A5, A7, B4: SIGKILL of the server at random moments under load. What was receipted is delivered; what was settled stays so."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TimedOut
from holdfast.simulation.checkers.account import Account
from tests.server_process import ServerProcess

KILLS = 50
PRODUCERS = 3
SEED = 20_261_115


class Load:
    """Producers and recipients that go on through every kill, and tell the account what they saw."""

    def __init__(self, url: str, account: Account) -> None:
        self._url = url
        self._account = account
        self.is_over = asyncio.Event()
        self.is_drained = asyncio.Event()

    async def produce(self, number: int) -> None:
        producer = f"producer-{number}"
        async with holdfast.connect(self._url, name=producer) as client:
            audience = "prices" if number % 2 else "orders"
            place = client.topic("prices") if number % 2 else client.queue("orders")
            count = 0
            while not self.is_over.is_set():
                burst = range(count + 1, count + 1 + random.choice((1, 1, 10, 200)))
                for each in burst:
                    self._account.sent(producer, each)
                await place.send_many([{"producer": producer, "number": each} for each in burst], timeout=60)
                for each in burst:
                    self._account.accepted(producer, each, audience)
                count = burst[-1]

    async def receive(self, audience: str, recipient: str) -> None:
        async with holdfast.connect(self._url, name=recipient) as client:
            source = client.subscribe("prices", name="audit") if audience == "prices" else client.queue("orders").receive()
            async with source as incoming:
                unsettled: list[tuple[str, int]] = []
                while not self.is_drained.is_set():
                    try:
                        event = await incoming.next(timeout=0.2)
                    except TimedOut:
                        event = None
                    if event is not None:
                        name = event.data["producer"], event.data["number"]
                        self._account.delivered(audience, recipient, *name)
                        await event.confirm()
                        unsettled.append(name)
                    if len(unsettled) >= 50 or (event is None and unsettled):
                        await incoming.settled(timeout=60)
                        for name in unsettled:
                            self._account.settled(audience, *name)
                        unsettled.clear()


@pytest.mark.slow
@pytest.mark.faults
async def test_killed_fifty_times_under_load_no_receipted_event_is_lost_reordered_or_delivered_after_it_was_settled(
    tmp_path: Path,
) -> None:
    random.seed(SEED)
    account = Account("orders", "prices")
    with ServerProcess(tmp_path / "data", "--journal-size", "512M", "--session-grace-ms", "1000") as server:
        load = Load(server.url, account)
        async with holdfast.connect(server.url) as client:
            await client.create_topic("prices")
            await client.create_subscription("prices", "audit")
        producers = [asyncio.create_task(load.produce(number)) for number in range(PRODUCERS)]
        recipients = [
            asyncio.create_task(load.receive(*each))
            for each in (("orders", "clerk-1"), ("orders", "clerk-2"), ("prices", "auditor"))
        ]

        for _ in range(KILLS):
            await asyncio.sleep(random.uniform(0.02, 0.5))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        load.is_over.set()
        await asyncio.wait_for(asyncio.gather(*producers), 90)
        async with asyncio.timeout(90):
            while account.missing():
                assert not any(task.done() for task in recipients)
                await asyncio.sleep(0.1)
        load.is_drained.set()
        await asyncio.wait_for(asyncio.gather(*recipients), 90)

    verdict = account.verdict()
    assert verdict.is_kept, str(verdict)
    assert verdict.accepted > KILLS * 10
    print(verdict)
