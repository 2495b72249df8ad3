"""SIGKILL of the server while priorities, groups, delays, times to live and selectors are in use: nothing is lost, no group is
out of order, and what expired is with the dead."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TimedOut
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import until

KILLS = effort.rounds(short=2, long=4)
EVENTS = 400


async def is_settled(client: holdfast.Client) -> bool:
    """Everything was confirmed, but for the one that expired."""
    return [(await client.describe(queue))["waiting"] for queue in ("orders", "_DMQ")] == [0, 1]


@pytest.mark.slow
@pytest.mark.faults
async def test_groups_stay_in_order_and_everything_arrives_or_expires_through_kills(tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "data")
    with process:
        async with holdfast.connect(process.url, timeout=60) as client:
            queue = client.queue("orders")
            first_seen: dict[int, None] = {}
            done = asyncio.Event()

            async def receive(selector: str | None) -> None:
                async with queue.receive(selector=selector, credit=30) as incoming:
                    while not done.is_set():
                        try:
                            event = await incoming.next(timeout=0.2)
                        except TimedOut:
                            continue
                        first_seen.setdefault(event.data)
                        await event.confirm()

            receivers = [asyncio.create_task(receive(selector)) for selector in (None, None, "number < 100")]
            for begin in range(0, EVENTS, EVENTS // KILLS):
                await queue.send_many(
                    [
                        holdfast.Event(
                            data=number,
                            group=f"g{number % 5}" if number >= 100 else None,
                            priority=4 if number >= 100 else number % 10,
                            delay_ms=20 if number % 50 == 1 and number < 100 else 0,
                            properties={"number": number},
                        )
                        for number in range(begin, begin + EVENTS // KILLS)
                    ],
                    timeout=60,
                )
                process.kill()
                process.start()
            await queue.send("gone", ttl_ms=1, timeout=60)
            await until(lambda: is_settled(client), "everything is confirmed or expired", 120)
            done.set()
            await asyncio.gather(*receivers)

    assert sorted(first_seen) == list(range(EVENTS))
    groups: dict[int, list[int]] = defaultdict(list)
    for number in first_seen:
        if number >= 100:
            groups[number % 5].append(number)
    assert all(numbers == sorted(numbers) for numbers in groups.values())
