"""Measure q: events through one relay between two servers of one machine.

    rate       what waits in a queue upstream is moved to the other server: by a relay (`receipt`), and by a program that receives
               and sends by itself, pipelined, and confirms what is durable there
    latency    from the moment an event was due until its recipient has it: with the relay between, and at one server

Beside it a NATS stream that mirrors another one, and a shovel of RabbitMQ between two queues, each within one server. The time of
the shovel begins with the first event that it has moved.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

import nats
from nats.js.api import StorageType, StreamConfig, StreamSource

import holdfast
from holdfast.errors import HoldfastError
from holdfast.relay import Relay, RelayDefinition, Route, Upstream
from holdfast.relay.report import ask_status
from tests.bench.child import Child
from tests.bench.end_to_end import Run
from tests.bench.peer import WAIT_SECONDS
from tests.bench.peers.holdfast import QUEUE, HoldfastClient, Server
from tests.bench.peers.jetstream import SUBJECT, JetStream
from tests.bench.peers.rabbitmq import Shovelling
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop

RATE = "events moved between two servers"
P50 = "end to end p50"
COUNT = 100_000
# Ten thousand events take some 60 ms, most of which is the start: with fewer than these, what differs is the machine. The same
# holds for a round: the median of five in turns is steady where one of two is not.
COUNT_MIN = 50_000
ROUNDS_MIN = 5
MIRROR_COUNT = 2_000
# Set up by a program of its own, the shovel has moved a few thousand before it can be looked at.
SHOVEL_COUNT = 50_000
LATENCY_RATE = 200.0
UNDER_WAY_MAX = 8
WARM_UP_SHARE = 0.1
# Of what a program does that receives and sends by itself; and of the latency of one server.
RATE_RATIO_MIN = 0.6
LATENCY_RATIO_MAX = 2.5
RELAY, BY_HAND, MIRROR, ONE = "relay", "receive and send by hand", "NATS JetStream, mirror", "one server"


class Upward(Server):
    name = "Holdfast, upstream"


class TwoEnds:
    """A client that sends to one server and receives from another."""

    def __init__(self, upstream: str, local: str) -> None:
        self._sending, self._receiving = HoldfastClient(upstream), HoldfastClient(local)

    def send_one_by_one(self, bodies: Iterable[bytes]) -> None:
        self._sending.send_one_by_one(bodies)

    def send_pipelined(self, body: bytes, count: int) -> None:
        self._sending.send_pipelined(body, count)

    def receive_and_confirm(self, count: int, seen: Callable[[bytes], object]) -> None:
        self._receiving.receive_and_confirm(count, seen)

    def close(self) -> None:
        self._sending.close()
        self._receiving.close()


def measure(workshop: Workshop) -> None:
    upstream, local = Upward(), Server()
    workshop.start([upstream, local])
    _measure_rate(workshop, upstream.url, local.url)
    _measure_latency(workshop, upstream.url, local.url)
    workshop.stop_all()


# --- rate ----------------------------------------------------------------------------------------------------------------


def _measure_rate(workshop: Workshop, upstream: str, local: str) -> None:
    count = max(COUNT_MIN, workshop.scale.count(COUNT))

    def rate(work: Callable[[str, str, int], object]) -> float:
        workshop.tell(f"{RATE}: {work.__name__}")
        return count / asyncio.run(_moved(work, upstream, local, count))

    own: dict[str, Callable[[], float]] = {RELAY: partial(rate, _by_relay), BY_HAND: partial(rate, _by_hand)}
    beside: dict[str, Callable[[], float]] = {}
    workshop.start([JetStream(), Shovelling()])
    for name, move, beside_count in (
        (JetStream.name, _mirrored, workshop.scale.count(MIRROR_COUNT)),
        (Shovelling.name, _shovelled, SHOVEL_COUNT),
    ):
        if name in workshop.peers:
            beside[MIRROR if name == JetStream.name else name] = partial(move, workshop, beside_count)
    samples = in_turns(max(ROUNDS_MIN, workshop.scale.repetitions), own)
    samples |= in_turns(workshop.scale.repetitions, beside)
    workshop.results.note("q", RATE, "events/s", samples)
    found = ratios(samples[RELAY], samples[BY_HAND])
    workshop.results.find("q", f"{RATE}: {RELAY} / {BY_HAND}", found, Target(at_least=RATE_RATIO_MIN))
    for other in beside:
        workshop.results.find("q", f"{RATE}: {RELAY} / {other}", ratios(samples[RELAY][: len(samples[other])], samples[other]))


async def _moved(work: Callable[[str, str, int], object], upstream: str, local: str, count: int) -> float:
    """Fill the queue, move all of it, and empty it again: the seconds that moving took."""
    async with holdfast.connect(upstream) as at_upstream, holdfast.connect(local) as at_local:
        await at_upstream.queue(QUEUE).send_many([bytes(EVENT_BYTES)] * count)
        begun = time.perf_counter()
        await work(upstream, local, count)  # type: ignore[misc]
        taken = time.perf_counter() - begun
        received = 0
        async with at_local.queue(QUEUE).receive() as incoming:
            async for batch in incoming.batches():
                await batch.confirm()
                received += len(batch)
                if received == count:
                    break
    return taken


async def _by_relay(upstream: str, local: str, count: int) -> None:
    """From the start of the relay until upstream has applied the last confirm."""
    route = Route(upstream="up", queue=QUEUE, to=QUEUE)
    async with Relay(RelayDefinition("bench", local, {"up": Upstream(upstream)}, {"events": route})) as relay:
        while relay.status()["routes"][0].get("confirmed", 0) < count:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.001)


async def _by_hand(upstream: str, local: str, count: int) -> None:
    """Receive batches, send their data, and confirm them when it is durable, with several under way."""
    async with holdfast.connect(upstream) as at_upstream, holdfast.connect(local) as at_local:
        under_way: set[asyncio.Task[None]] = set()
        received = 0
        async with at_upstream.queue(QUEUE).receive() as incoming:

            async def passed(batch: holdfast.ReceivedBatch) -> None:
                await at_local.queue(QUEUE).send_many(batch.data)
                await batch.confirm()

            async for batch in incoming.batches():
                under_way.add(asyncio.create_task(passed(batch)))
                if len(under_way) >= UNDER_WAY_MAX:
                    _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                received += len(batch)
                if received == count:
                    break
            await asyncio.gather(*under_way)
            await incoming.settled()


def _shovelled(workshop: Workshop, count: int) -> float:
    workshop.tell(f"{RATE}: {Shovelling.name}")
    shovelling = workshop.peers[Shovelling.name]
    assert isinstance(shovelling, Shovelling)
    return shovelling.moved(bytes(EVENT_BYTES), count)


def _mirrored(workshop: Workshop, count: int) -> float:
    workshop.tell(f"{RATE}: {MIRROR}")
    return count / asyncio.run(_mirror(workshop.peers[JetStream.name].port, count))  # type: ignore[attr-defined]


async def _mirror(port: int, count: int) -> float:
    """Fill a stream, and let another one mirror it: the seconds until it has all."""
    connection = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = connection.jetstream(timeout=WAIT_SECONDS)
    for name in ("COPY", "ORIGINAL"):
        try:
            await stream.delete_stream(name)
        except nats.js.errors.NotFoundError:
            pass
    await stream.add_stream(StreamConfig(name="ORIGINAL", subjects=[f"{SUBJECT}.relay"], storage=StorageType.FILE))
    for start in range(0, count, 1_000):
        await asyncio.gather(*(stream.publish(f"{SUBJECT}.relay", bytes(EVENT_BYTES)) for _ in range(min(1_000, count - start))))
    begun = time.perf_counter()
    await stream.add_stream(StreamConfig(name="COPY", mirror=StreamSource(name="ORIGINAL"), storage=StorageType.FILE))
    while (await stream.stream_info("COPY")).state.messages < count:  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(0.001)
    taken = time.perf_counter() - begun
    await connection.close()
    return taken


# --- latency -------------------------------------------------------------------------------------------------------------


def _measure_latency(workshop: Workshop, upstream: str, local: str) -> None:
    folder = workshop.folder("relay")
    file = folder / "relay.toml"
    file.write_text(_definition(upstream, local))
    relay = Child([sys.executable, "-m", "holdfast", "relay", "--config", str(file)], folder)
    try:
        relay.wait_until(partial(_is_drawing, local))
        connects: dict[str, Callable[[], object]] = {
            RELAY: partial(TwoEnds, upstream, local),
            ONE: partial(HoldfastClient, local),
        }

        def p50(who: str) -> float:
            workshop.tell(f"{P50}: {who}")
            taken = Run(connects[who], LATENCY_RATE, workshop.scale.latency_events).latencies_ms()  # type: ignore[arg-type]
            return statistics.median(taken[int(len(taken) * WARM_UP_SHARE) :])

        samples = in_turns(max(ROUNDS_MIN, workshop.scale.pairs), {who: partial(p50, who) for who in connects})
    finally:
        relay.stop()
    workshop.results.note("q", P50, "ms", samples)
    added = [through - direct for through, direct in zip(samples[RELAY], samples[ONE], strict=True)]
    workshop.results.find(
        "q", f"{P50}: added by the {RELAY} / {ONE}", ratios(added, samples[ONE]), Target(at_most=LATENCY_RATIO_MAX)
    )


def _definition(upstream: str, local: str) -> str:
    route = f'[routes.events]\nfrom = "up"\nqueue = "{QUEUE}"\nto = "{QUEUE}"\n'
    return f'name = "latency"\nlocal = {json.dumps(local)}\n[upstreams.up]\nurl = {json.dumps(upstream)}\n{route}'


def _is_drawing(local: str) -> bool:
    """Whether the relay answers, and nothing holds its route back."""

    async def asked() -> bool:
        async with holdfast.connect(local) as client:
            found = await ask_status(client, "latency", 1.0)
            return bool(found["routes"][0]["held_back"] == "")

    try:
        return asyncio.run(asked())
    except HoldfastError:
        return False
