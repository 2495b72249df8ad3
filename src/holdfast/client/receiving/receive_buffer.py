"""The receive buffer: slices as they came, and how far the program is in them.

    append ─▶ slices ─▶ the current slice, and an index in it ─▶ take, take_run
                            │ used up: counted, so that its credit may be granted again

An event whose head cannot be read is not handed out: it goes to the dead events, and the events behind it come. Nor is an event
that has expired: the server sends it to the dead events. Their verdicts wait in `aside` until the receiver sends them. While its
session is recovered the buffer is paused, and hands out nothing.

This module does no I/O and knows no loop: it is told the time.
"""

from __future__ import annotations

import logging
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from holdfast.client.receiving.credit.receive_credit import ReceiveCredit
from holdfast.client.receiving.received_event import ReceivedEvent, ReceivedSlice
from holdfast.client.receiving.verdict_buffer import Settlement
from holdfast.destination.name import DEAD
from holdfast.event.position import Ranges

log = logging.getLogger("holdfast.client")

# More events than a slice has.
ALL = 1 << 30


class RunTaker(NamedTuple):
    """Tells how far a program is that takes runs of events and hands them on one by one, in another thread."""

    # Positions that were taken and not handed on. Verdicts that were given in the other thread are noted first.
    unseen: Callable[[], Ranges] = Ranges
    # How many events of the current slice were handed on, given how many were taken.
    handed_on: Callable[[ReceivedSlice, int], int] = lambda _, taken: taken
    # Take back what was taken and not handed on: it will not be handed on. The positions.
    take_back: Callable[[], Ranges] = Ranges


