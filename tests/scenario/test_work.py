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


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT])
def test_the_same_signal_twice_ends_a_process_whose_loop_is_blocked(
    server: ServerProcess, tmp_path: Path, told_by: signal.Signals
) -> None:
    program = BLOCKS.replace("= 0.1", "= 1_000").replace("grace=0.1", "grace=1_000") + BLOCKS_THE_LOOP
    with working(tmp_path, server.url, program=program) as process:
        wait_until(has(tmp_path / "seen", "began", 1), "a job is in hand")
        process.send_signal(told_by)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(told_by)
        process.communicate(timeout=30)

    assert process.returncode == (130 if told_by == signal.SIGINT else -signal.SIGTERM)


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


@pytest.mark.parametrize("where", ["--url", "HOLDFAST_URL", "the worker", "--reload"])
def test_several_processes_on_one_folder_are_refused_in_a_sentence(tmp_path: Path, where: str) -> None:
    url = f"file:{tmp_path / 'events'}"
    own = f'Worker("{url}")' if where in ("the worker", "--reload") else "Worker()"
    (tmp_path / "tasks.py").write_text(f"import holdfast\nworker = holdfast.{own}\nworker.queue('jobs')(print)")
    options = {"--url": ["--url", url], "--reload": ["--reload"]}.get(where, [])

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "work", "tasks:worker", "--processes", "2", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, **({"HOLDFAST_URL": url} if where == "HOLDFAST_URL" else {})},
    )  # fmt: skip

    assert done.returncode == 1
    assert f"run 'holdfast serve --data {tmp_path / 'events'}'" in done.stderr
    assert not (tmp_path / "events").exists()


def test_a_syntax_error_is_told_once_and_reload_goes_on_when_it_is_gone(server: ServerProcess, tmp_path: Path) -> None:
    with working(tmp_path, server.url, "--reload", program="worker = (") as process:
        assert process.stderr is not None
        told = [process.stderr.readline()]
        while "is started again when a file changes" not in told[-1]:
            told.append(process.stderr.readline())
        (tmp_path / "tasks.py").write_text(PROGRAM)
        send(server.url, tmp_path / "seen", range(1))
        wait_until(has(tmp_path / "seen", "ended", 1), "the program works")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert sum("SyntaxError" in line for line in "".join(told).splitlines() if line.startswith("holdfast:")) == 1
    assert "SyntaxError" not in errors
