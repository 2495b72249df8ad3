"""`docs/spark.md` stays true: it names the options there are, their defaults, and sentences that the code says."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import BadSetting
from holdfast.spark.lake.format import LakeOptions
from holdfast.spark.options import BatchOptions, SinkOptions, StreamOptions
from holdfast.spark.pipelines.rules import load_rules
from holdfast.spark.pipelines.running.registry import PIPELINES
from holdfast.spark.pipelines.running.settings import load

TOP = Path(__file__).resolve().parents[2]
DOCUMENT = (TOP / "docs" / "spark.md").read_text()
SAID = "\n".join(path.read_text() for path in (TOP / "src" / "holdfast").rglob("*.py"))

READ = {"url": "holdfast://localhost", "destinations": "orders"}
# What each kind of options is read by, the least it needs, and the tables of the document that describe it.
OPTIONS: dict[str, tuple[Callable[[Mapping[str, str]], Any], dict[str, str], tuple[str, ...]]] = {
    "stream": (StreamOptions.of, {**READ, "subscription": "lake"}, ("reads and of the sink", "reads", "streams")),
    "batch read": (BatchOptions.of, READ, ("reads and of the sink", "reads", "batch reads")),
    "sink": (SinkOptions.of, {"url": "holdfast://localhost"}, ("reads and of the sink", "the sink")),
    "lake table": (LakeOptions.of, {"path": "/data/events"}, ("lake tables",)),
}


def _rows(title: str) -> list[tuple[str, str]]:
    """The option of each row of a table, and what it is if left out."""
    section = DOCUMENT.partition(f"### Of {title}\n")[2].partition("\n#")[0]
    return re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE)


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_tables_of_options_name_every_option_and_no_other(kind: str) -> None:
    read, needed, titles = OPTIONS[kind]

    with pytest.raises(BadSetting) as refused:
        read({**needed, "nonsense": "1"})

    there_are = str(refused.value).partition("There are: ")[2].split(", ")
    assert sorted(name for title in titles for name, _ in _rows(title)) == sorted(there_are)


@pytest.mark.parametrize("kind", OPTIONS)
def test_an_option_that_is_left_out_is_what_its_table_says(kind: str) -> None:
    read, needed, titles = OPTIONS[kind]
    told = {name: default.strip("`") for title in titles for name, default in _rows(title) if default.startswith("`")}

    assert told
    for name, default in told.items():
        assert read({**needed, name: default}) == read(needed), name


def test_what_troubleshooting_quotes_is_said_somewhere() -> None:
    ours = DOCUMENT.partition("\n## Troubleshooting\n")[2].partition("\nWhat Spark says:")[0]
    quoted = re.findall(r"^\| `(.+?)` \|", ours, re.MULTILINE)

    assert len(quoted) > 10
    assert [sentence for sentence in quoted if sentence not in SAID] == []


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.name)
def test_the_settings_file_of_the_document_is_one_for_every_pipeline(
    pipeline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = re.findall(r"```toml\n# (\w+\.toml)\n(.+?)```", DOCUMENT, re.DOTALL)
    for name, text in files:
        Path(name).write_text(text)
    Path("sent.jsonl").touch()

    settings = load(pipeline.settings, pipeline.name, Path("pipelines.toml"), {}, tuple(each.name for each in PIPELINES))

    own = tomllib.loads(Path("pipelines.toml").read_text())[pipeline.name]
    assert own.items() <= msgspec.structs.asdict(settings).items()
    assert [rule.name for rule in load_rules(Path("rules.toml"))] == ["many-orders"]
