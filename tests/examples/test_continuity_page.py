"""The page on continuity keeps its word: its five minutes run as they are printed, in order, and say what the page says."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_process import free_port

TOP = Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs" / "continuity.md").read_text()
UNTIL_STOPPED = re.compile(r"holdfast (serve|listener|engine) |python -m examples.bank.server ")
PORTS = ("7400", "9001", "9002", "8080")


def _commands() -> Iterator[tuple[str, str]]:
    """Each command of the five minutes, and the line that it prints; "" where the page shows none."""
    section = PAGE.partition("## Five minutes")[2].partition("### In a program")[0]
    for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL):
        for command, printed in re.findall(r"^\$ (.+)\n((?:(?!\$ ).+\n)?)", block, re.MULTILINE):
            yield command, printed.strip()


def _with_free_ports(text: str, ports: dict[str, str]) -> str:
    return re.sub("|".join(PORTS), lambda found: ports[found[0]], text)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_five_minutes_run_and_print_what_the_page_says(tmp_path: Path) -> None:
    ports = {each: str(free_port()) for each in PORTS}
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{TOP}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "HOLDFAST_LISTEN": f"127.0.0.1:{ports['7400']}",
        "HOLDFAST_URL": f"holdfast://127.0.0.1:{ports['7400']}",
    }
    started: list[subprocess.Popen[str]] = []
    printed: list[tuple[str, str]] = []
    try:
        for command, _ in _commands():
            actual = _with_free_ports(command, ports)
            if UNTIL_STOPPED.match(command):
                process = subprocess.Popen(
                    ["sh", "-c", f"exec {actual}"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
                )
                started.append(process)
                assert process.stdout is not None
                printed.append((command, process.stdout.readline().strip()))
            else:
                done = subprocess.run(
                    ["sh", "-c", actual], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
                )
                assert done.returncode == 0, f"{actual}\n{done.stderr}"
                printed.append((command, done.stdout.strip()))
    finally:
        for process in reversed(started):
            process.terminate()
            process.communicate(timeout=30)

    shown = [(command, _with_free_ports(line, ports)) for command, line in _commands()]
    assert len(shown) > 10
    assert [each for each, (_, line) in zip(printed, shown, strict=True) if line] == [each for each in shown if each[1]]
    (status,) = [text for command, text in printed if "domain status" in command]
    assert re.search(r"level +fault-tolerant", status)


def test_the_programs_of_the_page_compile() -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

    assert programs
    for each in programs:
        compile(each, "continuity.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
