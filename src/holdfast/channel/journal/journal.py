"""The journal: a channel on one machine's disk, in a folder of segments that are written before use and recycled for ever.

    Journal.open(folder) ─▶ append, read_from, fetch, release, save_snapshot, load_snapshot ─▶ close

No event loop and no threads in here: calls return when they are done, and an `append` is done when it is durable. `JournalChannel` runs
one in an event loop; a recorder, the command line and the simulation use it as it is.

    writer      numbers commands, makes them durable          space      spare segments and reserves
    reading     entries from disk, cached and checked          opening    judge and repair what a crash left

It keeps rules 1, 2, 8 and 16 of the design: entries are numbered without a gap; nothing is read past the durable mark; only a prefix is
released, and never the newest whole snapshot; that snapshot is found without reading the journal through.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.channel.channel import Buffer, Entry, Pressure, Purpose, Snapshot, Stretch
from holdfast.channel.journal.disk import Disk, DiskFile, Lock, LockTaken, PosixDisk
from holdfast.channel.journal.layout import JOURNAL_ID_BYTES, LOCK_NAME, MARK_BYTES, MARK_NAME, PREPARING_SUFFIX
from holdfast.channel.journal.opening import look, repair
from holdfast.channel.journal.reading import Reading
from holdfast.channel.journal.record import COMMAND, RELEASED, RELEASED_PAYLOAD, padded
from holdfast.channel.journal.recovery import is_without_journal
from holdfast.channel.journal.segment import Chain, holder_of
from holdfast.channel.journal.settings import JournalSettings, Plan, plan
from holdfast.channel.journal.snapshot import load, parts_of, snapshot_end
from holdfast.channel.journal.space import Space
from holdfast.channel.journal.writer import Draft, Outcome, Writer
from holdfast.errors import Closed, DiskFailed, HoldfastError, JournalDamaged, JournalInUse, NoSuchPosition, TooLarge

# A snapshot is written in groups of about this size, so that commands do not wait long behind it.
SNAPSHOT_GROUP_BYTES = 1 << 18


class Journal:
    """Use `Journal.open`. One process owns a journal; see `JournalReader` for others."""

    def __init__(
        self, *, disk: Disk, folder: Path, plan: Plan, space: Space, writer: Writer, reading: Reading, mark: DiskFile, lock: Lock,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.folder = folder
        self.plan = plan
        self._disk = disk
        self._space = space
        self._writer = writer
        self._reading = reading
        self._mark = mark
        self._lock = lock
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

        JournalInUse when another process owns it, JournalDamaged with the place, UnknownVersion, NotAJournal for a folder with other
        things in it, BadSetting, DiskFailed when it cannot be read or allocated.
        """
        disk, folder, settings = disk or PosixDisk(), Path(folder), settings or JournalSettings()
        try:
            disk.make_folder(folder)
            is_without_journal(disk.names(folder))
            lock = _locked(disk, folder)
        except OSError as problem:
            raise _failed(folder, problem) from problem
        try:
            return _Opening(disk, folder, settings, dice, clock, lock).journal()
        except OSError as problem:
            lock.release()
            raise _failed(folder, problem) from problem
        except BaseException:
            lock.release()
            raise

    # --- state ---------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> bytes:
        """Sixteen random bytes that no other journal has, for as long as this one exists."""
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
        """Bytes of commands since it was opened."""
        return self._writer.bytes_appended

    def oldest_stretch(self) -> Stretch | None:
        """The oldest segment, once nothing more is written to it: it is freed as a whole."""
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
        return bool(self._writer.stopped)

    # --- writing -------------------------------------------------------------------------------------------------------

    def append(self, commands: Sequence[Buffer], purpose: Purpose = Purpose.EVENTS) -> int:
        """Make these commands durable, in one sync where they fit one segment; the number of the first.

        Blocked when the reserve is used up, TooLarge, DiskFailed, OutcomeUnknown. Commands before the one that was refused are durable:
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
        """How many fit what is ready, at least one: more segments are made before the reserves are touched."""
        left = self.room
        for count, draft in enumerate(drafts):
            left -= padded(len(draft.payload))
            if left < 0:
                return max(1, count)
        return len(drafts)

    def draft(self, command: Buffer, purpose: Purpose) -> Draft:
        """The command as something to commit. TooLarge when no segment can hold it."""
        if len(command) > self.plan.command_bytes_max:
            raise TooLarge(
                f"a command of {len(command)} bytes is larger than the {self.plan.command_bytes_max} this journal takes; split it",
                length=len(command), max=self.plan.command_bytes_max,
            )  # fmt: skip
        return Draft(COMMAND, command, purpose)

    def commit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """One group: write, sync, and say per draft what became of it. One thread at a time."""
        self._check_open()
        return self._writer.commit(drafts)

    def release(self, below: int) -> None:
        """Forget entries below this number, whole segments at a time. Never the newest snapshot, never an entry that is not below."""
        draft = self.release_draft(below)
        if draft:
            self._raise_refusal(self.commit([draft]))

    def release_draft(self, below: int) -> Draft | None:
        """What must be durable before segments are reused; None when no segment becomes free."""
        self._check_open()
        if below > self.durable + 1:
            raise NoSuchPosition(
                f"entries below {below} cannot be released: the newest is {self.durable}; release no more than there is",
                entry=below, durable=self.durable,
            )  # fmt: skip
        chain = self._writer.chain
        if not chain:
            return None
        kept = chain[max(0, holder_of(chain, below))].generation
        kept = min(kept, self._writer.saving_start[0] or kept)
        return Draft(RELEASED, RELEASED_PAYLOAD.pack(kept), Purpose.UPKEEP) if kept > chain[0].generation else None

    # --- snapshots -----------------------------------------------------------------------------------------------------

    def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        """Keep this state as of entry `at`; whole or not at all. It replaces the one before when its last byte is durable."""
        try:
            for group in self.snapshot_groups(chunks):
                self._raise_refusal(self.commit(group))
            self._raise_refusal(self.commit([self.snapshot_end(at)]))
        finally:
            self.forget_snapshot()

    def snapshot_groups(self, chunks: Iterable[Buffer]) -> Iterator[list[Draft]]:
        """The parts of a snapshot, in groups to be committed one after the other, then `snapshot_end`."""
        self._check_open()
        return parts_of(
            chunks, part_bytes=min(SNAPSHOT_GROUP_BYTES, self.plan.usable_bytes // 4), group_bytes=SNAPSHOT_GROUP_BYTES
        )

    def snapshot_end(self, at: int) -> Draft:
        """What makes the parts committed before it a snapshot."""
        if not 0 <= at <= self.durable:
            raise NoSuchPosition(f"a snapshot as of entry {at}: the newest is {self.durable}; name one there is", entry=at)
        return snapshot_end(at, self._writer)

    def forget_snapshot(self) -> None:
        """The snapshot that was being saved is finished, or will never be: its parts need not be kept."""
        self._writer.forget_saving()

    def load_snapshot(self) -> Snapshot | None:
        """The newest whole one."""
        self._check_open()
        while True:
            place = self._writer.marks.snapshot
            try:
                return load(place, (*self._writer.kept, *self._writer.chain), self._reading)
            except JournalDamaged:
                if place == self._writer.marks.snapshot:
                    raise  # otherwise a newer one was saved meanwhile, and this one was released

    # --- reading -------------------------------------------------------------------------------------------------------

    def read_from(self, number: int) -> Iterator[Entry]:
        """Every entry from `number` to the newest that is durable now."""
        self._check_open()
        self.check_readable(number)
        return self._reading.read_from(number)

    def read_run(self, number: int) -> list[Entry]:
        """Entries from `number` on, as many as are convenient, at least one."""
        self._check_open()
        return self._reading.run(number, self.durable)

    def fetch(self, numbers: Sequence[int], bytes_max: int | None = None) -> list[Buffer]:
        """The commands with these numbers; with `bytes_max`, the answer ends when that is reached."""
        self._check_open()
        return self._reading.fetch(numbers, bytes_max)

    def check_readable(self, number: int) -> None:
        """NoSuchPosition for what was released. Starting past the newest is fine: that is what comes next."""
        if number < self.first:
            raise NoSuchPosition(
                f"entry {number} is not held any more: the oldest is {self.first}; start there, from a snapshot",
                entry=number, first=self.first,
            )  # fmt: skip

    # --- space ---------------------------------------------------------------------------------------------------------

    @property
    def wants_growth(self) -> bool:
        return self._space.wants_more(self._clock)

    @property
    def room(self) -> int:
        """Bytes that should go into one group at most, so that making segments keeps ahead."""
        return self._space.room(self._writer.tail_left)

    @property
    def is_growth_late(self) -> bool:
        return self._space.is_late

    def grow(self) -> bool:
        """Make one more spare segment. False when it could not be made; `pressure` says why, and it is tried again later."""
        try:
            self.adopt(self.make_segment())
        except OSError as problem:
            self.could_not_grow(problem)
            return False
        return True

    def make_segment(self) -> int:
        """The slow half of growing, which may run in another thread, one at a time. OSError when there is no room."""
        return self._space.make()

    def adopt(self, number: int) -> None:
        """The quick half: the segment that was made can be used."""
        self._space.adopt(number)

    def could_not_grow(self, problem: OSError) -> None:
        self._space.could_not_make(problem, self._clock())

    # --- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the folder. The durable mark is synced: from here on, whatever is missing is known to be."""
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.close()
        try:
            self._mark.sync()
        except OSError:
            pass
        self._mark.close()
        self._reading.close()
        self._space.close()
        self._lock.release()

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


