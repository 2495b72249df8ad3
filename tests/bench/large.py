"""Measure k: an event of two gigabytes from file to file over TCP: how fast, in how much memory, what small events feel of it.

bandwidth    beside a plain socket copy that writes and syncs as it goes, a mebibyte at a time
memory       the most that server, sender and recipient have at any moment
latency      of small events end to end, alone and meanwhile; all on the same two cores
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TypeAlias

import holdfast
from tests.bench.child import anonymous_memory_bytes
from tests.bench.end_to_end import Run
from tests.bench.peer import CannotRun
from tests.bench.peers.holdfast import Server
from tests.bench.peers.looped import Loop
from tests.bench.results import Target, in_turns, ratios
from tests.bench.workshop import Workshop, seconds

MIB = 1 << 20
QUEUE = "large"
SEND, SAVE, PLAIN = "send_stream", "open_stream, save", "plain socket copy, synced each MiB"
RATIO_MIN = 0.3
MEMORY_MB_MAX = 150
LATENCY_RATIO_MAX = 3.0
RATE = 100
SAMPLE_SECONDS = 0.02

_SPAWN = multiprocessing.get_context("spawn")
Taken: TypeAlias = "Synchronized[float]"  # seconds, told by another process


def measure(workshop: Workshop) -> None:
    folder, server = workshop.folder("large"), Server("--journal-size", "10G")
    source = _file(folder / "source", workshop.scale.large_bytes)
    try:
        server.start(folder)
        memory = _measure_bandwidth(workshop, server, source, folder)
        for who, most in memory.items():
            workshop.results.find("k", f"most memory of the {who}", most, Target(at_most=MEMORY_MB_MAX), "MB")
        _measure_latency(workshop, server, source)
    finally:
        server.stop()


def _file(path: Path, size: int) -> Path:
    piece = os.urandom(MIB)
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(piece)
    return path


# --- bandwidth and memory --------------------------------------------------------------------------------------------


def _measure_bandwidth(workshop: Workshop, server: Server, source: Path, folder: Path) -> dict[str, list[float]]:
    size_mb = workshop.scale.large_bytes / 1e6
    memory: dict[str, list[float]] = {"server": [], "sender": [], "recipient": []}

    def through(what: str, who: str, work: Callable[..., None], path: Path) -> float:
        workshop.tell(f"{what}: {size_mb:,.0f} MB")
        taken = _SPAWN.Value("d")
        with _watched(server.pid) as of_server, _other(work, server.url, path, taken) as (process, of_other):
            process.join()
        assert process.exitcode == 0, f"the {who} failed"
        memory["server"].append(max(of_server) / 1e6)
        memory[who].append(max(of_other) / 1e6)
        return size_mb / float(taken.value)

    def plain() -> float:
        workshop.tell(f"{PLAIN}: {size_mb:,.0f} MB")
        return size_mb / seconds(partial(_copy, source, folder / "plain"))

    actions: dict[str, Callable[[], float]] = {
        SEND: partial(through, SEND, "sender", _send, source),
        SAVE: partial(through, SAVE, "recipient", _save, folder / "copy"),
    }
    samples: dict[str, list[float]] = {what: [] for what in (*actions, PLAIN)}
    for _ in range(workshop.scale.large_repetitions):  # what was sent must be there to be saved
        for what, action in (*actions.items(), (PLAIN, plain)):
            samples[what].append(action())
    workshop.results.note("k", "bandwidth", "MB/s", samples)
    for what in actions:
        workshop.results.find("k", f"{what} / {PLAIN}", ratios(samples[what], samples[PLAIN]), Target(at_least=RATIO_MIN))
    return memory


def _send(url: str, path: Path, taken: Taken) -> None:
    async def send() -> None:
        async with holdfast.connect(url) as client:
            begun = time.perf_counter()
            await client.queue(QUEUE).send_stream(path)
            taken.value = time.perf_counter() - begun

    Loop().run(send())


def _save(url: str, path: Path, taken: Taken) -> None:
    async def save() -> None:
        async with holdfast.connect(url) as client, client.queue(QUEUE).receive(credit=1) as incoming:
            event = await incoming.next(60)
            begun = time.perf_counter()
            async with event.open_stream() as stream:
                await stream.save(path)
            taken.value = time.perf_counter() - begun
            await event.confirm()

    Loop().run(save())


def _copy(source: Path, target: Path) -> None:
    """From a file through a socket to a file, durable as it goes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = threading.Thread(target=_pour, args=(source, listener.getsockname()[1]))
        sender.start()
        connection, _ = listener.accept()
        with connection, target.open("wb", buffering=0) as file:
            buffer = memoryview(bytearray(MIB))
            while filled := _fill(connection, buffer):
                file.write(buffer[:filled])
                os.fdatasync(file.fileno())
        sender.join()


def _pour(source: Path, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection, source.open("rb") as file:
        while piece := file.read(MIB):
            connection.sendall(piece)


def _fill(connection: socket.socket, buffer: memoryview) -> int:
    filled = 0
    while filled < len(buffer) and (came := connection.recv_into(buffer[filled:])):
        filled += came
    return filled


@contextmanager
def _other(
    work: Callable[[str, Path, Taken], None], url: str, path: Path, taken: Taken
) -> Iterator[tuple[multiprocessing.Process, list[int]]]:
    """A process of its own, and what its memory is from time to time."""
    process = _SPAWN.Process(target=work, args=(url, path, taken), daemon=True)
    process.start()
    try:
        assert process.pid is not None
        with _watched(process.pid) as memory:
            yield process, memory  # type: ignore[misc]  # a process is a process, however it was started
    finally:
        process.kill()
        process.join()


@contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """The anonymous memory of a process, in bytes, again and again."""
    samples, is_over = [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(SAMPLE_SECONDS):
            try:
                samples.append(anonymous_memory_bytes(pid))
            except (OSError, CannotRun):  # it has ended
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield samples
    finally:
        is_over.set()
        watching.join()


# --- what small events feel of it ------------------------------------------------------------------------------------


def _measure_latency(workshop: Workshop, server: Server, source: Path) -> None:
    def p99() -> float:
        taken = sorted(Run(server.connect, RATE, workshop.scale.latency_events // 2).latencies_ms())
        return taken[int(len(taken) * 0.99)]

    def meanwhile() -> float:
        is_over = threading.Event()

        def keep_sending() -> None:
            while not is_over.is_set():
                with _other(_send, server.url, source, _SPAWN.Value("d")) as (sender, _):
                    while sender.is_alive() and not is_over.is_set():
                        sender.join(0.1)

        sending = threading.Thread(target=keep_sending)
        sending.start()
        try:
            return p99()
        finally:
            is_over.set()
            sending.join()

    workshop.tell("small events, alone and beside a large one")
    samples = in_turns(workshop.scale.large_repetitions, {"alone": p99, "beside a large event": meanwhile})
    workshop.results.note("k", "small events, end to end p99", "ms", samples)
    slower = ratios(samples["beside a large event"], samples["alone"])
    workshop.results.find("k", "small events' p99 beside a large event / alone", slower, Target(at_most=LATENCY_RATIO_MAX))
