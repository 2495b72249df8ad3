"""Measure l: quiet sessions beside floods of the same server, both sides of it (B22).

    quiet    sends an event every few milliseconds and waits for each receipt: the p99 of its sends
    flood    sends so many events through a pipeline, or receives and confirms so many: its rate

Each side is measured alone, then both at once: what the quiet ones wait beside the flood, and what is left of its
rate beside them. A flood is a process of its own. The three are measured in turns, each round on a new server, so that what else
the machine does weighs on all.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import holdfast
from tests.bench.peers.holdfast import Server
from tests.bench.results import Target, ratios
from tests.bench.workshop import EVENT_BYTES, Workshop

KEPT_MIN = 0.7
# The p99 beside a flood is at most so many times of that alone, or so many milliseconds.
TIMES_MAX = 5.0
P99_MS_MAX = 10.0
PAUSE_S = 0.005
SENDS = 400
FLOOD_EVENTS = 1_000_000


@dataclass(frozen=True)
class Company:
    name: str
    quiet: int
    floods: tuple[str, ...]


COMPANIES = (
    Company("one beside a flood that sends", 1, ("send",)),
    Company("one beside a flood that receives", 1, ("receive",)),
    Company("twenty beside a flood that sends and one that receives", 20, ("send", "receive")),
    Company("twenty beside two floods that send", 20, ("send", "send")),
)


def measure(workshop: Workshop) -> None:
    for company in COMPANIES:
        rounds = []
        for number in range(workshop.scale.pairs):
            workshop.tell(f"quiet sessions and floods: {company.name}")
            rounds.append(_round(workshop, company, is_reversed=number % 2 == 1))
        _find(workshop, company, rounds)


@dataclass
class Round:
    quiet_alone_ms: float = 0.0
    quiet_beside_ms: float = 0.0
    flood_alone: float = 0.0
    flood_beside: float = 0.0


def _round(workshop: Workshop, company: Company, is_reversed: bool) -> Round:
    """Each of the three once, on a new server: what a flood has sent fills its journal."""
    server, folder, found = Server(), workshop.folder("fairness"), Round()
    sends, events = max(50, workshop.scale.count(SENDS) // company.quiet), workshop.scale.count(FLOOD_EVENTS)

    def quiet_alone() -> None:
        found.quiet_alone_ms = asyncio.run(_p99_ms(server.url, company.quiet, sends, lambda: False))

    def flood_alone() -> None:
        with Floods(server.url, company.floods, events) as floods:
            found.flood_alone = floods.rate()

    def beside() -> None:
        with Floods(server.url, company.floods, events) as floods:
            found.quiet_beside_ms = asyncio.run(_p99_ms(server.url, company.quiet, None, floods.are_done))
            found.flood_beside = floods.rate()

    try:
        server.start(folder)
        asyncio.run(_p99_ms(server.url, 1, 50, lambda: False))  # the server is warm
        actions = [quiet_alone, flood_alone, beside]
        for action in reversed(actions) if is_reversed else actions:
            action()
    finally:
        server.stop()
        shutil.rmtree(folder)
    return found


def _find(workshop: Workshop, company: Company, rounds: list[Round]) -> None:
    alone, beside = [each.quiet_alone_ms for each in rounds], [each.quiet_beside_ms for each in rounds]
    flood_alone, flood_beside = [each.flood_alone for each in rounds], [each.flood_beside for each in rounds]
    results, name = workshop.results, company.name
    results.note("l", f"{name}: send p99", "ms", {"quiet, alone": alone, "quiet, beside": beside})
    results.note("l", f"{name}: rate", "events/s", {"flood, alone": flood_alone, "flood, beside": flood_beside})
    allowed = [max(TIMES_MAX * ms, P99_MS_MAX) for ms in alone]
    what = f"{name}: p99 / the larger of {TIMES_MAX:g} x alone and {P99_MS_MAX:g} ms"
    results.find("l", what, ratios(beside, allowed), Target(at_most=1))
    results.find("l", f"{name}: p99 beside / alone", ratios(beside, alone))
    results.find("l", f"{name}: rate of the flood beside / alone", ratios(flood_beside, flood_alone), Target(at_least=KEPT_MIN))


class Floods:
    """Processes that flood: begun together, and done when each has sent or received so many events."""

    def __init__(self, url: str, kinds: tuple[str, ...], events: int) -> None:
        self._events = events
        commands = [[sys.executable, "-m", "tests.bench.fairness", url, kind, str(events)] for kind in kinds]
        pipe = subprocess.PIPE
        self._processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for command in commands]

    def __enter__(self) -> Floods:
        for process in self._processes:
            _hear(process)  # ready: what it receives is there
        for process in self._processes:
            _say(process)
        return self

    def __exit__(self, *problem: object) -> None:
        for process in self._processes:
            process.kill()
            with process:
                pass

    def are_done(self) -> bool:
        """Whether one of them is: from then on the others have the machine for themselves."""
        return any(process.poll() is not None for process in self._processes)

    def rate(self) -> float:
        """Events a second of each, on average, once they are done."""
        return sum(self._events / float(_hear(process)) for process in self._processes) / len(self._processes)


def _say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("begin\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a flood ended before its time: {process.args!r}")
    return line


async def _p99_ms(url: str, sessions: int, sends: int | None, are_done: Callable[[], bool]) -> float:
    """Of so many sends of each session; without a number, of all until the floods are done."""
    taken: list[float] = []

    async def send_all() -> None:
        async with holdfast.connect(url) as client:
            sent = 0
            while sent < sends if sends is not None else not are_done():
                begun = time.perf_counter()
                await client.queue("quiet").send(bytes(EVENT_BYTES))
                taken.append((time.perf_counter() - begun) * 1000)
                sent += 1
                await asyncio.sleep(PAUSE_S * sessions)

    await asyncio.gather(*(send_all() for _ in range(sessions)))
    return sorted(taken)[int(len(taken) * 0.99)]


async def _flood(url: str, kind: str, count: int) -> None:
    name = f"flood-{uuid.uuid4().hex}"
    async with holdfast.connect(url) as client:
        if kind == "receive":
            await _send(client, name, count)
        print("ready", flush=True)
        sys.stdin.readline()
        begun = time.perf_counter()
        await (_send if kind == "send" else _receive)(client, name, count)
        print(time.perf_counter() - begun, flush=True)


async def _send(client: holdfast.Client, name: str, count: int) -> None:
    async with client.queue(name).pipeline() as pipeline:
        for _ in range(count):
            await pipeline.send(bytes(EVENT_BYTES))


async def _receive(client: holdfast.Client, name: str, count: int) -> None:
    received = 0
    async with client.queue(name).receive() as incoming:
        async for event in incoming:
            await event.confirm()
            received += 1
            if received == count:
                return


if __name__ == "__main__":
    asyncio.run(_flood(sys.argv[1], sys.argv[2], int(sys.argv[3])))
