"""`make` on a machine whose Python is too old, or cannot do what is asked: it says so, and leaves nothing half-made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What is asked of it is whether it is new enough (-c), which it is (-m venv), and to make an environment.
OLD = """#!/bin/sh
case "$1" in
    --version) echo "Python 3.10.12" ;;
    -c) exit 1 ;;
    -m) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
esac
"""
WITHOUT_VENV = """#!/bin/sh
case "$1" in
    --version) echo "Python 3.12.1" ;;
    -c) exit 0 ;;
    -m) mkdir -p "$3/bin"; echo "ensurepip is not available"; exit 1 ;;
esac
"""


def made(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    for file in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / file, folder)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["make", *arguments], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
    )


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("target", ["demo", "test", ".venv/.stamps/dev"])
def test_a_python_that_is_too_old_is_named_with_what_to_do_and_nothing_is_made(target: str, tmp_path: Path) -> None:
    program(tmp_path / "python3.10", OLD)

    done = made(tmp_path, target, "PYTHON=python3.10")

    assert done.returncode == 2
    assert "python3.10 is Python 3.10.12; Holdfast needs Python 3.11 or newer: leave PYTHON out" in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_a_python_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    done = made(tmp_path, "demo", "PYTHON=python3.99")

    assert done.returncode == 2
    assert "python3.99 is no Python that runs" in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_an_environment_that_cannot_be_made_or_was_made_with_an_old_python_is_not_left_behind(tmp_path: Path) -> None:
    program(tmp_path / "python3.12", WITHOUT_VENV)
    program(tmp_path / ".venv/bin/python", OLD)

    done = made(tmp_path, "demo", "PYTHON=python3.12")

    assert done.returncode == 2
    assert "python3.12 cannot make a virtual environment" in done.stdout
    assert not (tmp_path / ".venv").exists()


def a_python(leaves_with: int) -> str:
    """A Python that answers the question of `make` whether it is an optimised build, and makes no environment."""
    return f'#!/bin/sh\ncase "$1$2" in\n    *find_spec*) exit {leaves_with} ;;\n    -c*) exit 0 ;;\n    *) exit 1 ;;\nesac\n'


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({"python3": 0, "python3.13": 0, "python3.12": 0, "python3.11": 0}, "python3"),
        ({"python3": 2, "python3.13": 2, "python3.12": 0, "python3.11": 0}, "python3.12"),
        ({"python3": 1, "python3.13": 1, "python3.12": 1, "python3.11": 0}, "python3.11"),
    ],
)
def test_of_several_that_fit_an_optimised_python_is_preferred(found: dict[str, int], chosen: str, tmp_path: Path) -> None:
    for name, leaves_with in found.items():
        program(tmp_path / name, a_python(leaves_with))

    done = made(tmp_path, "demo")

    assert f"preparing .venv with {chosen}\n" in done.stdout
    assert f"{chosen} cannot make a virtual environment" in done.stdout


def test_a_python_that_is_named_is_taken_whatever_else_there_is(tmp_path: Path) -> None:
    program(tmp_path / "python3", a_python(0))
    program(tmp_path / "python3.12", a_python(2))

    assert "preparing .venv with python3.12\n" in made(tmp_path, "demo", "PYTHON=python3.12").stdout
