"""A recipient of the demo: confirms what it gets, through every crash, and writes down both.

    python -m examples.demo.recipient URL DESTINATION SUBSCRIPTION NAME LOG        (SUBSCRIPTION - for a queue)

Lines of its log: {"t": time, "got": [[producer, number] …], "again": redelivered} when events came, and {"confirmed": [[producer,
number] …]} when their confirmation was applied. It stops when its stdin is closed."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from examples.demo.process import stdin_closed
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.errors import Detached, TimedOut

CHUNK = 100
IDLE_S = 0.1
TIMEOUT_S = 60


async def receive(url: str, destination: str, subscription: str, name: str, log: Path) -> None:
    stopped = stdin_closed()
    with log.open("wb", buffering=0) as out:
        async with holdfast.connect(url, name=name, timeout=TIMEOUT_S) as client:
            while not stopped.is_set():
                incoming = (
                    client.queue(destination).receive() if subscription == "-" else client.subscribe(destination, subscription)
                )
                try:
                    async with incoming:
                        while not stopped.is_set():
                            await _confirm(incoming, await _chunk(incoming), out)
                except Detached:
                    continue  # given up on: what was not confirmed went to others, or comes again


async def _chunk(incoming: Incoming) -> list[ReceivedEvent]:
    """The next events: as many as come without a pause."""
    events: list[ReceivedEvent] = []
    try:
        while len(events) < CHUNK:
            events.append(await incoming.next(IDLE_S))
    except TimedOut:
        pass
    return events


async def _confirm(incoming: Incoming, events: list[ReceivedEvent], out: Any) -> None:
    if not events:
        return
    names = [[event.data["producer"], event.data["number"]] for event in events]
    again = sum(event.redelivered for event in events)
    out.write(msgspec.json.encode({"t": time.time(), "got": names, "again": again}) + b"\n")
    for event in events:
        await event.confirm()
    await incoming.settled(TIMEOUT_S)
    out.write(msgspec.json.encode({"confirmed": names}) + b"\n")


if __name__ == "__main__":
    url, destination, subscription, name, log = sys.argv[1:]
    asyncio.run(receive(url, destination, subscription, name, Path(log)))
