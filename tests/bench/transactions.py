"""Measure j: transactions of ten events each, one after the other, beside RabbitMQ's `tx` and SQLite's commit.

All of them are on disk when the commit returns. A peer that has no transactions of its own over the wire is not compared.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from tests.bench.peers.holdfast import Embedded, Server
from tests.bench.peers.rabbitmq import RabbitMq
from tests.bench.peers.sqlite import Sqlite
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

WHAT = "transactions of 10 events"
EVENTS = 10
COUNT = 500
# No slower than the broker that has them; within a factor of the one that has no wire, no queue and no recipient to care for.
BROKER_RATIO_MIN = 1.0
SQLITE_RATIO_MIN = 0.4


class Transacting(Protocol):
    def send_in_transactions(self, body: bytes, events: int, count: int) -> None:
        """Send so many events in each of so many transactions; return when the last is durable."""

    def receive_and_confirm(self, count: int, seen: object) -> None: ...


def measure(workshop: Workshop) -> None:
    workshop.start([Server(), Embedded(), RabbitMq(), Sqlite()])

    def rate(who: str) -> float:
        workshop.tell(f"{who}: {WHAT}")
        client: Transacting = workshop.client(who)  # type: ignore[assignment]  # those that were started here can
        count = workshop.scale.count(COUNT)
        taken = seconds(lambda: client.send_in_transactions(bytes(EVENT_BYTES), EVENTS, count))
        client.receive_and_confirm(count * EVENTS, len)
        return count / taken

    samples = in_turns(workshop.scale.repetitions, {who: partial(rate, who) for who in workshop.peers})
    workshop.results.note("j", WHAT, "transactions/s", samples)
    compared = ((Server.name, RabbitMq.name, BROKER_RATIO_MIN), (Embedded.name, Sqlite.name, SQLITE_RATIO_MIN))
    for ours, theirs, least in compared:
        if ours in samples and theirs in samples:
            found = ratios(samples[ours], samples[theirs])
            workshop.results.find("j", f"{WHAT}: {ours} / {theirs}", found, Target(at_least=least))
    workshop.stop_all()
