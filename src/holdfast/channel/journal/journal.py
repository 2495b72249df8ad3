"""The journal: a channel on one machine's disk, in a folder of segments that are written before use and recycled for ever.

    Journal.open(folder) ─▶ append, read_from, fetch, release, save_snapshot, load_snapshot ─▶ close

There is no event loop and no thread in here: a call returns when it is done, and an `append` is done when it is durable.
`JournalChannel` runs a journal in an event loop; a recorder, the command line and the simulation use it as it is.

    writer      numbers commands, makes them durable          space       spare segments and reserves
    reading     entries from disk, cached and checked         ownership   opens a folder, repairs what a crash left

It keeps rules 1, 2, 8 and 16 of the design: entries are numbered without a gap; nothing is read past the durable mark; only a
prefix is released, and never the newest whole snapshot; that snapshot is found without reading the journal through.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.channel.channel import Buffer, Entry, Pressure, Purpose, Snapshot, Stretch, older_snapshot
from holdfast.channel.journal.files.disk import Disk, PosixDisk
from holdfast.channel.journal.files.record import COMMAND, RELEASED, RELEASED_PAYLOAD, padded
from holdfast.channel.journal.files.segment import Chain, holder_of
from holdfast.channel.journal.folder_ownership import Ownership, own
from holdfast.channel.journal.reading.snapshot import load, parts_of, snapshot_end
from holdfast.channel.journal.run import Draft, Outcome
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Closed, HoldfastError, JournalDamaged, NoSuchPosition, TooLarge

# A snapshot is written in groups of about this size, so that commands do not wait long behind it.
SNAPSHOT_GROUP_BYTES = 1 << 18


class Journal:
    """Use `Journal.open`. One process owns a journal; others read it with `JournalReader`."""

    def __init__(self, ownership: Ownership, clock: Callable[[], float]) -> None:
        self.folder = ownership.folder
        self.plan = ownership.plan
        self._command_bytes_max = ownership.plan.command_bytes_max
        self._ownership = ownership
        self._space = ownership.space
        self._writer = ownership.writer
        self._reader = ownership.reader
        self._clock = clock
        self._is_closed = False

    @classmethod
    def open(
        cls,
        folder: Path | str,
        settings: JournalSettings | None = None,
        *,
        disk: Disk | None = None,
        dice: Callable[[int], bytes] = os.urandom,
        clock: Callable[[], float] = time.monotonic,
    ) -> Journal:
        """Open the journal in this folder, or create it there if the folder is empty or missing.

        JournalInUse when another process owns it, JournalDamaged with the place, UnknownVersion, NotAJournal for a folder
        with other things in it, BadSetting, DiskFailed when it cannot be read or allocated.
        """
        return cls(own(disk or PosixDisk(), Path(folder), settings or JournalSettings(), dice, clock), clock)

    # --- state ---------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> bytes:
        """Sixteen random bytes that no other journal has."""
        return self._writer.journal_id

    @property
    def chain(self) -> Chain:
        """The segments in use, oldest first."""
        return self._writer.chain

    @property
    def first(self) -> int:
        chain = self._writer.chain
        return chain[0].first_entry if chain else self._writer.durable + 1

    @property
    def durable(self) -> int:
        return self._writer.durable

    @property
    def bytes_appended(self) -> int:
        """Bytes of commands appended since it was opened."""
        return self._writer.bytes_appended

    def oldest_stretch(self) -> Stretch | None:
        """Return the oldest segment, once nothing more is written to it: it is freed as a whole."""
        chain = self._writer.chain
        if len(chain) < 2:
            return None
        return Stretch(chain[0].first_entry, chain[1].first_entry - 1, chain[0].end)

    @property
    def pressure(self) -> Pressure:
        return self._space.pressure(self._writer.tail_left)

    @property
    def is_short(self) -> bool:
        return self._space.is_short

    @property
    def is_stopped(self) -> bool:
        """The disk failed and the journal accepts nothing more until it is opened again."""
        return bool(self._writer.stop_reason)

    # --- writing -------------------------------------------------------------------------------------------------------

    def append(self, commands: Sequence[Buffer], purpose: Purpose = Purpose.EVENTS) -> int:
        """Make these commands durable, in one sync where they fit one segment; return the number of the first.

        Blocked when the reserve is used up, TooLarge, DiskFailed, OutcomeUnknown. Commands before the refused one are durable:
        `journal.durable` tells how many.
        """
        drafts = [self.draft(command, purpose) for command in commands]
        first = self.durable + 1
        while drafts:
            count = self._count_in_room(drafts)
            self._raise_refusal(self.commit(drafts[:count]))
            del drafts[:count]
            while self.wants_growth and self.grow():
                pass
        return first

    def _count_in_room(self, drafts: Sequence[Draft]) -> int:
        """Count the drafts that fit the ready segments, at least one: more segments are made before the reserves are used."""
        left = self.room
        for count, draft in enumerate(drafts):
            left -= padded(len(draft.payload))
            if left < 0:
                return max(1, count)
        return len(drafts)

    def draft(self, command: Buffer, purpose: Purpose) -> Draft:
        """Return the command as something to commit. TooLarge when no segment can hold it."""
        if len(command) > self._command_bytes_max:
            raise TooLarge(
                f"a command of {len(command)} bytes is more than the {self._command_bytes_max} this journal takes; split it",
                length=len(command), max=self._command_bytes_max,
            )  # fmt: skip
        return Draft(COMMAND, command, purpose)

    def commit(self, drafts: Sequence[Draft], *, is_marked: bool = True) -> list[Outcome]:
        """Write and sync one group; return the outcome of each draft. One thread at a time.

        Then the durable mark is written, unless the caller does so itself before the next group, to answer sooner. Any other
        failure (no memory, a fault of our own) stops the journal: memory then no longer knows what is on disk.
        """
        self._check_open()
        try:
            outcomes = [self._writer.commit_lone(drafts[0])] if len(drafts) == 1 else self._writer.commit(drafts)
        except BaseException as problem:
            self._writer.stop(problem)
            raise
        if is_marked:
            self._writer.write_mark()
        return outcomes

    def write_mark(self) -> None:
        """Tell readers in other processes, and the next opening, what is durable. Do not call it while a group is committed."""
        self._writer.write_mark()

    def release(self, below: int) -> None:
        """Forget entries below this number, whole segments at a time. The newest snapshot and all other entries stay."""
        draft = self.release_draft(below)
        if draft:
            self._raise_refusal(self.commit([draft]))

    def release_draft(self, below: int) -> Draft | None:
        """Return the note that must be durable before segments are reused; None when no segment becomes free."""
        self._check_open()
        if below > self.durable + 1:
            raise NoSuchPosition(
                f"entries below {below} cannot be released: the newest is {self.durable}; release at most up to it",
                entry=below, durable=self.durable,
            )  # fmt: skip
        chain = self._writer.chain
        if not chain:
            return None
        kept = chain[max(0, holder_of(chain, below))].generation
        kept = min(kept, self._writer.snapshot_start[0] or kept)
        return Draft(RELEASED, RELEASED_PAYLOAD.pack(kept), Purpose.UPKEEP) if kept > chain[0].generation else None

    # --- snapshots -----------------------------------------------------------------------------------------------------

    def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        """Keep this state as of entry `at`, whole or not at all. It replaces the older one when its last byte is durable."""
        try:
            for group in self.snapshot_groups(at, chunks):
                self._raise_refusal(self.commit(group))
            self._raise_refusal(self.commit([self.snapshot_end(at)]))
        finally:
            self.forget_snapshot()

    def snapshot_groups(self, at: int, chunks: Iterable[Buffer]) -> Iterator[list[Draft]]:
        """Return the parts of a snapshot, in groups. Commit one after the other, then `snapshot_end`."""
        self._check_open()
        if not 0 <= at <= self.durable:
            raise NoSuchPosition(f"no snapshot can be saved as of entry {at}: the newest durable is {self.durable}", entry=at)
        newest = self._writer.marks.snapshot
        if newest.generation and at < newest.at:
            raise older_snapshot(at, newest.at)
        return parts_of(
            chunks, part_bytes=min(SNAPSHOT_GROUP_BYTES, self.plan.usable_bytes // 4), group_bytes=SNAPSHOT_GROUP_BYTES
        )

    def snapshot_end(self, at: int) -> Draft:
        """Return the note that makes the parts committed before it a snapshot."""
        return snapshot_end(at, self._writer)

    def forget_snapshot(self) -> None:
        """Stop keeping the parts of the snapshot that was being saved: it is finished, or will never be."""
        self._writer.forget_snapshot()

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest whole snapshot."""
        self._check_open()
        while True:
            place = self._writer.marks.snapshot
            try:
                return load(place, (*self._writer.kept, *self._writer.chain), self._reader)
            except JournalDamaged:
                if place == self._writer.marks.snapshot:
                    raise  # otherwise a newer one was saved meanwhile, and this one was released

    # --- reading -------------------------------------------------------------------------------------------------------

    def read_from(self, number: int) -> Iterator[Entry]:
        """Yield every entry from `number` to the newest that is durable now."""
        self._check_open()
        self.check_readable(number)
        return self._reader.read_from(number)

    def read_run(self, number: int, last: int) -> list[Entry]:
        """Return entries from `number` on and not past `last`, as many as are convenient, at least one."""
        self._check_open()
        return self._reader.run(number, last)

    def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Return the commands with these numbers; see `Channel.fetch`."""
        self._check_open()
        return self._reader.fetch(numbers, bytes_max, front)

    def check_readable(self, number: int) -> None:
        """Raise NoSuchPosition for a released entry. Starting past the newest is fine: that entry comes next."""
        if number < self.first:
            raise NoSuchPosition(
                f"entry {number} was released: the oldest held is {self.first}; start there, from a snapshot",
                entry=number, first=self.first,
            )  # fmt: skip

    # --- space ---------------------------------------------------------------------------------------------------------

    @property
    def wants_growth(self) -> bool:
        return self._space.wants_more(self._clock)

    @property
    def room(self) -> int:
        """The most bytes that one group should have, so that new segments are made in time."""
        return self._space.room(self._writer.tail_left)

    @property
    def is_growth_late(self) -> bool:
        return self._space.is_late

    def grow(self) -> bool:
        """Make one more spare segment. Return False when that failed: `pressure` says why, and it is tried again later."""
        try:
            self.adopt(self.make_segment())
        except OSError as problem:
            self.could_not_grow(problem)
            return False
        return True

    def make_segment(self) -> int:
        """Do the slow half of growing; it may run in another thread, one at a time. OSError when there is no room."""
        return self._space.make()

    def adopt(self, number: int) -> None:
        """Do the quick half: the new segment can be used."""
        self._space.adopt(number)

    def could_not_grow(self, problem: Exception) -> None:
        self._space.could_not_make(problem, self._clock())

    # --- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the folder."""
        if self._is_closed:
            return
        self._is_closed = True
        self._ownership.let_go()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"the journal in {self.folder} was closed by this program; open it again")

    @staticmethod
    def _raise_refusal(outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, HoldfastError):
                raise outcome
