"""Where a new stream begins, how few events make a batch, and what becomes of a topic that is deleted under a query (D1)."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import holdfast.blocking
from holdfast.errors import CheckpointMismatch, NoSuchDestination, SubscriptionInUse
from holdfast.spark.columns.shape import Shape
from holdfast.spark.options import StreamOptions
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source.driver import Driver, read_targets
from holdfast.spark.source.fetcher import fetched
from holdfast.spark.source.offsets import Marks
from holdfast.spark.source.stream_ownership import Allowance
from holdfast.spark.source.stream_reader import HoldfastStreamReader, StreamPiece
from tests.server_process import ServerProcess
from tests.spark.streams import Query, send, waiting
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

ALL = Allowance()


class Stream:
    """The source as Spark uses it, without Spark: a driver, and its executors' reads."""

    def __init__(self, server: ServerProcess, topic: str, **options: str) -> None:
        given = {"url": server.url, "destinations": topic, "subscription": "lake", "timeout": "10", "pollSeconds": "0.05"}
        self.options = StreamOptions.of({**given, **options})
        self.driver = Driver(self.options)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.close()

    def numbers(self, start: Marks, end: Marks) -> list[int]:
        """The numbers of a batch."""
        targets = read_targets(self.options)
        found: list[int] = []
        for name, low, high, _ in self.driver.ranges(start, end):
            for each in fetched(ServerAddress.of(self.options), targets[name], low, high):
                found.extend(int(each.batch.body(index)[len(b'{"number":') : -1]) for index in range(each.batch.count))
        return found


def subscribe(server: ServerProcess, topic: str) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.create_topic(topic)
        client.create_subscription(topic, "lake")


def delete(server: ServerProcess, topic: str) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.delete(topic, force=True)


def is_deleted(server: ServerProcess, topic: str) -> bool:
    try:
        delete(server, topic)
    except SubscriptionInUse:
        return False
    return True


# --- where a new stream begins -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 64, 300])
def test_a_new_stream_begins_with_the_first_event_of_a_position_and_confirms_those_before_d1(
    server: ServerProcess, count: int
) -> None:
    topic = f"begins.position.{count}"
    subscribe(server, topic)
    send(server, topic, range(count))
    with holdfast.blocking.connect(server.url) as client:
        receipt = client.topic(topic).send({"number": count})
    send(server, topic, range(count + 1, count + 10))

    with Stream(server, topic, startingPosition=str(receipt.position)) as stream:
        begin = stream.driver.beginning()
        assert stream.driver.beginning() == begin
        end = stream.driver.latest(begin, ALL)

        assert stream.numbers(begin, end) == list(range(count, count + 10))
        assert waiting(server, topic, "lake") == 10


def test_a_new_stream_begins_with_the_first_event_of_a_time_and_an_old_one_where_it_was_d1(server: ServerProcess) -> None:
    topic = "begins.time"
    subscribe(server, topic)
    send(server, topic, range(50))
    middle = datetime.now(UTC)
    send(server, topic, range(50, 100))

    with Stream(server, topic, startingTime=middle.isoformat()) as stream:
        begin = stream.driver.beginning()
        end = stream.driver.latest(begin, Allowance(events=20))
        assert stream.numbers(begin, end) == list(range(50, 70))

    with Stream(server, topic, startingTime="2100-01-01T00:00:00Z") as restarted:
        newest = restarted.driver.latest(end, ALL)
        assert restarted.numbers(end, newest) == list(range(70, 100))


def test_a_new_stream_begins_behind_all_that_waits_if_nothing_of_it_is_wanted_d1(server: ServerProcess) -> None:
    subscribe(server, "begins.later")
    send(server, "begins.later", range(20))

    with Stream(server, "begins.later", startingTime="2100-01-01T00:00:00Z") as stream:
        begin = stream.driver.beginning()
        assert stream.driver.latest(begin, ALL) == begin
        send(server, "begins.later", [20])

        end = stream.driver.latest(begin, ALL)
        assert stream.numbers(begin, end) == [20]


# --- how few events make a batch -----------------------------------------------------------------------------------------


def test_a_batch_waits_for_its_minimum_and_then_takes_everything_d1(server: ServerProcess) -> None:
    subscribe(server, "minimum.events")
    with Stream(server, "minimum.events", minOffsetsPerTrigger="30") as stream:
        begin = stream.driver.beginning()
        send(server, "minimum.events", range(29))
        assert stream.driver.latest(begin, ALL) == begin

        send(server, "minimum.events", range(29, 40))
        end = stream.driver.latest(begin, ALL)

        assert stream.numbers(begin, end) == list(range(40))


