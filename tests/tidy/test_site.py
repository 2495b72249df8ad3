"""The documentation site: `make docs` builds it, whole and without help from other hosts."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# What a browser would fetch by itself; links that a reader may follow are none of it.
FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?://[^\" >]+|//[^\" >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed; `make .venv/.stamps/docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=TOP,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_has_a_page_for_every_document(site: Path) -> None:
    documents = [path.relative_to(TOP / "docs").with_suffix(".html") for path in (TOP / "docs").rglob("*.md")]

    assert documents
    assert [str(page) for page in documents if not (site / page).is_file()] == []


@pytest.mark.slow
def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert pages
    assert {page.name: FETCHED.findall(page.read_text()) for page in pages if FETCHED.search(page.read_text())} == {}


@pytest.mark.slow
def test_the_reference_shows_blocking_calls_as_methods_with_the_words_of_their_twins(site: Path) -> None:
    page = (site / "reference" / "blocking.html").read_text()

    assert 'id="holdfast.blocking.Queue.send"' in page
    assert "wait until it is durable" in page
    assert "waiting_for" not in page
