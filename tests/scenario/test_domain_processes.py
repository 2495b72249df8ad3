"""Programs that tests start: a killed one takes its children with it, and nobody waits for what it left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import domain_processes
from tests.domain_processes import Processes

# A child that holds the pipe of its parent. It ends by itself, and writes that it did.
CHILD = """
import pathlib, signal, sys
signal.signal(signal.SIGALRM, lambda *_: (pathlib.Path(sys.argv[1]).touch(), sys.exit()))
signal.alarm(5)
signal.pause()
"""
PARENT = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], start_new_session=sys.argv[3] == "apart")
print("child", child.pid, flush=True)
signal.pause()
"""


def test_a_program_is_killed_together_with_a_child_that_holds_its_pipe(tmp_path: Path) -> None:
    with Processes(tmp_path, "memory:") as processes:
        processes.start("parent", sys.executable, "-c", PARENT, CHILD, str(tmp_path / "ended"), "beside", ready="child")

        processes.kill("parent")

        assert not (tmp_path / "ended").exists()  # it did not wait until the child ended


def test_a_child_that_left_its_group_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_processes, "REST_S_MAX", 0.1)
    with Processes(tmp_path, "memory:") as processes:
        said = processes.start("parent", sys.executable, "-c", PARENT, CHILD, str(tmp_path / "ended"), "apart", ready="child")

        processes.kill("parent")

        assert not (tmp_path / "ended").exists()
        os.kill(int(said.split()[1]), signal.SIGKILL)
