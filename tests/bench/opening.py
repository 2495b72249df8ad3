"""Measure g: opening a journal that holds a million unconfirmed events, after a kill, until the first of them is delivered.

Beside it: reading its files from end to end, which is the least that anything without an index would have to do.
"""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path

from tests.bench.peers.holdfast import QUEUE, HoldfastClient, Server
from tests.bench.results import Target, in_turns, ratios
from tests.bench.single_sender import SingleSender
from tests.bench.workshop import EVENT_BYTES, Workshop, seconds

SECONDS_MAX = 2.0
READ_BYTES = 1 << 20
CHUNK = 100_000
OPEN = "open, first event delivered"
READ = "read the files"


def measure(workshop: Workshop) -> None:
    for how in ("in batches", "one by one"):
        killed = _killed_journal(workshop, how)
        workshop.tell(f"opening a journal with {workshop.scale.unconfirmed_events:,} events sent {how}")
        actions = {
            OPEN: partial(_seconds_to_open_a_copy, killed, workshop.folder("opening")),
            READ: partial(seconds, partial(_read_all, killed)),
        }
        samples = in_turns(workshop.scale.repetitions, actions)
        what = f"{workshop.scale.unconfirmed_events:,} unconfirmed events sent {how}"
        workshop.results.note("g", what, "s", samples)
        workshop.results.find("g", f"open {what}", samples[OPEN], Target(at_most=SECONDS_MAX), "s")
        workshop.results.find("g", f"open {what} / read the files", ratios(samples[OPEN], samples[READ]))


def _killed_journal(workshop: Workshop, how: str) -> Path:
    """The data folder of a server that took these events and was killed."""
    count, folder, server = workshop.scale.unconfirmed_events, workshop.folder("unconfirmed"), Server()
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


def _seconds_to_open_a_copy(killed: Path, folder: Path) -> float:
    """A copy each time: opening it repairs, and closing it leaves a mark that would make the next opening easier."""
    shutil.rmtree(folder)
    shutil.copytree(killed, folder)
    return _seconds_to_first_event(folder)


def _seconds_to_first_event(data: Path) -> float:
    begun = time.perf_counter()
    client = HoldfastClient(f"file:{data}")
    delivered = client.loop.run(_first_event_at(client))
    client.close()
    return delivered - begun


async def _first_event_at(client: HoldfastClient) -> float:
    async with client.client.queue(QUEUE).receive(credit=1) as incoming:
        await incoming.next(timeout=60)
        return time.perf_counter()


def _read_all(data: Path) -> None:
    for path in sorted(data.rglob("*")):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(READ_BYTES):
                    pass
