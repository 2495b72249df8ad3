"""The copy judge: what an answer to "entries from N on" says about the copy that gave it.

    N N+1 N+2      whole: hand them out
    (nothing)      behind, or nothing is there yet: ask again, or wait
    N+3 N+4        a hole: N to N+2 are not in this copy, and it has later ones
    N, not sound   N is in this copy, with other bytes than were stored

A hole is damage of that copy, unless the entries were released. The part before it is handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Found(NamedTuple):
    """An entry as a server gave it. `is_sound`: its checksum fits its bytes."""

    number: int
    command: bytes
    checksum: int
    is_sound: bool


class Judged(NamedTuple):
    """`whole`: entries from the wanted one on, without a gap. `fault_at`: the entry that this copy lacks or has wrong; else 0."""

    whole: list[Found]
    fault_at: int


def judge(found: Sequence[Found], wanted: int) -> Judged:
    """Judge the answer of one copy, in its order. Entries below the wanted one are passed over: they were handed out before."""
    whole: list[Found] = []
    for each in found:
        if each.number < wanted:
            continue
        if each.number != wanted or not each.is_sound:
            return Judged(whole, wanted)
        whole.append(each)
        wanted += 1
    return Judged(whole, 0)


class Span(NamedTuple):
    """Entries to get with one request."""

    first: int
    length: int


def spans(numbers: Sequence[int], count_max: int, hole_max: int) -> list[Span]:
    """Return the requests that get these numbers, ascending. Up to `hole_max` entries that nobody wants are read along."""
    found: list[Span] = []
    for number in sorted(set(numbers)):
        if found and number - (found[-1].first + found[-1].length) <= hole_max and number - found[-1].first < count_max:
            found[-1] = Span(found[-1].first, number - found[-1].first + 1)
        else:
            found.append(Span(number, 1))
    return found
