"""A program that uses the public interface passes a strict type checker, and one that misuses it does not (E2)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PROGRAMS = [TOP / "tests" / "examples" / "typed_program.py", *sorted((TOP / "examples").glob("*.py"))]

WRONG = """
import holdfast

async def main() -> None:
    async with holdfast.connect("memory:") as client:
        await client.queue("orders").send(1, priority="high")
        await client.queue("orders").send(1, colour="red")
        receipt: int = await client.queue("orders").send(1)
        for event in client.queue("orders").receive():
            pass
    with holdfast.connect("memory:"):
        pass
"""


def _check(*programs: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *map(str, programs)]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
def test_programs_that_use_the_public_interface_are_typed_throughout() -> None:
    done = _check(*PROGRAMS)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_the_types_do_not_allow_is_found_before_it_runs(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)

    found = {int(line.split(":")[1]) for line in _check(tmp_path / "wrong.py").stdout.splitlines() if ": error:" in line}

    assert found == {6, 7, 8, 9, 11}


def test_the_typed_program_runs(tmp_path: Path) -> None:
    program = TOP / "tests" / "examples" / "typed_program.py"

    done = subprocess.run([sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "WARNING out of stock"
