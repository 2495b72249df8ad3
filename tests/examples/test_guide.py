"""The guide keeps its word: every snippet compiles, and every program in it runs and prints what the page says.

A block with a title is a whole file of that name. The files of a page lie in one folder: programs are run, and tests are handed
to pytest. A `text` block right behind a program is what it prints.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
SNIPPET = re.compile(r"^```python(?: title=\"([\w.]+)\")?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
# What a page uses beside Holdfast; `make test` installs it, from the group `docs`.
NEEDED = {"fastapi.md": ("fastapi", "httpx"), "testing.md": ("anyio",)}
PROGRAMS_MIN = 8


class Snippet(NamedTuple):
    file: str  # "" for a part of a program
    text: str
    output: str


def _snippets(page: Path) -> list[Snippet]:
    return [Snippet(*found) for found in SNIPPET.findall(page.read_text())]


PROGRAMS = [page for page in PAGES if any(each.file for each in _snippets(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_of_a_page_is_read_and_compiles(page: Path) -> None:
    snippets = _snippets(page)

    assert len(snippets) == page.read_text().count("```python")
    for each in snippets:
        compile(each.text, f"{page.name}: {each.file or each.text[:40]!r}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_the_programs_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    for module in NEEDED.get(page.name, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{page.name} needs {module}; `make .venv/.stamps/docs` installs it")
    files = [each for each in _snippets(page) if each.file]
    for each in files:
        (tmp_path / each.file).write_text(each.text)

    printed = {each.file: _run(tmp_path, each.file) for each in files if not _is_imported(each, files)}

    said = {each.file: each.output for each in files if each.output}
    assert {file: printed[file] for file in said} == said


def _is_imported(file: Snippet, files: list[Snippet]) -> bool:
    """Another file of the page imports it, and so runs it."""
    return any(f"\nfrom {file.file.removesuffix('.py')} import " in each.text for each in files)


def _run(folder: Path, file: str) -> str:
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", file] if file.startswith("test_") else [file]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "HOLDFAST_URL": "memory:", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{file}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_guide_has_programs_with_what_they_print() -> None:
    assert len([each for page in PAGES for each in _snippets(page) if each.output]) >= PROGRAMS_MIN
