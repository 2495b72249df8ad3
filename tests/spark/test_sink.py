"""D3: rows become events exactly once, whatever is called twice, comes late or fails; a real server, called as Spark calls."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast import blocking
from holdfast.errors import (
    BadEvent,
    BadName,
    BadSetting,
    BadUrl,
    CheckpointMismatch,
    DestinationExists,
    HoldfastError,
    NotPublished,
    Refused,
    Unreachable,
)
from holdfast.spark.format import HoldfastSource
from holdfast.spark.sink.sink import HoldfastStreamWriter, HoldfastWriter, SinkMessage
from tests.running_server import running
from tests.server_process import ServerProcess, free_port
from tests.spark.lake_rows import task
from tests.waiting import wait_until

SCHEMA = pa.schema([("destination", pa.string()), ("data", pa.binary())])
SPARK_SCHEMA = from_arrow_schema(SCHEMA)


class Place:
    """A queue of its own at a running server, and a query of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.queue = f"sink.{uuid4().hex[:12]}"
        self.query = str(uuid4())

    def rows(self, numbers: range) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [{"destination": self.queue, "data": b"%d" % number} for number in numbers], schema=SCHEMA
        )

    def stream(self, schema: pa.Schema = SCHEMA, **options: str) -> HoldfastStreamWriter:
        given = {"url": self.url, "kind": "queue", **options}
        return HoldfastSource(given).streamWriter(from_arrow_schema(schema), False)

    def batch(self, **options: str) -> HoldfastWriter:
        return HoldfastSource({"url": self.url, "kind": "queue", **options}).writer(SPARK_SCHEMA, False)

    def write(self, writer: HoldfastStreamWriter | HoldfastWriter, *batches: pa.RecordBatch) -> SinkMessage:
        with task(self.query):
            return writer.write(iter(batches))

    def events(self, queue: str = "") -> list[Any]:
        """All that can be seen in the queue."""
        with blocking.connect(self.url) as client:
            with contextlib.suppress(DestinationExists):
                client.create_queue(queue or self.queue)
            with client.queue(queue or self.queue).browse() as browser:
                return list(browser)

    def numbers(self) -> list[int]:
        return [int(event.data) for event in self.events()]


@pytest.fixture
def place(server: ServerProcess) -> Place:
    return Place(server.url)


# --- once ---------------------------------------------------------------------------------------------------------------


def test_nothing_is_seen_before_the_commit_and_everything_after_it(place: Place) -> None:
    writer = place.stream()
    messages = [place.write(writer, place.rows(range(start, start + 10))) for start in (0, 10, 20)]
    assert place.numbers() == []

    writer.commit(messages, 0)

    assert place.numbers() == list(range(30))


def test_a_batch_that_is_committed_twice_is_sent_once(place: Place) -> None:
    message = place.write(place.stream(), place.rows(range(10)))

    place.stream().commit([message], 0)
    place.stream().commit([message], 0)

    assert place.numbers() == list(range(10))


def test_a_batch_that_is_written_again_after_a_crash_is_sent_once(place: Place) -> None:
    for number, rows in ((0, range(10)), (1, range(10, 20)), (1, range(10, 20)), (2, range(20, 30))):
        writer = place.stream()
        writer.commit([place.write(writer, place.rows(rows))], number)

    assert place.numbers() == list(range(30))


def test_a_batch_older_than_the_last_one_of_its_query_is_refused_and_nothing_is_taken_for_a_repetition(place: Place) -> None:
    """As with a checkpoint from a backup: the number is known, the rows are not."""
    for number in (0, 1, 2):
        writer = place.stream()
        writer.commit([place.write(writer, place.rows(range(number, number + 1)))], number)
    writer = place.stream()
    message = place.write(writer, place.rows(range(10, 20)))

    with pytest.raises(CheckpointMismatch, match=r"has batch 2 of this query, and the checkpoint is at batch 1.*new checkpoint"):
        writer.commit([message], 1)

    assert place.numbers() == [0, 1, 2]


def test_an_abort_after_a_commit_that_seemed_to_fail_takes_nothing_back(place: Place) -> None:
    writer = place.stream()
    message = place.write(writer, place.rows(range(10)))
    writer.commit([message], 0)

    writer.abort([message, None], 0)

    assert place.numbers() == list(range(10))


def test_an_aborted_batch_is_not_sent_and_its_stages_are_gone(place: Place) -> None:
    writer = place.stream()
    message = place.write(writer, place.rows(range(10)))
    writer.abort([message, None], 0)

    with pytest.raises(NotPublished):
        writer.commit([message], 0)
    writer.commit([place.write(writer, place.rows(range(10)))], 0)

    assert place.numbers() == list(range(10))


