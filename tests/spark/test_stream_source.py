"""The stream source against a real server: every event once, confirmed when it is committed (D1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import holdfast.blocking
from holdfast.errors import SubscriptionInUse
from holdfast.spark.session import lag_of
from tests import effort
from tests.server_process import ServerProcess
from tests.spark.streams import Query, send, waiting
from tests.waiting import wait_until


def subscribe(server: ServerProcess, topic: str) -> None:
    with holdfast.blocking.connect(server.url) as client:
        if "*" not in topic:
            client.create_topic(topic)
        client.create_subscription(topic, "lake")


def test_every_event_of_names_and_patterns_is_read_once_and_then_confirmed_d1(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    subscribe(server, "many.*")
    subscribe(server, "single")
    send(server, "many.a", range(100))
    send(server, "single", range(100, 150))
    query = Query(spark, server, tmp_path, destinations="many.*, single")

    query.run()

    assert query.numbers == list(range(150))
    assert (waiting(server, "many.*", "lake"), waiting(server, "single", "lake")) == (0, 0)

    send(server, "many.new", range(150, 200))
    query.run()

    assert query.numbers == list(range(200))
    assert query.destinations == {"many.a", "many.new", "single"}
    assert waiting(server, "many.*", "lake") == 0


def test_limits_of_events_and_bytes_hold_both_at_once_d1(spark: SparkSession, server: ServerProcess, tmp_path: Path) -> None:
    subscribe(server, "limited")
    send(server, "limited", range(1_000))
    by_events = Query(spark, server, tmp_path, destinations="limited", maxEventsPerTrigger="400", maxBytesPerTrigger="10000000")

    by_events.run()

    assert [len(batch) for _, batch in sorted(by_events.batches.items())] == [400, 400, 200]

    send(server, "limited", range(1_000, 1_100))
    by_bytes = Query(spark, server, tmp_path, destinations="limited", maxEventsPerTrigger="400", maxBytesPerTrigger="1000")
    by_bytes.run()

    assert by_bytes.numbers == list(range(1_000, 1_100))
    assert len(by_bytes.batches) > 2


def test_a_batch_that_failed_is_read_again_and_nothing_of_it_was_confirmed_d1(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    subscribe(server, "failing")
    send(server, "failing", range(300))
    query = Query(spark, server, tmp_path, destinations="failing", maxEventsPerTrigger="100", minPartitions="3")

    def fail(number: int) -> None:
        if number == 1:
            raise ValueError("the table is away")

    query.on_batch = fail
    with pytest.raises(StreamingQueryException, match="the table is away"):
        query.run()
    assert waiting(server, "failing", "lake") == 200

    query.on_batch = lambda number: None
    query.run()

    assert query.numbers == list(range(300))
    assert waiting(server, "failing", "lake") == 0


def test_a_query_outlives_a_restart_of_its_server_shows_its_lag_and_owns_its_subscription_d1_d6(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        subscribe(server, "steady")
        query = Query(spark, server, tmp_path / "checkpoint", destinations="steady", maxEventsPerTrigger="60")
        running = query.start()
        send(server, "steady", range(100))
        wait_until(lambda: len(query.numbers) == 100, "the first hundred were read")

        server.kill()
        server.start()
        send(server, "steady", range(100, 200))

        wait_until(lambda: len(query.numbers) == 200, "the second hundred were read")
        wait_until(lambda: waiting(server, "steady", "lake") == 0, "all were confirmed")
        lags = [lag_of(each) for each in running.recentProgress]
        assert max(lags) >= 100 and lags[-1] < max(lags)

        second = Query(spark, server, tmp_path / "second", destinations="steady")
        with (
            holdfast.blocking.connect(server.url) as client,
            pytest.raises(SubscriptionInUse),
            client.reading("steady", "lake").owner(),
        ):
            pass
        if effort.IS_LONG:  # it is patient for 20 seconds; `test_source_refusals` is not
            with pytest.raises(StreamingQueryException, match="name another one in the option 'subscription'"):
                second.run()
        assert running.isActive

        running.stop()
        second.run()
        assert second.numbers == []


def test_offsets_are_written_in_one_way_only(spark: SparkSession, server: ServerProcess, tmp_path: Path) -> None:
    subscribe(server, "zebra")
    subscribe(server, "ape")
    send(server, "zebra", range(10))
    query = Query(spark, server, tmp_path, destinations="zebra,ape", sync="0")

    finished = query.run()

    written = (tmp_path / "offsets" / "0").read_text().splitlines()[-1]
    assert list(json.loads(written)) == ["ape", "zebra"]
    assert finished.lastProgress is not None
