"""A producer of the demo: sends bursts of numbered events through every crash, and writes down what was accepted.

    python -m examples.demo.producer URL KIND DESTINATION NAME LOG

A line of its log: {"t": time, "accepted": [first, last]}. It stops when its stdin is closed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec

import holdfast
from examples.demo.process import stdin_closed

BURST = 20
# About a thousand events a second from each: enough to see, and not what is measured here.
PAUSE_S = 0.02
# Longer than any crash in the demo: a burst is sent again until it is accepted.
TIMEOUT_S = 60


async def produce(url: str, kind: str, destination: str, name: str, log: Path) -> None:
    stopped = stdin_closed()
    number = 1
    with log.open("wb", buffering=0) as out:
        async with holdfast.connect(url, name=name, timeout=TIMEOUT_S) as client:
            place = client.queue(destination) if kind == "queue" else client.topic(destination)
            while not stopped.is_set():
                events = [{"producer": name, "number": each} for each in range(number, number + BURST)]
                await place.send_many(events, timeout=TIMEOUT_S)
                out.write(msgspec.json.encode({"t": time.time(), "accepted": [number, number + BURST - 1]}) + b"\n")
                number += BURST
                await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    url, kind, destination, name, log = sys.argv[1:]
    asyncio.run(produce(url, kind, destination, name, Path(log)))
