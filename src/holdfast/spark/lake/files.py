"""The files that one task writes: parquet, each of one partition, durable before the driver hears of them.

    table/date=2026-11-16/destination=plant%2F7%2Falarms/part-00003-6f1c….snappy.parquet

Rows come in any order and are gathered by partition; a file grows by row groups of a useful size. Nothing here is part of the
table until a commit names it: a task that fails takes its files with it, and what a killed one leaves is vacuumed later.

A file is synced, and so is every folder between it and the table, before `finish` tells of it: a commit that is durable never
names a file that is not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import DiskFailed

# Rows of one row group: readers skip and share out work by row groups.
GROUP_ROWS = 1 << 17
# The memory that one task may take on an executor: rows of all its partitions that are not written yet.
GATHERED_BYTES_MAX = 64 << 20
# A file that has grown beyond this is finished, and the next one begun.
FILE_BYTES_MAX = 256 << 20
# Files that a task writes at the same time; the one that was written longest ago is finished for a new one.
OPEN_MAX = 64
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# A file system takes names of 255 bytes, and the column stands before the value.
FOLDER_LENGTH_MAX = 180
DIGEST_LENGTH = 16
_MILLISECOND_LESS = timedelta(microseconds=999)
_ROUNDED_UP_MAX = datetime.max - _MILLISECOND_LESS

Partition = tuple[str | None, ...]


@dataclass(frozen=True)
class LakeFile:
    """A file that may become part of a table."""

    path: str  # below the table's folder
    size: int
    partition: dict[str, str | None]
    rows: int
    stats: str = ""  # JSON, as the Delta protocol has it; of a file that was written here


def folder_of(columns: Sequence[str], partition: Partition) -> str:
    """Where the files of a partition lie: whatever a value contains, one folder for each column.

    A reader takes the value from the commit, so a folder whose name would be too long may have a shorter one.
    """
    return "/".join(f"{column}={_escaped(value)}" for column, value in zip(columns, partition, strict=True))


def _escaped(value: str | None) -> str:
    if value is None:
        return NULL_FOLDER
    escaped = quote(value, safe="")
    if len(escaped) <= FOLDER_LENGTH_MAX:
        return escaped
    digest = sha256(value.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{escaped[: FOLDER_LENGTH_MAX - DIGEST_LENGTH - 1]}~{digest}"


def split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The rows of each partition, without the columns that name it."""
    if batch.num_rows == 0:
        return
    rest = batch.drop_columns(list(columns)) if columns else batch
    encoded = [_encoded(batch.column(column)) for column in columns]
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for each, values in encoded:
        codes = codes * len(values) + each
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    if len(starts) != len(np.unique(codes)):  # not yet side by side
        order = np.argsort(codes, kind="stable")
        rest, codes = rest.take(pa.array(order)), codes[order]
        encoded = [(each[order], values) for each, values in encoded]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
        yield tuple(values[each[start]] for each, values in encoded), rest.slice(start, end - start)


def _encoded(column: pa.Array) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[str | None]]:
    """Each row's value as a number, and the values by number."""
    encoded = column.dictionary_encode(null_encoding="encode")
    values = [None if value is None else str(value) for value in encoded.dictionary.to_pylist()]
    return encoded.indices.to_numpy().astype(np.int64), values


class LakeFiles:
    """The files of one task."""

    def __init__(self, folder: str, columns: Sequence[str], name: str, file_bytes: int = FILE_BYTES_MAX) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._columns = list(columns)
        self._name = name
        self._open: dict[Partition, _OpenFile] = {}  # the one written longest ago first
        self._finished: list[LakeFile] = []
        self._begun: list[str] = []
        self._gathered = 0

    def put(self, batch: pa.RecordBatch) -> None:
        for partition, rows in split(batch, self._columns):
            self.put_into(partition, rows)

    def put_into(self, partition: Partition, rows: pa.RecordBatch) -> None:
        """Rows of one partition, without the columns that name it."""
        file = self._open.pop(partition, None) or self._begin(partition, rows.schema)
        self._open[partition] = file
        self._gathered += file.gather(rows)
        if file.rows_gathered >= GROUP_ROWS:
            self._write(file)
        if file.size > self._file_bytes:
            self._finish(partition)
        while self._gathered > GATHERED_BYTES_MAX:
            self._write(max(self._open.values(), key=lambda file: file.bytes_gathered))

    def finish(self) -> list[LakeFile]:
        """All that was put is durable; what there is to commit."""
        for partition in list(self._open):
            self._finish(partition)
        folders = {os.path.dirname(path) for path in self._begun}
        for folder in sorted({above for each in folders for above in _up_to(self._folder, each)}, reverse=True):
            sync_folder(folder)
        return self._finished

    def discard(self) -> None:
        """Leave nothing behind."""
        for file in self._open.values():
            file.abandon()
        for path in self._begun:
            with suppress(OSError):
                os.unlink(path)

    def _begin(self, partition: Partition, schema: pa.Schema) -> _OpenFile:
        if len(self._open) >= OPEN_MAX:
            self._finish(next(iter(self._open)))
        place = folder_of(self._columns, partition)
        os.makedirs(os.path.join(self._folder, place), exist_ok=True)
        path = os.path.join(place, f"part-{self._name}-{uuid4().hex}.snappy.parquet")
        self._begun.append(os.path.join(self._folder, path))
        return _OpenFile(self._folder, path, dict(zip(self._columns, partition, strict=True)), schema)

    def _write(self, file: _OpenFile) -> None:
        self._gathered -= file.bytes_gathered
        file.write()

    def _finish(self, partition: Partition) -> None:
        file = self._open.pop(partition)
        self._gathered -= file.bytes_gathered
        self._finished.append(file.close())


