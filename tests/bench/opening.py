"""Measure g: opening a journal that holds a million unconfirmed events, after a kill: until the next event is accepted, and
until the first of the old ones is delivered (replay included).

Beside it: reading its files from end to end, which is the least that anything without an index would have to do.

And opening one with many queues, or subscriptions of a topic, until the first request is answered. Beside it: opening one with a
tenth of them, which should take a tenth of the time or more.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path

from tests.bench.peers.holdfast import QUEUE, HoldfastClient, Server
from tests.bench.results import Target, in_turns, ratios
from tests.bench.single_sender import SingleSender
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

SECONDS_MAX = 2.0
READ_BYTES = 1 << 20
CHUNK = 100_000
RATIO_MAX = 3.0
ACCEPT = "open, next event accepted"
DELIVER = "open, first event delivered"
READ = "read the files"
ANSWER_SECONDS_MAX = 1.0
TENFOLD_MAX = 12.0
MADE_AT_ONCE = 500


def measure(workshop: Workshop) -> None:
    _measure_many(workshop, "queues", workshop.scale.queues)
    _measure_many(workshop, "subscriptions", workshop.scale.subscriptions)
    for how in ("in batches", "one by one"):
        killed = _killed_journal(workshop, how)
        workshop.tell(f"opening a journal with {workshop.scale.unconfirmed_events:,} events sent {how}")
        actions = {
            ACCEPT: partial(_seconds_to_open_a_copy, killed, workshop.folder("opening"), _accepted_at),
            DELIVER: partial(_seconds_to_open_a_copy, killed, workshop.folder("opening"), _delivered_at),
            READ: partial(seconds, partial(_read_all, killed)),
        }
        samples = in_turns(workshop.scale.repetitions, actions)
        what = f"{workshop.scale.unconfirmed_events:,} unconfirmed events sent {how}"
        workshop.results.note("g", what, "s", samples)
        for figure in (ACCEPT, DELIVER):
            workshop.results.find("g", f"{what}: {figure}", samples[figure], Target(at_most=SECONDS_MAX), "s")
        slower = ratios(samples[ACCEPT], samples[READ])
        workshop.results.find("g", f"{what}: {ACCEPT} / read the files", slower, Target(at_most=RATIO_MAX))


def _measure_many(workshop: Workshop, what: str, count: int) -> None:
    folders = {number: _with_many(workshop, what, number) for number in (count, count // 10)}
    actions = {
        f"{number:,} {what}": partial(_seconds_to_open_a_copy, folder, workshop.folder("opening"), _answered_at)
        for number, folder in folders.items()
    }
    samples = in_turns(workshop.scale.repetitions, actions)
    many, few = samples
    workshop.results.note("g", "open, first request answered", "s", samples)
    target = Target(at_most=ANSWER_SECONDS_MAX)
    workshop.results.find("g", f"{many}: open, first request answered", samples[many], target, "s")
    slower = ratios(samples[many], samples[few])
    workshop.results.find("g", f"open, first request answered: {many} / {few}", slower, Target(at_most=TENFOLD_MAX))


def _with_many(workshop: Workshop, what: str, count: int) -> Path:
    folder = workshop.folder(f"many-{what}-{count}")
    workshop.tell(f"making a journal with {count:,} {what}")
    client = HoldfastClient(f"file:{folder}")
    client.loop.run(client.client.create_topic("topic"))
    client.loop.run(client.client.queue(QUEUE).send(b"first"))
    for start in range(0, count, MADE_AT_ONCE):
        client.loop.run(_make(client, what, range(start, min(start + MADE_AT_ONCE, count))))
    client.close()
    return folder


async def _make(client: HoldfastClient, what: str, numbers: Iterable[int]) -> None:
    made = client.client
    if what == "queues":
        await asyncio.gather(*(made.create_queue(f"q{number}") for number in numbers))
    else:
        await asyncio.gather(*(made.create_subscription("topic", f"s{number}", selector=f"n = {number}") for number in numbers))


async def _answered_at(client: HoldfastClient) -> float:
    await client.client.describe(QUEUE)
    return time.perf_counter()


def _killed_journal(workshop: Workshop, how: str) -> Path:
    """The data folder of a server that took these events and was killed."""
    count, folder, server = workshop.scale.unconfirmed_events, workshop.folder("unconfirmed"), Server("--journal-size", "640M")
    workshop.tell(f"filling a journal with {count:,} events {how}")
    try:
        server.start(folder)
        client = server.connect()
        if how == "in batches":
            client.send_pipelined(bytes(EVENT_BYTES), count)
        else:
            sender = client.loop.run(SingleSender.open(server.port, QUEUE, bytes(EVENT_BYTES)))
            for start in range(0, count, CHUNK):
                client.loop.run(sender.send(min(CHUNK, count - start)))
        server.kill()
        client.close()
    finally:
        server.stop()
    return server.data


def _seconds_to_open_a_copy(
    killed: Path, folder: Path, reached: Callable[[HoldfastClient], Coroutine[None, None, float]]
) -> float:
    """A copy each time: opening it repairs, and closing it leaves a mark that would make the next opening easier."""
    shutil.rmtree(folder)
    shutil.copytree(killed, folder)
    begun = time.perf_counter()
    client = HoldfastClient(f"file:{folder}")
    at = client.loop.run(reached(client))
    client.close()
    return at - begun


async def _accepted_at(client: HoldfastClient) -> float:
    await client.client.queue(QUEUE).send(b"next")
    return time.perf_counter()


async def _delivered_at(client: HoldfastClient) -> float:
    async with client.client.queue(QUEUE).receive(credit=1) as incoming:
        await incoming.next(timeout=60)
        return time.perf_counter()


def _read_all(data: Path) -> None:
    for path in sorted(data.rglob("*")):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(READ_BYTES):
                    pass
