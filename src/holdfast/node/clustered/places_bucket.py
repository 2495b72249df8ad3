"""The table of places of a cluster: in a bucket that all nodes share, with a copy here that follows it (ADR 27).

    find ──▶ the copy                       answered at once
    reserve ──▶ compare and set ──▶ bucket ──▶ then
    bucket ── every change ──▶ the copy ──▶ DATA/places-CLUSTER      one line of JSON for each change

Without the bucket a node goes on, and starts, with what it knew last, from that file; what would change a place is `Unavailable`
(rule 14). The file is a copy: what a crash cut off is in the bucket.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from holdfast.bus.bucket import Bucket, Entry, Stop
from holdfast.cluster.places import Failed, Places, Reserved, Rule
from holdfast.cluster.shared_places import Done, Place, Put, SharedPlaces, decode, encode
from holdfast.destination import name
from holdfast.errors import BadName, HoldfastError, OutcomeUnknown, Unavailable
from holdfast.node import places_file, supervision

log = logging.getLogger("holdfast.places")

# A bucket that cannot be opened is tried again after this.
AGAIN_S = 1.0
# Changes that are on their way to the bucket at once: with more, the last would wait for an answer longer than is usual.
PUTS_MAX = 64

OpenBucket = Callable[[], Awaitable[Bucket]]


class PlacesBucket(Places):
    def __init__(self, open_bucket: OpenBucket, table: SharedPlaces, file: Path) -> None:
        self._open_bucket = open_bucket
        self._table = table
        self._file = file
        self._bucket: Bucket | None = None
        self._stop_watching: Stop = lambda: None
        self._under_way = asyncio.Semaphore(PUTS_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines = file.open("ab", buffering=0)

    @classmethod
    async def open(cls, open_bucket: OpenBucket, managers: Sequence[str], rules: Iterable[Rule], file: Path) -> PlacesBucket:
        """Open the table; Unavailable when there is neither a bucket nor a copy from before."""
        table = SharedPlaces(managers, places_file.fixed(managers), rules)
        is_known = _read(file, table)
        places = cls(open_bucket, table, file)
        try:
            await places._follow()
        except Unavailable as problem:
            if not is_known:
                await places.close()
                raise
            log.warning("the places of %s are those of %s: the bucket cannot be read yet: %s", managers, file, problem)
            places._start(places._follow_later(), "opening the bucket of places")
        except BaseException:
            await places.close()
            raise
        return places

    async def _follow(self) -> None:
        bucket = await self._open_bucket()
        self._stop_watching = await bucket.watch(self._learn)
        self._bucket = bucket

    async def _follow_later(self) -> None:
        while self._bucket is None:
            await asyncio.sleep(AGAIN_S)
            try:
                await self._follow()
            except Unavailable as problem:
                log.debug("the bucket of places is opened again later: %s", problem)

    async def close(self) -> None:
        self._stop_watching()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._lines.close()

    def _learn(self, entry: Entry) -> None:
        """The bucket tells an entry."""
        self._note(entry.key, decode(entry.value, entry.revision))

    def _note(self, destination: str, place: Place) -> None:
        if self._table.learn(destination, place):
            line = json.dumps([destination, *place], separators=(",", ":")).encode() + b"\n"
            try:
                self._lines.write(line)
            except OSError as problem:
                log.error("the copy of places cannot be written to %s: %s", self._file, problem)

    # --- as client managers use it -----------------------------------------------------------------------------------

    @property
    def managers(self) -> Sequence[str]:
        return self._table.managers

    def find(self, destination: str) -> str | None:
        return self._table.find(destination)

    def revision_of(self, destination: str) -> int:
        found = self._table.entry(destination)
        return found.revision if found is not None else 0

    def reserve(self, destination: str, then: Reserved, failed: Failed, is_created: bool = False) -> None:
        found = _without_entry(destination, self._table)
        if found is not None:
            then(found)
        elif isinstance(step := self._table.reserving(destination, is_created=is_created), Done):
            then(step.place.manager)
        else:
            self._start(self._reserve(destination, is_created, then, failed), f"reserving the place of {destination}")

    async def _reserve(self, destination: str, is_created: bool, then: Reserved, failed: Failed) -> None:
        try:
            manager = await self.place(destination, is_created=is_created)
        except HoldfastError as problem:
            failed(problem)
        else:
            then(manager)

    def learn(self, destination: str, is_used: bool, then: Callable[[], None]) -> bool:
        if _without_entry(destination, self._table) is not None:
            return False
        self._start(self._look(destination, is_used, then), f"looking for the place of {destination}")
        return True

    async def _look(self, destination: str, is_used: bool, then: Callable[[], None]) -> None:
        try:
            await self._read(destination)
            if is_used:
                await self.place(destination)
        except HoldfastError as problem:  # whoever asked finds no place, and says so
            log.debug("the place of %s is not known: %s", destination, problem)
        then()

    # --- changing it -------------------------------------------------------------------------------------------------

    async def place(self, destination: str, manager: str = "", is_created: bool = False) -> str:
        """Make a place, if there is none, and return its manager. `manager`: where it was found."""
        while True:
            step = self._table.reserving(destination, manager, is_created)
            if isinstance(step, Done):
                return step.place.manager
            if await self._put(destination, step):
                is_created = False

    def begin_delete(self, destination: str, then: Callable[[int], None], failed: Failed) -> None:
        self._start(self._begin_delete(destination, then, failed), f"deleting the place of {destination}")

    async def _begin_delete(self, destination: str, then: Callable[[int], None], failed: Failed) -> None:
        revision = None
        try:
            await self._read(destination)
            while revision is None:
                step = self._table.deleting(destination)
                revision = await self._put(destination, step) if step is not None else 0
        except HoldfastError as problem:
            failed(problem)
        else:
            then(revision)

    def end_delete(self, destination: str, revision: int, is_deleted: bool, then: Callable[[], None]) -> None:
        self._start(self._end_delete(destination, revision, is_deleted, then), f"deleting the place of {destination}")

    async def _end_delete(self, destination: str, revision: int, is_deleted: bool, then: Callable[[], None]) -> None:
        """Note what became of a deletion. If that fails, or another was first, whoever uses the name finds out."""
        found = self._table.entry(destination)
        if found is not None and found.revision == revision:
            try:
                await self._put(destination, self._table.deleted(found) if is_deleted else self._table.kept(found))
            except HoldfastError as problem:
                log.debug("the place of %s is still being deleted: %s", destination, problem)
        then()

    async def _put(self, destination: str, step: Put) -> int | None:
        """Take a step; return its revision, or None if another was first, whose entry is known then."""
        try:
            async with self._under_way:
                revision = await self._of_bucket().put(destination, encode(step.place), step.after)
        except OutcomeUnknown as problem:  # whoever made the entry, the next one finds it
            raise Unavailable(f"the place of {destination!r} is not known yet: {problem}; repeat later") from problem
        if revision is None:
            await self._read(destination)
            return None
        self._note(destination, step.place._replace(revision=revision))
        return revision

    async def _read(self, destination: str) -> None:
        """Read the newest entry, which this copy may not have yet."""
        found = await self._of_bucket().get(destination)
        if found is not None:
            self._learn(found)

    def _of_bucket(self) -> Bucket:
        if self._bucket is None:
            raise Unavailable("the bucket of places cannot be reached: places are found, and none is changed; repeat later")
        return self._bucket

    def reconcile(self, manager: str, destinations: Sequence[str]) -> None:
        """The primary of a message manager has these destinations: what has no place gets it there."""
        self._start(self._reconcile(manager, destinations), f"reconciling the places of {manager}")

    async def _reconcile(self, manager: str, destinations: Sequence[str]) -> None:
        for each in destinations:
            if _without_entry(each, self._table) is not None:
                continue
            while True:
                try:
                    found = await self.place(each, manager)
                    break
                except Unavailable as problem:
                    log.debug("the place of %s is reconciled later: %s", each, problem)
                    await asyncio.sleep(AGAIN_S)
            if found != manager:
                log.critical(
                    "%r is at message manager %s, and its place is at %s: what waits at %s is not delivered",
                    each, manager, found, manager,
                )  # fmt: skip

    def _start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = supervision.start(work, what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _without_entry(destination: str, table: SharedPlaces) -> str | None:
    """The manager of a name that needs no entry, or can have none: the first then says why."""
    fixed = table.fixed(destination)
    if fixed is not None:
        return fixed
    try:
        name.check_destination(destination)
    except BadName:
        return table.managers[0]
    return None


def _read(file: Path, table: SharedPlaces) -> bool:
    """Read the copy from before, and write it anew, one line for each name; whether there was one."""
    if not file.exists():
        return False
    newest: dict[str, bytes] = {}
    for line in file.read_bytes().split(b"\n")[:-1]:
        destination, *place = json.loads(line)
        if table.learn(destination, Place(*place)):
            newest[destination] = line
    anew = file.with_suffix(".new")
    anew.write_bytes(b"".join(line + b"\n" for line in newest.values()))
    anew.replace(file)
    return True
