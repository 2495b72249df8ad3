"""The store of a listener: what it reserved, what its server answered, and which keys it has seen.

    store/
      lock              held while the store is open: one listener a store (continuity rule 7)
      identity          id of the store, domain, server, version of the format
      mark              `mark_file`
      answers-00000001  records with answers, in the order in which they were finished; `record`
      keys-00000001     records of an answer file whose bodies were given up, without them; `key_files`
      lasting           what stays of files of keys that were forgotten

    reserve ─▶ (durable) ─▶ begin ─▶ call ─▶ append ─▶ sync ─▶ (durable) ─▶ confirm

Opening judges what is there. A torn tail, which no mark calls durable, is cut off. Anything else that is not as it was written is
StoreDamaged, with file and byte: nothing is guessed, the server is rebuilt.

Disk: answer files up to `kept_bytes`; files of keys for as long as their keys are known, which times of events say (`forget`).

`append`, `begin` and `find` belong to one thread; `sync` and `write_keys` may run in another meanwhile. A failed sync ends the
store: nobody knows what is durable after it. Memory: about 100 bytes for each answer that is kept, and the ids and positions of
the newest RECENT_MAX records.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from holdfast.continuity.answer import Answer
from holdfast.continuity.errors import StoreDamaged
from holdfast.continuity.listener.durable import record as records
from holdfast.continuity.listener.durable import store_folder
from holdfast.continuity.listener.durable.key_files import LASTING, KeyFiles
from holdfast.continuity.listener.durable.mark_file import Mark, MarkFile
from holdfast.continuity.listener.durable.record import Record
from holdfast.continuity.listener.durable.store_folder import Identity
from holdfast.errors import Closed, DiskFailed

# An answer file is sealed at this size, or at a sixteenth of the bytes that are kept; while a sync is under way, after it.
FILE_BYTES_MAX = 16 << 20
# Records whose ids and positions are known: more than can be unconfirmed, by far.
RECENT_MAX = 65_536
_OFFSET_BITS = 40


class Opened(NamedTuple):
    """What was found on opening."""

    in_doubt: dict[int, int]  # places that may have been called and have no record, and how often each was called
    last: int  # the largest place that has a record
    members: bytes | None  # the membership at the place up to which nothing is missing
    is_same_boot: bool


class _Pending(NamedTuple):
    """What a sync makes durable."""

    file: int
    mark: Mark
    is_dirty: bool


class Store:
    """A store, open and locked. Made by `Store.open`."""

    def __init__(self, folder: Path, lock: int, identity: Identity, mark: MarkFile, boot: bytes, kept_bytes: int) -> None:
        self.folder = folder
        self.identity = identity
        self._lock = lock
        self._mark = mark
        self._boot = boot
        self._kept_bytes = kept_bytes
        self._file_max = max(4096, min(FILE_BYTES_MAX, kept_bytes // 16))
        self._at: dict[int, int] = {}  # where the answer of a place is: number of the file, and offset
        self._places: dict[int, array[int]] = {}  # of the answers in each file
        self._transactions: OrderedDict[str, int] = OrderedDict()
        self._positions: OrderedDict[int, int] = OrderedDict()
        self._sizes: dict[int, int] = {}  # answer files, and their bytes
        self._readers: dict[int, int] = {}
        self._keys = KeyFiles(folder)
        self._beyond: set[int] = set()  # places past `finished` that have a record
        self.finished = 0
        self.reserved_up_to = mark.mark.reserved_up_to
        self.opened = Opened({}, 0, None, True)
        self._number, self._file = 0, -1
        self._is_dirty, self._is_syncing, self._failed = False, False, ""
        self._done = ""  # the newest transaction that was done

    # --- opening and closing -------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Path, domain: str, server: str, boot: bytes, kept_bytes: int = 256 << 20) -> Self:
        """Open the store, or make one. StoreInUse, WrongStore, StoreDamaged, DiskFailed."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = store_folder.lock(folder)
            try:
                store = cls(folder, lock, *store_folder.identified(folder, domain, server, boot), boot, kept_bytes)
                store._judge()
            except BaseException:
                os.close(lock)
                raise
        except OSError as problem:
            raise DiskFailed(f"the store in {folder} cannot be opened: {problem}", folder=str(folder)) from problem
        return store

    def close(self) -> None:
        """Unlock it. What was not synced is in doubt only if the machine loses power."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            for reader in self._readers.values():
                os.close(reader)
            self._mark.close()
            os.close(self._lock)

    @property
    def is_closed(self) -> bool:
        return self._file < 0

    def _judge(self) -> None:
        mark = self._mark.mark
        self.finished = mark.finished
        members: dict[int, bytes | None] = {0: None}  # by place
        members |= {each.place: each.members for each in self._keys.lasting() if each.members}
        numbers = store_folder.numbers(self.folder, "answers")
        for number in store_folder.numbers(self.folder, "keys"):
            if number in numbers:  # its bodies were about to go
                self._path("answers", number).unlink()
                numbers.remove(number)
            for each in self._keys.read(number):
                self._enter(each, number, 0, has_answer=False)
                if each.members:
                    members[each.place] = each.members
        last = 0
        for number in numbers:
            for found in self._judged(number, is_last=number == numbers[-1]):
                self._enter(found.record, number, found.offset, found.has_answer)
                last = max(last, found.record.place)
                if found.record.members:
                    members[found.record.place] = found.record.members
        self._begin_file(numbers[-1] if numbers else max([1, *(each + 1 for each in store_folder.numbers(self.folder, "keys"))]))
        is_same = mark.boot == self._boot
        begun = self._mark.begun()
        if is_same and max(begun, default=0) > mark.reserved_up_to:  # a place is reserved before it is called
            raise _damaged(self._mark.path, 0)
        doubted = begun if is_same else dict.fromkeys(range(self.finished + 1, mark.reserved_up_to + 1), 1) | begun
        in_doubt = {place: times for place, times in sorted(doubted.items()) if self._is_open(place)}
        newest = max(place for place in members if place <= self.finished)
        self.opened = Opened(in_doubt, max(last, self.finished), members[newest], is_same)

    def _is_open(self, place: int) -> bool:
        return self.finished < place <= self.reserved_up_to and place not in self._beyond

    def _judged(self, number: int, is_last: bool) -> Iterator[records.Found]:
        """The records of a file. A torn tail is cut off; StoreDamaged for anything else that is not whole."""
        path, mark = self._path("answers", number), self._mark.mark
        data, end = path.read_bytes(), 0
        for found in records.scan(data):
            end = records.end_of(data, found)
            yield found
        durable = mark.durable if number == mark.file else len(data) if number < mark.file else 0
        is_torn = is_last and end >= durable and (mark.boot != self._boot or records.whole_after(data, end) < 0)
        if end < max(len(data), durable):
            if not is_torn:
                raise _damaged(path, end)
            os.truncate(path, end)

    # --- the rhythm of a call --------------------------------------------------------------------------------------------

    def begin(self, place: int) -> int:
        """The call of a place begins; how often it has begun. It must be reserved."""
        assert place <= self.reserved_up_to, "a place is reserved before it is called"
        return self._mark.begin(place)

    def append(self, record: Record) -> None:
        """Write the record of a finished event. It is durable after the next `sync`."""
        self._check()
        if self._sizes[self._number] >= self._file_max and not self._is_syncing:
            self._seal()
        data, offset = records.encode(record), self._sizes[self._number]
        try:
            written = os.pwrite(self._file, data, offset)
            if written != len(data):
                raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes were written")
        except OSError as problem:
            raise self._broken(problem) from problem
        self._is_dirty = True
        if record.outcome == "answered" and record.answer is not None and record.answer.head.status < 400:
            self._done = record.transaction
        self._sizes[self._number] = offset + len(data)
        self._enter(record, self._number, offset, record.answer is not None)

    def _enter(self, record: Record, number: int, offset: int, has_answer: bool) -> None:
        if has_answer:
            self._at[record.place] = number << _OFFSET_BITS | offset
            self._places.setdefault(number, array("Q")).append(record.place)
        self._transactions[record.transaction] = self._positions[record.position] = record.place
        for recent in (self._positions, self._transactions):
            if len(recent) > RECENT_MAX:
                recent.popitem(last=False)  # a plain dict would look through all that were taken out before
        if record.place > self.finished:
            self._beyond.add(record.place)
            while self.finished + 1 in self._beyond:
                self.finished += 1
                self._beyond.remove(self.finished)

    def sync(self, reserve_up_to: int = 0) -> int:
        """Make all records durable, and reserve places up to this one; the place up to which everything is durable then.

        It may run beside `append`, and only once at a time.
        """
        pending = self.sync_begin(reserve_up_to)
        try:
            self.sync_now(pending)
        finally:
            self.sync_end(pending)
        return pending.mark.finished

    def sync_begin(self, reserve_up_to: int = 0) -> _Pending:
        self._check()
        reserved = max(self.reserved_up_to, reserve_up_to)
        mark = Mark(0, reserved, self._boot, self.finished, self._number, self._sizes[self._number])
        pending = _Pending(self._file, mark, self._is_dirty)
        self._is_syncing, self._is_dirty = True, False
        return pending

    def sync_now(self, pending: _Pending) -> None:
        """The part that takes time."""
        try:
            if pending.is_dirty:
                os.fdatasync(pending.file)
            self._mark.write(pending.mark)
        except OSError as problem:
            raise self._broken(problem) from problem

    def sync_end(self, pending: _Pending) -> None:
        self._is_syncing = False
        if not self._failed:
            self.reserved_up_to = max(self.reserved_up_to, pending.mark.reserved_up_to)

    # --- finding ---------------------------------------------------------------------------------------------------------

    def find(self, place: int) -> Answer | None:
        """The answer at a place; None if there was none, or its body was given up."""
        found = self._record(place)
        return found.answer if found is not None else None

    def newest_done(self) -> str:
        """The transaction of the newest answer below 400, among those that are kept; "" if there is none."""
        if not self._done:
            for place in sorted(self._at, reverse=True):
                found = self._record(place)
                if found is not None and found.answer is not None and found.answer.head.status < 400:
                    self._done = found.transaction
                    break
        return self._done

    def _record(self, place: int) -> Record | None:
        at = self._at.get(place)
        if at is None:
            return None
        number, offset = at >> _OFFSET_BITS, at & (1 << _OFFSET_BITS) - 1
        reader = self._reader(number)
        head = os.pread(reader, records.HEAD_BYTES, offset)
        body = records.body_at(head + os.pread(reader, int.from_bytes(head[:4], "big"), offset + records.HEAD_BYTES), 0)
        if body is None:
            path = self._path("answers", number)
            raise StoreDamaged(
                f"the record at byte {offset} of {path} cannot be read; rebuild this server", file=str(path), byte=offset
            )
        return records.decode(body)

    def place_of(self, transaction: str) -> int | None:
        """The place of a transaction, among the newest."""
        return self._transactions.get(transaction)

    def place_at(self, position: int) -> int | None:
        """The place of the event at a position, among the newest: it was recorded before, and was delivered again."""
        return self._positions.get(position)

    def history(self) -> Iterator[Record]:
        """All records that are kept, without answers, oldest file first: known keys and membership are made from them."""
        yield from self._keys.lasting()
        for kind, number in self._files():
            for found in records.scan(self._path(kind, number).read_bytes()):
                yield found.record

    # --- giving up bodies and keys ---------------------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """Bytes of answer files."""
        return sum(self._sizes.values())

    def surplus(self) -> int | None:
        """The number of the oldest answer file, if the files hold more than is kept."""
        oldest = min(self._sizes)
        return oldest if self.bytes > self._kept_bytes and oldest != self._number else None

    def write_keys(self, number: int) -> None:
        """Write what stays of an answer file: its records without answers. `drop` it afterwards."""
        found = [each.record for each in records.scan(self._path("answers", number).read_bytes())]
        self._keys.write(number, found)

    def drop(self, number: int) -> None:
        """Give up the bodies of an answer file."""
        self._path("answers", number).unlink()
        del self._sizes[number]
        if number in self._readers:
            os.close(self._readers.pop(number))
        for place in self._places.pop(number, ()):
            self._at.pop(place, None)

    def forgettable(self, before_us: int) -> list[int]:
        """The files of keys that may be forgotten: all keys in them are older than this."""
        return self._keys.forgettable(before_us, self._mark.mark.finished)

    def forget(self, number: int) -> None:
        """Delete a file of keys, the oldest."""
        self._keys.forget(number)

    # --- copies ----------------------------------------------------------------------------------------------------------

    def copy_to(self, folder: Path) -> None:
        """Copy the store as it is now, for a snapshot. It is synced first; the copy has no lock and is made durable."""
        self.sync()
        folder.mkdir(parents=True)
        lasting = [LASTING] if (self.folder / LASTING).exists() else []
        for name in ["identity", "mark", *lasting, *(self._path(kind, number).name for kind, number in self._files())]:
            store_folder.write_whole(folder / name, (self.folder / name).read_bytes())

    # --- files -----------------------------------------------------------------------------------------------------------

    def _files(self) -> list[tuple[str, int]]:
        found = [(number, kind) for kind in ("answers", "keys") for number in store_folder.numbers(self.folder, kind)]
        return [(kind, number) for number, kind in sorted(found)]

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:08}"

    def _begin_file(self, number: int) -> None:
        self._number = number
        self._file = os.open(self._path("answers", number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for each in store_folder.numbers(self.folder, "answers"):
            self._sizes[each] = self._path("answers", each).stat().st_size
        store_folder.sync(self.folder)

    def _seal(self) -> None:
        try:
            os.fdatasync(self._file)
            os.close(self._file)
            self._begin_file(self._number + 1)
        except OSError as problem:
            raise self._broken(problem) from problem

    def _reader(self, number: int) -> int:
        if number == self._number:
            return self._file
        if number not in self._readers:
            self._readers[number] = os.open(self._path("answers", number), os.O_RDONLY | os.O_CLOEXEC)
        return self._readers[number]

    def _check(self) -> None:
        if self._failed:
            raise DiskFailed(f"the store in {self.folder} failed before: {self._failed}; start the listener again")
        if self._file < 0:
            raise Closed(f"the store in {self.folder} is closed")

    def _broken(self, problem: OSError) -> DiskFailed:
        self._failed = str(problem)
        return DiskFailed(f"the disk refused a write of the store in {self.folder}: {problem}", folder=str(self.folder))


def _damaged(path: Path, byte: int) -> StoreDamaged:
    return StoreDamaged(f"byte {byte} of {path} is not as it was written; rebuild this server", file=str(path), byte=byte)
