"""`holdfast bench`: a short benchmark of the same disk, first bare, then through Holdfast.

    bare     write 4 KiB into a file that was written before, and sync it
    single   send one event, wait for its receipt
    many     send as fast as events are taken; wait for all receipts at the end
    receive  receive and confirm them all, until every confirm is applied

A rate depends on how busy the machine is: compare the ratios of one run, not the rates of two. It also depends on the Python,
which is told on the standard error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer

import holdfast
from holdfast.cli import help_text
from holdfast.cli.options import Json
from holdfast.errors import Unavailable

COLUMNS = ("what", "events_per_second", "microseconds_each", "ratio")
BLOCK_BYTES = 4096
BLOCKS = 2048
EVENT = bytes(256)
SECONDS_EACH = 1.0
MANY = 100_000
QUEUE = "bench"


def add_to(app: typer.Typer) -> None:
    app.command(
        **help_text.described(
            "Measure sending and receiving, embedded and over TCP, beside a bare write and sync; takes under 20 s.",
            ["holdfast bench", "holdfast bench --json"],
            help_text.LOCAL,
        )
    )(bench)


def bench(json: Json = False) -> None:
    from holdfast.cli import interpreter
    from holdfast.cli.output import show_rows

    typer.echo(f"measured with {interpreter.in_words()}", err=True)
    show_rows([row.shown(as_json=json) for row in measure()], COLUMNS, as_json=json)


class Row(NamedTuple):
    """One measure. `ratio`: how many bare syncs one event takes; below one where many events share a sync."""

    what: str
    per_second: float
    ratio: float

    def shown(self, *, as_json: bool) -> dict[str, Any]:
        each = 1e6 / self.per_second
        if as_json:
            return {
                "what": self.what,
                "events_per_second": round(self.per_second),
                "microseconds_each": each,
                "ratio": self.ratio,
            }
        return {
            "what": self.what,
            "events_per_second": round(self.per_second),
            "microseconds_each": f"{each:,.1f}",
            "ratio": f"{self.ratio:.2f} x" if self.ratio >= 0.1 else f"1/{1 / self.ratio:.0f}",
        }


def measure() -> Iterator[Row]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        bare = _bare_writes(Path(folder) / "bare")
        yield Row("bare write + sync, 4 KiB", bare, 1.0)
        for place, url in (("embedded", f"file:{folder}/embedded"), ("TCP", "")):
            with _served(Path(folder) / "served", url) as reached:
                rates = holdfast.run(_rates(reached))
            for what, rate in rates.items():
                yield Row(f"{place}: {what}", rate, bare / rate)


def _bare_writes(path: Path) -> float:
    """Writes and syncs per second, into blocks that were written before, as the journal's are."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(file, bytes(BLOCK_BYTES * BLOCKS), 0)
        os.fsync(file)
        block, count, began = bytes(BLOCK_BYTES), 0, time.perf_counter()
        while time.perf_counter() - began < SECONDS_EACH:
            os.pwrite(file, block, count % BLOCKS * BLOCK_BYTES)
            os.fdatasync(file)
            count += 1
        return count / (time.perf_counter() - began)
    finally:
        os.close(file)


async def _rates(url: str) -> dict[str, float]:
    async with holdfast.connect(url, name="bench") as client:
        queue = client.queue(QUEUE)
        await queue.send(EVENT)
        singles, began = 1, time.perf_counter()
        while time.perf_counter() - began < SECONDS_EACH:
            await queue.send(EVENT)
            singles += 1
        single = (singles - 1) / (time.perf_counter() - began)
        began = time.perf_counter()
        async with queue.pipeline() as pipeline:
            for _ in range(MANY):
                await pipeline.send(EVENT)
        many = MANY / (time.perf_counter() - began)
        began = time.perf_counter()
        received = 0
        async with queue.receive(timeout=10) as incoming:
            async for event in incoming:
                await event.confirm()
                received += 1
                if received == MANY + singles:
                    break
        return {
            "send one by one": single,
            "send many": many,
            "receive and confirm": received / (time.perf_counter() - began),
        }


@contextmanager
def _served(data: Path, url: str) -> Iterator[str]:
    """The URL itself, or that of a server which lives as long as this does."""
    if url:
        yield url
        return
    command = [sys.executable, "-m", "holdfast", "serve", "--data", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield f"holdfast://{_address(server)}"
        finally:
            server.terminate()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line.startswith("listening on "):
        raise Unavailable("the server to be measured does not start; run `holdfast serve` to see why")
    return line.removeprefix("listening on ").strip()
