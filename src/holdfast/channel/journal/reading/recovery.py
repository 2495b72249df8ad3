"""Recovery: judge what was found in a folder. Nothing here touches a disk: findings in, verdict out.

The headers are judged first (`judge_headers`), then the records of the newest segment (`judge_tail`). A crash can leave only the
rows marked *normal*: every file is written and synced whole before it gets its name, a header is one sector, and a group is
written only after the one before it was synced. Everything else is damage. It is refused with its place, never repaired by
guessing.

    row  found                                                                verdict
    ---  -------------------------------------------------------------------  ------------------------------------------------
     1   no segment files, nothing foreign                                     create
     2   no segment files, something foreign                                   not a journal
     3   a header of a newer version that carries its checksum                 unknown version
     4   a header that does not carry its checksum, or is not one              damaged: that file
     5   a file of the wrong size                                              damaged: that file, at its end
     6   headers of two journals, of two sizes; a header under another's name  damaged: that file
     7   a number missing among the files                                      damaged: that file
     8   two segments with one generation                                      damaged: the second file
     9   only segments that were never used                                    normal: empty, or cut while being created
    10   the chain from the newest generation back to the oldest is whole      normal: in use, the others are spare
    11   a link of the chain is missing (middle, first)                        damaged: the file it named
    12   a link's end lies outside its segment, entry numbers run backwards    damaged: that file
    ---  -------------------------------------------------------------------  ------------------------------------------------
    13   the tail ends in nothing (zeros, or remains of a former life)         normal: use it as it is
    14   the tail ends in a wrong record, at most its own group behind it      normal, torn: erase all behind, use the rest
    15   the tail ends in a wrong record, a later group behind                 damaged: that byte
    16   13 or 14, but the durable mark says that more was durable             damaged: that byte
    17   the durable mark names a newer generation than there is               damaged: the journal's newest segment is missing
    18   the durable mark belongs to another journal                           damaged: the mark

A wrong record in an older segment is found when it is read. It is always damage, because the next header says how far that
segment was durable.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.channel.journal.files.layout import (
    HEADER_BYTES,
    MARK_NAME,
    VERSION,
    DurableMark,
    Header,
    NewerVersion,
    NotAHeader,
    decode_header,
    is_ours,
    segment_name,
    segment_number,
)
from holdfast.channel.journal.files.record import HEAD_BYTES, Stray
from holdfast.errors import HoldfastError, JournalDamaged, NotAJournal, UnknownVersion


class FoundSegment(NamedTuple):
    """A segment file: its name, its size, and its first 512 bytes (fewer if it is shorter)."""

    name: str
    size: int
    head: bytes


class Judged(NamedTuple):
    """The headers fit together: `chain` holds entries, `kept` the snapshot before them, `spares` are free.

    All three are empty in a folder without a journal.
    """

    kept: tuple[Header, ...]
    chain: tuple[Header, ...]
    spares: tuple[Header, ...]
    highest_generation: int


class JudgedTail(NamedTuple):
    """`end` is where the tail ends. Void records behind it, up to `erase_to`, must be erased before anything is written."""

    end: int
    erase_to: int

    @property
    def is_torn(self) -> bool:
        return self.erase_to > self.end


def damaged(name: str, byte: int, what: str) -> JournalDamaged:
    return JournalDamaged(
        f"{name}, byte {byte}: {what}; nothing was changed: copy the folder, then restore it or ask for help",
        file=name,
        byte=byte,
    )


def is_without_journal(names: Iterable[str]) -> bool:
    """Rows 1 and 2. True: nothing is there but the remains of a journal whose creation was cut short."""
    foreign = [name for name in names if not is_ours(name)]
    if any(segment_number(name) is not None for name in names):
        return False
    if foreign:
        raise NotAJournal(
            f"the folder holds {foreign[0]!r} and no journal; name an empty folder, or one that holds a journal",
            foreign=foreign[0],
        )
    return True


def judge_headers(found: Sequence[FoundSegment]) -> Judged | HoldfastError:
    """Judge rows 3 to 12. The order of `found` does not matter."""
    headers: list[Header] = []
    for segment in sorted(found, key=lambda segment: segment_number(segment.name) or 0):
        header = _judge_file(segment, headers)
        if isinstance(header, HoldfastError):
            return header
        headers.append(header)
    used = sorted((header for header in headers if header.generation), key=lambda header: header.generation)
    for older, newer in itertools.pairwise(used):
        if older.generation == newer.generation:
            return damaged(segment_name(newer.number), 48, f"its generation {newer.generation} is also that of {_name(older)}")
    if not used:
        return Judged((), (), tuple(headers), 0)
    newest = used[-1]
    chain = _chain(used, newest, newest.oldest_generation)
    kept = _kept(used, newest)
    for verdict in (chain, kept):
        if isinstance(verdict, HoldfastError):
            return verdict
    assert isinstance(chain, tuple)
    assert isinstance(kept, tuple)
    in_use = {header.number for header in (*kept, *chain)}
    return Judged(kept, chain, tuple(header for header in headers if header.number not in in_use), newest.generation)


def _judge_file(found: FoundSegment, before: Sequence[Header]) -> Header | HoldfastError:
    """Judge rows 3 to 7: one file, beside those with lower numbers."""
    expected = before[-1].number + 1 if before else 1
    if segment_number(found.name) != expected:
        return damaged(segment_name(expected), 0, f"the file is missing, and {found.name} exists")
    try:
        header = decode_header(found.head)
    except NewerVersion as newer:
        return UnknownVersion(
            f"{found.name} is of {newer}, this release reads version {VERSION}; open it with a newer one", version=newer.version
        )
    except NotAHeader as problem:
        return damaged(found.name, problem.byte, str(problem))
    if header.number != expected:
        return damaged(found.name, 32, f"it is segment {header.number} under another name")
    if before and header.journal_id != before[0].journal_id:
        return damaged(found.name, 16, f"it belongs to another journal than {_name(before[0])}")
    if before and header.segment_bytes != before[0].segment_bytes:
        return damaged(found.name, 40, f"its size of {header.segment_bytes} bytes is not that of {_name(before[0])}")
    if found.size != header.segment_bytes:
        return damaged(found.name, min(found.size, header.segment_bytes), f"it has {found.size} of {header.segment_bytes} bytes")
    return header


def _kept(used: Sequence[Header], newest: Header) -> tuple[Header, ...] | JournalDamaged:
    """The segments of the newest snapshot that come before the oldest entries."""
    snapshot = newest.snapshot
    if not snapshot.generation or snapshot.generation >= newest.oldest_generation:
        return ()
    last = next((header for header in used if header.generation == snapshot.last_generation), None)
    if last is None:
        return damaged(_name(newest), 88, f"generation {snapshot.last_generation}, where the newest snapshot ends, is missing")
    chain = _chain(used, last, snapshot.generation)
    if isinstance(chain, JournalDamaged):
        return chain
    return tuple(header for header in chain if header.generation < newest.oldest_generation)


def _chain(used: Sequence[Header], newest: Header, oldest_generation: int) -> tuple[Header, ...] | JournalDamaged:
    """Judge rows 10 to 12: from this header back to the oldest that is still held."""
    by_generation = {header.generation: header for header in used}
    chain = [newest]
    while (newer := chain[-1]).generation > oldest_generation:
        older = by_generation.get(newer.previous_generation)
        if older is None:
            return damaged(
                segment_name(newer.previous_number), 0,
                f"its generation {newer.previous_generation} is missing, which {_name(newer)} goes on from",
            )  # fmt: skip
        problem = _judge_link(older, newer)
        if problem:
            return problem
        chain.append(older)
    if newer.generation != oldest_generation:
        return damaged(_name(newer), 80, f"generation {oldest_generation}, the oldest still held, is missing")
    return tuple(reversed(chain))


def _judge_link(older: Header, newer: Header) -> JournalDamaged | None:
    if newer.previous_number != older.number or older.generation >= newer.generation:
        return damaged(_name(newer), 56, f"it goes on from generation {older.generation}, which is elsewhere")
    if not HEADER_BYTES <= newer.previous_end <= older.segment_bytes:
        return damaged(_name(newer), 68, f"it says that {_name(older)} ends at byte {newer.previous_end}")
    if newer.first_entry < older.first_entry:
        return damaged(_name(newer), 72, f"its first entry {newer.first_entry} is before that of {_name(older)}")
    return None


def judge_tail(
    tail: Header, end: int, next_entry: int, strays: Sequence[Stray], mark: DurableMark | None, *, is_begun: bool = False
) -> JudgedTail | JournalDamaged:
    """Judge rows 13 to 18. The last right record ends at `end`; `strays` are right ones behind; `is_begun`: a head is there."""
    later = [stray for stray in strays if stray.group > end]
    if later:
        return damaged(_name(tail), end, f"a record is wrong, and one that was written later stands at byte {later[0].byte}")
    problem = _judge_mark(tail, end, next_entry, mark) if mark else None
    begun = end + HEAD_BYTES if is_begun else end
    return problem or JudgedTail(end, max((stray.end for stray in strays), default=begun))


def _judge_mark(tail: Header, end: int, next_entry: int, mark: DurableMark) -> JournalDamaged | None:
    if mark.journal_id != tail.journal_id:
        return damaged(MARK_NAME, 8, "it belongs to another journal than the segments")
    if mark.generation > tail.generation:
        return damaged(
            _name(tail), end,
            f"the segment after it, generation {mark.generation}, is missing, though entries up to {mark.entry} were durable",
        )  # fmt: skip
    is_short = mark.entry >= next_entry or (mark.generation == tail.generation and mark.end > end)
    return damaged(_name(tail), end, f"a wrong record had been durable: entries up to {mark.entry} were") if is_short else None


def _name(header: Header) -> str:
    return segment_name(header.number)
