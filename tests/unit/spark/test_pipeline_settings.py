"""The settings of pipelines (D4): from a file and the command line, checked before Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BadSetting
from holdfast.spark.pipelines.running.registry import (
    NAMES,
    PIPELINES,
    AlertsSettings,
    ArchiveSettings,
    DivergenceSettings,
    ReplaySettings,
    StatisticsSettings,
)
from holdfast.spark.pipelines.running.settings import Settings, load, seconds

FILE = """
url = "holdfast://elsewhere"
destinations = ["orders", "alerts.*"]
every = 5

[archive]
subscription = "lake"
checkpoint = "./checkpoints/archive"
table = "./lake"
every = 10

[statistics]
window = "5m"

[spark]
"spark.executor.memory" = "4g"
"""
GIVEN = {"destinations": "orders", "subscription": "s", "checkpoint": "c"}


def loaded(kind: type[Any], text: str, **given: Any) -> Any:
    path = Path("pipeline.toml")
    path.write_text(text)
    return load(kind, kind.__name__.removesuffix("Settings").lower(), path, given, NAMES)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_command_line_wins_over_the_table_of_the_pipeline_and_that_over_what_is_for_all() -> None:
    from_file = loaded(ArchiveSettings, FILE)
    overridden = loaded(ArchiveSettings, FILE, every=1.5, table="./other")

    assert (from_file.url, from_file.names, from_file.every) == ("holdfast://elsewhere", "orders,alerts.*", 10)
    assert (overridden.every, overridden.table, overridden.subscription) == (1.5, "./other", "lake")
    assert from_file.spark == {"spark.executor.memory": "4g"}


def test_what_is_said_for_all_may_be_of_no_use_to_one() -> None:
    replay = loaded(ReplaySettings, FILE, table="./lake", checkpoint="./c")

    assert replay.destination_names == ["orders", "alerts.*"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tabel = 'x'", "there is no setting 'tabel'"),
        ("[archive]\ntabel = 'x'", "did you mean table?"),
        ("[archiv]\ntable = 'x'", "did you mean archive?"),
        ("archive = 3", "is a table"),
        ("every = 'often'", "every"),
        ("[archive]\nmax_events = -1", "max_events"),
        ("[archive]\nformat = 'noon'", "format"),
        ("[spark]\n'spark.cores' = 3", "spark"),
        ("not toml", "is not TOML"),
    ],
)
def test_a_file_that_says_something_wrong_is_refused_with_what_it_is(text: str, sentence: str) -> None:
    with pytest.raises(BadSetting) as refused:
        loaded(ArchiveSettings, text, table="t", **GIVEN)

    assert sentence in refused.value.sentence


def test_a_file_that_is_not_there_is_refused_with_its_name() -> None:
    with pytest.raises(BadSetting, match=r"missing.toml cannot be read"):
        load(ArchiveSettings, "archive", Path("missing.toml"), GIVEN, NAMES)


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (ArchiveSettings, {**GIVEN}, "--table is missing"),
        (ArchiveSettings, {**GIVEN, "table": "t", "destinations": ""}, "--destinations is missing"),
        (ArchiveSettings, {**GIVEN, "table": "t", "subscription": ""}, "--subscription is missing"),
        (ArchiveSettings, {**GIVEN, "table": "t", "checkpoint": ""}, "--checkpoint is missing"),
        (ArchiveSettings, {**GIVEN, "table": "t", "once": True, "every": 3.0}, "give one of them"),
        (ArchiveSettings, {**GIVEN, "table": "t", "remote": "sc://x", "spark_master": "yarn"}, "give one of them"),
        (ArchiveSettings, {**GIVEN, "table": "t", "data_schema": "a int"}, "--format json"),
        (StatisticsSettings, {**GIVEN, "window": "soon"}, "is not a time"),
        (StatisticsSettings, {**GIVEN, "slide": "2m"}, "longer than window"),
        (StatisticsSettings, {**GIVEN, "remote": "sc://x"}, "give --table"),
        (AlertsSettings, {**GIVEN}, "--rules is missing"),
        (AlertsSettings, {**GIVEN, "rules": "none.toml"}, "none.toml cannot be read"),
        (DivergenceSettings, {**GIVEN, "servers": "a"}, "two or more"),
        (ReplaySettings, {"checkpoint": "c"}, "--table is missing"),
        (ReplaySettings, {"checkpoint": "c", "table": "t", "since": "noon"}, "is not a time"),
        (
            ReplaySettings,
            {"checkpoint": "c", "table": "t", "since": "2026-11-16", "until": "2026-11-16T00:00Z"},
            "turn them round",
        ),
        (ReplaySettings, {"checkpoint": "c", "table": "t", "chunk_events": 0}, "chunk_events"),
    ],
)
def test_what_is_missing_or_does_not_go_together_is_refused(kind: type[Settings], given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load(kind, "x", None, given)

    assert sentence in refused.value.sentence


def test_the_source_is_told_only_what_was_said() -> None:
    settings = load(ArchiveSettings, "archive", None, {**GIVEN, "table": "t", "max_events": 10})

    assert settings.source_options() == {
        "url": "holdfast://127.0.0.1:7400",
        "destinations": "orders",
        "subscription": "s",
        "format": "binary",
        "sync": "local",
        "timeout": "60",
        "maxEventsPerTrigger": "10",
    }


@pytest.mark.parametrize(("text", "value"), [(90, 90), ("90", 90), ("1.5h", 5400), ("250ms", 0.25), ("1 d", 86_400), ("2m", 120)])
def test_a_time_is_seconds_or_has_its_unit(text: float | str, value: float) -> None:
    assert seconds(text, "window") == value


def test_every_setting_of_every_pipeline_says_what_it_is_for() -> None:
    for pipeline in PIPELINES:
        assert pipeline.settings is not Settings
        assert pipeline.sentence.endswith(".")