class _Opening:
    """What `Journal.open` does once it has the lock."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        settings: JournalSettings,
        dice: Callable[[int], bytes],
        clock: Callable[[], float],
        lock: Lock,
    ) -> None:
        self._disk, self._folder, self._settings = disk, folder, settings
        self._dice, self._clock, self._lock = dice, clock, lock

    def journal(self) -> Journal:
        found = look(self._disk, self._folder)
        plan_ = plan(self._settings, found.segment_bytes)
        tail_file = repair(self._disk, self._folder, found)
        journal_id = found.journal_id or self._dice(JOURNAL_ID_BYTES)
        total = len(found.headers)
        space = Space(self._disk, self._folder, plan_, journal_id, total, found.spares)
        self._fill(space, plan_, is_new=not found.chain)
        mark = self._mark_file()
        writer = Writer(
            chain=found.chain, kept=found.kept, next_entry=found.next_entry, highest_generation=found.judged.highest_generation, marks=found.marks,
            journal_id=journal_id, segment_bytes=plan_.segment_bytes, space=space, tail_file=tail_file, mark_file=mark, dice=self._dice,
        )  # fmt: skip
        writer.write_mark()
        space.warm()
        reading = Reading(self._disk, self._folder, writer, self._settings.read_cache_bytes)
        return Journal(
            disk=self._disk, folder=self._folder, plan=plan_, space=space, writer=writer, reading=reading, mark=mark, lock=self._lock,
            clock=self._clock,
        )  # fmt: skip

    def _fill(self, space: Space, plan_: Plan, *, is_new: bool) -> None:
        """Everything that is promised is on disk before the first event. An existing journal opens even where it is not."""
        while space.total < plan_.initial_segments:
            try:
                space.adopt(space.make())
            except OSError as problem:
                if is_new:
                    raise
                space.could_not_make(problem, self._clock())
                return

    def _mark_file(self) -> DiskFile:
        path = self._folder / MARK_NAME
        if MARK_NAME in self._disk.names(self._folder):
            return self._disk.open(path, is_writable=True)
        draft = path.with_name(MARK_NAME + PREPARING_SUFFIX)
        file = self._disk.create(draft, MARK_BYTES)
        file.sync()
        self._disk.rename(draft, path)
        self._disk.sync_folder(self._folder)
        return file


def _locked(disk: Disk, folder: Path) -> Lock:
    try:
        return disk.lock(folder / LOCK_NAME)
    except LockTaken as taken:
        raise JournalInUse(
            f"the journal in {folder} is {taken}; stop that one, or give this one a folder of its own", holder=taken.holder or 0
        ) from None


def _failed(folder: Path, problem: OSError) -> DiskFailed:
    return DiskFailed(
        f"the journal in {folder} cannot be opened: {problem.strerror or problem}; make room or mend the disk, then open it again",
        reason=str(problem),
    )
