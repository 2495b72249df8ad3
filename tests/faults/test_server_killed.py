"""A5, A7, B4: SIGKILL of the server at random moments under load. What was receipted is delivered; what was settled stays so."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TimedOut
from holdfast.simulation.checkers.account import Account
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import until

KILLS = effort.rounds(short=6, long=50)
PRODUCERS = 3
ACCEPTED_BETWEEN = 10
SEED = 20_261_115
# A program that stalls does so after so many events, until its client has given back the ones before it.
STALL_EVERY = 300


class Load:
    """Producers and recipients that go on through every kill, and tell the account what they saw."""

    TOPIC = "prices"

    def __init__(self, url: str, account: Account, bursts: tuple[int, ...]) -> None:
        self._url = url
        self._bursts = bursts
        self._account = account
        self.accepted = 0
        self.gave_back = 0
        self.is_over = asyncio.Event()
        self.is_drained = asyncio.Event()

    async def produce(self, number: int) -> None:
        producer = f"producer-{number}"
        async with holdfast.connect(self._url, name=producer, timeout=30) as client:
            audience = "prices" if number % 2 else "orders"
            place = client.topic("prices") if number % 2 else client.queue("orders")
            count = 0
            while not self.is_over.is_set():
                burst = range(count + 1, count + 1 + random.choice(self._bursts))
                for each in burst:
                    self._account.sent(producer, each)
                await place.send_many([{"producer": producer, "number": each} for each in burst], timeout=60)
                for each in burst:
                    self._account.accepted(producer, each, audience)
                self.accepted += len(burst)
                count = burst[-1]

    async def receive(self, audience: str, recipient: str, is_stalling: bool = False) -> None:
        async with holdfast.connect(self._url, name=recipient, timeout=30) as client:
            source = client.subscribe(self.TOPIC, name="audit") if audience == "prices" else client.queue("orders").receive()
            async with source as incoming:
                unsettled: list[tuple[str, int]] = []
                taken = 0
                while not self.is_drained.is_set():
                    try:
                        event = await incoming.next(timeout=0.2)
                    except TimedOut:
                        event = None
                    if event is not None:
                        name = event.data["producer"], event.data["number"]
                        self._account.delivered(audience, recipient, *name, is_redelivered=event.redelivered)
                        await event.confirm()
                        unsettled.append(name)
                        taken += 1
                        if is_stalling and taken % STALL_EVERY == 0:
                            await self._stall(incoming)
                    if len(unsettled) >= 50 or (event is None and unsettled):
                        await incoming.settled(timeout=60)
                        for name in unsettled:
                            self._account.settled(audience, *name)
                        unsettled.clear()

    async def _stall(self, incoming: holdfast.Incoming) -> None:
        receiver = incoming._receiver
        if receiver.buffer.ahead() > 1:
            await until(lambda: receiver.prefetch.kept is not None or self.is_over.is_set(), "its events are given back")
            self.gave_back += receiver.prefetch.kept is not None


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("is_stalling", [False, True], ids=["steady", "stalling"])
async def test_killed_again_and_again_under_load_no_receipted_event_is_lost_reordered_or_delivered_after_it_was_settled(
    tmp_path: Path, is_stalling: bool
) -> None:
    random.seed(effort.seed(SEED))
    account = Account("orders", "prices")
    with ServerProcess(tmp_path / "data", "--journal-size", "512M", "--session-grace-ms", "1000") as server:
        load = Load(server.url, account, (1, 1, 10) if is_stalling else (1, 1, 10, 200))
        async with holdfast.connect(server.url) as client:
            await client.create_topic("prices")
            await client.create_subscription("prices", "audit")
        producers = [asyncio.create_task(load.produce(number)) for number in range(PRODUCERS)]
        recipients = [
            asyncio.create_task(load.receive(*each))
            for each in (("orders", "clerk-1", is_stalling), ("orders", "clerk-2"), ("prices", "auditor"))
        ]

        for _ in range(KILLS):
            wanted = load.accepted + ACCEPTED_BETWEEN
            given_back = load.gave_back + is_stalling
            await until(lambda: load.accepted >= wanted, "the load goes on after a kill")  # noqa: B023  # used at once
            await until(lambda: load.gave_back >= given_back, "events are given back")  # noqa: B023
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
    print(verdict, f"{load.gave_back} times given back")
