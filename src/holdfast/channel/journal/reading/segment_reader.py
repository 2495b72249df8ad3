"""The segment reader: entries from the segments, in passages, through a bounded cache.

    number ─▶ segment ─▶ nearest point before it ─▶ read a passage ─▶ check every record ─▶ cache

Reading forward takes a MiB at a time; a jump reads little more than the entry it wants. A wrong record in the durable part is
damage, and the error names its place. If its segment was released and used again meanwhile, the entry is gone, and that is no
damage.

Several threads may use it: one at a time goes to the disk.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.channel.channel import Buffer, Entry
from holdfast.channel.journal.files.disk import Disk, DiskFile
from holdfast.channel.journal.files.layout import HEADER_BYTES
from holdfast.channel.journal.files.record import COMMAND, HEAD_BYTES, Note, Passage, head_at, length_at, padded, scan, skim
from holdfast.channel.journal.files.segment import POINT_SPACING_BYTES, Chain, Segment, holder_of
from holdfast.channel.journal.reading.recovery import damaged
from holdfast.errors import Damaged, DiskFailed, JournalDamaged, NoSuchPosition

READ_AHEAD_BYTES = 1 << 20
# A jump reads from one point of the index to the next, and the record that begins before it.
READ_JUMP_BYTES = POINT_SPACING_BYTES + (1 << 13)
# Files that readers keep open at a time.
OPEN_FILES_MAX = 16


class View(Protocol):
    """The readable part: segments in use, and the newest durable entry. Both may change during a read."""

    @property
    def chain(self) -> Chain: ...

    @property
    def durable(self) -> int: ...


class Shelf:
    """Keeps the segment files open that were read last."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self._files: OrderedDict[str, DiskFile] = OrderedDict()

    def read(self, name: str, length: int, at: int) -> bytes:
        try:
            return self._file(name).read(length, at)
        except OSError as problem:
            raise DiskFailed(
                f"{name} cannot be read at byte {at}: {problem.strerror or problem}; look at the disk", file=name
            ) from problem

    def _file(self, name: str) -> DiskFile:
        file = self._files.get(name)
        if file is None:
            file = self._disk.open(self._folder / name, is_writable=False)
            while len(self._files) >= OPEN_FILES_MAX:
                self._files.popitem(last=False)[1].close()
            self._files[name] = file
        self._files.move_to_end(name)
        return file

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()


