"""The verdict buffer: verdicts are noted one by one as the program gives them, and sent together as ranges.

    confirm, note ─▶ VerdictRanges ─▶ (so many, or so long, or nothing else to do) ─▶ VerdictOutbox ─▶ applied

A range grows while positions follow each other: within a slice by one, across slices only where the server said that they
adjoin and nothing else that was handed over lies between.

Each event belongs to the generation in which it was handed over. A new generation begins when everything held is given back,
because the receiver was closed, the session recovered, or the server gave it up. A verdict of a former generation is too late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.client.receiving.attachment.held import Held
from holdfast.errors import HoldfastError, Refused
from holdfast.event.position import Ranges

if TYPE_CHECKING:
    from holdfast.client.receiving.confirm_modes import EventMode
    from holdfast.client.receiving.verdict_outbox import VerdictOutbox

Verdict = Literal["confirm", "release", "reject"]
Code = Literal["", "unreadable", "failed"]  # of a reject; "" for one that the program said


class Settlement(NamedTuple):
    """The verdicts of one Settle frame."""

    verdict: Verdict
    ranges: Ranges
    delay_ms: int = 0
    reason: str = ""
    is_counted: bool = True
    code: str = ""  # that of a `Code`, or of a death elsewhere
    events: int = 0  # how many it is about; 0: nobody wants to hear which of them came too late
    number: int = 0  # counts the settlements of its receiver, once it was sent
    wait: Literal["", "back-off", "exact"] = ""  # of a release that the program said: without a delay, or with one

    @classmethod
    def of_expired(cls, first: int, last: int) -> Settlement:
        """These expired before the program was handed them: the server sends them to the dead events."""
        return cls("release", Ranges.of((first, last)), is_counted=False)


class VerdictRanges:
    """Verdicts that are noted and not sent."""

    def __init__(self) -> None:
        self.noted = 0
        self.highest = 0  # position that was handed over
        self.end = -1  # of the confirmed range that grows; -1 when none does
        self._begin = 0
        self._confirmed: list[tuple[int, int]] = []
        self._others: dict[tuple[Verdict, int | None, str, str], list[tuple[int, int]]] = {}
        self._adjoining: dict[int, int] = {}  # first of a slice: last of the slice it adjoins
        self._newest = 0

    def handed(self, first: int, last: int, is_adjoining: bool) -> None:
        """A slice was handed over."""
        if is_adjoining and self._newest == self.highest and self._newest + 1 < first:
            self._adjoining[first] = self._newest
        self._newest = last
        if last > self.highest:
            self.highest = last

    def confirm(self, position: int) -> None:
        end = self.end
        if position != end + 1 and self._adjoining.pop(position, None) != end:
            self._close_range()
            self._begin = position
        self.end = position
        self.noted += 1

    def confirm_range(self, first: int, last: int) -> None:
        """Confirm every position from `first` to `last`; all were handed over."""
        self.confirm(first)
        self.end = last
        self.noted += last - first

    def _close_range(self) -> None:
        if self.end >= 0:
            self._confirmed.append((self._begin, self.end))
            self.end = -1

    def note(self, verdict: Verdict, position: int, delay_ms: int | None, reason: str, code: Code = "") -> None:
        self._adjoining.pop(position, None)
        self._others.setdefault((verdict, delay_ms, reason, code), []).append((position, position))
        self.noted += 1

    def note_ranges(self, verdict: Verdict, ranges: Ranges, delay_ms: int | None, reason: str, code: str = "") -> None:
        """Note a verdict on every position of these ranges; all are held."""
        for first, _ in ranges:
            self._adjoining.pop(first, None)
        self._others.setdefault((verdict, delay_ms, reason, code), []).extend(ranges)
        self.noted += ranges.count

    def take(self) -> list[Settlement]:
        """Take out everything that is noted, to send it now."""
        self._close_range()
        made = []
        if self._confirmed:
            others = sum(last - first + 1 for positions in self._others.values() for first, last in positions)
            made.append(Settlement("confirm", Ranges.gather(self._confirmed), events=self.noted - others))
        for (verdict, delay_ms, reason, code), positions in self._others.items():
            wait: Literal["back-off", "exact"] = "back-off" if delay_ms is None else "exact"
            which = Ranges.gather(positions)
            made.append(Settlement(verdict, which, delay_ms or 0, reason, code=code, events=which.count, wait=wait))
        self._confirmed = []
        self._others = {}
        self.noted = 0
        return made

    def forget(self) -> None:
        """Nothing that was handed over counts any more."""
        self.take()
        self._adjoining.clear()
        self.highest = self._newest = 0


class VerdictBuffer:
    """Notes verdicts, and sends them at the pace of the confirm mode."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        outbox: VerdictOutbox,
        held: Held,
        mode: EventMode,
        refusal: Callable[[], HoldfastError | None],
    ) -> None:
        """`refusal`: the error that a verdict of a former generation raises at once; None: `settled` raises one."""
        self.generation = 0
        self.noted: asyncio.Future[None] = loop.create_future()  # done: a verdict is noted when it is given
        self.noted.set_result(None)
        self._loop = loop
        self._outbox = outbox
        self._ranges = outbox.verdicts
        self._held = held
        self._mode = mode
        self._refusal = refusal
        # A confirm of the next position extends the range that grows, up to so many; in client mode it means more than that.
        self._extend_max = mode.pace.noted_max if mode.is_by_event else 0
        self._is_flush_due = False

    def confirm(self, position: int, generation: int) -> Awaitable[None]:
        ranges = self._ranges
        if position == ranges.end + 1 and generation == self.generation and ranges.noted < self._extend_max:
            ranges.end = position  # by far the most frequent case: the range grows by one
            ranges.noted += 1
        elif generation != self.generation:
            self._note_too_late(position)
        elif self._mode.is_by_event:
            ranges.confirm(position)
            self._flush_soon()
        else:
            self._mode.confirm_session()
        return self.noted

    def confirm_run(self, first: int, last: int, generation: int) -> Awaitable[None]:
        """Confirm events of one slice, first .. last; in client mode, everything that the session was handed."""
        if generation != self.generation or not self._mode.is_by_event:
            for position in range(first, last + 1) if self._mode.is_by_event else (first,):
                self.confirm(position, generation)
        else:
            self._ranges.confirm_range(first, last)
            self._flush_soon()
        return self.noted

    def confirm_again(self, generation: int) -> Awaitable[None]:
        """An event that is confirmed is confirmed again. In client mode that confirms what was handed out since."""
        return self.noted if self._mode.is_by_event else self.confirm(0, generation)

    def confirm_ranges(self, ranges: Ranges) -> None:
        for first, last in ranges:
            self._ranges.confirm_range(first, last)
        if ranges:
            self._flush_soon()

    def note(
        self, verdict: Verdict, position: int, generation: int, delay_ms: int | None = None, reason: str = "", code: Code = ""
    ) -> Awaitable[None]:
        if generation != self.generation:
            self._note_too_late(position)
        else:
            if not self._mode.is_by_event:
                self._mode.decide(position)
            self._ranges.note(verdict, position, delay_ms, reason, code)
            self._flush_soon()
        return self.noted

    def decide(
        self, verdict: Verdict, ranges: Ranges, delay_ms: int | None = None, reason: str = "", code: str = ""
    ) -> Ranges:  # fmt: skip
        """Decide on positions that are held, whether they were handed over or the receiver came holding them; which they are."""
        about = Ranges.gather(self._held.within(ranges))
        for first, last in about:
            self._mode.forget(first, last)
        if verdict == "confirm":
            self.confirm_ranges(about)
        elif about:
            self._ranges.note_ranges(verdict, about, delay_ms, reason, code)
            self._flush_soon()
        return about

    def lock(self, position: int, generation: int) -> None:
        """From now on a transaction decides on this event."""
        if generation != self.generation:
            self._note_too_late(position)
            raise Refused("the event was given back before it was confirmed, and is delivered again", position=position)
        self._mode.forget(position, position)

    def unlock(self, ranges: Ranges, generation: int) -> None:
        """A transaction has confirmed these events: they are held no more."""
        if generation == self.generation:
            for first, last in ranges:
                self._held.remove(first, last)
                self._outbox.lost.remove(first, last)

    def skip_lost(self, position: int) -> bool:
        """Whether this event of a run went to others before it was handed on: then the program is not handed it."""
        is_lost = position in self._outbox.lost
        if is_lost:
            self._outbox.lost.remove(position, position)
            self._mode.forget(position, position)
        return is_lost

    def skip_expired(self, position: int) -> None:
        """This event of a run expired before it was handed on."""
        self._outbox.settle(Settlement.of_expired(position, position))
        self._mode.forget(position, position)

    def _note_too_late(self, position: int) -> None:
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        self._outbox.note_too_late(self._mode.stands_for(position))

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_later(self._mode.pace.noted_seconds_max, self._flush_in_time)
        if self._ranges.noted >= self._mode.pace.noted_max:
            self._outbox.flush()

    def _flush_in_time(self) -> None:
        self._is_flush_due = False
        self._outbox.flush()
