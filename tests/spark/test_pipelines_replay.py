"""Replay (D4): which rows of an archive are asked for, on a few rows with a known answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.pipelines.replay import files_of, meant, repeated, replay, without_repeated
from tests.spark.lake_rows import add_batch, rows
from tests.spark.pipeline_events import at, event, frame

pytestmark = pytest.mark.spark

ARCHIVED = [
    event(0, position=1),
    event(10, position=2, time=at(-60), properties={"amount": "7"}),
    event(20, position=3, destination="prices", type="price"),
    event(30, position=4, properties={"amount": "70"}),
]


@pytest.mark.parametrize(
    ("asked", "positions"),
    [
        ({}, [1, 2, 3, 4]),
        ({"since": at(10), "until": at(30)}, [2, 3]),
        ({"since": at(0), "by": "time"}, [1, 3, 4]),
        ({"destinations": ["prices", "none"]}, [3]),
        ({"destinations": ["pri*", "none"]}, [3]),
        ({"destinations": ["**"]}, [1, 2, 3, 4]),
        ({"destinations": ["none.*"]}, []),
        ({"selector": "amount > 8"}, [4]),
        ({"selector": "type LIKE 'order.%'", "where": "position % 2 = 0", "until": at(30)}, [2]),
    ],
)
def test_what_is_asked_for_is_replayed_and_nothing_else(spark: SparkSession, asked: dict[str, Any], positions: list[int]) -> None:
    found = replay(frame(spark, ARCHIVED), **asked)

    assert sorted(row["position"] for row in found.collect()) == positions


def test_the_files_of_a_plan_are_there_whatever_their_destination_is_called(tmp_path: Path) -> None:
    add_batch(tmp_path, 0, rows(range(4), ("orders", "plant/7")))

    found = files_of(str(tmp_path))

    assert sorted((file.destination, file.first, file.last) for file in found) == [("orders", 0, 2), ("plant/7", 1, 3)]
    assert all((tmp_path / file.path).is_file() for file in found)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (["orders", "plant/?"], ["orders", "plant/7"]),
        (["plant/**"], ["plant/7", "plant/7/alarms"]),
        (["order"], []),
        ([], []),
    ],
)
def test_names_and_wildcards_mean_what_they_mean_to_the_server(asked: list[str], found: list[str]) -> None:
    assert meant(asked, {"plant/7/alarms", "orders", "plant/7", "_LOG"}) == found


def test_an_event_that_was_archived_again_after_a_replay_is_replayed_once(spark: SparkSession) -> None:
    archived = [
        *(event(position=position, id="a") for position in (1, 2, 9)),
        event(position=3, id="a", source="another"),
        event(position=4, id="b"),
    ]
    whole = frame(spark, archived)

    found = without_repeated(whole, repeated(whole)).collect()

    assert sorted(row["position"] for row in found) == [1, 3, 4]
