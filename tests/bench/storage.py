"""Measure s: files through the front of a file store with two places, beside a bare program that writes one file, synced.

    one by one    one client puts files of 4 KiB, then gets them: how long each takes
    many          32 clients at once do the same: how many a second
    large         one client puts and gets files of 16 MiB: bytes a second

The front writes each file to two places and the order of writes to a journal; the bare program writes one copy, and nothing else.
Every file has other bytes, so that no place has them already. Parties are measured in turns.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import holdfast
from examples.free_port import free_port
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage import store_status
from holdfast.continuity.storage.definition import Definition
from tests.bench.http_load import GOOD, TIMEOUT_S, p50, rate_of
from tests.bench.peers.domain import Part
from tests.bench.peers.holdfast import Server
from tests.bench.results import in_turns, ratios
from tests.bench.workshop import Workshop

FRONT, BARE = "file store, two places", "bare, one synced file"
PLACES = ("a", "b")
CLIENTS = 32
ONE_BY_ONE = 300
MANY = 3_000
SMALL_BYTES = 4 << 10
LARGE_BYTES = 16 << 20
LARGE = 8
_names = (f"/f{number}" for number in itertools.count())


def measure(workshop: Workshop) -> None:
    workshop.tell("storage: starting a file store and the bare program")
    folder = workshop.folder("storage")
    with ExitStack() as stack:
        ports = {BARE: _bare(stack, folder / "bare"), FRONT: _front(stack, folder)}
        _one_by_one(workshop, ports)
        _many(workshop, ports)
        _large(workshop, ports)


# --- the parties -----------------------------------------------------------------------------------------------------------


def _bare(stack: ExitStack, folder: Path) -> int:
    port = free_port()
    (folder / "files").mkdir(parents=True)
    _started(stack, Part(folder, ["-m", "tests.bench.peers.bare_files", str(port), str(folder / "files")], port))
    return port


def _front(stack: ExitStack, folder: Path) -> int:
    server = Server()
    stack.callback(server.kill)
    (folder / "holdfast").mkdir()
    server.start(folder / "holdfast")
    asyncio.run(_create(server.url))
    common = ["--url", server.url, "--log-level", "warning"]
    for name in PLACES:
        at = str(folder / f"place-{name}" / "bytes")
        _started(stack, Part(folder / f"place-{name}", ["-m", "holdfast", "store", "place", "bench", name, "--at", at, *common]))
    port = free_port()
    listen = ["--listen", f"127.0.0.1:{port}"]
    front = _started(stack, Part(folder / "front", ["-m", "holdfast", "store", "serve", "bench", *listen, *common], port))
    assert front.child is not None
    front.child.wait_until(lambda: asyncio.run(_is_safe(server.url)))
    front.child.wait_until(lambda: _is_taken(port))
    return port


def _started(stack: ExitStack, part: Part) -> Part:
    stack.callback(part.kill)
    part.start()
    return part


async def _create(url: str) -> None:
    async with holdfast.connect(url) as client:
        await register.create(client, Definition("bench", PLACES))


async def _is_safe(url: str) -> bool:
    async with holdfast.connect(url) as client:
        return bool((await store_status.ask(client, "bench"))["current"] == len(PLACES))


def _is_taken(port: int) -> bool:
    """Whether a write is taken: the front has heard of both places."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("PUT", "/first", b"first")
        return connection.getresponse().status in GOOD
    finally:
        connection.close()


# --- measures --------------------------------------------------------------------------------------------------------------


def _one_by_one(workshop: Workshop, ports: dict[str, int]) -> None:
    count = workshop.scale.count(ONE_BY_ONE)
    gets: dict[str, list[float]] = {who: [] for who in ports}

    def run(who: str) -> float:
        workshop.tell(f"storage: one by one, {who}")
        names = [next(_names) for _ in range(count)]
        puts = sorted(_seconds(ports[who], "PUT", names, lambda: os.urandom(SMALL_BYTES)))
        gets[who].append(p50(sorted(_seconds(ports[who], "GET", names, lambda: b""))) * 1e3)
        return p50(puts) * 1e3

    puts = in_turns(workshop.scale.repetitions, {who: partial(run, who) for who in ports})
    _told(workshop, "put of 4 KiB, p50", "ms", puts)
    _told(workshop, "get of 4 KiB, p50", "ms", gets)


def _many(workshop: Workshop, ports: dict[str, int]) -> None:
    count = workshop.scale.count(MANY)
    gets: dict[str, list[float]] = {who: [] for who in ports}

    def run(who: str) -> float:
        workshop.tell(f"storage: {CLIENTS} clients, {who}")
        names = [next(_names) for _ in range(count)]
        puts = rate_of(ports[who], _requests("PUT", names).__next__, count, CLIENTS)
        gets[who].append(rate_of(ports[who], _requests("GET", names).__next__, count, CLIENTS))
        return puts

    puts = in_turns(workshop.scale.repetitions, {who: partial(run, who) for who in ports})
    _told(workshop, f"puts of 4 KiB, {CLIENTS} clients", "files/s", puts)
    _told(workshop, f"gets of 4 KiB, {CLIENTS} clients", "files/s", gets)


def _large(workshop: Workshop, ports: dict[str, int]) -> None:
    count = max(2, round(LARGE * workshop.scale.share))
    gets: dict[str, list[float]] = {who: [] for who in ports}

    def run(who: str) -> float:
        workshop.tell(f"storage: large files, {who}")
        names = [next(_names) for _ in range(count)]
        megabytes = count * LARGE_BYTES / 1e6
        puts = megabytes / sum(_seconds(ports[who], "PUT", names, lambda: os.urandom(LARGE_BYTES)))
        gets[who].append(megabytes / sum(_seconds(ports[who], "GET", names, lambda: b"")))
        return puts

    puts = in_turns(workshop.scale.repetitions, {who: partial(run, who) for who in ports})
    _told(workshop, "puts of 16 MiB", "MB/s", puts)
    _told(workshop, "gets of 16 MiB", "MB/s", gets)


def _told(workshop: Workshop, what: str, unit: str, samples: dict[str, list[float]]) -> None:
    workshop.results.note("s", what, unit, samples)
    workshop.results.find("s", f"{what}: {FRONT} / {BARE}", ratios(samples[FRONT], samples[BARE]))


def _seconds(port: int, method: str, names: list[str], body: Callable[[], bytes]) -> Iterator[float]:
    """How long each request takes, on one connection; making its body is not counted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        for name in names:
            made = body()
            begun = time.perf_counter()
            connection.request(method, name, made or None)
            answer = connection.getresponse()
            answer.read()
            yield time.perf_counter() - begun
            if answer.status not in GOOD:
                raise RuntimeError(f"{method} {name} was answered with {answer.status}")
    finally:
        connection.close()


def _requests(method: str, names: list[str]) -> Iterator[bytes | None]:
    for name in names:
        body = os.urandom(SMALL_BYTES) if method == "PUT" else b""
        length = f"content-length: {len(body)}\r\n" if body else ""
        yield f"{method} {name} HTTP/1.1\r\nhost: bench\r\n{length}\r\n".encode() + body
    yield from itertools.repeat(None)
