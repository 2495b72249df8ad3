"""The writer: takes drafts, gives them numbers, makes them durable, and says so only then.

    drafts ─▶ a run that fits the tail ─▶ write ─▶ sync ─▶ published
                     │ full                  │ failed
                     ▼                       ▼
                next segment ◀────────── give the tail up; the same run again, from memory

A run is one group: one write and one sync, in one segment. A run that fills a segment is synced before the next segment is
begun, so a header in a newer segment proves that the older one is whole up to the end which that header names.

When a write or a sync fails, nothing is known of what it wrote. The tail ends where it was durable before; the next segment's
header says so, which makes void whatever lies behind; and the run is written there, with the same numbers. Until that header
is durable nobody was told anything, so recovery may find the run in the one or in the other, but never in both. After a few
such failures in a row the writer stops for good.

One thread uses a writer at a time. What others may look at meanwhile (`chain`, `durable`, `marks`) is replaced whole, never
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.channel.channel import Buffer, Purpose
from holdfast.channel.journal.disk import DiskFile
from holdfast.channel.journal.layout import DurableMark, Header, encode_header, encode_mark
from holdfast.channel.journal.marks import Marks
from holdfast.channel.journal.record import COMMAND, PART_LEAD, RELEASED, SNAPSHOT_END, SNAPSHOT_PART, Note, encode, padded
from holdfast.channel.journal.segment import POINT_SPACING_BYTES, Chain, Segment
from holdfast.channel.journal.space import Space
from holdfast.errors import DiskFailed, HoldfastError, OutcomeUnknown

# Segments given up in a row before the disk itself is given up.
FAILURES_MAX = 3


class Draft(NamedTuple):
    """What is to be written: a command, or a note of the journal to itself."""

    kind: int
    payload: Buffer
    purpose: Purpose


Outcome = int | HoldfastError


class Run:
    """Records for one segment, one write and one sync."""

    __slots__ = ("command_bytes", "end", "next_draft", "next_entry", "notes", "parts", "points", "upkeep_bytes")

    def __init__(self, start: int, next_draft: int, next_entry: int) -> None:
        self.end = start
        self.next_draft = next_draft
        self.next_entry = next_entry
        self.parts: list[Buffer] = []
        self.notes: list[Note] = []
        self.points: list[tuple[int, int]] = []
        self.upkeep_bytes = 0
        self.command_bytes = 0


class Writer:
    def __init__(
        self,
        *,
        chain: Chain,
        kept: Chain,
        next_entry: int,
        highest_generation: int,
        marks: Marks,
        journal_id: bytes,
        segment_bytes: int,
        space: Space,
        tail_file: DiskFile | None,
        mark_file: DiskFile | None,
        dice: Callable[[int], bytes],
    ) -> None:
        self.chain = chain
        self.kept = kept
        self.durable = next_entry - 1
        self.marks = marks
        self.stopped = ""
        self.bytes_appended = 0
        self.journal_id = journal_id
        self._segment_bytes = segment_bytes
        self._highest_generation = highest_generation
        self._space = space
        self._mark_file = mark_file
        self._dice = dice
        self._tail = chain[-1] if chain else None
        self._tail_file = tail_file
        self._is_begun = bool(chain)  # the tail's header is on disk
        self._failures = 0
        self._given_up: list[DiskFile] = []
        self._blocked: dict[Purpose, HoldfastError] = {}
        self._saving_start = (0, 0)

    @property
    def tail_left(self) -> int:
        return self._tail.left if self._tail else 0

    @property
    def saving_start(self) -> tuple[int, int]:
        """(generation, byte) where the snapshot that is being saved began; (0, 0) when none is."""
        return self._saving_start

    def forget_saving(self) -> None:
        """The snapshot that was being saved will not be finished."""
        self._saving_start = (0, 0)

    # --- a group -------------------------------------------------------------------------------------------------------

    def commit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Write and sync. Per draft: the number of its entry (for a note: of the next), or why it was not taken.

        Nobody overtakes: when one is refused for want of room, so are those of the same purpose behind it.
        """
        outcomes: list[Outcome] = []
        self._blocked.clear()
        while len(outcomes) < len(drafts):
            if self.stopped:
                outcomes += [self._refused()] * (len(drafts) - len(outcomes))
            elif self._must_switch(drafts[len(outcomes)]):
                self._refuse_or_begin(drafts[len(outcomes)], outcomes)
            else:
                self._commit_run(drafts, outcomes)
        return outcomes

    def commit_lone(self, draft: Draft) -> Outcome:
        """`commit` of one draft, by a short way where it is a command that goes into the tail, as most do."""
        kind, payload, _ = draft
        tail, size = self._tail, padded(len(payload))
        if kind != COMMAND or tail is None or not self._is_begun or tail.end + size > self._segment_bytes:
            return self.commit((draft,))[0]
        if self.stopped or self._tail_file is None or self._space.ordinary < 1:
            return self.commit((draft,))[0]
        at, entry = tail.end, self.durable + 1
        parts = encode(COMMAND, payload, entry, at=at, group=at, life=tail.header.life, seed=tail.seed)
        try:
            self._tail_file.write(parts, at)
            self._tail_file.sync()
        except OSError as problem:
            self._give_up_tail(problem)
            return self._commit_elsewhere((draft,), [entry], 0)[0]
        index = tail.index
        index.note(entry, at)
        index.covered = tail.end = at + size
        index.next_entry = entry + 1
        self._failures = 0
        self.bytes_appended += len(payload)
        self.durable = entry
        return entry

    def _must_switch(self, draft: Draft) -> bool:
        return padded(len(draft.payload)) > self.tail_left

    def _refuse_or_begin(self, draft: Draft, outcomes: list[Outcome]) -> None:
        refusal = self._refusal(draft, self.tail_left)
        if refusal:
            outcomes.append(refusal)
            return
        try:
            self._begin_segment()
        except OSError as problem:
            outcomes.append(
                DiskFailed(f"the next segment cannot be opened: {problem.strerror or problem}; try again", reason=str(problem))
            )

    def _refusal(self, draft: Draft, left: int) -> HoldfastError | None:
        size = padded(len(draft.payload))
        if draft.kind == RELEASED and size <= left:
            return None
        refusal = self._blocked.get(draft.purpose) or self._space.refusal(
            draft.purpose, size, left, is_snapshot=draft.kind == SNAPSHOT_PART
        )
        if refusal:
            self._blocked[draft.purpose] = refusal
        return refusal

    def _commit_run(self, drafts: Sequence[Draft], outcomes: list[Outcome]) -> None:
        before = len(outcomes)
        run = self._gather(drafts, outcomes)
        if not run.parts:
            return
        if self._is_durable(run):
            self._publish(run)
        else:
            self._commit_elsewhere(drafts, outcomes, before)

    def _commit_elsewhere(self, drafts: Sequence[Draft], outcomes: list[Outcome], before: int) -> list[Outcome]:
        """The tail was given up: those from `before` on are written again, from memory, into the next segment that takes them."""
        while True:
            self._begin_after_failure()
            if self.stopped:
                self._fail(outcomes, before)
                return outcomes
            del outcomes[before:]
            run = self._gather(drafts, outcomes)
            if self._is_durable(run):
                self._publish(run)
                return outcomes

    def _begin_after_failure(self) -> None:
        if self.stopped:
            return
        try:
            self._begin_segment()
        except (OSError, IndexError) as problem:
            self.stop(problem)

    def _fail(self, outcomes: list[Outcome], before: int) -> None:
        """These were written, and nobody can say whether they are there."""
        unknown = OutcomeUnknown(
            f"the disk refused to make it durable ({self.stopped}); it may or may not be found when the journal is opened "
            "again; repeat it then with the same id"
        )
        outcomes[before:] = [unknown if isinstance(outcome, int) else outcome for outcome in outcomes[before:]]

    def _gather(self, drafts: Sequence[Draft], outcomes: list[Outcome]) -> Run:
        """As many drafts as fit the tail, with their numbers. Those for which there is no room are refused; others go on."""
        tail = self._tail
        assert tail is not None
        group = tail.end
        run = Run(group, len(outcomes), self.durable + 1)
        at, room, life, seed = group, self._segment_bytes, tail.life, tail.seed
        entry, next_point, is_ample = run.next_entry, 0, self._space.ordinary >= 1 and not self._blocked
        for draft in drafts[len(outcomes) :]:
            kind, payload, purpose = draft
            size = padded(len(payload))
            if at + size > room:
                break
            if not is_ample and (refusal := self._refusal(draft, room - at)):
                outcomes.append(refusal)
                continue
            run.parts += encode(kind, payload, entry, at=at, group=group, life=life, seed=seed)
            outcomes.append(entry)
            if kind == COMMAND:
                if at >= next_point:
                    run.points.append((entry, at))
                    next_point = at + POINT_SPACING_BYTES
                entry += 1
                run.command_bytes += len(payload)
            else:
                run.notes.append(Note(kind, at, bytes(payload)))
            if purpose is Purpose.UPKEEP:
                run.upkeep_bytes += size
            at += size
        run.end, run.next_entry = at, entry
        return run

    def _is_durable(self, run: Run) -> bool:
        """Write and sync; False when that failed, and then the tail is given up."""
        assert self._tail is not None
        assert self._tail_file is not None
        try:
            if self._is_begun:
                self._tail_file.write(run.parts, self._tail.end)
            else:
                self._tail_file.write([encode_header(self._tail.header), *run.parts], 0)
            self._tail_file.sync()
        except OSError as problem:
            self._give_up_tail(problem)
            return False
        return True

    def _publish(self, run: Run) -> None:
        tail = self._tail
        assert tail is not None
        for number, byte in run.points:
            tail.index.note(number, byte)
        tail.index.covered = tail.end = run.end
        tail.index.next_entry = run.next_entry
        if not self._is_begun:
            self._is_begun = True
            self.chain = (*self.chain, tail)
            self.marks = self.marks._replace(oldest_generation=tail.header.oldest_generation)
        self._failures = 0
        self._space.spend(run.upkeep_bytes)
        self.bytes_appended += run.command_bytes
        self.durable = run.next_entry - 1
        for note in run.notes:
            self._take_note(note)

    def _take_note(self, note: Note) -> None:
        assert self._tail is not None
        if note.kind == SNAPSHOT_PART:
            index = PART_LEAD.unpack_from(note.payload)[0]
            self.saved_parts = index + 1
            if index == 0:
                self._saving_start = (self._tail.generation, note.byte)
        self.marks = self.marks.after(note, self._tail.generation)
        if note.kind in (RELEASED, SNAPSHOT_END):
            self._let_go()

    def _let_go(self) -> None:
        """What neither holds entries nor the newest snapshot is spare; that this is so is durable already."""
        before = (*self.kept, *self.chain)
        self.chain, self.kept = self.marks.held(before)
        in_use = {segment.number for segment in (*self.kept, *self.chain)}
        self._space.give_back(segment.number for segment in before if segment.number not in in_use)

    def write_mark(self) -> None:
        """Tell other processes, and the next opening. A mark that cannot be written is an old one, which is still true."""
        if self._tail is None or self._mark_file is None:
            return
        mark = DurableMark(self.journal_id, self._tail.generation, self._tail.end, self.durable)
        try:
            self._mark_file.write((encode_mark(mark),), 0)
        except OSError:
            pass

    # --- segments ------------------------------------------------------------------------------------------------------

    def _begin_segment(self) -> None:
        """The next spare becomes the tail. Its header is written with its first records."""
        previous = self.chain[-1].header if self.chain else None
        number, file = self._space.take()
        if self._is_begun and self._tail_file:
            self._tail_file.close()
        self._highest_generation += 1
        generation = self._highest_generation
        header = Header(
            journal_id=self.journal_id,
            number=number,
            life=int.from_bytes(self._dice(4), "little") or 1,
            segment_bytes=self._segment_bytes,
            generation=generation,
            previous_generation=previous.generation if previous else 0,
            previous_number=previous.number if previous else 0,
            previous_end=self.chain[-1].end if previous else 0,
            first_entry=self.durable + 1,
            oldest_generation=self.marks.oldest_generation if previous else generation,
            snapshot=self.marks.snapshot,
        )
        self._tail, self._tail_file, self._is_begun = Segment(header), file, False

    def _give_up_tail(self, problem: OSError) -> None:
        assert self._tail_file is not None
        self._given_up.append(self._tail_file)
        self._tail_file = None
        self._failures += 1
        if self._failures > FAILURES_MAX:
            self.stop(problem)

    def stop(self, problem: BaseException) -> None:
        """Accept nothing more; the first reason stays."""
        if not self.stopped:
            self.stopped = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__

    def _refused(self) -> DiskFailed:
        return DiskFailed(
            f"the journal stopped accepting because the disk failed ({self.stopped}); what was accepted is safe; mend the disk, "
            "then open the journal again",
            reason=self.stopped,
        )

    def close(self) -> None:
        self.write_mark()
        for file in (*self._given_up, *([self._tail_file] if self._tail_file else [])):
            file.close()
        self._tail_file = None
