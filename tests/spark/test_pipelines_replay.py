"""Replay (D4): which rows of an archive are asked for, on a few rows with a known answer."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.pipelines.replay import repeated, replay, without_repeated
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
        ({"selector": "amount > 8"}, [4]),
        ({"selector": "type LIKE 'order.%'", "where": "position % 2 = 0", "until": at(30)}, [2]),
    ],
)
def test_what_is_asked_for_is_replayed_and_nothing_else(spark: SparkSession, asked: dict[str, Any], positions: list[int]) -> None:
    found = replay(frame(spark, ARCHIVED), **asked)

    assert sorted(row["position"] for row in found.collect()) == positions


def test_an_event_that_was_archived_again_after_a_replay_is_replayed_once(spark: SparkSession) -> None:
    archived = [
        *(event(position=position, id="a") for position in (1, 2, 9)),
        event(position=3, id="a", source="another"),
        event(position=4, id="b"),
    ]
    whole = frame(spark, archived)

    found = without_repeated(whole, repeated(whole)).collect()

    assert sorted(row["position"] for row in found) == [1, 3, 4]