class _OpenFile:
    def __init__(self, folder: str, path: str, partition: dict[str, str | None], schema: pa.Schema) -> None:
        self._path = path
        self._whole_path = os.path.join(folder, path)
        self._partition = partition
        self._schema = schema
        self._gathered: list[pa.RecordBatch] = []
        self.rows_gathered = 0
        self.bytes_gathered = 0
        self._rows = 0
        self._writer = pq.ParquetWriter(
            self._whole_path,
            schema,
            compression="snappy",
            use_dictionary=[field.name for field in schema if _repeats(field)],
            write_statistics=[field.name for field in schema if _is_ordered(field.type)],
        )

    @property
    def size(self) -> int:
        with suppress(OSError):
            return os.stat(self._whole_path).st_size
        return 0

    def gather(self, rows: pa.RecordBatch) -> int:
        """Keep it for the next row group; how many bytes that takes."""
        rows = _apart(rows)
        size = int(rows.nbytes)
        self._gathered.append(rows)
        self.rows_gathered += rows.num_rows
        self.bytes_gathered += size
        return size

    def write(self) -> None:
        if self._gathered:
            self._writer.write_table(pa.Table.from_batches(self._gathered, self._schema), row_group_size=GROUP_ROWS)
        self._rows += self.rows_gathered
        self._gathered, self.rows_gathered, self.bytes_gathered = [], 0, 0

    def close(self) -> LakeFile:
        self.write()
        self._writer.close()
        sync_file(self._whole_path)
        stats = _stats(pq.read_metadata(self._whole_path), self._schema)
        return LakeFile(self._path, os.stat(self._whole_path).st_size, self._partition, self._rows, stats)

    def abandon(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self._writer.close()


def _apart(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that are a small part of a batch, copied: a view of them would keep the memory of the whole batch."""
    if 2 * rows.nbytes >= rows.get_total_buffer_size():
        return rows
    return rows.take(pa.array(np.arange(rows.num_rows)))


def _repeats(field: pa.Field) -> bool:
    """Worth a dictionary: text that is the same in many rows, which an id and a body are not."""
    return pa.types.is_string(field.type) and field.name not in ("id", "data", "correlation_id")


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def _stats(written: pq.FileMetaData, schema: pa.Schema) -> str:
    """How many rows, and between what the numbers and times of them lie: by this, readers pass over files."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    names = {field.name for field in schema if _is_ordered(field.type)}
    for place in range(written.num_columns if written.num_row_groups else 0):
        groups = [written.row_group(group).column(place) for group in range(written.num_row_groups)]
        name = groups[0].path_in_schema
        if name in names and all(group.statistics is not None and group.statistics.has_min_max for group in groups):
            least[name] = _written(min(group.statistics.min for group in groups), is_upper=False)
            greatest[name] = _written(max(group.statistics.max for group in groups), is_upper=True)
    return json.dumps({"numRecords": written.num_rows, "minValues": least, "maxValues": greatest, "nullCount": {}})


def _written(value: Any, *, is_upper: bool) -> Any:
    """The Delta protocol writes times in milliseconds: an upper bound is rounded up, as far as there are times."""
    if not isinstance(value, datetime):
        return value
    if is_upper:
        value = min(value, _ROUNDED_UP_MAX.replace(tzinfo=value.tzinfo)) + _MILLISECOND_LESS
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"


def _up_to(top: str, folder: str) -> Iterator[str]:
    """This folder and those above it, up to the table's."""
    while len(folder) > len(top):
        yield folder
        folder = os.path.dirname(folder)
    yield top


def sync_file(path: str) -> None:
    _sync(path, os.O_RDONLY)


def sync_folder(path: str) -> None:
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str, flags: int) -> None:
    try:
        handle = os.open(path, flags)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as problem:
        raise DiskFailed(f"{path} could not be synced ({problem}); nothing of this batch was committed", path=path) from problem
