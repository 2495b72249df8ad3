"""The examples on Spark run, and do what they say: the first table, the demo of the pipelines, the notebook (D1, D4)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import Refused
from holdfast.spark.java import find_java
from tests import effort
from tests.server_process import ServerProcess
from tests.spark.cluster import SMALL

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TOP = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def java() -> None:
    try:
        find_java()
    except Refused as problem:
        pytest.skip(str(problem))


def _run(*command: str, folder: Path, seconds: float, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_table_has_what_was_sent_once_and_more_of_it_the_second_time(tmp_path: Path) -> None:
    program = str(TOP / "examples" / "first_table.py")

    runs = effort.rounds(short=1, long=2)

    with ServerProcess(tmp_path / "data") as server:
        said = "".join(_run(program, server.url, folder=tmp_path, seconds=240, JDK_JAVA_OPTIONS=SMALL) for _ in range(runs))

    assert re.findall(r"\|\s*orders\.web\|\s*(\d+)\|", said) == ["1000", "2000"][:runs]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("options", "server_killed", "spark_killed"),
    [(["--quick"], "once", "0 times"), pytest.param([], "2 times", "once", marks=pytest.mark.long)],
)
def test_the_demo_kills_server_and_spark_and_everything_is_in_the_table_once(
    options: list[str], server_killed: str, spark_killed: str, tmp_path: Path
) -> None:
    results = str(tmp_path / "results")

    out = _run("-m", "examples.pipeline_demo", *options, "--results", results, folder=TOP, seconds=880, TMPDIR=str(tmp_path))

    assert re.search(rf"server killed \(SIGKILL\)\W+{server_killed}", out)
    assert re.search(rf"Spark driver killed \(SIGKILL\)\W+{spark_killed}", out)
    assert re.search(r"lost\W+0\s.*duplicated\W+0\s", out, re.DOTALL)
    assert "Everything that was receipted is in the table, once." in out
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["audit.html", "pipeline-demo.png"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("holdfast-pipelines-")] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_notebook_runs_draws_and_ends_with_every_event_in_the_table(tmp_path: Path) -> None:
    done = tmp_path / "done.ipynb"
    notebook = str(TOP / "examples" / "events_in_tables.ipynb")

    _run(
        "-c", "from nbclient.cli import main; main()", "--timeout=500", f"--output={done}", notebook, folder=tmp_path, seconds=580
    )

    outputs = [each for cell in json.loads(done.read_text())["cells"] for each in cell.get("outputs", ())]
    assert sum("image/png" in each.get("data", {}) for each in outputs) == 2
    assert any("0 wait, 10,001 rows, 10,001 different ids" in "".join(each.get("text", ())) for each in outputs)
