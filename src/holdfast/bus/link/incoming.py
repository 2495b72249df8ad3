"""One direction of a link, where it arrives: what came early waits for what is missing, what came twice is dropped.

    received = 6, early = {8, 9, 12}, newest = 13  ─▶  missing: 7, 10 to 11, 13

A frame beyond what was granted is dropped: it is sent again when it is missing. So the early ones take a bounded place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

from holdfast.bus.link.frame import BODY_BYTES_MAX, FRAME_BYTES, MISSING_RANGES_MAX
from holdfast.bus.link.outgoing import GRANT_BYTES_MIN, Piece

# Everything that came is acknowledged after this, or when it is a quarter of the grant.
ACKNOWLEDGE_AFTER_MS = 20
# A gap is told at once, and then again after this at the earliest.
GAP_AGAIN_MS = 10
# Frames that may be ahead of the next one: a frame costs its place, however small its body is.
EARLY_FRAMES_MAX = 65_536


class Incoming:
    def __init__(self) -> None:
        self.received = 0  # everything up to this sequence has come
        self.granted = GRANT_BYTES_MIN
        self.duplicates = 0
        self.early_bytes = 0
        self._newest = 0  # that the other side has sent, as far as is known
        self._early: dict[int, Piece] = {}
        self._early_ranges: list[list[int]] = []  # their sequences, as ranges: each frame names what lies between
        self._untold_bytes = 0
        self._tell_ms: int | None = None  # when the other side is to be told how far it came
        self._gap_told_ms: int | None = None

    def take(self, sequence: int, piece: Piece, now_ms: int) -> Iterator[Piece]:
        """A piece has come: the pieces that are next in order, with it or because of it."""
        self.tell_by(now_ms + ACKNOWLEDGE_AFTER_MS)
        if sequence <= self.received or sequence in self._early:
            self.duplicates += 1
            return
        if sequence > self.received + 1:
            if self._has_room_for(sequence, piece):
                self._early[sequence] = piece
                self._add_early(sequence)
                self.early_bytes += piece.size
            self.note_newest(sequence, now_ms)
            return
        self._newest = max(self._newest, sequence)
        yield self._next(piece)
        while (early := self._early.pop(self.received + 1, None)) is not None:
            self.early_bytes -= early.size
            yield self._next(early)
        if self._early_ranges and self._early_ranges[0][0] <= self.received:
            del self._early_ranges[0]
        if self._untold_bytes * 4 >= self.granted:
            self.tell_by(now_ms)

    def _has_room_for(self, sequence: int, piece: Piece) -> bool:
        limit = self.granted + BODY_BYTES_MAX + FRAME_BYTES
        return self.early_bytes + piece.size <= limit and sequence - self.received <= EARLY_FRAMES_MAX

    def _add_early(self, sequence: int) -> None:
        ranges = self._early_ranges
        at = bisect_right(ranges, sequence, key=itemgetter(0))
        follows = at > 0 and ranges[at - 1][1] == sequence - 1
        precedes = at < len(ranges) and ranges[at][0] == sequence + 1
        if follows and precedes:
            ranges[at - 1][1] = ranges.pop(at)[1]
        elif follows:
            ranges[at - 1][1] = sequence
        elif precedes:
            ranges[at][0] = sequence
        else:
            ranges.insert(at, [sequence, sequence])

    def _next(self, piece: Piece) -> Piece:
        self.received += 1
        self._untold_bytes += piece.size
        return piece

    def note_newest(self, newest: int, now_ms: int) -> None:
        """The other side has sent up to this sequence: what did not come is missing."""
        self._newest = max(self._newest, newest)
        if self._newest > self.received and (self._gap_told_ms is None or now_ms - self._gap_told_ms >= GAP_AGAIN_MS):
            self._gap_told_ms = now_ms
            self.tell_by(now_ms)

    def missing(self) -> tuple[tuple[int, int], ...]:
        """The first ranges of sequences that were sent and have not come."""
        found: list[tuple[int, int]] = []
        begin = self.received + 1
        for first, last in self._early_ranges[:MISSING_RANGES_MAX]:
            found.append((begin, first - 1))
            begin = last + 1
        if begin <= self._newest and len(found) < MISSING_RANGES_MAX:
            found.append((begin, self._newest))
        return tuple(found)

    def grant(self, granted: int, now_ms: int) -> None:
        """So many bytes may be unacknowledged from now on; the other side is told at once."""
        if granted != self.granted:
            self.granted = granted
            self.tell_by(now_ms)

    def must_tell(self, now_ms: int) -> bool:
        """Whether the other side is to be told, now, how far it came."""
        return self._tell_ms is not None and now_ms >= self._tell_ms

    def told(self) -> None:
        """The other side is told, in a frame that goes now."""
        self._untold_bytes = 0
        self._tell_ms = None

    def tell_by(self, at_ms: int) -> None:
        """Tell the other side how far it came, at this time at the latest."""
        self._tell_ms = at_ms if self._tell_ms is None else min(self._tell_ms, at_ms)
