"""The image of a journal: all that is needed of it to have it as it is at one moment, while its owner goes on.

    headers ─▶ chain from the newest segment back to the oldest held, and the segments of the newest snapshot before it
    tail    ─▶ read to its last right record ─▶ wait until the durable mark has reached that

Everything that was receipted when the image was taken is in it: it was on disk before it was receipted. Nothing is in it that
was not durable: the owner writes its mark after each sync. If the mark does not come, nobody owns the journal, or its disk stands
still. Then it is judged as if it were opened, and taken as recovery would take it.

A segment that is used again before it is copied has another life then, and the image is out of date: take another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.backup.manifest import CopiedSegment
from holdfast.channel.journal.files.disk import Disk
from holdfast.channel.journal.files.segment import Chain, Marks
from holdfast.channel.journal.reading.found_journal import as_chain, look, read_headers, read_mark, scan_tail
from holdfast.channel.journal.reading.recovery import Judged, is_without_journal, judge_headers
from holdfast.errors import HoldfastError, NotAJournal

# The owner may begin a segment while the headers are read. So often in a row that does not happen.
LOOKS_MAX = 10
# The owner writes its mark a moment after each sync.
MARK_PATIENCE_S = 2.0
MARK_POLL_S = 0.005


class Image(NamedTuple):
    """The segments, oldest first, each with its durable bytes; the oldest and the newest entry in them."""

    journal_id: bytes
    segment_bytes: int
    segments: tuple[CopiedSegment, ...]
    first: int
    entry: int


def take(disk: Disk, folder: Path, pause: Callable[[float], None] = time.sleep) -> Image:
    """Return the image of the journal in this folder. Raises what opening it would raise."""
    judged = _judged(disk, folder)
    chain = as_chain(judged)
    if not chain:
        return _image(judged, chain, 0)
    tail, header = chain[-1], judged.chain[-1]
    file = disk.open(folder / tail.name, is_writable=False)
    try:
        scan_tail(file, tail, Marks(header.oldest_generation, header.snapshot))
    finally:
        file.close()
    reach, entry = (tail.generation, tail.end), tail.index.next_entry - 1
    for _ in range(round(MARK_PATIENCE_S / MARK_POLL_S)):
        mark = read_mark(disk, folder)
        if mark is not None and (mark.generation, mark.end) >= reach:
            return _image(judged, chain, entry)
        pause(MARK_POLL_S)
    return _unowned(disk, folder)


def _judged(disk: Disk, folder: Path) -> Judged:
    problem: HoldfastError | None = None
    for _ in range(LOOKS_MAX):
        names = disk.names(folder)
        if is_without_journal(names):
            raise NotAJournal(f"the folder {folder} holds no journal; name one that does", folder=str(folder))
        judged = judge_headers(read_headers(disk, folder, names))
        if not isinstance(judged, HoldfastError):
            return judged
        problem = judged
    assert problem is not None
    raise problem


def _unowned(disk: Disk, folder: Path) -> Image:
    """A journal that nobody writes to: what opening it would keep."""
    found = look(disk, folder)
    chain = as_chain(found.judged)
    chain[-1].end = found.tail.end
    return _image(found.judged, chain, found.next_entry - 1)


def _image(judged: Judged, chain: Chain, entry: int) -> Image:
    header = next(iter((*judged.chain, *judged.spares)))
    segments = tuple(CopiedSegment(each.number, each.generation, each.life, each.end) for each in chain)
    first = judged.chain[0].first_entry if judged.chain else entry + 1
    return Image(header.journal_id, header.segment_bytes, segments, first, entry)
