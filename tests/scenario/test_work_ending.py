"""`holdfast work` ends: real signals, and handlers that do not let it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from tests.scenario.work_process import PROGRAM, has, lines, send, working
from tests.server_process import ServerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

STARTS_SLOWLY = """
@worker.on_start
async def wait():
    with open("seen", "w") as file:
        print("starts", file=file, flush=True)
    await asyncio.Event().wait()
"""

HANGS = """
import threading, time, holdfast

worker = holdfast.Worker(grace=0.2)

@worker.on_start
async def put(client: holdfast.Client) -> None:
    await client.queue("jobs").send({}, id="hangs")

@worker.queue("jobs")
def hang(job: dict) -> None:
    with open("seen", "a") as file:
        print("began", file=file, flush=True)
    threading.Event().wait()
"""

BLOCKS = """
import asyncio, threading, holdfast, holdfast.worker.worker as settings

settings.CANCELLED_S = settings.END_S = 0.1
worker = holdfast.Worker(grace=0.1)

@worker.on_start
async def put(client: holdfast.Client) -> None:
    await client.queue("jobs").send({}, id="blocks")

def began():
    with open("seen", "a") as file:
        print("began", file=file, flush=True)

@worker.queue("jobs")
async def block(job: dict) -> None:
"""

BLOCKS_THE_LOOP = """
    began()
    while True:
        threading.Event().wait(0.01)
"""

BLOCKS_A_THREAD_OF_ITS_OWN = """
    began()
    await asyncio.to_thread(threading.Event().wait)
"""

ENDS_ITSELF = """
import sys, holdfast

worker = holdfast.Worker()

@worker.queue("jobs", retries=1, backoff=(0, 0))
async def exit(job: str) -> None:
    with open("seen", "a") as file:
        print(job, file=file, flush=True)
    if job == "exit":
        sys.exit(9)
    if job == "interrupt":
        raise KeyboardInterrupt
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_hand_gives_back_the_rest_and_exits_with_0(
    server: ServerProcess, tmp_path: Path, told_by: signal.Signals
) -> None:
    send(server.url, tmp_path / "seen", range(20), seconds=0.5)
    with working(tmp_path, server.url) as process:
        wait_until(has(tmp_path / "seen", "began", 2), "two jobs are in hand")
        process.send_signal(told_by)
        _, errors = process.communicate(timeout=60)

    seen = lines(tmp_path / "seen")
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert {line[2] for line in seen if line[0] == "began"} == {line[2] for line in seen if line[0] == "ended"}
    with holdfast.blocking.connect(server.url) as client:
        with client.queue("jobs").receive(timeout=10) as incoming:
            rest = [incoming.next() for _ in range(client.describe("jobs")["waiting"])]
        assert len(rest) + len(seen) // 2 == 20
        assert {event.deliveries for event in rest} == {0}


def test_a_worker_that_is_still_starting_can_be_stopped(server: ServerProcess, tmp_path: Path) -> None:
    program = PROGRAM.replace("import os", "import asyncio, os") + STARTS_SLOWLY
    with working(tmp_path, server.url, program=program) as process:
        wait_until(has(tmp_path / "seen", "starts", 1), "the worker starts")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

    assert process.returncode == 0


def test_another_ctrl_c_does_not_wait(server: ServerProcess, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = PROGRAM.replace("import os", "import asyncio, os").replace("def handle", "async def handle")
    program = program.replace("time.sleep", "await asyncio.sleep")
    send(server.url, seen, range(1), seconds=60)
    with working(tmp_path, server.url, program=program) as process:
        wait_until(has(seen, "began", 1), "a job is in hand")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # as the parent of several processes does
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)

    assert process.returncode == 130
    assert "Traceback" not in errors


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_a_plain_function_that_never_returns_is_left_and_the_exit_code_says_so(
    server: ServerProcess, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with working(tmp_path, server.url, *options, program=HANGS) as process:
        wait_until(has(tmp_path / "seen", "began", 1), "a job is in hand")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 6
    assert "handler hang of queue 'jobs' is still at work on event hangs after the grace of 0.2 s" in errors
    with holdfast.blocking.connect(server.url) as client, client.queue("jobs").receive(timeout=60) as incoming:
        assert any(incoming.next().deliveries == 1 for _ in range(1 + bool(options)))


def test_the_event_of_a_function_that_was_left_comes_again_from_the_same_folder_counted(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'events'}"
    with working(tmp_path, url, program=HANGS) as process:
        wait_until(has(tmp_path / "seen", "began", 1), "a job is in hand")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 6, errors
    assert "Traceback" not in errors
    with holdfast.blocking.connect(url) as client, client.queue("jobs").receive(timeout=60) as incoming:
        event = incoming.next()
        assert (event.id, event.deliveries) == ("hangs", 1)


@pytest.mark.parametrize("body", [BLOCKS_THE_LOOP, BLOCKS_A_THREAD_OF_ITS_OWN])
def test_a_process_that_does_not_end_by_itself_is_ended_soon_after_the_grace(
    server: ServerProcess, tmp_path: Path, body: str
) -> None:
    with working(tmp_path, server.url, program=BLOCKS + body) as process:
        wait_until(has(tmp_path / "seen", "began", 1), "a job is in hand")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 6
    assert "does not end by itself, and is ended now" in errors


@pytest.mark.parametrize(
    ("told_by", "options", "code"),
    [
        (signal.SIGTERM, [], -signal.SIGTERM),
        (signal.SIGINT, [], 130),
        (signal.SIGTERM, ["--processes", "2"], 130),
    ],
)
def test_the_same_signal_twice_ends_a_process_whose_loop_is_blocked(
    server: ServerProcess, tmp_path: Path, told_by: signal.Signals, options: list[str], code: int
) -> None:
    program = BLOCKS.replace("= 0.1", "= 1_000").replace("grace=0.1", "grace=1_000") + BLOCKS_THE_LOOP
    with working(tmp_path, server.url, *options, program=program) as process:
        wait_until(has(tmp_path / "seen", "began", 1), "a job is in hand")
        process.send_signal(told_by)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(told_by)
        process.communicate(timeout=30)

    assert process.returncode == code


def test_a_handler_that_ends_the_program_fails_its_event_and_the_worker_goes_on(server: ServerProcess, tmp_path: Path) -> None:
    with working(tmp_path, server.url, program=ENDS_ITSELF) as process, holdfast.blocking.connect(server.url) as client:
        client.queue("jobs").send_many(["exit", "interrupt", "well"])
        wait_until(has(tmp_path / "seen", "well", 1), "the next event is handled")
        wait_until(lambda: len(client.dead.list()) == 2, "both events are dead")
        reasons = "\n".join(event.dead[0].reason for event in client.dead.list())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

    assert process.returncode == 0
    assert "ended with SystemExit(9)" in reasons
    assert "ended with KeyboardInterrupt()" in reasons
