"""The programs in `examples/` run, and do what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


def _run(*command: str, folder: Path, seconds: float = 60, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_program_sends_receives_and_confirms_and_does_so_again(tmp_path: Path) -> None:
    program = str(TOP / "examples" / "first_program.py")

    first = _run(program, folder=tmp_path)
    second = _run(program, folder=tmp_path)

    assert re.fullmatch(r"durable at position \d+\norder.placed {'sku': 7}\n", first)
    assert re.fullmatch(r"durable at position \d+\norder.placed {'sku': 7}\n", second)
    assert first != second


def test_the_readme_shows_the_first_program() -> None:
    (program,) = re.findall(r"```python\n(.+?)```", (TOP / "README.md").read_text(), re.DOTALL)
    example = (TOP / "examples" / "first_program.py").read_text()

    assert program == example


def test_the_boot_recorder_delivers_what_was_recorded_before_the_server_existed_first(tmp_path: Path) -> None:
    out = _run(str(TOP / "examples" / "boot_recorder.py"), folder=tmp_path)

    assert re.findall(r"delivered: (.+)", out) == [
        "firmware checked",
        "disks mounted",
        "network is down",
        "sent when the server was up",
    ]


@pytest.mark.slow
def test_the_demo_kills_the_server_loses_nothing_and_leaves_nothing_running(tmp_path: Path) -> None:
    out = _run("-m", "examples.demo", "--kills", "2", folder=TOP, seconds=120, TMPDIR=str(tmp_path))

    assert re.search(r"server killed \(SIGKILL\)\W+2 times", out)
    assert re.search(r"lost\W+0\s", out)
    assert "Nothing that was accepted was lost." in out
    assert _left_running(tmp_path) == []


@pytest.mark.slow
def test_a_demo_that_is_interrupted_leaves_nothing_running(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.demo"],
        cwd=TOP,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "kill -9" in line:
                demo.send_signal(signal.SIGINT)
                break
        demo.communicate(timeout=30)

    assert demo.returncode == 130
    assert _left_running(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def _left_running(folder: Path) -> list[str]:
    """Processes that have a folder on their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = place.read_text(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found
