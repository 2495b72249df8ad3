"""An extent of a backlog: its places, its size, bounds for reading it, and the slices that are read, from a server or a folder.

place = slot × 65,536 + index in the batch          see `destination.state.places`
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.event.batch import Batch

END = 1 << 62


class Bounds(NamedTuple):
    """A range of positions, and a range of the times of acceptance: from `start` on, before `end`.

    Times are in microseconds since 1970; an event whose time of acceptance is not known lies in no range of time.
    """

    start_position: int = 0
    end_position: int = END
    start_us: int = 0
    end_us: int = END

    def clip(self, first: int, events: int) -> tuple[int, int]:
        """The first of consecutive positions that lies within, and how many do; 0 or less when none does."""
        begin = max(first, self.start_position)
        return begin, min(first + events, self.end_position) - begin

    def has_time(self, accepted_us: int) -> bool:
        return self.start_us <= accepted_us < self.end_us


EVERYTHING = Bounds()


class Extent(NamedTuple):
    """The events that wait from a place on, within limits."""

    identity: str  # of the subscription: no other has it, here or anywhere
    confirmed: int  # the place of the oldest event that waits; the newest when none does
    start: int
    end: int
    cuts: list[int]  # places between them that divide it into pieces of about equal size
    events: int  # that wait between start and end
    bytes: int  # their batches, as they lie; beyond some hundred batches an estimate
    left: int  # events that wait from the end on
    newest: int  # the place behind the last event


class ReadSlice(NamedTuple):
    """Events of one batch, all or some, that follow each other."""

    first: int  # position; the others follow
    events: int
    destination: str  # where it was sent
    accepted_us: int  # when it was accepted, microseconds since 1970; 0: not known
    batch: Batch  # only these events; its lengths are read when they are asked for
