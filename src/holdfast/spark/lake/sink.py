"""format("holdfast_lake"): rows into a lake table, each batch of a query exactly once; and rows out of it.

    executor    write     parquet files, synced; nobody sees them
    driver      commit    one version of the table names them, with the query and the number of its batch

Spark says the number to `commit`, and the query only to tasks, so each task brings it along in its message. A batch that comes
again after a crash finds its number in the table and adds nothing. `abort` may come after a commit that seemed to fail and did
not, so it deletes nothing: what no version names is vacuumed some days later (`upkeep`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from holdfast.errors import BadEvent, BadSetting, DiskFailed
from holdfast.spark.lake.files import LakeFile, LakeFiles
from holdfast.spark.sink.commit_order import check_in_order, make_plan_durable, query_of, task_name
from holdfast.spark.worker_memory import freeze_loaded

if TYPE_CHECKING:
    from holdfast.spark.lake.table import Lake, Mode

DATE = "date"
DESTINATION = "destination"
ACCEPTED_AT = "accepted_at"
TIME = "time"


@dataclass
class LakeMessage(WriterCommitMessage):
    """The report of a task to the driver."""

    query: str  # "": not of a stream
    files: list[LakeFile] = field(default_factory=list)


class LakeRows:
    """The rows of a frame as the table has them: with a column for each partition, times in UTC."""

    def __init__(self, schema: StructType, partition_by: Sequence[str]) -> None:
        self.partition_by = list(partition_by)
        self._adds_date = DATE in partition_by and DATE not in schema.names
        self._moments = [name for name in (ACCEPTED_AT, TIME) if name in schema.names and _is_timestamp(schema, name)]
        self._check(schema)
        frame = to_arrow_schema(schema, timezone="UTC")
        columns = [pa.field(each.name, each.type, nullable=True) for each in frame]
        self.schema = pa.schema([*columns, *([pa.field(DATE, pa.date32())] if self._adds_date else [])])

    def _check(self, schema: StructType) -> None:
        missing = [name for name in self.partition_by if name not in schema.names and name != DATE]
        if missing:
            raise BadSetting(
                f"the frame has no column {missing[0]!r}, by which the table is partitioned; it has {', '.join(schema.names)}. "
                "Add the column, or set the option partitionBy",
                column=missing[0],
            )
        if self._adds_date and ACCEPTED_AT not in self._moments:
            raise BadSetting(
                f"the frame has no timestamp {ACCEPTED_AT!r} to take the partition {DATE!r} from; add one of the two, "
                "or set the option partitionBy",
                column=ACCEPTED_AT,
            )
        if len(set(schema.names)) != len(schema.names):
            raise BadSetting(f"the frame has two columns of the same name among {', '.join(schema.names)}; rename one")

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._adds_date:
            batch = batch.append_column(DATE, self._dates(batch))
        batch = batch.cast(self.schema)
        self._check_destinations(batch)
        return batch

    def _dates(self, batch: pa.RecordBatch) -> pa.Array:
        """The day on which each event was accepted, in UTC; where a server did not say, on which it was recognised."""
        moments = [batch.column(name).cast(pa.timestamp("us", "UTC")) for name in self._moments]
        moment = pc.coalesce(*moments)
        if moment.null_count:
            raise BadEvent(f"{moment.null_count} rows have no {' and no '.join(self._moments)}: to which date do they belong?")
        return moment.cast(pa.date32())

    def _check_destinations(self, batch: pa.RecordBatch) -> None:
        if DESTINATION not in self.partition_by:
            return
        names = batch.column(DESTINATION)
        bad = names.null_count + (pc.sum(pc.equal(names, "")).as_py() or 0)
        if bad:
            raise BadEvent(f"{bad} rows have no {DESTINATION}; fill it in, or leave such rows out", column=DESTINATION)


def _is_timestamp(schema: StructType, name: str) -> bool:
    return isinstance(schema[name].dataType, TimestampType)


class LakeWriting:
    """The common part of stream and batch writer. It travels to executors, which need no `deltalake`: only the driver commits."""

    def __init__(self, folder: str, partition_by: Sequence[str], schema: StructType, mode: Mode) -> None:
        self._folder = folder
        self._rows = LakeRows(schema, partition_by)
        self._mode = mode
        self._lake().check(self._rows.schema, self._rows.partition_by)

    def _lake(self) -> Lake:
        from holdfast.spark.lake.table import Lake

        return Lake(self._folder)

    def _written(self, batches: Iterator[pa.RecordBatch], query: str) -> LakeMessage:
        files = LakeFiles(self._folder, self._rows.partition_by, task_name(TaskContext.get()))
        try:
            for batch in batches:
                rows = self._rows.prepared(batch)
                with self._translated():
                    files.put(rows)
            with self._translated():
                finished = files.finish()
        except BaseException:
            files.discard()
            raise
        freeze_loaded()
        return LakeMessage(query, finished)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise DiskFailed(
                f"the rows of a task could not be written to {self._folder} ({problem}); make room, "
                "or let every executor write there",
                path=self._folder,
            ) from problem

    def _commit(self, messages: Sequence[WriterCommitMessage | None], scope: str, number: int) -> None:
        files = [file for message in messages if isinstance(message, LakeMessage) for file in message.files]
        self._lake().commit(self._rows.schema, self._rows.partition_by, files, scope=scope, number=number, mode=self._mode)


class LakeStreamWriter(LakeWriting, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> LakeMessage:
        return self._written(iterator, query_of(TaskContext.get()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        queries = {message.query for message in messages if isinstance(message, LakeMessage)}
        if queries:
            query = queries.pop()
            check_in_order(batchId, self._lake().last_of(query), f"the table {self._folder}")
            make_plan_durable()
            self._commit(messages, query, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Do nothing: the commit may have happened."""


class LakeBatchWriter(LakeWriting, DataSourceArrowWriter):
    def __init__(
        self, folder: str, partition_by: Sequence[str], schema: StructType, mode: Mode, scope: str = "", number: int = 0
    ) -> None:
        super().__init__(folder, partition_by, schema, mode)
        self._scope = scope
        self._number = number

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LakeMessage:
        return self._written(iterator, "")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._scope:
            make_plan_durable()
        self._commit(messages, self._scope, self._number)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: the commit may have happened."""
