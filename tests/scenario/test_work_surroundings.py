"""`holdfast work` and its surroundings: a server that is not there, a subscription of another kind, processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.blocking
from tests.scenario.test_work import server
from tests.scenario.work_process import PROGRAM, has, lines, send, working
from tests.server_process import ServerProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

__all__ = ["server"]


def test_a_worker_waits_for_a_server_that_is_not_there_yet(tmp_path: Path) -> None:
    not_yet = ServerProcess(tmp_path / "data")
    with working(tmp_path, not_yet.url) as process:
        assert process.stderr is not None
        assert "waits for its server" in process.stderr.readline()
        with not_yet as server:
            send(server.url, tmp_path / "seen", range(1))
            wait_until(has(tmp_path / "seen", "ended", 1), "the worker found its server")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)

    assert process.returncode == 0


def test_an_event_that_kills_its_process_is_given_up_after_its_last_try(server: ServerProcess, tmp_path: Path) -> None:
    program = """
import os, holdfast

worker = holdfast.Worker()

@worker.queue("jobs", retries=1)
def handle(job: dict) -> None:
    with open(job["to"], "a") as file:
        print("began", file=file, flush=True)
    os._exit(9)
"""
    send(server.url, tmp_path / "seen", range(1))
    with working(tmp_path, server.url, "--processes", "2", program=program) as process:
        with holdfast.blocking.connect(server.url) as client:
            wait_until(lambda: client.dead.list(code="failed"), "the event is dead")
            (dead,) = client.dead.list()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert len(lines(tmp_path / "seen")) == 2
    assert "delivered 2 times, and not tried again (retries=1 of handler handle of queue 'jobs')" in dead.dead[0].reason


def test_several_processes_whose_whole_group_is_told_to_stop_end_without_a_complaint() -> None:
    program = """
import logging, holdfast.worker.processes as processes
logging.basicConfig(level="INFO")
raise SystemExit(processes.Processes(["sleep", "600"], 2).run())
"""
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        assert all("runs as" in process.stderr.readline() for _ in range(2))
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert (errors, process.returncode) == ("", 0)


def test_a_subscription_that_is_not_shared_is_refused_to_a_worker_in_words(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(
        """
import holdfast

worker = holdfast.Worker()

@worker.topic("prices.*", subscription="audit")
def note(price: dict) -> None: ...
"""
    )
    with holdfast.blocking.connect(server.url) as client:
        client.ensure_subscription("prices.*", "audit")

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "work", "tasks:worker", "--url", server.url],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 1
    assert "handler note of topic 'prices.*' shares its subscription" in done.stderr
    assert "is durable and not shared" in done.stderr


def test_a_worker_whose_server_is_not_there_says_so(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "work", "tasks:worker", "--no-wait", "--url", "holdfast://127.0.0.1:1"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr


def test_processes_that_never_begin_are_given_up_after_a_few_tries(server: ServerProcess, tmp_path: Path) -> None:
    program = PROGRAM.replace("concurrency=2", "concurrency=2, selector='no selector at all'")
    with working(tmp_path, server.url, "--processes", "2", program=program) as process:
        _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert said.count("was expected, not 'selector'") >= 3
    last = said.splitlines()[-1]
    assert "the worker does not run: process" in last
    assert "ended 3 times in a row before it took an event, the last time with 1" in last


def test_a_process_that_has_begun_once_is_started_again_however_often_it_ends(tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    child = f"""
import os
from holdfast.worker.processes import tell_parent
tell_parent()
open({str(lives)!r}, "a").write("a life\\n")
os._exit(1)
"""
    parent = f"""
import sys, holdfast.worker.processes as processes
processes.PAUSE_FIRST_S = processes.PAUSE_LONGEST_S = 0.01
raise SystemExit(processes.Processes([sys.executable, "-c", {child!r}], 1).run())
"""
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        try:
            wait_until(lambda: lives.exists() and len(lives.read_text().splitlines()) >= 5, "it was started five times")
        finally:
            process.send_signal(signal.SIGTERM)

    assert process.returncode == 0
