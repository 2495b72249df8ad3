"""Measure t: the channel on three NATS servers, beside bare nats-py on the same servers, all synced before it is acknowledged.

Commands of 64 KiB stand for batches of 256 events of 256 bytes, which is what a message manager's channel is filled with. Bare
nats-py publishes the same bytes with as many acknowledgements outstanding; single events one by one; and events in atomic batches
of 1,000, which is its own fastest way.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable

import nats
from nats.aio.client import Client as Nats
from nats.js.api import StorageType, StreamConfig
from nats.js.client import JetStreamContext

from holdfast.channel.jetstream.jetstream_channel import JetStreamChannel
from holdfast.channel.jetstream.settings import JetStreamSettings
from holdfast.errors import Unavailable
from tests.bench.peer import WAIT_SECONDS
from tests.bench.peers.looped import Loop
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop
from tests.nats_server import NatsCluster

BATCH_BYTES = 64 << 10
BATCH_EVENTS = BATCH_BYTES // EVENT_BYTES
ATOMIC_EVENTS = 1_000
STREAM, SUBJECT = "BARE", "bare"
# As many commands of 64 KiB as the channel's own window of bytes lets out.
OUTSTANDING = 64
OURS = "channel"
BARE, SINGLE, ATOMIC = "nats-py, 64 KiB", "nats-py, one by one", "nats-py, atomic batches of 1,000"
SMALL, BARE_SMALL = "channel, 256 bytes", "nats-py, 256 bytes, as many outstanding"
BATCHED, LEADER = "channel, fetch", "nats-py, get_msg one by one"


class Bare:
    """nats-py without anything of ours."""

    def __init__(self, connection: Nats, stream: JetStreamContext) -> None:
        self._nats = connection
        self._stream = stream

    @classmethod
    async def open(cls, cluster: NatsCluster) -> Bare:
        connection = await nats.connect(list(cluster.urls))
        stream = connection.jetstream(timeout=WAIT_SECONDS)
        config = StreamConfig(name=STREAM, subjects=[SUBJECT], storage=StorageType.FILE, num_replicas=3)
        await stream.add_stream(config, max_bytes=4 << 30, allow_atomic=True, allow_direct=True)
        return cls(connection, stream)

    async def publish(self, body: bytes, count: int, outstanding: int) -> None:
        left = iter(range(count))

        async def one_after_the_other() -> None:
            for _ in left:
                await self._stream.publish(SUBJECT, body)

        await asyncio.gather(*(one_after_the_other() for _ in range(outstanding)))

    async def publish_atomically(self, body: bytes, batches: int) -> None:
        for _ in range(batches):
            batch = uuid.uuid4().hex
            for number in range(1, ATOMIC_EVENTS):
                await self._nats.publish(SUBJECT, body, headers={"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)})
            last = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(ATOMIC_EVENTS), "Nats-Batch-Commit": "1"}
            answer = await self._nats.request(SUBJECT, body, timeout=WAIT_SECONDS, headers=last)
            if not json.loads(answer.data).get("count"):
                raise RuntimeError(f"an atomic batch was not stored: {answer.data!r}")

    async def get_one_by_one(self, count: int) -> None:
        first = (await self._stream.stream_info(STREAM)).state.first_seq
        for number in range(first, first + count):
            await self._stream.get_msg(STREAM, seq=number, direct=True)

    async def clear(self) -> None:
        await self._stream.purge_stream(STREAM)

    async def close(self) -> None:
        await self._nats.close()


class Ours:
    def __init__(self, channel: JetStreamChannel) -> None:
        self._channel = channel

    @classmethod
    async def open(cls, cluster: NatsCluster) -> Ours:
        settings = JetStreamSettings(servers=cluster.urls, monitors=cluster.monitors)
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    return cls(await JetStreamChannel.open("bench", settings))
                except Unavailable:  # a server that was just started is not trusted with copies at once
                    await asyncio.sleep(0.1)

    async def append(self, command: bytes, count: int) -> None:
        appended = [self._channel.append(command) for _ in range(count)]
        await asyncio.gather(*appended)

    async def fetch(self, count: int) -> None:
        first = self._channel.first
        await self._channel.fetch(range(first, first + count))

    async def clear(self) -> None:
        await self._channel.release(self._channel.durable + 1)

    async def close(self) -> None:
        await self._channel.close()


def measure(workshop: Workshop) -> None:
    loop = Loop()
    with NatsCluster(workshop.folder("cluster")) as cluster:
        ours, bare = loop.run(Ours.open(cluster)), loop.run(Bare.open(cluster))
        try:
            _measure_sending(workshop, loop, ours, bare)
            _measure_fetching(workshop, loop, ours, bare)
        finally:
            loop.run(ours.close())
            loop.run(bare.close())
            loop.close()


def _measure_sending(workshop: Workshop, loop: Loop, ours: Ours, bare: Bare) -> None:
    scale, batch, event = workshop.scale, os.urandom(BATCH_BYTES), os.urandom(EVENT_BYTES)
    batches, singles, smalls, atomics = scale.count(600), scale.count(200), scale.count(4_000), max(2, scale.count(50) // 10)

    def rate(events: int, send: Callable[[], Awaitable[None]], clear: Callable[[], Awaitable[None]]) -> float:
        async def timed() -> float:
            begun = asyncio.get_running_loop().time()
            await send()
            taken = asyncio.get_running_loop().time() - begun
            await clear()
            return events / taken

        return loop.run(timed())

    workshop.tell("channel on three servers: sending")
    samples = in_turns(
        scale.repetitions,
        {
            OURS: lambda: rate(batches * BATCH_EVENTS, lambda: ours.append(batch, batches), ours.clear),
            BARE: lambda: rate(batches * BATCH_EVENTS, lambda: bare.publish(batch, batches, OUTSTANDING), bare.clear),
            SINGLE: lambda: rate(singles, lambda: bare.publish(event, singles, 1), bare.clear),
            ATOMIC: lambda: rate(atomics * ATOMIC_EVENTS, lambda: bare.publish_atomically(event, atomics), bare.clear),
            SMALL: lambda: rate(smalls, lambda: ours.append(event, smalls), ours.clear),
            BARE_SMALL: lambda: rate(smalls, lambda: bare.publish(event, smalls, 256), bare.clear),
        },
    )
    workshop.results.note("t", "send at R3", "events/s of 256 B", samples)
    for who, target in ((BARE, 0.6), (SINGLE, 100), (ATOMIC, 5)):
        workshop.results.find(
            "t", f"channel, 64 KiB / {who}, events a second", ratios(samples[OURS], samples[who]), Target(at_least=target)
        )
    workshop.results.find("t", f"{SMALL} / {BARE_SMALL}", ratios(samples[SMALL], samples[BARE_SMALL]), Target(at_least=0.6))


def _measure_fetching(workshop: Workshop, loop: Loop, ours: Ours, bare: Bare) -> None:
    """None of the entries is in memory: nobody has read them."""
    count, event = workshop.scale.count(2_000), os.urandom(EVENT_BYTES)

    async def fill() -> None:
        await ours.append(event, count)
        await bare.publish(event, count, 256)

    async def microseconds(work: Awaitable[None]) -> float:
        begun = asyncio.get_running_loop().time()
        await work
        return (asyncio.get_running_loop().time() - begun) * 1e6 / count

    workshop.tell("channel on three servers: fetching")
    loop.run(fill())
    samples = in_turns(
        workshop.scale.repetitions,
        {
            BATCHED: lambda: loop.run(microseconds(ours.fetch(count))),
            LEADER: lambda: loop.run(microseconds(bare.get_one_by_one(count))),
        },
    )
    workshop.results.note("t", "fetch at R3", "µs an entry", samples)
    workshop.results.find(
        "t", f"{LEADER} / {BATCHED}, µs an entry", ratios(samples[LEADER], samples[BATCHED]), Target(at_least=5)
    )
