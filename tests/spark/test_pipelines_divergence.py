"""Divergence (D4): the answers of three servers, of which some do not agree."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.pipelines.divergence import divergence
from tests.spark.pipeline_events import at, event, frame, rows

pytestmark = pytest.mark.spark

SERVERS = ("a", "b", "c")


def answer(transaction: int, server: str, digest: str | None = "same", seconds: float = 0.0, **said: Any) -> dict[str, Any]:
    properties = {"transaction": str(transaction), "server": server, **({"digest": digest} if digest else {})}
    return event(seconds, type="answer", properties=properties, **said)


def test_transactions_with_which_something_is_wrong_are_found_and_no_others(spark: SparkSession) -> None:
    """D4: agreed, different, missing, twice, unexpected, and everything at once."""
    given = {
        1: "a b c",
        2: "a b c:other",
        3: "a c",
        4: "a b b c",
        5: "a b c d",
        6: "a a:other",
        7: "a:x b:y c:z",
    }
    events = [
        answer(transaction, *said.partition(":")[::2]) if ":" in said else answer(transaction, said)
        for transaction, texts in given.items()
        for said in texts.split()
    ]

    found = {row["transaction"]: row for row in rows(divergence(frame(spark, [*events, event()]), SERVERS))}

    assert {transaction: row["problems"] for transaction, row in found.items()} == {
        "2": ["differs"],
        "3": ["missing"],
        "4": ["twice"],
        "5": ["unexpected"],
        "6": ["differs", "missing", "twice"],
        "7": ["differs"],
    }
    assert (found["2"]["agreed"], found["2"]["dissenting"]) == ("same", ["c"])
    assert (found["7"]["agreed"], found["7"]["dissenting"]) == (None, [])
    assert (found["3"]["missing"], found["4"]["twice"], found["5"]["unexpected"]) == (["b"], ["b"], ["d"])
    assert found["2"]["answers"][-1] == {"server": "c", "digest": "other"}


def test_answers_without_a_digest_are_compared_by_their_data(spark: SparkSession) -> None:
    events = [
        *(answer(1, server, None, data=b"yes") for server in SERVERS),
        *(answer(2, server, None, data=b"no" if server == "b" else b"yes") for server in SERVERS),
    ]

    [row] = rows(divergence(frame(spark, events), SERVERS))

    assert (row["transaction"], row["problems"], row["dissenting"]) == ("2", ["differs"], ["b"])


def test_the_same_number_in_two_domains_is_two_transactions(spark: SparkSession) -> None:
    events = [answer(1, server, digest, destination=domain) for domain, digest in (("x", "1"), ("y", "2")) for server in SERVERS]

    assert rows(divergence(frame(spark, events), SERVERS)) == []


def test_an_answer_after_the_patience_is_missing_and_then_found_by_itself(spark: SparkSession) -> None:
    events = [answer(1, "a"), answer(1, "b", seconds=20), answer(1, "c", seconds=100)]

    found = rows(divergence(frame(spark, events), SERVERS, patience_seconds=30))

    assert sorted((row["first_at"], row["missing"]) for row in found) == [(at(0), ["c"]), (at(100), ["a", "b"])]


def test_an_answer_that_does_not_say_whose_it_is_is_named_and_not_passed_over(spark: SparkSession) -> None:
    [row] = rows(divergence(frame(spark, [event(type="answer")]), SERVERS))

    assert (row["transaction"], row["unexpected"], row["problems"]) == ("?", ["?"], ["missing", "unexpected"])
