"""The journal reader: reads a journal that another process owns, or nobody, up to the durable mark and never past it.

The owner writes the durable mark (a small file of its own) after each sync, so everything up to the mark is durable. The reader
reads the mark before the records, and checks the records all the same. Without a mark, a group is known to be durable when a
record of a later group follows it, because a group is written only after the one before it was synced.

The owner may release and reuse a segment during a read. Then its records do not match their checksums any more. The reader looks
at the headers again: NoSuchPosition if the entry is gone, JournalDamaged if it should be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from holdfast.channel.channel import Buffer, Entry, Snapshot
from holdfast.channel.journal.files.disk import Disk, PosixDisk
from holdfast.channel.journal.files.layout import HEADER_BYTES, NO_SNAPSHOT, DurableMark, SnapshotPlace
from holdfast.channel.journal.files.record import scan
from holdfast.channel.journal.files.segment import Chain, Marks, Segment
from holdfast.channel.journal.reading.found_journal import as_chain, read_headers, read_mark, scan_tail
from holdfast.channel.journal.reading.recovery import is_without_journal, judge_headers
from holdfast.channel.journal.reading.segment_reader import SegmentReader
from holdfast.channel.journal.reading.snapshot import load
from holdfast.errors import DiskFailed, HoldfastError, JournalDamaged, NoSuchPosition, NotAJournal

CACHE_BYTES = 4 << 20
# The owner may begin a segment after the mark is read and before the headers are. So often in a row that does not happen.
LOOKS_MAX = 10


class JournalReader:
    """Follows a journal without owning it. `refresh` finds new entries; nothing in the folder is changed."""

    def __init__(self, folder: Path | str, *, disk: Disk | None = None, cache_bytes: int = CACHE_BYTES) -> None:
        self._disk = disk or PosixDisk()
        self._folder = Path(folder)
        self._reader = SegmentReader(self._disk, self._folder, self, cache_bytes)
        self.chain: Chain = ()
        self._kept: Chain = ()  # before the chain, for the newest snapshot alone
        self.durable = 0
        self.id = ""  # of the journal, as the channel of its owner has it
        self.refresh()

    @property
    def first(self) -> int:
        return self.chain[0].first_entry if self.chain else self.durable + 1

    def refresh(self) -> int:
        """Look again; return the number of the newest durable entry. Raises what opening would raise."""
        problem: HoldfastError | None = None
        for _ in range(LOOKS_MAX):
            try:
                problem = self._look()
            except OSError as failure:
                raise DiskFailed(
                    f"{self._folder} cannot be read: {failure.strerror or failure}", reason=str(failure)
                ) from failure
            if problem is None:
                return self.durable
        assert problem is not None
        raise problem

    def read_from(self, number: int) -> Iterator[Entry]:
        """Yield every entry from `number` to the newest that was durable at the last `refresh`."""
        durable = self.durable
        while number <= durable:
            run = self._run(number, durable)
            yield from run
            number = run[-1].number + 1

    def _run(self, number: int, durable: int) -> list[Entry]:
        try:
            return self._reader.run(number, durable)
        except JournalDamaged as problem:
            self._judge(number, problem)

    def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Return the commands with these numbers, as `Channel.fetch` does; NoSuchPosition for released ones."""
        try:
            return self._reader.fetch(numbers, bytes_max, front)
        except JournalDamaged as problem:
            self._judge(min(numbers), problem)

    def _judge(self, number: int, problem: JournalDamaged) -> NoReturn:
        """Raise the reason why a record is wrong: it was released and its segment used again, or it is damaged."""
        self.refresh()
        if number >= self.first:
            raise problem
        raise NoSuchPosition(
            f"entry {number} was released during the read: the oldest held is {self.first}; start there",
            entry=number,
            first=self.first,
        ) from None

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest whole snapshot that is durable; if its segments are used again meanwhile, its successor."""
        while True:
            place = self._snapshot_place()
            try:
                return load(place, (*self._kept, *self.chain), self._reader)
            except JournalDamaged:
                self.refresh()
                if place == self._snapshot_place():
                    raise

    def _snapshot_place(self) -> SnapshotPlace:
        """Return where the snapshot is, from the newest header and the notes behind it."""
        if not self.chain:
            return NO_SNAPSHOT
        tail = self.chain[-1]
        marks = Marks(tail.header.oldest_generation, tail.header.snapshot)
        for note in self._reader.notes(tail):
            marks = marks.after(note, tail.generation)
        return marks.snapshot

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- looking -------------------------------------------------------------------------------------------------------

    def _look(self) -> HoldfastError | None:
        """Take over the present state. Return an error when mark and headers do not fit, which may last only a moment."""
        mark = read_mark(self._disk, self._folder)
        names = self._disk.names(self._folder)
        if is_without_journal(names):
            raise NotAJournal(f"the folder {self._folder} holds no journal; name one that does", folder=str(self._folder))
        judged = judge_headers(read_headers(self._disk, self._folder, names))
        if isinstance(judged, HoldfastError):
            return judged
        self.id = next((header.journal_id.hex() for header in (*judged.chain, *judged.spares)), "")
        if not judged.chain:
            return None  # no segment was ever used
        segments = as_chain(judged)
        self._kept, chain = segments[: len(judged.kept)], segments[len(judged.kept) :]
        if mark is None:
            self._take(chain, *self._proven(chain[-1]))
            return None
        return self._take_marked(chain, mark)

    def _take_marked(self, chain: Chain, mark: DurableMark) -> JournalDamaged | None:
        marked = [segment for segment in chain if segment.generation <= mark.generation]
        if not marked or marked[-1].generation != mark.generation:
            return JournalDamaged(
                f"the durable mark names generation {mark.generation}, which is missing; open the journal to have it judged",
                file=str(self._folder), byte=0,
            )  # fmt: skip
        self._take(tuple(marked), mark.end, mark.entry)
        return None

    def _proven(self, tail: Segment) -> tuple[int, int]:
        """Return, without a mark, where the last group of the tail begins, and the last entry before it."""
        file = self._disk.open(self._folder / tail.name, is_writable=False)
        try:
            scan_tail(file, tail, Marks(tail.header.oldest_generation, tail.header.snapshot))
            data = file.read(tail.end - HEADER_BYTES, HEADER_BYTES)
        finally:
            file.close()
        whole = scan(data, HEADER_BYTES, life=tail.life, seed=tail.seed, entry=tail.first_entry)
        before = scan(data[: whole.group - HEADER_BYTES], HEADER_BYTES, life=tail.life, seed=tail.seed, entry=tail.first_entry)
        return before.end, before.next_entry - 1

    def _take(self, chain: Chain, end: int, durable: int) -> None:
        """Take the new chain, and keep the indexes of known segments."""
        known = {segment.generation: segment for segment in self.chain}
        taken = tuple(known.get(segment.generation, Segment(segment.header, segment.end)) for segment in chain)
        for segment, found in zip(taken, chain, strict=True):
            segment.end = found.end
        taken[-1].end = end
        self.chain, self.durable = taken, durable