class ReceiveBuffer:
    def __init__(self, destination: str, now_ms: Callable[[], int]) -> None:
        """`now_ms`: the server's time."""
        self.current: ReceivedSlice | None = None
        self.index = 0  # in the current slice: the event that is handed out next
        self.ready = 0  # how far the current slice may be handed out without another look
        self.is_delicate = False  # verdicts so far must be sent before the next event is handed out
        self.paused: tuple[int, int] | None = None  # index and count of the current slice, while nothing is handed out
        self.aside: list[Settlement] = []  # verdicts on events that cannot be handed out, to be sent
        self.is_unopened = False  # slices are handed out as they came: nobody reads their heads, or looks for what has expired
        self.taker = RunTaker()
        self.destination = destination
        self._now_ms = now_ms
        self._count = 0  # events of the current slice
        self._past = 0  # the last position of the slice before the current one
        self._was_redelivered = False  # the slice before the current one
        self._slices: deque[ReceivedSlice] = deque()

    def append(self, received: ReceivedSlice) -> None:
        self._slices.append(received)

    def clear(self) -> None:
        """All of it was given back, or went to others."""
        self._slices.clear()
        self.current = None
        self.index = self._count = self.ready = self._past = 0
        self._was_redelivered = False
        if self.paused is not None:
            self.paused = 0, 0

    # --- to the program ----------------------------------------------------------------------------------------------

    def take(self) -> ReceivedEvent:
        """The event that `step` found."""
        current, index = self.current, self.index
        assert current is not None
        self.index = index + 1
        return ReceivedEvent(current, index)

    def take_run(self, events_max: int = ALL) -> tuple[ReceivedSlice, range]:
        """The event that `step` found, and the rest of its slice, up to so many: the slice, and the indices in it."""
        assert self.current is not None
        taken = range(self.index, min(self._count, self.index + events_max))
        self.index = taken.stop
        return self.current, taken

    def take_batch(self) -> tuple[ReceivedSlice, range]:
        """As `take_run`, up to the next event that has expired."""
        current, fresh = self.current, ALL
        if current is not None and self.is_expiring(current):
            now_ms = self._now_ms()
            expired = (at for at in range(self.index + 1, self._count) if 0 < current.head(at).expires_at_ms <= now_ms)
            fresh = next(expired, self._count) - self.index
        return self.take_run(fresh)

    def step(self, credit: ReceiveCredit) -> bool:
        """Go to the next event that may be handed out, in the current slice or in the next; whether there is one."""
        while self.index >= self._count or not self._look():
            if not self._next_slice(credit):
                return False
        return True

    def _look(self) -> bool:
        """Whether the current slice has an event to hand out. Events that have expired are set aside.

        The last of a slice is looked at by itself: with it the program has taken all that is here, and more may be granted.
        """
        current = self.current
        if current is not None and self.is_expiring(current):
            self._set_expired_aside(current)
            self.ready = min(self.index + 1, self._count)  # the one after it may expire meanwhile
        else:
            self.ready = max(self.index + 1, self._count - 1)
        return self.index < self.ready

    def is_expiring(self, received: ReceivedSlice) -> bool:
        """Whether events of a slice may expire before they are handed out. Dead events do not, nor those of an unopened batch."""
        return received.batch.has_expiry and self.destination != DEAD and not self.is_unopened

    def _set_expired_aside(self, current: ReceivedSlice) -> None:
        begin = self.index
        now_ms = self._now_ms()
        while self.index < self._count and 0 < current.head(self.index).expires_at_ms <= now_ms:
            self.index += 1
        if self.index > begin:
            self.aside.append(Settlement.of_expired(current.first + begin, current.first + self.index - 1))

    def _next_slice(self, credit: ReceiveCredit) -> bool:
        """The current slice is used up: go to the next."""
        done = self.current
        if done is not None:
            self._past = done.first + done.events - 1
            self._was_redelivered = done.deliveries > 0
            credit.use(done.events, done.size)
        self.index = self._count = self.ready = 0
        self.current = self._next_readable(credit)
        if self.current is None:
            return False
        self._count = self.current.events
        self.is_delicate = self.current.deliveries > 0 or self._was_redelivered
        return True

    def _next_readable(self, credit: ReceiveCredit) -> ReceivedSlice | None:
        """The next slice. Dead events whose heads cannot be read are handed out too: they have nowhere else to go."""
        while self._slices:
            received = self._slices.popleft()
            if self.is_unopened:
                return received
            received.read_heads()
            if received.unreadable and self.destination != DEAD:
                self._set_unreadable_aside(received, credit)
            elif received.deliveries and received.events > 1:  # verdicts are sent before each of them: see `is_delicate`
                self._put_first(received, [received.part(index, index + 1) for index in range(received.events)], credit)
            else:
                return received
        return None

    def _put_first(self, received: ReceivedSlice, parts: Sequence[ReceivedSlice], credit: ReceiveCredit) -> None:
        """Parts of a slice come in its place. Events that are in none of the parts are used up."""
        self._slices.extendleft(reversed(parts))
        used = received.events - sum(each.events for each in parts)
        credit.drop(used, received.size - sum(each.size for each in parts))

    def _set_unreadable_aside(self, received: ReceivedSlice, credit: ReceiveCredit) -> None:
        """Send what cannot be read to the dead events; hand out the rest."""
        log.error("%d events of %s cannot be read and go to %s", len(received.unreadable), self.destination, DEAD)
        at_fault = Ranges.gather((received.first + index, received.first + index) for index in received.unreadable)
        self._put_first(received, received.readable(), credit)
        self.aside.append(Settlement("reject", at_fault, reason="its head cannot be read", code="unreadable"))

    # --- how far the program is --------------------------------------------------------------------------------------

    def handed_last(self) -> int:
        """The position that the program was handed last; 0 when it was handed none of what is held."""
        current = self.current
        index = 0 if current is None else self._handed_of(current)
        return current.first + index - 1 if current is not None and index else self._past

    def _handed_of(self, current: ReceivedSlice) -> int:
        """How many events of the current slice the program was handed."""
        index, _ = self.paused or (self.index, self._count)
        return self.taker.handed_on(current, index)

    def handed(self) -> int:
        """How many events of the current slice the program was handed."""
        return 0 if self.current is None else self._handed_of(self.current)

    def ahead(self) -> int:
        """How many events lie here that the program was not handed."""
        _, count = self.paused or (self.index, self._count)
        return sum(each.events for each in self._slices) + max(0, count - self.handed())

    def ahead_in_order(self) -> bytes:
        """Ranges of what the program was not handed, in the order in which it will be: pairs of positions."""
        ends, current = array("Q"), self.current
        if current is not None and (index := self._handed_of(current)) < current.events:
            ends.extend((current.first + index, current.last))
        for each in self._slices:
            ends.extend((each.first, each.last))
        return ends.tobytes()

    def untaken(self) -> Iterator[tuple[int, int]]:
        """Ranges of what was not taken out of the buffer."""
        for each in self._slices:
            yield each.first, each.last
        index, count = self.paused or (self.index, self._count)
        if self.current is not None and index < count:
            yield self.current.first + index, self.current.first + count - 1

    def unused(self) -> tuple[ReceivedSlice, ...]:
        """Slices that are not used up."""
        return (*self._slices, self.current) if self.current is not None else tuple(self._slices)

    # --- what others do to it ----------------------------------------------------------------------------------------

    def lose(self, lost: Ranges) -> list[tuple[int, int]]:
        """Drop what went to others while there was no link; the ranges that were dropped."""
        index, count = self.paused or (self.index, self._count)
        kept: deque[ReceivedSlice] = deque()
        dropped: list[tuple[int, int]] = []
        if self.current is not None and index < count:
            rest = _without(self.current, index, count, lost, dropped)
            if [(each.first, each.events) for each in rest] != [(self.current.first + index, count - index)]:
                kept.extend(rest)
                count = index
        for received in self._slices:
            kept.extend(_without(received, 0, received.events, lost, dropped))
        self._slices = kept
        if self.paused is None:
            self._count = count
            self.ready = min(self.ready, count)
        else:
            self.paused = index, count
        return dropped

    def give_back(self, credit: ReceiveCredit, keep: int = 0) -> list[tuple[int, int]]:
        """Drop what the program was not handed, but for the first so many events; the ranges that were dropped."""
        if self.current is not None:
            self._slices.extendleft(self._end_current(self.current, credit))
        kept: deque[ReceivedSlice] = deque()
        dropped: list[tuple[int, int]] = []
        for each in self._slices:
            if keep >= each.events:
                kept.append(each)
            else:
                dropped.append((each.first + keep, each.last))
                if keep:
                    kept.append(each.part(0, keep))
                credit.drop(each.events - keep, each.size - (kept[-1].size if keep else 0))
            keep = max(0, keep - each.events)
        self._slices = kept
        return dropped

    def _end_current(self, current: ReceivedSlice, credit: ReceiveCredit) -> list[ReceivedSlice]:
        """The program was handed the last of the current slice that it will be; the rest, as a slice of its own."""
        back = self.taker.take_back()
        begin = back.first - current.first if back else self.index
        rest = [current.part(begin, self._count)] if begin < self._count else []
        credit.use(current.events - sum(each.events for each in rest), current.size - sum(each.size for each in rest))
        if begin:
            self._past = current.first + begin - 1
            self._was_redelivered = current.deliveries > 0
        self.current = None
        self.index = self._count = self.ready = 0
        return rest

    def pause(self) -> None:
        """Hand out nothing until `go_on`."""
        if self.paused is None:
            self.paused = self.index, self._count
            self.index = self._count = self.ready = 0

    def go_on(self) -> None:
        if self.paused is not None:
            self.index, self._count = self.paused
            self.ready = self.index
            self.paused = None


def _without(received: ReceivedSlice, begin: int, end: int, lost: Ranges, dropped: list[tuple[int, int]]) -> list[ReceivedSlice]:
    """Those of events begin .. end - 1 of a slice that were not lost, as slices; the ranges of the others go to `dropped`."""
    first = received.first
    whole = Ranges.of((first + begin, first + end - 1))
    rest = whole.without(lost)
    if rest == whole and end - begin == received.events:
        return [received]
    dropped.extend(whole.without(rest))
    return [received.part(low - first, high - first + 1) for low, high in rest]
