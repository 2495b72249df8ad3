"""Identifiers: globally unique, made locally, compact, sortable, never reused.

    128 bits, big-endian, so that bytes, integers and texts sort alike:

    | start, ms since 1970 | site | node | counter |
    |        48            |  16  |  32  |   32    |

`start` is not read from the clock for each identifier. A node takes a new, strictly larger start each time it opens its data,
and one more for every client and for every overflow of a counter. Two starts of one node are never equal, so two counters never
collide. Clients do not invent starts: their node gives them one.

A clock that is set back cannot bring a start back, because the node keeps a durable `limit`: every start handed out is below
the limit on disk, and the first start after opening is at least that limit.

This module reads no clock and no disk; the caller brings `now_ms` and makes `limit` durable when told to.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import BadSetting

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: sorts like the number, no I L O U
_VALUE = {letter: number for number, letter in enumerate(ALPHABET)}

SITE_MAX = (1 << 16) - 1
NODE_MAX = (1 << 32) - 1
COUNTER_MAX = (1 << 32) - 1
START_MAX = (1 << 48) - 1
TEXT_LENGTH = 26

# A minute of starts is reserved on disk at a time: at most one small write a minute, and a restart skips at most a minute ahead.
RESERVE_MS = 60_000


def to_text(identifier: int) -> str:
    """26 letters that sort as the identifiers do."""
    letters = [""] * TEXT_LENGTH
    for place in range(TEXT_LENGTH - 1, -1, -1):
        letters[place] = ALPHABET[identifier & 31]
        identifier >>= 5
    return "".join(letters)


def from_text(text: str) -> int:
    """The identifier behind a text of `to_text`; ValueError for anything else."""
    if len(text) != TEXT_LENGTH:
        raise ValueError(f"an identifier has {TEXT_LENGTH} letters, this has {len(text)}: {text!r}")
    identifier = 0
    for letter in text:
        if letter not in _VALUE:
            raise ValueError(f"letter {letter!r} does not occur in an identifier: {text!r}")
        identifier = identifier << 5 | _VALUE[letter]
    if identifier >> 128:
        raise ValueError(f"too large for an identifier: {text!r}")
    return identifier


def is_text(text: str) -> bool:
    """Whether `from_text` would take it."""
    return len(text) == TEXT_LENGTH and text[0] < "8" and all(letter in _VALUE for letter in text)


@dataclass(frozen=True)
class Parts:
    """An identifier taken apart."""

    start_ms: int
    site: int
    node: int
    counter: int


def compose(parts: Parts) -> int:
    return parts.start_ms << 80 | parts.site << 64 | parts.node << 32 | parts.counter


def take_apart(identifier: int) -> Parts:
    return Parts(
        start_ms=identifier >> 80,
        site=identifier >> 64 & SITE_MAX,
        node=identifier >> 32 & NODE_MAX,
        counter=identifier & COUNTER_MAX,
    )


class Starts:
    """Hands out a node's starts, each larger than all before it, whatever the clock does.

    `limit` is on disk. `take` may raise it: then the caller must make the new `limit` durable BEFORE it uses the start.
    """

    def __init__(self, site: int, node: int, limit: int = 0) -> None:
        if not 0 <= site <= SITE_MAX:
            raise BadSetting(f"site {site} is outside 0..{SITE_MAX}; give each site a number in that range", site=site)
        if not 0 <= node <= NODE_MAX:
            raise BadSetting(f"node {node} is outside 0..{NODE_MAX}; give each node a number in that range", node=node)
        self.site = site
        self.node = node
        self.limit = limit
        self._next = limit

    def take(self, now_ms: int) -> int:
        """A start never handed out before. Afterwards `limit` must be durable before the start is used."""
        start = max(now_ms, self._next)
        if start > START_MAX:
            raise BadSetting(f"the clock says {now_ms} ms, later than identifiers can hold; set the clock", now_ms=now_ms)
        self._next = start + 1
        if self._next > self.limit:
            self.limit = self._next + RESERVE_MS
        return start


class Counter:
    """Counts identifiers from one start; when it is used up, asks for another start."""

    def __init__(self, first: int) -> None:
        self._next = first
        self._end = (first | COUNTER_MAX) + 1

    @classmethod
    def of(cls, starts: Starts, start_ms: int) -> Counter:
        return cls(compose(Parts(start_ms, starts.site, starts.node, 0)))

    @property
    def left(self) -> int:
        return self._end - self._next

    def take(self, count: int = 1) -> int:
        """The first of `count` consecutive identifiers. The caller checks `left` first, and takes a new start when too few are
        left.
        """
        if count > self.left:
            raise OverflowError(f"{count} identifiers wanted, {self.left} left of this start; take a new start")
        first = self._next
        self._next += count
        return first
