"""Space: the spare segments, and who may have them.

    spares = ordinary + events' reserve + upkeep's reserve

    not short    there is at least one ordinary spare, or one can still be made
    short        none, and none can be made: events draw on their reserve, down to what is upkeep's
    blocked      events have used theirs; upkeep (confirmations, snapshots, carried events) goes on with its own

While space is short, upkeep spends its own reserve, not that of events: the spares that events must leave alone shrink as upkeep
spends. A note of release is taken even when upkeep has nothing left, because it frees segments.

A backup may ask for some segments to be left alone while it copies them (`backup_hold`). Spares that nobody asked for are used
first, and new ones are made beside those that are held, up to a bound. When there are no others, a held spare is used: a backup
never makes a journal short.

Making a spare (`make`) is slow and touches only its own new file: it may run in another thread, one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from holdfast.channel.channel import Pressure, Purpose
from holdfast.channel.journal.files.backup_hold import NOTHING, held_segments
from holdfast.channel.journal.files.disk import Disk, DiskFile
from holdfast.channel.journal.files.layout import PREPARING_SUFFIX, encode_header, segment_name, spare_header
from holdfast.channel.journal.settings import ORDINARY_AHEAD, Plan
from holdfast.errors import Blocked

# Bytes kept free for notes of release when everything else is used up. One such note frees a whole segment.
NOTE_ROOM_BYTES = 512
# How many spares have their file open already, so that taking one needs no new file descriptor.
WARM_SPARES = 2
NO_LIMIT = 1 << 62
# A snapshot leaves one part in so many of upkeep's reserve to confirmations: they free space, a snapshot takes it.
CONFIRMATIONS_SHARE = 4
# A backup holds back at most so many bytes of spares, and at most one part in so many of the journal; with more, nothing is held.
HOLD_BYTES_MAX = 1 << 30
HOLD_PARTS = 4
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 5.0


class NoSpare(Exception):
    """No spare segment is left."""


class Space:
    def __init__(self, disk: Disk, folder: Path, plan: Plan, journal_id: bytes, total: int, spares: Iterable[int]) -> None:
        self._disk = disk
        self._folder = folder
        self._plan = plan
        self._reserve_segments = plan.reserve_segments
        self._journal_id = journal_id
        self._spares = deque(spares)
        self._warm: dict[int, DiskFile] = {}
        self._held: frozenset[int] = NOTHING  # by a backup, when it was last looked at
        self._held_spares = 0
        self._upkeep_spent = 0
        self._retry_s = RETRY_FIRST_S
        self.total = total
        self.problem = ""
        self.retry_at = 0.0

    @property
    def spares(self) -> tuple[int, ...]:
        return tuple(self._spares)

    @property
    def ordinary(self) -> int:
        """Spares beyond the reserves; negative while the reserves are in use."""
        return len(self._spares) - self._reserve_segments

    @property
    def is_short(self) -> bool:
        return self.ordinary < 1 and (bool(self.problem) or self.total >= self._plan.segments_max)

    def wants_more(self, clock: Callable[[], float]) -> bool:
        left = self.ordinary - self._held_spares
        return left < ORDINARY_AHEAD and self.total < self._plan.segments_max and clock() >= self.retry_at

    @property
    def is_late(self) -> bool:
        """The next segment would come out of a reserve although a new one can be made: wait for that one."""
        return self.ordinary < 1 and not self.problem and self.total < self._plan.segments_max

    def room(self, tail_left: int) -> int:
        """Return the bytes that can be taken before the next spare should be made; no limit where none can be made."""
        if self.problem or self.total >= self._plan.segments_max:
            return NO_LIMIT
        return tail_left + max(0, self.ordinary) * self._plan.sure_bytes

    # --- who may have what ---------------------------------------------------------------------------------------------

    @property
    def _upkeep_segments(self) -> int:
        """Spares that events must leave alone."""
        return max(0, self._plan.upkeep_segments - self._upkeep_spent // self._plan.usable_bytes)

    def refusal(self, purpose: Purpose, size: int, tail_left: int, *, is_snapshot: bool = False) -> Blocked | None:
        """Return why a record of `size` bytes is refused; None when the tail takes it, or a new segment if it does not fit."""
        left = len(self._spares) - (size > tail_left)
        is_last = left == 0 and size <= tail_left and tail_left - size < NOTE_ROOM_BYTES
        kept_back = self._upkeep_segments if purpose is Purpose.EVENTS else 0
        if is_snapshot:
            kept_back = self._plan.upkeep_segments // CONFIRMATIONS_SHARE
        if left < kept_back or left < 0 or is_last:
            return self._blocked("events" if purpose is Purpose.EVENTS else "upkeep", purpose)
        return None

    def _blocked(self, whose: str, purpose: Purpose) -> Blocked:
        return Blocked(
            f"the journal's reserve for {whose} is used up ({self.reason}); what was accepted is safe; it goes on by itself when "
            "recipients confirm or there is space again",
            purpose=int(purpose),
            reason=self.reason,
        )

    @property
    def reason(self) -> str:
        return self.problem or f"the journal has reached its size of {self.total * self._plan.segment_bytes} bytes"

    def spend(self, upkeep_bytes: int) -> None:
        """Count what upkeep has written."""
        self._upkeep_spent = self._upkeep_spent + upkeep_bytes if self.ordinary < 1 else 0

    def pressure(self, tail_left: int) -> Pressure:
        sure, upkeep = self._plan.sure_bytes, self._upkeep_segments
        events = max(0, min(len(self._spares) - upkeep, self._plan.events_segments))
        return Pressure(
            free_bytes=max(0, self.ordinary) * self._plan.usable_bytes + (tail_left if len(self._spares) >= upkeep else 0),
            events_reserve_bytes=events * sure,
            upkeep_reserve_bytes=min(upkeep, len(self._spares)) * sure,
            is_short=self.is_short,
            reason=self.reason if self.is_short else "",
            used_bytes=(self.total - len(self._spares)) * self._plan.segment_bytes - tail_left,
            size_bytes=self._plan.segments_max * self._plan.segment_bytes,
            ordinary_bytes=(self._plan.segments_max - self._reserve_segments) * self._plan.segment_bytes,
        )

    # --- taking, giving back, making -----------------------------------------------------------------------------------

    def take(self) -> tuple[int, DiskFile]:
        """Take the next spare, its file open. NoSpare when there is none, OSError when it cannot be opened."""
        if not self._spares:
            raise NoSpare("no spare segment is left")
        self._look_at_hold()
        number = self._next_spares()[0]
        file = self._warm.pop(number, None) or self._disk.open(self._folder / segment_name(number), is_writable=True)
        self._spares.remove(number)
        self._held_spares -= number in self._held
        self.warm()
        return number, file

    def _next_spares(self) -> Sequence[int]:
        """The spares in the order in which they are used: those that a backup holds last."""
        if not self._held_spares:
            return self._spares
        return sorted(self._spares, key=self._held.__contains__)

    def _look_at_hold(self) -> None:
        held = held_segments(self._folder)
        spares = sum(number in held for number in self._spares)
        size, size_max = self._plan.segment_bytes, self._plan.segments_max * self._plan.segment_bytes
        is_too_much = spares * size > min(HOLD_BYTES_MAX, size_max // HOLD_PARTS)
        self._held, self._held_spares = (NOTHING, 0) if is_too_much else (held, spares)

    def warm(self) -> None:
        """Open the files of the next spares ahead of need. Without a free file descriptor it is left for later."""
        for number in islice(self._next_spares(), WARM_SPARES):
            if number in self._warm:
                continue
            try:
                self._warm[number] = self._disk.open(self._folder / segment_name(number), is_writable=True)
            except OSError:
                return

    def give_back(self, numbers: Iterable[int]) -> None:
        """Make these segments spare again; upkeep's reserve is filled up first."""
        for number in numbers:
            self._spares.append(number)
            self._upkeep_spent = max(0, self._upkeep_spent - self._plan.usable_bytes)
        if self.ordinary >= 1:
            self._upkeep_spent = 0
        self._look_at_hold()

    def make(self) -> int:
        """Make a new segment file, whole and durable before it gets its name; return its number.

        OSError when there is no room; then nothing is left behind.
        """
        number = self.total + 1
        path = self._folder / segment_name(number)
        draft = path.with_name(path.name + PREPARING_SUFFIX)
        header = encode_header(spare_header(self._journal_id, number, self._plan.segment_bytes))
        try:
            file = self._disk.create(draft, self._plan.segment_bytes)
            try:
                file.write((header,), 0)
                file.sync()
            finally:
                file.close()
            self._disk.rename(draft, path)
            self._disk.sync_folder(self._folder)
        except OSError:
            self._discard(draft)
            raise
        return number

    def _discard(self, draft: Path) -> None:
        try:
            self._disk.unlink(draft)
        except OSError:
            pass

    def adopt(self, number: int) -> None:
        """Add the segment that `make` made to the spares."""
        self.total = number
        self.problem = ""
        self._retry_s = RETRY_FIRST_S
        self.give_back((number,))

    def could_not_make(self, problem: Exception, now: float) -> None:
        self.problem = f"no new segment can be made: {getattr(problem, 'strerror', None) or problem or type(problem).__name__}"
        self.retry_at = now + self._retry_s
        self._retry_s = min(RETRY_MAX_S, 2 * self._retry_s)

    def close(self) -> None:
        for file in self._warm.values():
            file.close()
        self._warm.clear()
