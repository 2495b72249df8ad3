"""Upkeep of a lake table: compact small files, drop old rows, delete files that no version needs.

    describe  how much there is, and of which days
    compact   many small files of a partition become few; the rows stay as they are
    retain    whole days of rows are taken out of the table
    vacuum    files that no version needs any more, or that a killed task left behind, are deleted

None disturbs a query that writes to the table meanwhile. Only `vacuum` deletes files, and only those that have been of no
use for `older_than`: a reader that opened the table before goes on reading, and a batch that is being written is not yet in the
log, so the time must be longer than any batch takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from holdfast.errors import BadSetting, Damaged, Unavailable
from holdfast.spark.lake.files import GROUP_ROWS, LakeFile, LakeFiles
from holdfast.spark.lake.table import Lake, local_folder

FILE_BYTES = 256 << 20
FILE_BYTES_MIN = 1 << 20
OLDER_THAN = timedelta(days=7)
# A batch that takes longer to write than this is not thought of: its files would be vacuumed before they are committed.
OLDER_THAN_MIN = timedelta(hours=1)
DATE = "date"


@dataclass(frozen=True)
class Compacted:
    files_before: int
    files_after: int


@dataclass(frozen=True)
class Retained:
    first_day: str  # the oldest day that stays, such as 2026-11-16
    files: int  # taken out


@dataclass(frozen=True)
class Vacuumed:
    files: int


def describe(path: str) -> dict[str, Any]:
    """Describe the table, for people and programs."""
    lake = Lake(local_folder(path))
    table = lake.table()
    files = lake.files(table)
    days = sorted(day for file in files if (day := file.partition.get(DATE)))
    return {
        "table": lake.folder,
        "version": table.version(),
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "first_day": days[0] if days else None,
        "last_day": days[-1] if days else None,
        "partitioned_by": list(table.metadata().partition_columns),
        "columns": [field.name for field in table.schema().fields],
    }


# --- compact ----------------------------------------------------------------------------------------------------------


def compact(path: str, *, file_bytes: int = FILE_BYTES) -> Compacted:
    """Make few files of many, partition by partition. A table that is written in small batches needs it now and then."""
    if file_bytes < FILE_BYTES_MIN:
        raise BadSetting(f"files of {file_bytes} bytes are too small to gain anything; give at least {FILE_BYTES_MIN}")
    lake = Lake(local_folder(path))
    files = lake.files(lake.table())
    after = len(files)
    for small in _small(files, file_bytes):
        after -= len(small) - _rewrite(lake, small, file_bytes)
    return Compacted(len(files), after)


def _small(files: list[LakeFile], file_bytes: int) -> list[list[LakeFile]]:
    """The files of each partition that are worth putting together: two at least, and each below half of what is wanted."""
    found: dict[tuple[str | None, ...], list[LakeFile]] = {}
    for file in files:
        if file.size < file_bytes // 2:
            found.setdefault(tuple(file.partition.values()), []).append(file)
    return [small for small in found.values() if len(small) > 1]


def _rewrite(lake: Lake, small: list[LakeFile], file_bytes: int) -> int:
    """Put the rows of these files, all of one partition, into new ones; how many."""
    partition = small[0].partition
    files = LakeFiles(lake.folder, list(partition), "compacted", file_bytes)
    try:
        schema = pq.read_schema(os.path.join(lake.folder, small[0].path))
        for each in small:
            with pq.ParquetFile(os.path.join(lake.folder, each.path)) as file:
                for batch in file.iter_batches(GROUP_ROWS, columns=schema.names):
                    files.put_into(tuple(partition.values()), batch.select(schema.names).cast(schema))
        added = files.finish()
        lake.replace(small, added)
        return len(added)
    except BaseException as problem:
        if not isinstance(problem, Unavailable):  # then the commit may have happened
            files.discard()
        raise


# --- retain -----------------------------------------------------------------------------------------------------------


def retain(path: str, days: int, *, now: datetime | None = None) -> Retained:
    """Take all rows out of the table that are older than so many days, by their partition `date`; today counts as one."""
    if days < 1:
        raise BadSetting(f"{days} days would leave nothing; keep at least 1")
    lake = Lake(local_folder(path))
    table = lake.table()
    if DATE not in table.metadata().partition_columns:
        raise BadSetting(
            f"{lake.folder} is not partitioned by {DATE!r}, so it has no days to take out; delete its rows otherwise"
        )
    first_day = ((now or datetime.now(UTC)).astimezone(UTC).date() - timedelta(days=days - 1)).isoformat()
    old = [file for file in lake.files(table) if (file.partition[DATE] or first_day) < first_day]
    if old:
        lake.replace(old)
    return Retained(first_day, len(old))


# --- vacuum -----------------------------------------------------------------------------------------------------------


def vacuum(path: str, older_than: timedelta = OLDER_THAN) -> Vacuumed:
    """Delete files that have been of no use to the table for so long, and forget versions past the log's own retention."""
    if older_than < OLDER_THAN_MIN:
        raise BadSetting(f"{older_than} is shorter than a batch may take to be written; give at least {OLDER_THAN_MIN}")
    lake = Lake(local_folder(path))
    table = lake.table()
    live = {file.path for file in lake.files(table)}
    _check_whole(lake, live)
    try:
        useless = _useless(lake, table, live, older_than)
        for name in useless:
            os.unlink(os.path.join(lake.folder, name))
        table.cleanup_metadata()
    except (DeltaError, OSError) as problem:
        raise Unavailable(
            f"the table {lake.folder} was not vacuumed wholly ({problem}); try again", path=lake.folder
        ) from problem
    return Vacuumed(len(useless))


def _check_whole(lake: Lake, live: set[str]) -> None:
    """Damaged unless every file of the table is there: as long as one is not, an older version may be all there is."""
    for name in sorted(live):
        path = os.path.join(lake.folder, name)
        if not os.path.exists(path) or not os.path.getsize(path):
            raise Damaged(
                f"{name} of the table {lake.folder} is missing or empty; nothing was deleted: "
                "restore an older version that is whole",
                path=lake.folder,
                file=name,
            )


def _useless(lake: Lake, table: DeltaTable, live: set[str], older_than: timedelta) -> list[str]:
    """Files taken out of the table so long ago, and files of that age that never were in it.

    Not left to `deltalake`, whose full vacuum asks for no age: it deletes what a task is writing at the moment.
    """
    hours = -(-int(older_than.total_seconds()) // 3600)
    taken_out = set(table.vacuum(0, dry_run=True, enforce_retention_duration=False))
    expired = set(table.vacuum(hours, dry_run=True, enforce_retention_duration=False))
    oldest = (datetime.now(UTC) - older_than).timestamp()
    return [
        name
        for name, changed in _parquet_files(lake.folder)
        if name in expired - live or (name not in taken_out | live and changed < oldest)
    ]


def _parquet_files(folder: str) -> Iterator[tuple[str, float]]:
    """Every data file in the folder, and when it was last changed."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in names:
            if name.endswith(".parquet"):
                path = os.path.join(place, name)
                yield os.path.relpath(path, folder), os.stat(path).st_mtime
