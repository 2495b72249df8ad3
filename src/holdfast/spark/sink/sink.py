"""format("holdfast"), writing: rows become events, each batch of a query exactly once (D3).

    executor    write     rows into a stage: durable at the server, seen by nobody
    driver      commit    publishes the stages of all tasks at one moment, under the query and the number of its batch
                abort     drops them

Spark says the number to `commit`, and the query only to tasks, so each task brings it along in its message. A batch that comes
again after a crash has a number that was published: the server says so, and lets the new stages go. An `abort` may come after a
commit that seemed to fail and did not: what was published is no stage any more, and dropping it does nothing.

The server abandons the stage of a killed task when nothing has come for a while (`--stage-idle-ms`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast import blocking
from holdfast.blocking.client import Stage
from holdfast.client.assembly.stage import Staged
from holdfast.client.url import without_password
from holdfast.errors import BadSetting, HoldfastError
from holdfast.spark.options import SinkOptions
from holdfast.spark.sink.commit_order import check_in_order, make_plan_durable, query_of, task_name
from holdfast.spark.sink.row_columns import RowColumns
from holdfast.spark.sink.rows import to_batches
from holdfast.spark.worker_memory import freeze_loaded


@dataclass
class SinkMessage(WriterCommitMessage):
    """The report of a task to the driver."""

    scope: str
    stage: Staged | None = None  # None: there were no rows


class SinkWriting:
    """The common part of stream and batch writer. It travels to the executors."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise BadSetting("events that were sent cannot be overwritten; use mode append (of a stream: append or update)")
        self._options = options
        _check_columns(schema, options)

    def _client(self) -> blocking.Client:
        name = f"spark/{socket.gethostname()}/{os.getpid()}"
        return blocking.connect(self._options.url, name=name, timeout=self._options.timeout, password=self._options.password)

    def _written(self, rows: Iterator[pa.RecordBatch], scope: str) -> SinkMessage:
        first = next(rows, None)
        if first is None:
            return SinkMessage(scope)
        with self._client() as client:
            stage = client.stage(f"spark/{task_name(TaskContext.get())}/{uuid4().hex}")
            try:
                self._put(chain((first,), rows), stage)
                sealed = stage.seal()
            except BaseException:
                with contextlib.suppress(HoldfastError):
                    client.drop_stages([stage.name])
                raise
        freeze_loaded()
        return SinkMessage(scope, sealed)

    def _put(self, rows: Iterator[pa.RecordBatch], stage: Stage) -> None:
        settings = self._options.row_settings(stage.source)
        first_row = 0
        for each in rows:
            for made in to_batches(each, settings, stage.ids, time.time_ns() // 1000, first_row):
                stage.send_batch(made.destination, made.kind, made.batch, made.events)
            first_row += each.num_rows

    def _publish(self, messages: Sequence[WriterCommitMessage | None], scope: str, number: int) -> int:
        """The highest number that the scope has published."""
        stages = _stages_of(messages)
        if not stages:
            return number
        with self._client() as client:
            return client.publish(scope, number, stages).last

    def _drop(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Only to free the space sooner: where it fails, the server gives them up by itself."""
        stages = _stages_of(messages)
        if stages:
            with contextlib.suppress(HoldfastError), self._client() as client:
                client.drop_stages([stage.name for stage in stages])


class HoldfastStreamWriter(SinkWriting, DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(SinkOptions.of(options), schema, overwrite)
        if self._options.scope:
            raise BadSetting(
                "a stream is its own scope, and its batches are its numbers; leave scope and number out", setting="scope"
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkMessage:
        return self._written(iterator, query_of(TaskContext.get()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        scopes = {message.scope for message in messages if isinstance(message, SinkMessage)}
        if scopes:
            make_plan_durable()
            last = self._publish(messages, scopes.pop(), batchId)
            check_in_order(batchId, last, f"the server {without_password(self._options.url)}")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._drop(messages)


class HoldfastWriter(SinkWriting, DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(SinkOptions.of(options), schema, overwrite)
        self._scope = self._options.scope or f"write-{uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkMessage:
        return self._written(iterator, self._scope)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.scope:
            make_plan_durable()
        self._publish(messages, self._scope, self._options.number)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._drop(messages)


def _stages_of(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Choose the stages that hold anything: a task may have had no rows, or have failed."""
    stages = [message.stage for message in messages if isinstance(message, SinkMessage)]
    return [stage for stage in stages if stage is not None and stage.parts]


def _check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse columns that no event can have, before anything runs."""
    RowColumns(to_arrow_schema(schema, timezone="UTC").empty_table())
    if options.destination is None and "destination" not in schema.names:
        raise BadSetting(
            "the rows name no destination; give the option destination, or add a column 'destination'", setting="destination"
        )
