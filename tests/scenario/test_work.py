"""`holdfast work`: real processes, shared work, reloading, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from tests.scenario.work_process import PROGRAM, has, lines, send, working
from tests.server_process import ServerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

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
        for number in range(3):  # it goes on waiting, however often it could not run
            (tmp_path / "tasks.py").write_text(f"worker = ({number}")
            while "is started again when a file changes" not in process.stderr.readline():
                pass
        (tmp_path / "tasks.py").write_text(PROGRAM)
        send(server.url, tmp_path / "seen", range(1))
        wait_until(has(tmp_path / "seen", "ended", 1), "the program works")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert sum("SyntaxError" in line for line in "".join(told).splitlines() if line.startswith("holdfast:")) == 1
    assert "SyntaxError" not in errors