async def test_a_task_that_fails_leaves_no_stage_behind(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server:
        place, staged = Place(server.url), server.node.messages.directory.assemblies.staged
        seen: list[int] = []

        def failing() -> Iterator[pa.RecordBatch]:
            yield place.rows(range(3_000))
            yield place.rows(range(3_000))
            wait_until(lambda: staged.stages, "something is staged")
            seen.append(staged.stages)
            raise ConnectionResetError("the executor before this one died")

        def attempt() -> None:
            with task(place.query), pytest.raises(ConnectionResetError):
                place.stream().write(failing())

        await asyncio.to_thread(attempt)

        assert (seen, staged.stages) == ([1], 0)


def test_a_write_that_is_not_a_stream_is_once_when_it_names_scope_and_number(place: Place) -> None:
    for number in ("7", "7", "8"):
        writer = place.batch(scope=place.query, number=number)
        writer.commit([place.write(writer, place.rows(range(10)))])

    assert place.numbers() == [*range(10), *range(10)]


def test_a_write_that_is_not_a_stream_and_names_no_scope_sends_each_time(place: Place) -> None:
    for _ in range(2):
        writer = place.batch()
        writer.commit([place.write(writer, place.rows(range(3)))])
    writer.abort([None])

    assert place.numbers() == [0, 1, 2, 0, 1, 2]


def test_a_task_without_rows_needs_no_server_and_a_commit_of_nothing_neither() -> None:
    place = Place(f"holdfast://127.0.0.1:{free_port()}")
    writer = place.stream()

    writer.commit([place.write(writer)], 0)
    writer.abort([None, None], 1)


# --- what is sent -------------------------------------------------------------------------------------------------------


def test_each_row_says_where_it_goes_and_what_it_is(place: Place) -> None:
    other = f"{place.queue}.other"
    schema = pa.schema(
        [
            ("destination", pa.string()),
            ("type", pa.string()),
            ("priority", pa.int32()),
            ("properties", pa.map_(pa.string(), pa.string())),
            ("value", pa.string()),
        ]
    )
    made = [
        {"destination": None, "type": "plain", "priority": 4, "properties": {"shade": "blue"}, "value": "one"},
        {"destination": other, "type": "urgent", "priority": 9, "properties": None, "value": "two"},
    ]
    writer = place.stream(schema, destination=place.queue)

    writer.commit([place.write(writer, pa.RecordBatch.from_pylist(made, schema=schema))], 0)

    (plain,), (urgent,) = place.events(), place.events(other)
    assert (plain.type, plain.priority, plain.properties, plain.data) == ("plain", 4, {"shade": "blue"}, "one")
    assert (urgent.type, urgent.priority, urgent.data) == ("urgent", 9, "two")
    assert plain.id != urgent.id


def test_a_topic_hands_what_was_sent_to_its_subscriptions(place: Place) -> None:
    with blocking.connect(place.url) as client:
        client.create_topic(place.queue)
        client.create_subscription(place.queue, "lake")
        writer = place.stream(kind="topic")
        writer.commit([place.write(writer, place.rows(range(3)))], 0)

        with client.subscribe(place.queue, name="lake") as incoming:
            received = [int(incoming.next(timeout=10).data) for _ in range(3)]

    assert received == [0, 1, 2]


# --- refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({}, BadSetting, "needs the option url"),
        ({"url": "file:./events"}, BadUrl, "start `holdfast serve`"),
        ({"url": "holdfast://h", "destinaton": "a"}, BadSetting, "Did you mean destination"),
        ({"url": "holdfast://h", "subscription": "lake"}, BadSetting, "is for reading"),
        ({"url": "holdfast://h", "destination": "_LOG"}, BadName, "only Holdfast itself"),
        ({"url": "holdfast://h", "scope": "mine", "number": "1"}, BadSetting, "its own scope"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_before_anything_runs(
    options: dict[str, str], error: type[HoldfastError], said: str
) -> None:
    with pytest.raises(error, match=said):
        HoldfastSource(options).streamWriter(SPARK_SCHEMA, False)


def test_what_was_sent_cannot_be_overwritten(place: Place) -> None:
    with pytest.raises(BadSetting, match="cannot be overwritten"):
        HoldfastSource({"url": place.url}).writer(SPARK_SCHEMA, True)


def test_columns_that_are_missing_or_would_be_lost_are_refused_before_anything_runs(place: Place) -> None:
    with pytest.raises(BadSetting, match="name no destination"):
        place.stream(pa.schema([("data", pa.binary())]))
    with pytest.raises(BadEvent, match="colour"):
        place.stream(pa.schema([*SCHEMA, ("colour", pa.string())]))


def test_a_row_without_destination_is_refused_and_nothing_is_staged(place: Place) -> None:
    rows = pa.RecordBatch.from_pylist([{"destination": place.queue, "data": b"1"}, {"destination": None, "data": b"2"}], SCHEMA)

    with pytest.raises(BadEvent, match="row 1, column 'destination': there is none"):
        place.write(place.stream(), rows)


def test_a_task_that_is_not_told_its_query_is_refused(place: Place) -> None:
    with task(None), pytest.raises(Refused, match="which query"):
        place.stream().write(iter([place.rows(range(1))]))


def test_a_server_that_is_not_there_is_said_in_time() -> None:
    with socket.socket() as taken, pytest.raises(Unreachable):
        taken.bind(("127.0.0.1", 0))  # and nobody listens there
        place = Place(f"holdfast://127.0.0.1:{taken.getsockname()[1]}")
        place.write(place.stream(timeout="0.5"), place.rows(range(1)))