def test_a_batch_below_its_minimum_is_read_after_the_longest_delay_or_when_spark_wants_all_d1(server: ServerProcess) -> None:
    subscribe(server, "minimum.delay")
    send(server, "minimum.delay", range(3))
    with Stream(server, "minimum.delay", minEventsPerTrigger="30", maxTriggerDelay="200ms") as stream:
        begin = stream.driver.beginning()
        assert stream.driver.latest(begin, ALL, has_minimum=False) != begin
        wait_until(lambda: stream.driver.latest(begin, ALL) != begin, "the delay was over")

    with Stream(server, "minimum.delay", minEventsPerTrigger="30") as stream:
        stream.driver.stop_at_newest()
        end = stream.driver.latest(begin, ALL)
        assert stream.numbers(begin, end) == [0, 1, 2]


# --- a topic that is deleted under a query -------------------------------------------------------------------------------


def deleted_in_between(server: ServerProcess, topic: str) -> None:
    """The only moment in which it can be: the server was started again, and the query has not asked since."""
    server.kill()
    server.start()
    wait_until(lambda: is_deleted(server, topic), "nobody owned the subscription")


def test_a_topic_that_was_deleted_while_the_server_was_away_is_a_loss_that_is_told_d1(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        subscribe(server, "told")
        send(server, "told", range(10))
        with Stream(server, "told") as stream:
            begin = stream.driver.beginning()
            end = stream.driver.latest(begin, Allowance(events=5))
            deleted_in_between(server, "told")

            for _ in range(2):
                with pytest.raises(CheckpointMismatch, match=r"'told': it was deleted while the query ran.*failOnDataLoss=false"):
                    stream.driver.latest(end, ALL)


def test_without_fail_on_data_loss_a_query_goes_on_with_the_new_topic_and_reads_all_of_it_d1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        subscribe(server, "again")
        send(server, "again", range(10))
        with Stream(server, "again", failOnDataLoss="false") as stream, caplog.at_level(logging.WARNING):
            begin = stream.driver.beginning()
            end = stream.driver.latest(begin, ALL)
            deleted_in_between(server, "again")
            subscribe(server, "again")
            for number in range(100, 140):
                send(server, "again", [number])

            newest = stream.driver.latest(end, ALL)

            assert "deleted while the query ran" in caplog.text
            assert stream.numbers(end, newest) == list(range(100, 140))
            assert waiting(server, "again", "lake") == 40
            stream.driver.latest(newest, ALL)
            assert waiting(server, "again", "lake") == 0


def test_a_task_whose_subscription_was_deleted_reads_nothing_without_fail_on_data_loss_and_fails_with_it_d1(
    server: ServerProcess,
) -> None:
    subscribe(server, "deleted.task")
    send(server, "deleted.task", range(10))
    with Stream(server, "deleted.task") as stream:
        begin = stream.driver.beginning()
        end = stream.driver.latest(begin, ALL)
        planned = stream.driver.ranges(begin, end)
    wait_until(lambda: is_deleted(server, "deleted.task"), "nobody owned the subscription")

    def read(fail: str) -> list[object]:
        options = Stream(server, "deleted.task", failOnDataLoss=fail).options
        reader = HoldfastStreamReader(options, Shape.of(options.layout.spark(), options.layout))
        return [batch for each in planned for batch in reader.read(StreamPiece(each))]

    assert read("false") == []
    with pytest.raises(NoSuchDestination, match=r"deleted\.task"):
        read("true")


def test_a_topic_cannot_be_deleted_under_a_running_query_and_the_next_query_tells_that_it_was_d1(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    topic = "deleted.running"
    subscribe(server, topic)
    query = Query(spark, server, tmp_path, destinations=topic)
    running = query.start()
    send(server, topic, range(10))
    wait_until(lambda: query.numbers == list(range(10)), "the first events were read")

    with pytest.raises(SubscriptionInUse, match="as a Spark query does; stop that query"):
        delete(server, topic)
    send(server, topic, range(10, 20))
    wait_until(lambda: query.numbers == list(range(20)), "the query went on")

    running.stop()
    wait_until(lambda: is_deleted(server, topic), "the server noticed the end of the query")
    subscribe(server, topic)
    send(server, topic, range(20, 30))
    with pytest.raises(StreamingQueryException, match="it was deleted and made again"):
        query.run()

    going_on = Query(spark, server, tmp_path, destinations=topic, failOnDataLoss="false")
    going_on.run()
    assert going_on.numbers == list(range(20, 30))