class SegmentReader:
    def __init__(self, disk: Disk, folder: Path, view: View, cache_bytes: int) -> None:
        self._shelf = Shelf(disk, folder)
        self._view = view
        self._cache_bytes = cache_bytes
        self._cached_bytes = 0
        self._cache: list[tuple[Segment, Passage]] = []  # the last used at the end; the number of an entry is unique
        self._lock = threading.Lock()
        self._last_front: tuple[Segment, int, int] | None = None  # the number and byte after the last front that was read

    def read_from(self, number: int) -> Iterator[Entry]:
        """Yield every entry from `number` to the newest that was durable at the call."""
        durable = self._view.durable
        if number > durable:
            return
        while number <= durable:
            run = self.run(number, durable)
            yield from run
            number = run[-1].number + 1

    def run(self, number: int, durable: int) -> list[Entry]:
        """Return the entries from `number` on that stand together, at least one. NoSuchPosition when it is not held."""
        passage = self._passage_with(number, is_forward=True)
        count = min(passage.next_entry, durable + 1) - number
        return list(map(Entry, range(number, number + count), passage.commands(number, count)))

    def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Return the commands with these numbers; with `bytes_max`, end when that is reached, after one at least.

        With `front`, return only so many bytes of a command that is much longer.
        """
        found: list[Buffer] = []
        passage: Passage | None = None
        total = 0
        for number in numbers:
            if bytes_max is not None and total >= bytes_max:
                break
            if passage is None or not passage.holds(number):
                long = self._front_of(number, front) if front is not None else None
                if long is not None:
                    found.append(long)
                    total += len(long)
                    continue
                passage = self._passage_with(number, is_forward=front is not None)
            found.append(passage.command(number))
            total += len(found[-1])
        return found

    def _front_of(self, number: int, length: int) -> bytes | None:
        """Return the first bytes of a long command, found by going from head to head.

        None for a short one: it is read, and checked, together with its neighbours.
        """
        with self._lock:
            chain = self._view.chain
            self._check_held(number, chain)
            if self._cached(number) is not None:
                return None
            segment = chain[holder_of(chain, number)]
            known = self._last_front
            entry, byte = segment.index.before(number)
            if known is not None and known[0] is segment and entry < known[1] <= number:
                _, entry, byte = known
            while True:
                data = self._shelf.read(segment.name, min(HEAD_BYTES + length, segment.end - byte), byte)
                head = head_at(data, segment.life)
                if head is None or head.entry != entry or padded(head.length) <= len(data):
                    return None
                byte += padded(head.length)
                if head.kind == COMMAND:
                    entry += 1
                if entry > number:
                    self._last_front = (segment, entry, byte)
                    return data[HEAD_BYTES:]

    def passages(self, segment: Segment) -> Iterator[Passage]:
        """Yield everything in a segment, checked and not cached."""
        byte, entry = HEADER_BYTES, segment.first_entry
        while byte < segment.end:
            with self._lock:
                passage = self._read(segment, byte, entry, READ_AHEAD_BYTES)
            yield passage
            byte, entry = passage.end, passage.next_entry

    def notes(self, segment: Segment, byte: int = HEADER_BYTES) -> Iterator[Note]:
        """Yield the notes in a segment from the record at `byte` on, each checked; commands between them are skipped."""
        while byte < segment.end:
            with self._lock:
                data = self._records(segment, byte, READ_AHEAD_BYTES)
            skimmed = skim(data, byte, life=segment.life, seed=segment.seed)
            if skimmed.end == byte:
                raise _not_right(segment, byte)
            yield from skimmed.notes
            byte = skimmed.end

    def close(self) -> None:
        with self._lock:
            self._shelf.close()
            self._cache.clear()

    # --- finding -------------------------------------------------------------------------------------------------------

    def _passage_with(self, number: int, *, is_forward: bool) -> Passage:
        with self._lock:
            chain = self._view.chain
            self._check_held(number, chain)
            passage = self._cached(number)
            if passage is not None:
                return passage
            segment = chain[holder_of(chain, number)]
            try:
                return self._load(segment, number, is_forward)
            except Damaged:
                self._check_held(number, self._view.chain)
                raise

    def _check_held(self, number: int, chain: Chain) -> None:
        first = chain[0].first_entry if chain else self._view.durable + 1
        if not first <= number <= self._view.durable:
            raise NoSuchPosition(
                f"entry {number} is not held: the oldest is {first}, the newest durable {self._view.durable}; start within these",
                entry=number, first=first, durable=self._view.durable,
            )  # fmt: skip

    def _cached(self, number: int) -> Passage | None:
        for index in range(len(self._cache) - 1, -1, -1):
            if self._cache[index][1].holds(number):
                self._cache.append(self._cache.pop(index))
                return self._cache[-1][1]
        return None

    def _load(self, segment: Segment, number: int, is_forward: bool) -> Passage:
        """Read from the nearest known point on until the number is found; the index grows on the way."""
        resumed = self._resume(segment, number)
        while True:
            entry, byte = resumed or segment.index.before(number)
            is_long = is_forward or resumed is not None or byte == segment.index.covered
            passage = self._read(segment, byte, entry, READ_AHEAD_BYTES if is_long else READ_JUMP_BYTES)
            segment.index.cover(passage)
            if passage.holds(number):
                self._keep(segment, passage)
                return passage
            resumed = (passage.next_entry, passage.end)

    def _resume(self, segment: Segment, number: int) -> tuple[int, int] | None:
        """Return where a cached passage ended, if this number comes right after it: somebody reads forward."""
        for holder, passage in self._cache:
            if holder is segment and passage.next_entry == number:
                return number, passage.end
        return None

    def _keep(self, segment: Segment, passage: Passage) -> None:
        self._cache.append((segment, passage))
        self._cached_bytes += passage.size
        while self._cached_bytes > self._cache_bytes and len(self._cache) > 1:
            self._cached_bytes -= self._cache.pop(0)[1].size

    # --- reading -------------------------------------------------------------------------------------------------------

    def _read(self, segment: Segment, byte: int, entry: int, length: int) -> Passage:
        """Return the right records from a byte on, at least one. The segment is durable up to its end: a wrong one is damage."""
        passage = scan(self._records(segment, byte, length), byte, life=segment.life, seed=segment.seed, entry=entry)
        if passage.end == byte:
            raise _not_right(segment, byte)
        return passage

    def _records(self, segment: Segment, byte: int, length: int) -> bytes:
        """Return so many bytes of a segment, more if the first record is longer, and not past its end."""
        left = segment.end - byte
        data = self._shelf.read(segment.name, min(length, left), byte)
        wanted = padded(length_at(data, 0, segment.life) or 0)
        if len(data) < wanted <= left:
            data = self._shelf.read(segment.name, wanted, byte)
        return data


def _not_right(segment: Segment, byte: int) -> JournalDamaged:
    return damaged(segment.name, byte, "a record that was durable is missing or does not match its checksum")
