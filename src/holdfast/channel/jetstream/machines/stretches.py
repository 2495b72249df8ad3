"""Stretches: a stream divided into parts of some megabytes, so that upkeep can free the oldest one as a whole.

    first                        known up to
    │ unknown │ 8 MiB │ 8 MiB │ 8 M…│
              ▲ the oldest complete one, if nothing is unknown before it

Servers free entries one by one and do not say how large each is. So sizes are noted when entries are acknowledged or read, in
any order. Snapshots carry the beginnings, so that a reader that starts from one knows the sizes of entries before it.

Entries that nobody noted, at the beginning, are one stretch: its bytes are those of the stream less the known ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from holdfast.channel.channel import Stretch

# Sizes of entries beyond a gap. Past this many, nobody reads the entries of the gap here, and it is taken as unknown.
AHEAD_MAX = 4096


class Stretches:
    def __init__(self, stretch_bytes: int, first: int = 1) -> None:
        self._stretch_bytes = stretch_bytes
        self._complete: deque[Stretch] = deque()
        self._ahead: dict[int, int] = {}
        self._known_bytes = 0
        self._begin(first)

    def _begin(self, number: int) -> None:
        """Know nothing below this entry."""
        self._complete.clear()
        self._known_bytes = 0
        self._open_first = self._next = number
        self._open_bytes = 0

    @property
    def _start(self) -> int:
        return self._complete[0].first if self._complete else self._open_first

    def note(self, number: int, size: int) -> None:
        """Note the size of an entry. One that was noted before changes nothing."""
        if number > self._next:
            self._ahead[number] = size
            if len(self._ahead) > AHEAD_MAX:
                self._begin(min(self._ahead))
        elif number == self._next:
            self._add(size)
        while self._ahead and (size_ahead := self._ahead.pop(self._next, None)) is not None:
            self._add(size_ahead)

    def _add(self, size: int) -> None:
        self._next += 1
        self._open_bytes += size
        self._known_bytes += size
        if self._open_bytes >= self._stretch_bytes:
            self._complete.append(Stretch(self._open_first, self._next - 1, self._open_bytes))
            self._open_first = self._next
            self._open_bytes = 0

    def oldest(self, first: int, stream_bytes: int) -> Stretch | None:
        """Return the oldest complete stretch of a stream that begins at `first` and has so many bytes."""
        self._forget_below(first)
        if first < self._start:
            return Stretch(first, self._start - 1, max(0, stream_bytes - self._known_bytes))
        return self._complete[0] if self._complete else None

    def _forget_below(self, first: int) -> None:
        while self._complete and self._complete[0].last < first:
            self._known_bytes -= self._complete.popleft().bytes
        if self._complete and self._complete[0].first < first:
            self._cut(first)
        if not self._complete and self._open_first < first:
            self._forget_open(first)

    def _cut(self, first: int) -> None:
        """A part of the oldest was freed. The rest, of equal sizes for all we know, joins the next: alone it may be one entry."""
        cut = self._complete.popleft()
        left = cut.bytes * (cut.last - first + 1) // (cut.last - cut.first + 1)
        self._known_bytes -= cut.bytes - left
        if self._complete:
            following = self._complete.popleft()
            self._complete.appendleft(Stretch(first, following.last, left + following.bytes))
        else:
            self._open_first = first
            self._open_bytes += left

    def _forget_open(self, first: int) -> None:
        count = max(0, self._next - first)
        left = self._open_bytes * count // max(1, self._next - self._open_first)
        self._known_bytes -= self._open_bytes - left
        self._open_first, self._open_bytes = first, left
        self._next = max(self._next, first)
        self._forget_ahead()

    def _forget_ahead(self) -> None:
        self._ahead = {number: size for number, size in self._ahead.items() if number >= self._next}

    # --- with snapshots ------------------------------------------------------------------------------------------------

    def saved(self, at: int) -> list[tuple[int, int, int]]:
        """Return the complete stretches up to entry `at`, and the part of the next one, for a snapshot at that entry."""
        found = [(each.first, each.last, each.bytes) for each in self._complete if each.last <= at]
        rest = next((each for each in self._complete if each.last > at), None)
        rest = rest or Stretch(self._open_first, self._next - 1, self._open_bytes)
        if rest.first <= at <= rest.last:
            found.append((rest.first, at, rest.bytes * (at - rest.first + 1) // (rest.last - rest.first + 1)))
        return found

    def adopt(self, saved: Iterable[tuple[int, int, int]]) -> None:
        """Take what a snapshot knows, unless more is known here. Its stretches follow each other without a gap."""
        stretches = [Stretch(*each) for each in saved]
        if not stretches or stretches[-1].last < self._next:
            return
        if stretches[0].first > self._start and self._next > self._start:
            return
        self._begin(stretches[0].first)
        for stretch in stretches:
            self._known_bytes += stretch.bytes
            if stretch.bytes >= self._stretch_bytes or stretch is not stretches[-1]:
                self._complete.append(stretch)
                self._open_first = stretch.last + 1
            else:
                self._open_bytes = stretch.bytes
        self._next = stretches[-1].last + 1
        self._forget_ahead()
