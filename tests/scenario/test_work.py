"""`holdfast work`: real processes, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast.blocking
from tests.server_process import ServerProcess
from tests.waiting import wait_until

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

STARTS_SLOWLY = """
@worker.on_start
async def wait():
    with open("seen", "w") as file:
        print("starts", file=file, flush=True)
    await asyncio.Event().wait()
"""

FAILS_TWICE = """
@worker.on_start
def fail():
    1 / 0

@worker.on_stop
def fail_too():
    nothing
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as process:
        yield process


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


def test_several_processes_share_the_work_and_one_that_is_killed_is_started_again(server: ServerProcess, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    with holdfast.blocking.connect(server.url) as client:
        client.create_queue("jobs")
    with holdfast.blocking.connect(server.url) as client, working(tmp_path, server.url, "--processes", "2") as process:
        wait_until(lambda: client.describe("jobs")["receivers"] == 2, "both processes are ready")
        send(server.url, seen, range(8), seconds=0.2)
        wait_until(lambda: len({line[1] for line in lines(seen)}) == 2, "two processes work")
        victim = int(lines(seen)[0][1])
        os.kill(victim, signal.SIGKILL)
        wait_until(has(seen, "ended", 8), "all is done")
        send(server.url, seen, range(100, 140), seconds=0.1)
        wait_until(lambda: len({line[1] for line in lines(seen)}) == 3, "a third process works")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert process.returncode == 0
    assert not Path(f"/proc/{lines(seen)[-1][1]}").exists()


def test_a_changed_file_is_loaded_again(server: ServerProcess, tmp_path: Path) -> None:
    with working(tmp_path, server.url, "--reload") as process:
        send(server.url, tmp_path / "before", range(1))
        wait_until(has(tmp_path / "before", "ended", 1), "the first program works")
        (tmp_path / "tasks.py").write_text(PROGRAM.replace('"ended"', '"changed"'))
        send(server.url, tmp_path / "after", range(1))
        wait_until(lambda: any(line[0] in ("changed", "ended") for line in lines(tmp_path / "after")), "it was handled")
        send(server.url, tmp_path / "later", range(200), seconds=0.05)
        wait_until(has(tmp_path / "later", "changed", 1), "the second program works")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert process.returncode == 0


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("tasks", "write it as module:worker"),
        ("./tasks:worker", "write it as module:worker"),
        ("nowhere:worker", "there is no module 'nowhere'"),
        ("tasks:missing", "has no 'missing'"),
        ("tasks:os", "is a module, not a holdfast.Worker"),
    ],
)
def test_a_target_that_is_no_worker_is_refused_in_a_sentence(target: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "work", target], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_whose_server_is_not_there_says_so(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "work", "tasks:worker", "--url", "holdfast://127.0.0.1:1"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr


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


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("worker = (", "tasks:worker failed: SyntaxError"),
        ("import nowhere_at_all", "tasks:worker failed: ModuleNotFoundError"),
        (PROGRAM + FAILS_TWICE, "tasks:worker failed: ZeroDivisionError"),
    ],
)
def test_what_fails_in_the_program_is_not_called_a_fault_of_holdfast(program: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(program)

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "work", "tasks:worker", "--url", "memory:"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 1
    assert f"holdfast: {sentence}" in done.stderr
    assert "tasks.py" in done.stderr  # where


def test_a_log_level_that_there_is_not_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "work", "tasks:worker", "--log-level", "loud"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 2
    assert "'loud' is not one of" in done.stderr
