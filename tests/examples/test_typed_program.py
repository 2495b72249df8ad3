"""A program that uses the public interface passes a strict type checker, and one that misuses it does not (E2)."""

from __future__ import annotations

import re
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
        print((await client.describe("orders"))["wating"], (await client.status())["waiting"].upper())
    with holdfast.connect("memory:"):
        pass
    with holdfast.blocking.connect("memory:") as twin:
        twin.topic("prices").subscribe("audit", shard=True)
        twin.subscribe("prices", credit="many")
        gone: str = twin.delete("orders", force=True)
        twin.create_queue("orders", events_max="many")
        twin.queue("orders").send(1, priority="high")
"""


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    """File and line of each problem that a strict type checker finds in all of them: it is slow to start."""
    wrong = tmp_path_factory.mktemp("wrong") / "wrong.py"
    wrong.write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *map(str, PROGRAMS), str(wrong)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1, done.stdout + done.stderr
    return [(Path(file).name, int(line)) for file, line in re.findall(r"^(.+?):(\d+): error:", done.stdout, re.MULTILINE)]


@pytest.mark.slow
def test_programs_that_use_the_public_interface_are_typed_throughout(problems: list[tuple[str, int]]) -> None:
    assert [place for place in problems if place[0] != "wrong.py"] == []


@pytest.mark.slow
def test_what_the_types_do_not_allow_is_found_before_it_runs(problems: list[tuple[str, int]]) -> None:
    assert {line for file, line in problems if file == "wrong.py"} == {6, 7, 8, 9, 11, 12, 15, 16, 17, 18, 19}


def test_the_typed_program_runs(tmp_path: Path) -> None:
    program = TOP / "tests" / "examples" / "typed_program.py"

    done = subprocess.run([sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "WARNING out of stock"
