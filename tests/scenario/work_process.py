"""`holdfast work` as a process, for tests: a program for it, and what it has seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import holdfast.blocking

PROGRAM = """
import os, time, holdfast

worker = holdfast.Worker(grace=20)

@worker.queue("jobs", concurrency=2)
def handle(job: dict) -> None:
    with open(job["to"], "a") as file:
        print("began", os.getpid(), job["number"], file=file, flush=True)
        time.sleep(job.get("seconds", 0))
        print("ended", os.getpid(), job["number"], file=file, flush=True)
"""


@contextmanager
def working(folder: Path, url: str, *options: str, program: str = PROGRAM) -> Iterator[subprocess.Popen[str]]:
    (folder / "tasks.py").write_text(program)
    command = [sys.executable, "-m", "holdfast", "work", "tasks:worker", "--url", url, *options]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def has(path: Path, word: str, count: int) -> Callable[[], bool]:
    return lambda: sum(line[0] == word for line in lines(path)) >= count


def send(url: str, to: Path, numbers: range, seconds: float = 0) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue("jobs").send_many([{"number": number, "to": str(to), "seconds": seconds} for number in numbers])
