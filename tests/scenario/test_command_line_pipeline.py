"""`holdfast pipeline` up to where Spark begins: what is refused, what is listed, what would run (D4, E4). No Spark is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.main import run
from holdfast.spark.pipelines.running.registry import PIPELINES

READ = ["--destinations", "orders", "--subscription", "lake", "--checkpoint", "c"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    Path("unknown.toml").write_text("[archive]\ntabel = 'x'\n")
    Path("bad-rules.toml").write_text("[[rule]]\nname = 'a'\nwindow = '1m'\ntreshold = 3\nthreshold = 3\n")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["archive", "--table", "t"], 1, "--destinations is missing"),
        (["archive", *READ], 1, "--table is missing"),
        (["archive", *READ, "--table", "t", "--config", "unknown.toml"], 1, "did you mean table?"),
        (["archive", *READ, "--table", "t", "--config", "none.toml"], 1, "none.toml cannot be read"),
        (["archive", *READ, "--table", "t", "--tabel", "t"], 2, "--tabel"),
        (["archive", *READ, "--table", "t", "--max-events", "many"], 2, "--max-events"),
        (["archive", *READ, "--table", "t", "--format", "xml"], 1, "format"),
        (["statistics", *READ, "--window", "soon"], 1, "is not a time"),
        (["alerts", *READ], 1, "--rules is missing"),
        (["alerts", *READ, "--rules", "bad-rules.toml"], 1, "did you mean threshold?"),
        (["divergence", *READ], 1, "--servers is missing"),
        (["replay", "--checkpoint", "c"], 1, "--table is missing"),
        (["replay", "--checkpoint", "c", "--table", "t", "--selector", "amount >"], 1, "amount >"),
        (["explode"], 2, "No such command 'explode'"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence_before_spark_is_started(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, sentence: str
) -> None:
    found = run(["pipeline", *arguments])

    out, err = capsys.readouterr()
    assert (found, out) == (code, "")
    assert sentence in err


def test_without_spark_a_sentence_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyspark", "deltalake"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed

    code = run(["pipeline", "archive", *READ, "--table", "t"])

    assert code == 1
    assert capsys.readouterr().err == (
        "holdfast: pipelines need pyspark and deltalake, which are not installed here: pip install 'holdfast[spark]'\n"
    )


def test_check_shows_what_would_run_with_the_command_line_before_environment_and_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pipeline.toml").write_text("url = 'holdfast://file'\nevery = 3\n[archive]\nmax_events = 5\ntable = 'lake'\n")
    monkeypatch.setenv("HOLDFAST_URL", "holdfasts://ada:secret@environment")

    code = run(["pipeline", "archive", *READ, "--config", "pipeline.toml", "--max-events", "7", "--check", "--json"])

    [line] = capsys.readouterr().out.splitlines()
    shown = msgspec.json.decode(line)
    assert code == 0
    assert (shown["max_events"], shown["every"], shown["table"]) == (7, 3, "lake")
    assert shown["url"] == "holdfasts://ada:***@environment"


def test_the_list_has_every_pipeline_with_its_sentence_and_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    run(["pipeline", "list", "--json"])
    listed = {line["name"]: line for line in map(msgspec.json.decode, capsys.readouterr().out.splitlines())}
    run(["pipeline", "list"])
    text = capsys.readouterr().out

    for pipeline in PIPELINES:
        assert listed[pipeline.name]["sentence"] == pipeline.sentence
        assert pipeline.sentence in text
    assert {
        "--url",
        "--destinations",
        "--subscription",
        "--spark-master",
        "--remote",
        "--once",
        "--every",
        "--checkpoint",
        "--table",
    } <= set(listed["archive"]["options"])


def test_the_command_line_imports_spark_only_to_run_it() -> None:
    script = (
        "import sys; from holdfast.cli.main import run; run(['pipeline', 'list'])\n"
        "sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
