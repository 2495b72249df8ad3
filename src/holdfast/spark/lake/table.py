"""A lake table: a Delta table in a folder, to which each batch of a query is added exactly once.

    table/_delta_log/00000000000000000041.json     what belongs to the table, one file for each version
    table/_holdfast_lock                           held while a batch is checked and committed
    table/date=…/destination=…/part-….parquet      see `files`

A commit names its files together with (scope, number), the query and its batch, in one version of the log. Whether that number
was committed before is looked up first, under the lock: `deltalake` by itself would take the same one twice. When `commit`
returns, the version is on disk, and so is all that it names.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from holdfast.errors import BadSetting, Damaged, DiskFailed, TimedOut, Unavailable
from holdfast.spark.lake.damage import MARK, log, set_torn_aside
from holdfast.spark.lake.files import LakeFile, sync_file, sync_folder
from holdfast.spark.lake.schema import check_fit, delta_schema

LOG = "_delta_log"
LOCK = "_holdfast_lock"
# A commit takes milliseconds: who holds the lock for longer hangs, or is not a commit.
LOCK_WAIT_S = 60.0
LOCK_AGAIN_S = 0.02
# Versions between two checkpoints of the log: so many small files are read to open the table.
CHECKPOINT_VERSIONS = 50
# How long the log keeps old versions; `vacuum` forgets the rest. The number of each scope is never forgotten.
CONFIGURATION: Mapping[str, str | None] = {"delta.logRetentionDuration": "interval 7 days"}
# Checkpoints are made here, and synced: one that a hook wrote and that is not on disk would hide versions that are.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")

Mode = Literal["append", "overwrite"]


def local_folder(path: str) -> str:
    """The folder that a path or a file: URL names, whole; BadSetting for what is not a folder of a mounted file system."""
    scheme = _SCHEME.match(path)
    if scheme is not None and scheme[1].lower() != "file":
        raise BadSetting(
            f"{path!r} is not a folder: a lake table lies in a file system that every node of the cluster has mounted; "
            "give a path or a file: URL",
            path=path,
        )
    place = re.sub(r"^//(localhost)?(?=/)", "", unquote(path[5:])) if scheme is not None else path
    if not place.strip("/") or "\0" in place:
        raise BadSetting(f"{path!r} names no folder; give the folder of the table, such as /data/events", path=path)
    return os.path.abspath(place)


class Lake:
    """One table. Holds nothing open."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._log = os.path.join(folder, LOG)

    # --- looking ------------------------------------------------------------------------------------------------------

    def table(self) -> DeltaTable:
        """The newest version; BadSetting if there is no table here."""
        table = self.table_or_none()
        if table is None:
            raise BadSetting(f"{self.folder} is not a Delta table; name the folder that holds {LOG}", path=self.folder)
        return table

    def table_or_none(self) -> DeltaTable | None:
        if not os.path.isdir(self._log):
            self._refuse_what_is_not_ours()
            return None
        try:
            return self._opened()
        except (DeltaError, ValueError) as problem:
            if not set_torn_aside(self._log):
                raise self._damaged(problem) from problem
        try:
            return self._opened()
        except (DeltaError, ValueError) as problem:
            raise self._damaged(problem) from problem

    def _opened(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.folder)
        except TableNotFoundError:
            return None  # its first version was never written

    def _damaged(self, problem: Exception) -> Damaged:
        return Damaged(
            f"the Delta table {self.folder} cannot be read ({problem}); look at the newest files in {LOG}", path=self.folder
        )

    def files(self, table: DeltaTable) -> list[LakeFile]:
        """The files of the table, oldest first."""
        columns = table.metadata().partition_columns
        rows = pa.table(table.get_add_actions(flatten=True)).sort_by("modification_time").to_pylist()
        return [
            LakeFile(
                unquote(row["path"]),  # written as in a URL
                row["size_bytes"],
                {name: None if row[f"partition.{name}"] is None else str(row[f"partition.{name}"]) for name in columns},
                row["num_records"] or 0,
            )
            for row in rows
        ]

    def check(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """BadSetting unless rows of this schema can be added; a folder is made ready for the first commit."""
        table = self.table_or_none()
        if table is not None:
            check_fit(self.folder, table, schema, partition_by)
            return
        delta_schema(schema)
        self._make_folder()

    def _refuse_what_is_not_ours(self) -> None:
        try:
            strangers = [name for name in os.listdir(self.folder) if not name.startswith(("_", ".")) and "=" not in name]
        except FileNotFoundError:
            return
        except OSError as problem:
            raise DiskFailed(f"{self.folder} cannot be a lake table ({problem}); give a folder", path=self.folder) from problem
        if strangers:
            raise BadSetting(
                f"{self.folder} holds {strangers[0]!r} and is no Delta table; give an empty or a new folder", path=self.folder
            )

    def _make_folder(self) -> None:
        try:
            os.makedirs(self._log, exist_ok=True)
        except OSError as problem:
            raise DiskFailed(
                f"{self.folder} cannot be written ({problem}); give a folder that the driver and all executors may write",
                path=self.folder,
            ) from problem
        sync_folder(self.folder)
        sync_folder(os.path.dirname(self.folder))

    # --- committing ---------------------------------------------------------------------------------------------------

    def commit(
        self,
        schema: pa.Schema,
        partition_by: Sequence[str],
        files: Sequence[LakeFile],
        *,
        scope: str = "",
        number: int = 0,
        mode: Mode = "append",
    ) -> bool:
        """Add these files, unless this number of this scope was committed before; whether they were. Without scope: always."""
        with self._locked():
            table = self.table_or_none() or self._create(schema, partition_by)
            if scope and is_committed(table, scope, number):
                os.sync()  # whoever committed it may have been killed before it was on disk
                return False
            check_fit(self.folder, table, schema, partition_by)
            if files or mode == "overwrite":
                self._commit(table, _added(files), [Transaction(scope, number)] if scope else [], mode)
            return bool(files)

    def last_of(self, scope: str) -> int | None:
        """The highest number of this scope that was committed."""
        table = self.table_or_none()
        return None if table is None else table.transaction_version(scope)

    def replace(self, removed: Sequence[LakeFile], added: Sequence[LakeFile] = ()) -> None:
        """Take these files out. Those added instead hold the same rows: whoever follows the table sees no change."""
        now_ms = time.time_ns() // 1_000_000
        with self._locked():
            table = self.table()
            if not {file.path for file in removed} <= {file.path for file in self.files(table)}:
                raise Unavailable(f"the table {self.folder} was changed meanwhile; nothing was done: try again", path=self.folder)
            gone = [RemoveAction(file.path, not added, now_ms, file.size, file.partition) for file in removed]
            self._commit(table, [*_added(added, is_change=False), *gone], [], "append")

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> DeltaTable:
        with self._translated():
            table = DeltaTable.create(
                self.folder,
                delta_schema(schema),
                mode="error",
                partition_by=list(partition_by),
                configuration=CONFIGURATION,
                post_commithook_properties=_NO_HOOKS,
            )
        self._sync_log(table, 0)
        return table

    def _commit(
        self, table: DeltaTable, actions: list[AddAction | RemoveAction], transactions: list[Transaction], mode: Mode
    ) -> None:
        before = table.version()
        with self._translated():
            table.create_write_transaction(
                actions,
                mode=mode,
                schema=table.schema(),
                partition_by=table.metadata().partition_columns,
                commit_properties=CommitProperties(app_transactions=transactions),
                post_commithook_properties=_NO_HOOKS,
            )
        self._sync_log(table, before + 1)

    def _sync_log(self, table: DeltaTable, since: int) -> None:
        """The log is on disk from this version on, and now and then a summary of it."""
        table.update_incremental()
        version = table.version()
        for each in range(since, version + 1):
            sync_file(os.path.join(self._log, f"{each:020}.json"))
        sync_folder(self._log)
        if version // CHECKPOINT_VERSIONS > max(since - 1, 0) // CHECKPOINT_VERSIONS:
            with self._translated():
                table.create_checkpoint()
            for name in (f"{version:020}.checkpoint.parquet", MARK):
                sync_file(os.path.join(self._log, name))
            sync_folder(self._log)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as problem:
            raise Unavailable(
                f"the lake table {self.folder} did not take a commit ({problem}); nothing is lost: the batch is written again "
                "when the query is started again",
                path=self.folder,
            ) from problem

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Between looking and committing nobody else commits, be it the same query in a process thought dead."""
        self._make_folder()
        handle = os.open(os.path.join(self.folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            deadline = time.monotonic() + LOCK_WAIT_S
            while not self._has_lock(handle):
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f"another process has been committing to {self.folder} for {LOCK_WAIT_S:g} s; "
                        "end it if it hangs, and start the query again",
                        path=self.folder,
                    )
                time.sleep(LOCK_AGAIN_S)
            yield
        finally:
            os.close(handle)

    def _has_lock(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as problem:
            if problem.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            log.warning("%s is on a file system without locks (%s); run each query once at a time", self.folder, problem)
        return True


def is_committed(table: DeltaTable, scope: str, number: int) -> bool:
    last = table.transaction_version(scope)
    return last is not None and last >= number


def _added(files: Sequence[LakeFile], *, is_change: bool = True) -> list[AddAction | RemoveAction]:
    now_ms = time.time_ns() // 1_000_000
    return [AddAction(file.path, file.size, file.partition, now_ms, is_change, file.stats) for file in files]
