"""Measure l: p99 of the sends of a quiet session while another floods the same server, beside its p99 alone (B22).

The quiet one sends an event every few milliseconds and waits for each receipt. The one that floods is a process of its own; it
sends through a pipeline as fast as it can, and receives and confirms what it sends with a deep credit. Alone and beside it are
measured in turns on one server, so that what else the machine does weighs on both.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import holdfast
from tests.bench.peers.holdfast import Server
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop

P99 = "send p99 of a quiet session"
ALONE = "alone"
BESIDE = "beside one that floods"
RATIO_MAX = 2.0
PAUSE_S = 0.005
SENDS = 400
# The flood is under way before it is measured beside it.
HEAD_START_S = 0.5


def measure(workshop: Workshop) -> None:
    server, count = Server(), workshop.scale.count(SENDS)
    try:
        server.start(workshop.folder("fairness"))
        workshop.tell("a quiet session, alone and beside one that floods")
        asyncio.run(_p99_ms(server.url, count))  # the server is warm
        actions = {ALONE: lambda: asyncio.run(_p99_ms(server.url, count)), BESIDE: lambda: _beside(server.url, count)}
        samples = in_turns(workshop.scale.pairs, actions)
    finally:
        server.stop()
    workshop.results.note("l", P99, "ms", samples)
    workshop.results.find("l", f"{P99}: {BESIDE} / {ALONE}", ratios(samples[BESIDE], samples[ALONE]), Target(at_most=RATIO_MAX))


def _beside(url: str, count: int) -> float:
    with subprocess.Popen([sys.executable, "-m", "tests.bench.fairness", url]) as flood:
        time.sleep(HEAD_START_S)
        try:
            return asyncio.run(_p99_ms(url, count))
        finally:
            flood.terminate()


async def _p99_ms(url: str, count: int) -> float:
    taken = []
    async with holdfast.connect(url) as client:
        for _ in range(count):
            begun = time.perf_counter()
            await client.queue("quiet").send(bytes(EVENT_BYTES))
            taken.append((time.perf_counter() - begun) * 1000)
            await asyncio.sleep(PAUSE_S)
        await _empty(client)
    return sorted(taken)[int(len(taken) * 0.99)]


async def _empty(client: holdfast.Client) -> None:
    """What was sent must not pile up over the repetitions."""
    async with client.queue("quiet").receive() as incoming:
        while (await client.describe("quiet"))["waiting"]:
            await (await incoming.next(timeout=30)).confirm()
            await incoming.settled()


async def _flood(url: str) -> None:
    async with holdfast.connect(url) as client:
        drained = asyncio.ensure_future(_drain(client))
        async with client.queue("flood").pipeline() as pipeline:
            while not drained.done():
                await pipeline.send(bytes(EVENT_BYTES))


async def _drain(client: holdfast.Client) -> None:
    async with client.queue("flood").receive() as incoming:
        async for event in incoming:
            await event.confirm()


if __name__ == "__main__":
    asyncio.run(_flood(sys.argv[1]))
