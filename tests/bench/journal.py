"""Measure e: appending batches of 64 KiB to the journal, one after the other, beside a bare write and `fdatasync` of as much."""

from __future__ import annotations

import os

from holdfast.channel.journal.journal_channel import JournalChannel
from holdfast.channel.journal.settings import JournalSettings
from tests.bench.peers.bare_disk import BareDisk
from tests.bench.peers.looped import Loop
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import Workshop, seconds

APPEND_BYTES = 64 << 10
OURS = "journal"
# Appends between two releases: the journal uses its segments again, as it does when recipients keep up.
RELEASE_EVERY = 200


def measure(workshop: Workshop) -> None:
    count = workshop.scale.journal_appends
    loop, bare = Loop(), BareDisk(workshop.folder("bare"))
    channel = loop.run(JournalChannel.open(workshop.folder("journal") / "data", JournalSettings()))
    command = os.urandom(APPEND_BYTES)

    async def append() -> None:
        for number in range(1, count + 1):
            receipt = await channel.append(command)
            if number % RELEASE_EVERY == 0:
                await channel.release(receipt.entry)

    def megabytes(taken: float) -> float:
        return count * APPEND_BYTES / taken / 1e6

    try:
        workshop.tell("journal: appending 64 KiB at a time")
        samples = in_turns(
            workshop.scale.repetitions,
            {
                OURS: lambda: megabytes(seconds(lambda: loop.run(append()))),
                bare.name: lambda: megabytes(seconds(lambda: bare.write_and_sync(APPEND_BYTES, count))),
            },
        )
    finally:
        loop.run(channel.close())
        loop.close()
        bare.close()
    workshop.results.note("e", "append 64 KiB", "MB/s", samples)
    workshop.results.find(
        "e", "journal / bare, 64 KiB at a time", ratios(samples[OURS], samples[bare.name]), Target(at_least=0.6)
    )
