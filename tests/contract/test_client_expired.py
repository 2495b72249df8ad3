"""An event that expires before the program is handed it is not handed to it, over every place a client can find its events at."""

from __future__ import annotations

import time

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.checks import ConfirmMode
from holdfast.errors import TimedOut
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

MODES: list[ConfirmMode] = ["event", "auto", "client", "duplicates-ok"]
TTL_MS = 400


def work() -> None:
    """The program works until they have expired, and gives the loop no time."""
    time.sleep(TTL_MS / 1000 + 0.05)


async def dead_of(client: holdfast.Client, queue: str, count: int) -> list[object]:
    """The data of so many dead events of a queue, once they are there."""
    found: list[object] = []
    async with client.queue("_DMQ").receive() as dead:
        while len(found) < count:
            event = await dead.next(timeout=10)
            if event.destination == queue:
                assert event.dead[0].code == "expired"
                assert event.deliveries == 0
                found.append(event.data)
            await event.confirm()
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_what_expires_in_the_prefetch_goes_to_the_dead_uncounted(url: str, name: str, mode: ConfirmMode) -> None:
    """Events 1 and 3 expire while the program works on the first, in the middle of the slice that it was handed."""
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        lives = [None, TTL_MS, None, TTL_MS, None]
        await queue.send_many([holdfast.Event(data=number, ttl_ms=ttl_ms) for number, ttl_ms in enumerate(lives)])
        seen = []
        async with queue.receive(confirm=mode) as incoming:
            seen.append((await incoming.next(timeout=10)).data)
            work()
            async for event in incoming:
                seen.append(event.data)
                await event.confirm()
                if event.data == 4:
                    break

        assert seen == [0, 2, 4]
        assert await dead_of(client, name, 2) == [1, 3]


async def test_a_whole_slice_that_expired_is_passed_over(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("first")
        await incoming.next(timeout=10)
        await client.queue(name).send_many([holdfast.Event(data=number, ttl_ms=TTL_MS) for number in range(3)])
        await client.queue(name).send("last")
        await incoming.settled()
        work()

        assert (await incoming.next(timeout=10)).data == "last"
        assert await dead_of(client, name, 3) == [0, 1, 2]


def test_what_expires_in_the_prefetch_is_not_handed_to_a_blocking_program(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        queue = client.queue(name)
        lives = [None, TTL_MS, None, TTL_MS]
        queue.send_many([holdfast.Event(data=number, ttl_ms=ttl_ms) for number, ttl_ms in enumerate(lives)])
        with queue.receive() as incoming:
            first = incoming.next(timeout=10)
            work()
            second = incoming.next(timeout=10)
            with pytest.raises(TimedOut):
                incoming.next(timeout=0.05)
            first.confirm()
            second.confirm()

        assert (first.data, second.data) == (0, 2)
        with client.queue("_DMQ").receive() as dead:
            found: list[object] = []
            while len(found) < 2:
                event = dead.next(timeout=10)
                if event.destination == name:
                    found.append(event.data)
                event.confirm()
        assert found == [1, 3]
