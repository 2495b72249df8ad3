"""How a table is replayed: in chunks of about the same number of events, in the order of their positions.

    file        position 0 ─────────── 900        1,000 events
    file              500 ──────── 1400           1,000 events
    chunks      |  0 ..  |   ..   |   ..  |       each reads the files that overlap it

The plan is made once, from what the table's log says of its files, and is kept: a replay that is started again has the same
chunks with the same numbers. Files of a table never change, so the plan holds while they are there: until what compaction
replaced is vacuumed, days later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

CHUNKS_MAX = 1_000_000


class TableFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the table: where it is, whose events it holds, and which."""

    path: str
    destination: str
    first: int  # position
    last: int
    events: int


class Plan(msgspec.Struct, frozen=True):
    scope: str
    settings: dict[str, str]
    files: list[TableFile]
    starts: list[int]  # of each chunk, a position; the last one has no end

    def chunk(self, number: int) -> tuple[int, int | None]:
        """From which position up to which; a chunk without an end takes the rest."""
        following = self.starts[number + 1 : number + 2]
        return self.starts[number], following[0] if following else None

    def files_of(self, number: int) -> list[TableFile]:
        start, end = self.chunk(number)
        return [file for file in self.files if file.last >= start and (end is None or file.first < end)]


def chunk_starts(files: Iterable[TableFile], chunk_events: int) -> list[int]:
    """Where chunks begin so that each has about so many events, taking those of a file to be spread evenly over it."""
    edges = sorted({edge for file in files for edge in (file.first, file.last + 1)})
    if not edges:
        return []
    starts, gathered = [edges[0]], 0.0
    for low, high, density in _stretches(sorted(files, key=lambda file: file.first), edges):
        here = density * (high - low)
        while gathered + here >= chunk_events and len(starts) < CHUNKS_MAX:
            cut = min(high, low + max(1, round((chunk_events - gathered) / density)))
            starts.append(cut)
            here, low, gathered = density * (high - cut), cut, 0.0
        gathered += here
    return [start for start in starts if start < edges[-1]]


def _stretches(files: Sequence[TableFile], edges: Sequence[int]) -> list[tuple[int, int, float]]:
    """From edge to edge, how many events there are for a position."""
    change = [0.0] * len(edges)
    for file in files:
        density = file.events / (file.last + 1 - file.first)
        change[bisect_left(edges, file.first)] += density
        change[bisect_left(edges, file.last + 1)] -= density
    found, density = [], 0.0
    for place, (low, high) in enumerate(pairwise(edges)):
        density += change[place]
        found.append((low, high, max(density, 0.0)))
    return found
