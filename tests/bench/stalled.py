"""Measure i: events accepted a second into a queue whose one recipient has stalled, beside the same without a recipient (A4).

The stalled recipient granted a little credit, was handed events for it, and confirms none of them while the rate is taken: its
link lives, its application does not go on. That it was attached all that time is seen afterwards: what it holds can still be
confirmed, which is refused to one that was given up.
"""

from __future__ import annotations

import time

import holdfast
from tests.bench.peers.holdfast import QUEUE, HoldfastClient, Server
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop

CREDIT = 10
# Accepting does not depend on what recipients do: this allows for a machine that is busy with something else.
SHARE_MIN = 0.95
HANDED_SECONDS = 30.0
PIPELINED = "send pipelined"
WITHOUT = "without a recipient"
STALLED = "with a stalled recipient"


def measure(workshop: Workshop) -> None:
    count, server = workshop.scale.count(Server.pipelined_count), Server()
    try:
        server.start(workshop.folder("stalled"))
        workshop.tell("accepting beside a stalled recipient")
        samples = _accept_in_turns(server, count, workshop.scale.pairs)
    finally:
        server.stop()
    workshop.results.note("i", PIPELINED, "events/s", samples)
    compared = ratios(samples[STALLED], samples[WITHOUT])
    workshop.results.find("i", f"{PIPELINED}: {STALLED} / {WITHOUT}", compared, Target(at_least=SHARE_MIN))


def _accept_in_turns(server: Server, count: int, pairs: int) -> dict[str, list[float]]:
    client: HoldfastClient = server.connect()
    run, sender = client.loop.run, client.client
    run(_accepted_a_second(sender, count))  # from now on there is something to hand out, and the server is warm
    actions = {
        WITHOUT: lambda: run(_accepted_a_second(sender, count)),
        STALLED: lambda: run(_accepted_a_second_beside_it(sender, count, server.url)),
    }
    samples = in_turns(pairs, actions)
    client.close()
    return samples


async def _accepted_a_second(sender: holdfast.Client, count: int) -> float:
    body, begun = bytes(EVENT_BYTES), time.perf_counter()
    async with sender.queue(QUEUE).pipeline() as pipeline:
        for _ in range(count):
            await pipeline.send(body)
    return count / (time.perf_counter() - begun)


async def _accepted_a_second_beside_it(sender: holdfast.Client, count: int, url: str) -> float:
    """The recipient has a link of its own, in the same loop, which answers for it that it lives."""
    async with holdfast.connect(url) as other, other.queue(QUEUE).receive(credit=CREDIT) as incoming:
        held = await incoming.next(timeout=HANDED_SECONDS)
        rate = await _accepted_a_second(sender, count)
        await held.confirm()
        await incoming.settled()
    return rate
