"""Measure o: how many events a second `send_many` takes: bytes, text, dicts, `Event`s, and Redis beside them.

All of them are about 256 bytes as JSON and go over TCP. Redis is sent bytes, so that it need not encode anything, 500 in a round.
Each event is another object, as a program has them; they are made before the time is taken.

A dict costs all that bytes cost, and its JSON: so the rates of bytes and of bare `msgspec.json.encode`, of the same run, give the
most that dicts can have.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from holdfast import Event
from tests.bench.peers.holdfast import QUEUE, HoldfastClient, Server
from tests.bench.peers.redis_streams import RedisClient, RedisStreams
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

SEND_MANY = "send_many"
BYTES, TEXT, DICTS, EVENTS = "bytes", "text", "dicts", "Events of dicts"
REDIS = "Redis, pipelined by 500, bytes"
REDIS_WINDOW = 500
JSON_ALONE = "dicts, encoded as JSON and not sent"
COUNT = 100_000
REDIS_COUNT = 20_000


def _order(number: int) -> dict[str, Any]:
    order = {"order": number, "price": 12.5, "customer": "somebody", "is_paid": True, "lines": [{"sku": "a-1", "count": 2}]}
    return {**order, "note": "x" * (EVENT_BYTES - 12 - len(json.dumps(order)))}


KINDS: dict[str, Callable[[int], Any]] = {
    BYTES: lambda number: json.dumps(_order(number)).encode(),
    TEXT: lambda number: json.dumps(_order(number)),
    DICTS: _order,
    EVENTS: lambda number: Event(data=_order(number), type="order.placed"),
}


def measure(workshop: Workshop) -> None:
    workshop.start([Server(), RedisStreams()])
    if reason := workshop.results.left_out.get(Server.name):
        raise RuntimeError(f"there is nothing to compare: {reason}")
    actions: dict[str, Callable[[], float]] = {kind: partial(_rate, workshop, kind) for kind in KINDS}
    actions[JSON_ALONE] = partial(_json_rate, workshop)
    if RedisStreams.name in workshop.peers:
        actions[REDIS] = partial(_redis_rate, workshop)
    samples = in_turns(workshop.scale.repetitions, actions)
    workshop.stop_all()
    workshop.results.note("o", SEND_MANY, "events/s", samples)
    for kind, at_least in ((DICTS, 0.8), (TEXT, None), (EVENTS, None)):
        target = Target(at_least=at_least) if at_least else None
        workshop.results.find("o", f"{SEND_MANY}: {kind} / {BYTES}", ratios(samples[kind], samples[BYTES]), target)
    most = [1 / (1 / sent + 1 / encoded) for sent, encoded in zip(samples[BYTES], samples[JSON_ALONE], strict=True)]
    workshop.results.find("o", f"the most that JSON leaves of the rate of {BYTES}", ratios(most, samples[BYTES]))
    workshop.results.find("o", f"{SEND_MANY}: {DICTS} / the most that JSON leaves", ratios(samples[DICTS], most))
    if REDIS in samples:
        workshop.results.find("o", f"{SEND_MANY}: {DICTS} / {REDIS}", ratios(samples[DICTS], samples[REDIS]), Target(at_least=8))


def _rate(workshop: Workshop, kind: str) -> float:
    workshop.tell(f"{SEND_MANY}: {kind}")
    count, client = workshop.scale.count(COUNT), workshop.client(Server.name)
    assert isinstance(client, HoldfastClient)
    events = [KINDS[kind](number) for number in range(count)]
    taken = seconds(lambda: client.loop.run(client.client.queue(QUEUE).send_many(events)))
    client.receive_and_confirm(count, len)
    return count / taken


def _json_rate(workshop: Workshop) -> float:
    workshop.tell(f"{SEND_MANY}: {JSON_ALONE}")
    count, encode = workshop.scale.count(COUNT), msgspec.json.Encoder().encode
    events = [KINDS[DICTS](number) for number in range(count)]

    def encode_all() -> None:
        for event in events:
            encode(event)

    return count / seconds(encode_all)


def _redis_rate(workshop: Workshop) -> float:
    workshop.tell(f"{SEND_MANY}: {REDIS}")
    count, client = workshop.scale.count(REDIS_COUNT), workshop.client(RedisStreams.name)
    assert isinstance(client, RedisClient)
    body = KINDS[BYTES](1)
    taken = seconds(lambda: client.send_pipelined(body, count, REDIS_WINDOW))
    client.receive_and_confirm(count, len)
    return count / taken
