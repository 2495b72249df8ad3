"""The tail: the segment that is written to, with its file.

    a spare ─begin─▶ not begun ─first run durable─▶ begun ─full─▶ the next one begins, this file is closed
                         │                            │
                         └──── write or sync fails ───┴─▶ given up: it ends where it was durable before

Its header is written with its first records: a tail that is not begun is not in the chain yet, and nobody was told of anything
in it.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.channel.journal.disk import DiskFile
from holdfast.channel.journal.layout import Header
from holdfast.channel.journal.marks import Marks
from holdfast.channel.journal.segment import Segment


class TailSegment:
    """`segment` and `file` are None as long as there was never one; `file` also once the tail was given up."""

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
        """This spare becomes the tail, behind `previous`."""
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
        """Nothing more is written to it."""
        assert self.file is not None
        self._given_up.append(self.file)
        self.file = None
        self.failures += 1

    def close(self) -> None:
        for file in (*self._given_up, *([self.file] if self.file else [])):
            file.close()
        self.file = None
