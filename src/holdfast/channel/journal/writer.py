"""The writer: numbers drafts, makes them durable, and reports them only then.

    drafts ─▶ a run that fits the tail ─▶ write ─▶ sync ─▶ published
                     │ full                  │ failed
                     ▼                       ▼
                next segment ◀────────── give the tail up; the same run again, from memory

A run (`run`) is one write and one sync, in one segment. A run that fills a segment is synced before the next segment begins. So
the header of a newer segment proves that the older one is whole up to the end which that header names.

When a write or a sync fails, nothing is known of what it wrote. The tail then ends where it was durable before. The header of the
next segment says so, which makes void all that lies behind, and the run is written there, with the same numbers. No caller has an
answer before that header is durable. So recovery may find the run in one segment or in the other, but never in both. After a few
such failures in a row the writer stops for good.

One thread uses a writer at a time. The attributes that others read meanwhile (`chain`, `durable`, `marks`) are replaced whole,
never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.channel.journal.files.disk import DiskFile
from holdfast.channel.journal.files.layout import DurableMark, Header, encode_header, encode_mark
from holdfast.channel.journal.files.record import COMMAND, PART_LEAD, RELEASED, SNAPSHOT_END, SNAPSHOT_PART, Note, encode, padded
from holdfast.channel.journal.files.segment import Chain, Marks, Segment
from holdfast.channel.journal.run import Admission, Draft, Outcome, Run, gather
from holdfast.channel.journal.space import NoSpare, Space
from holdfast.errors import DiskFailed, OutcomeUnknown


class TailSegment:
    """The segment that is written to, with its file.

        a spare ─begin─▶ not begun ─first run durable─▶ begun ─full─▶ the next one begins, this file is closed
                             │                            │
                             └──── write or sync fails ───┴─▶ given up: it ends where it was durable before

    Its header is written with its first records. A tail that is not begun is not in the chain yet, and no caller has an answer
    about anything in it. `segment` and `file` are None before the first segment; `file` also after the tail was given up.
    """

    def __init__(
        self,
        segment: Segment | None,
        file: DiskFile | None,
        *,
        highest_generation: int,
        journal_id: bytes,
        segment_bytes: int,
        dice: Callable[[int], bytes],
    ) -> None:
        self.segment = segment
        self.file = file
        self.is_begun = segment is not None  # its header is on disk
        self.failures = 0  # tails given up since something was durable
        self._highest_generation = highest_generation
        self._journal_id = journal_id
        self._segment_bytes = segment_bytes
        self._dice = dice
        self._given_up: list[DiskFile] = []

    def begin(self, number: int, file: DiskFile, *, previous: Segment | None, first_entry: int, marks: Marks) -> None:
        """Make this spare the tail, behind `previous`."""
        if self.is_begun and self.file:
            self.file.close()
        self._highest_generation += 1
        generation = self._highest_generation
        header = Header(
            journal_id=self._journal_id,
            number=number,
            life=int.from_bytes(self._dice(4), "little") or 1,
            segment_bytes=self._segment_bytes,
            generation=generation,
            previous_generation=previous.generation if previous else 0,
            previous_number=previous.number if previous else 0,
            previous_end=previous.end if previous else 0,
            first_entry=first_entry,
            oldest_generation=marks.oldest_generation if previous else generation,
            snapshot=marks.snapshot,
        )
        self.segment, self.file, self.is_begun = Segment(header), file, False

    def give_up(self) -> None:
        """Write nothing more to it."""
        assert self.file is not None
        self._given_up.append(self.file)
        self.file = None
        self.failures += 1

    def close(self) -> None:
        for file in (*self._given_up, *([self.file] if self.file else [])):
            file.close()
        self.file = None


# After more failed segments than this in a row, the disk itself is given up.
FAILURES_MAX = 3


class Writer:
    def __init__(
        self,
        *,
        chain: Chain,
        kept: Chain,
        next_entry: int,
        marks: Marks,
        journal_id: bytes,
        space: Space,
        tail: TailSegment,
        mark_file: DiskFile | None,
    ) -> None:
        self.chain = chain
        self.kept = kept
        self.durable = next_entry - 1
        self.marks = marks
        self.stop_reason = ""
        self.bytes_appended = 0
        self.journal_id = journal_id
        self._space = space
        self._tail = tail
        self._mark_file = mark_file
        self._admission = Admission(space)
        self.snapshot_parts = 0  # of the snapshot that is being saved
        self._snapshot_start = (0, 0)
        self._failure = ""  # why the newest tail was given up

    @property
    def tail_left(self) -> int:
        segment = self._tail.segment
        return segment.left if segment else 0

    @property
    def snapshot_start(self) -> tuple[int, int]:
        """(generation, byte) where the snapshot that is being saved began; (0, 0) when none is saved."""
        return self._snapshot_start

    def forget_snapshot(self) -> None:
        """Forget where the snapshot that was being saved began."""
        self._snapshot_start = (0, 0)

    # --- a group -------------------------------------------------------------------------------------------------------

    def commit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Write and sync; return the outcome of each draft."""
        outcomes: list[Outcome] = []
        self._admission.blocked.clear()
        while len(outcomes) < len(drafts):
            if self.stop_reason:
                outcomes += [self._refused()] * (len(drafts) - len(outcomes))
            elif self._must_switch(drafts[len(outcomes)]):
                self._refuse_or_begin(drafts[len(outcomes)], outcomes)
            else:
                self._commit_run(drafts, outcomes)
        return outcomes

    def commit_lone(self, draft: Draft) -> Outcome:
        """Commit one draft, by a short way if it is a command that goes into the tail, as most do."""
        kind, payload, _ = draft
        tail, size = self._tail, padded(len(payload))
        segment, file = tail.segment, tail.file
        if kind != COMMAND or segment is None or not tail.is_begun or segment.end + size > segment.header.segment_bytes:
            return self.commit((draft,))[0]
        if self.stop_reason or file is None or self._space.ordinary < 1:
            return self.commit((draft,))[0]
        at, entry = segment.end, self.durable + 1
        parts = encode(COMMAND, payload, entry, at=at, group=at, life=segment.header.life, seed=segment.seed)
        try:
            file.write(parts, at)
            file.sync()
        except OSError as problem:
            self._give_up_tail(problem)
            return self._commit_elsewhere((draft,), [entry], 0)[0]
        index = segment.index
        index.note(entry, at)
        index.covered = segment.end = at + size
        index.next_entry = entry + 1
        tail.failures = 0
        self.bytes_appended += len(payload)
        self.durable = entry
        return entry

    def _must_switch(self, draft: Draft) -> bool:
        return padded(len(draft.payload)) > self.tail_left

    def _refuse_or_begin(self, draft: Draft, outcomes: list[Outcome]) -> None:
        refusal = self._admission.refusal(draft, self.tail_left)
        if refusal:
            outcomes.append(refusal)
            return
        try:
            self._begin_segment()
        except OSError as problem:
            outcomes.append(
                DiskFailed(f"the next segment cannot be opened: {problem.strerror or problem}; try again", reason=str(problem))
            )

    def _commit_run(self, drafts: Sequence[Draft], outcomes: list[Outcome]) -> None:
        assert self._tail.segment is not None
        before = len(outcomes)
        run = gather(drafts, outcomes, self._tail.segment, self.durable + 1, self._admission)
        if not run.parts:
            return
        if self._is_durable(run):
            self._publish(run)
        else:
            self._commit_elsewhere(drafts, outcomes, before)

    def _commit_elsewhere(self, drafts: Sequence[Draft], outcomes: list[Outcome], before: int) -> list[Outcome]:
        """Write the drafts from `before` on again, from memory, into the next segment that takes them: the tail was given up."""
        while True:
            self._begin_after_failure()
            if self.stop_reason:
                self._fail(outcomes, before)
                return outcomes
            assert self._tail.segment is not None
            del outcomes[before:]
            run = gather(drafts, outcomes, self._tail.segment, self.durable + 1, self._admission)
            if self._is_durable(run):
                self._publish(run)
                return outcomes

    def _begin_after_failure(self) -> None:
        if self.stop_reason:
            return
        try:
            self._begin_segment()
        except OSError as problem:
            self.stop(problem)
        except NoSpare as problem:
            self.stop(NoSpare(f"{self._failure}, and {problem}"))

    def _fail(self, outcomes: list[Outcome], before: int) -> None:
        """Report drafts that were written, and of which nobody knows whether they are there."""
        unknown = OutcomeUnknown(
            f"the disk refused to make it durable ({self.stop_reason}); it may be there when the journal is opened again; "
            "repeat it then with the same source and id"
        )
        outcomes[before:] = [unknown if isinstance(outcome, int) else outcome for outcome in outcomes[before:]]

    def _is_durable(self, run: Run) -> bool:
        """Write and sync. When that fails, give the tail up and return False."""
        segment, file = self._tail.segment, self._tail.file
        assert segment is not None
        assert file is not None
        try:
            if self._tail.is_begun:
                file.write(run.parts, segment.end)
            else:
                file.write([encode_header(segment.header), *run.parts], 0)
            file.sync()
        except OSError as problem:
            self._give_up_tail(problem)
            return False
        return True

    def _publish(self, run: Run) -> None:
        tail, segment = self._tail, self._tail.segment
        assert segment is not None
        for number, byte in run.points:
            segment.index.note(number, byte)
        segment.index.covered = segment.end = run.end
        segment.index.next_entry = run.next_entry
        if not tail.is_begun:
            tail.is_begun = True
            self.chain = (*self.chain, segment)
            self.marks = self.marks._replace(oldest_generation=segment.header.oldest_generation)
        tail.failures = 0
        self._space.spend(run.upkeep_bytes)
        self.bytes_appended += run.command_bytes
        self.durable = run.next_entry - 1
        for note in run.notes:
            self._take_note(note, segment.generation)

    def _take_note(self, note: Note, generation: int) -> None:
        if note.kind == SNAPSHOT_PART:
            index = PART_LEAD.unpack_from(note.payload)[0]
            self.snapshot_parts = index + 1
            if index == 0:
                self._snapshot_start = (generation, note.byte)
        self.marks = self.marks.after(note, generation)
        if note.kind in (RELEASED, SNAPSHOT_END):
            self._let_go()

    def _let_go(self) -> None:
        """Make segments spare that hold neither entries nor the newest snapshot. The note that says so is durable already."""
        before = (*self.kept, *self.chain)
        self.chain, self.kept = self.marks.held(before)
        in_use = {segment.number for segment in (*self.kept, *self.chain)}
        self._space.give_back(segment.number for segment in before if segment.number not in in_use)

    def write_mark(self) -> None:
        """Tell other processes, and the next opening, what is durable. If that fails the old mark stays, which is still true."""
        if not self.chain or self._mark_file is None:
            return
        newest = self.chain[-1]  # not the tail: before its first run is durable, its header may never come
        mark = DurableMark(self.journal_id, newest.generation, newest.end, self.durable)
        try:
            self._mark_file.write((encode_mark(mark),), 0)
        except OSError:
            pass

    # --- segments ------------------------------------------------------------------------------------------------------

    def _begin_segment(self) -> None:
        """Make the next spare the tail."""
        previous = self.chain[-1] if self.chain else None
        number, file = self._space.take()
        self._tail.begin(number, file, previous=previous, first_entry=self.durable + 1, marks=self.marks)

    def _give_up_tail(self, problem: OSError) -> None:
        self._tail.give_up()
        self._failure = problem.strerror or str(problem)
        if self._tail.failures > FAILURES_MAX:
            self.stop(problem)

    def stop(self, problem: BaseException) -> None:
        """Accept nothing more; the first reason stays."""
        if not self.stop_reason:
            self.stop_reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__

    def _refused(self) -> DiskFailed:
        return DiskFailed(
            f"the journal stopped accepting because the disk failed ({self.stop_reason}); what was accepted is safe; mend "
            "the disk, then open the journal again",
            reason=self.stop_reason,
        )

    def close(self) -> None:
        self.write_mark()
        self._tail.close()
