"""The audit (D4) on generated events: what was lost, doubled or left out is found, named, and nothing else is."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.errors import BadSetting
from holdfast.event import identifier
from holdfast.event.identifier import Parts, compose, to_text
from holdfast.spark.pipelines.auditing.identifiers import counter_of, id_of, producer_of, started_at
from holdfast.spark.pipelines.auditing.reconciliation import Reconciliation, reconcile
from holdfast.spark.pipelines.auditing.report import Account, Report
from holdfast.spark.pipelines.auditing.summary import summarise

pytestmark = pytest.mark.spark

SCHEMA = "destination string, id string, position long"
# Starts whose bits reach into the letter that the counter begins in, and counters that fill theirs.
ANN = Parts(1_790_000_000_123, 3, 0xFFFF_FFFF, 0)
BEN = Parts(1_790_000_500_000, 0, 5, 0)

Seen = list[tuple[str, str, int]]


def id_at(producer: Parts, counter: int) -> str:
    return to_text(compose(producer) + counter)


def sent(destination: str, producer: Parts, counters: range, base: int = 0) -> Seen:
    return [(destination, id_at(producer, counter), base + 1 + counter) for counter in counters]


def without(rows: Seen, *ids: str) -> Seen:
    return [row for row in rows if row[1] not in ids]


def found_in(spark: SparkSession, **seen: Seen) -> Reconciliation:
    """Everything out of order, as it comes from many files."""
    frames = {}
    for name, rows in seen.items():
        shuffled = rows[:]
        random.Random(7).shuffle(shuffled)
        frames[name] = spark.createDataFrame(shuffled, SCHEMA)
    return reconcile(**frames)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def report_of(spark: SparkSession, account: tuple[Account, ...] = (), **seen: Seen) -> Report:
    found = found_in(spark, **seen)
    return summarise(found, has_receipts="receipts" in seen, has_archive="archive" in seen, subject={}, account=account)


def test_an_id_is_taken_apart_by_spark_as_it_is_by_the_node_that_made_it(spark: SparkSession) -> None:
    dice = random.Random(1)
    parts = [Parts(dice.getrandbits(48), dice.getrandbits(16), dice.getrandbits(32), dice.getrandbits(32)) for _ in range(200)]
    parts += [Parts(0, 0, 0, 0), Parts(identifier.START_MAX >> 4, 0, identifier.NODE_MAX, identifier.COUNTER_MAX)]
    ids = spark.createDataFrame([(to_text(compose(each)),) for each in parts], "id string")

    producer, counter = producer_of(F.col("id")), counter_of(F.col("id"))
    taken = ids.select("id", producer, counter, F.unix_millis(started_at(producer)), id_of(producer, counter)).collect()

    for each, row in zip(parts, taken, strict=True):
        text = to_text(compose(each))
        assert tuple(row) == (text, to_text(compose(Parts(*_start(each), 0))), each.counter, each.start_ms, text)


def _start(parts: Parts) -> tuple[int, int, int]:
    return parts.start_ms, parts.site, parts.node


def test_when_everything_is_somewhere_nothing_is_lost_d4(spark: SparkSession) -> None:
    orders, alerts = sent("orders", ANN, range(100)), sent("alerts", BEN, range(50), base=1_000)

    report = report_of(spark, receipts=orders + alerts, archive=orders[:60] + alerts, waiting=orders[55:97], dead=orders[97:])

    assert report.verdict == "0 lost, 0 duplicated"
    assert report.is_whole
    assert [(each.destination, each.receipted, each.archived, each.waiting, each.dead) for each in report.destinations] == [
        ("alerts", 50, 50, 0, 0),
        ("orders", 100, 60, 42, 3),
    ]
    assert [each.all for each in report.destinations] == [50, 100]
    assert (report.lost_ranges, report.duplicates, report.strangers, report.holes) == ([], [], [], [])


def test_what_was_lost_is_named_by_destination_producer_and_range_d4(spark: SparkSession) -> None:
    receipts = sent("orders", ANN, range(1_000)) + sent("alerts", BEN, range(10)) + [("alerts", "order-7", 5_000)]
    gone = [id_at(ANN, counter) for counter in (3, 400, 401, 402, 999)] + [id_at(BEN, 0), "order-7"]

    found = found_in(spark, receipts=receipts, archive=without(receipts, *gone))

    assert [
        (each["destination"], each["first"], each["last"], each["count"], each["first_position"]) for each in rows(found.lost)
    ] == [
        ("alerts", id_at(BEN, 0), id_at(BEN, 0), 1, 1),
        ("alerts", "order-7", "order-7", 1, 5_000),
        ("orders", id_at(ANN, 3), id_at(ANN, 3), 1, 4),
        ("orders", id_at(ANN, 400), id_at(ANN, 402), 3, 401),
        ("orders", id_at(ANN, 999), id_at(ANN, 999), 1, 1_000),
    ]
    lost = {(each["destination"], each["producer"]): each["lost"] for each in rows(found.producers)}
    assert lost == {("alerts", None): 1, ("alerts", id_at(BEN, 0)): 1, ("orders", id_at(ANN, 0)): 5}


def test_an_id_that_is_in_the_archive_twice_is_a_duplicate_and_the_reason_is_told_d4(spark: SparkSession) -> None:
    archive = [*sent("orders", ANN, range(20)), ("alerts", id_at(ANN, 5), 900)]
    twice = [*archive, ("orders", id_at(ANN, 7), 8), ("orders", id_at(ANN, 9), 4_000)]

    report = report_of(spark, receipts=archive, archive=twice, waiting=archive[:10])

    assert [(each.destination, each.id, each.copies, each.reason) for each in report.duplicates] == [
        ("orders", id_at(ANN, 7), 2, "archived twice"),
        ("orders", id_at(ANN, 9), 2, "accepted twice"),
    ]
    assert report.verdict == "0 lost, 2 duplicated"
    assert not report.is_whole


def test_holes_in_the_counter_of_a_producer_are_named_whatever_destination_its_events_went_to_d4(spark: SparkSession) -> None:
    edge = 1 << 16  # where one bucket of counters ends and the next begins
    seen = [*range(5), *range(8, 10), *range(edge - 2, edge), edge + 3, 5 * edge]
    archive = [("orders" if counter % 2 else "alerts", id_at(ANN, counter), counter) for counter in seen]
    archive += [*sent("orders", BEN, range(3)), ("orders", "foreign", 1)]

    found = found_in(spark, archive=archive)

    assert [(each["producer"], each["first"], each["last"], each["count"]) for each in rows(found.holes)] == [
        (id_at(ANN, 0), id_at(ANN, low), id_at(ANN, high), high - low + 1)
        for low, high in ((5, 7), (10, edge - 3), (edge, edge + 2), (edge + 4, 5 * edge - 1))
    ]


def test_an_event_without_a_receipt_is_a_stranger_and_no_loss(spark: SparkSession) -> None:
    archive = sent("orders", ANN, range(10))

    report = report_of(spark, receipts=archive[:8], archive=archive[:9], waiting=archive[9:])

    assert [(each.id, each.state) for each in report.strangers] == [(id_at(ANN, 8), "archived"), (id_at(ANN, 9), "waiting")]
    assert report.is_whole
    assert any("no receipt" in remark for remark in report.remarks())


def test_what_recipients_wrote_down_counts_as_delivered_and_is_not_lost(spark: SparkSession) -> None:
    receipts = sent("jobs", ANN, range(10))

    report = report_of(spark, receipts=receipts, delivered=receipts[:9] + receipts[:1])

    assert report.lost == 1
    assert [each.first for each in report.lost_ranges] == [id_at(ANN, 9)]
    assert report.destinations[0].delivered == 9


def test_without_receipts_the_servers_account_tells_how_many_are_missing(spark: SparkSession) -> None:
    archive = sent("orders", ANN, range(10))
    account = Account(destination="orders", subscription="lake", accepted=15, confirmed=12, dead=1, expired=0, waiting=2)

    report = report_of(spark, (account,), archive=archive)

    assert report.verdict == "2 lost, 0 duplicated"
    assert any("cannot be named" in remark for remark in report.remarks())


def test_a_frame_without_ids_is_refused_with_the_column_it_lacks(spark: SparkSession) -> None:
    with pytest.raises(BadSetting, match="no column 'id'"):
        reconcile(receipts=spark.createDataFrame([("orders", 1)], "destination string, position long"))


def test_an_audit_of_nothing_is_refused() -> None:
    with pytest.raises(BadSetting, match="nothing to audit"):
        reconcile()
