"""What a write does: from the entries before it, its outcome and the entries after it.

    put      created or replaced; differs if a condition does not hold
    delete   deleted; missing if there is no such name; differs
    move     moved; missing, differs

The same writes in the same order give the same entries at every place. No I/O, no clock: the time is that of the event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from holdfast.continuity.storage.write import Condition, Delete, Move, Put, Write

OutcomeKind = Literal["created", "replaced", "deleted", "moved", "missing", "differs", "passed"]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What a name stands for. `number` is that of the write that made it so."""

    digest: str
    size: int
    content_type: str
    number: int
    modified_us: int


class Outcome(msgspec.Struct, frozen=True):
    """What became of a write. `passed`: the event was none, such as a join. `digest` is that of the name afterwards, or ""."""

    kind: OutcomeKind
    number: int
    digest: str = ""


class Decision(NamedTuple):
    outcome: Outcome
    changes: tuple[tuple[str, Entry | None], ...] = ()  # None: the name is gone


Find = Callable[[str], Entry | None]


def decide(write: Write, find: Find, number: int, time_us: int) -> Decision:
    """Decide on the write that has this number. `find` tells the entry of a name before it."""
    before = find(write.name)
    if isinstance(write, Put):
        return _put(write, before, number, time_us)
    if before is None:
        return Decision(Outcome("missing", number))
    if not matches(write.if_match, before):
        return Decision(Outcome("differs", number, before.digest))
    if isinstance(write, Delete):
        return Decision(Outcome("deleted", number), ((write.name, None),))
    return _move(write, before, find(write.to), number, time_us)


def _put(write: Put, before: Entry | None, number: int, time_us: int) -> Decision:
    if not matches(write.if_match, before) or excludes(write.if_none_match, before):
        return Decision(Outcome("differs", number, before.digest if before else ""))
    after = Entry(write.digest, write.size, write.content_type, number, time_us)
    return Decision(Outcome("replaced" if before else "created", number, write.digest), ((write.name, after),))


def _move(write: Move, before: Entry, there: Entry | None, number: int, time_us: int) -> Decision:
    if excludes(write.if_none_match, there):
        return Decision(Outcome("differs", number, there.digest if there else ""))
    after = Entry(before.digest, before.size, before.content_type, number, time_us)
    if write.name == write.to:
        return Decision(Outcome("moved", number, before.digest), ((write.to, after),))
    return Decision(Outcome("moved", number, before.digest), ((write.name, None), (write.to, after)))


def matches(condition: Condition, entry: Entry | None) -> bool:
    """If-Match holds: there is no such condition, or the entry is one of those named."""
    return not condition or (entry is not None and ("*" in condition or entry.digest in condition))


def excludes(condition: Condition, entry: Entry | None) -> bool:
    """If-None-Match forbids: the entry is one of those named."""
    return bool(condition) and entry is not None and ("*" in condition or entry.digest in condition)
