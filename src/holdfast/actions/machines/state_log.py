"""The state of a rule as records: a whole one now and then, and small changes after it.

    whole 7 │ change 8 │ change 9 │ change 10        the waiting events of the rule's state queue

A record is an event with the number of its version. The state is the newest whole record with all changes after it. A whole
record replaces everything before it: they are confirmed in the transaction that brings it. It is written when changes have
become many, or larger than the whole; so a state of ten thousand keys is not written again for each event.

    {"version": 8, "condition": "count", "since": 1731…, "now": 1731…, "whole": false, "keys": {"web-1": [1731…]}, "groups": {}}

`condition` says how the states of keys are to be read. If the rule has another condition now, they are forgotten, and what was
gathered is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from holdfast.actions.machines.condition import Change, Condition, State
from holdfast.actions.machines.gathering import Gathered
from holdfast.actions.machines.rule_machine import Changes, RuleMachine

Each = TypeVar("Each")

# A start reads so many small events at most.
CHANGES_MAX = 64
# Changes may be so much larger than the whole together.
LARGER_MAX = 2
SMALL_BYTES = 4_096
# A record is an event of bounded size: what is larger becomes a whole record and changes after it.
RECORD_BYTES_MAX = 256 << 10


class Record(msgspec.Struct, omit_defaults=True):
    version: int
    condition: str
    since: int
    now: int
    whole: bool = False
    keys: dict[str, State | None] = {}
    groups: dict[str, Gathered | None] = {}


_encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Record).decode


class Written(NamedTuple):
    body: bytes
    is_whole: bool


class StateLog:
    """Knows which record comes next, and when it is a whole one."""

    def __init__(self, condition: Condition, records: Iterable[Record] = ()) -> None:
        self._condition = condition_name(condition)
        known = sorted(records, key=lambda record: record.version)
        begin = max((place for place, record in enumerate(known) if record.whole), default=0)
        self._records = known[begin:]
        self.version = known[-1].version if known else 0
        self._changes = CHANGES_MAX  # a new life begins with a whole record
        self._bytes, self._whole_bytes = 0, 0

    @property
    def since_us(self) -> int | None:
        """When the rule began, if it was known before."""
        return self._records[-1].since if self._records else None

    def kept(self) -> Changes | None:
        """The state that the records tell; None if there are none."""
        if not self._records:
            return None
        made = Changes(self._records[-1].now, self._records[-1].since, {}, {})
        for record in self._records:
            if record.condition == self._condition:
                _apply(made.keys, record.keys)
            _apply(made.groups, record.groups)
        return made

    def next(self, machine: RuleMachine, *, is_whole: bool = False) -> list[Written]:
        """The records that the next transaction brings; none if nothing changed, unless a whole one is asked for."""
        changes = machine.take_changes()
        if changes.is_empty and not is_whole:
            return []
        is_whole = is_whole or self._changes >= CHANGES_MAX or self._bytes > max(LARGER_MAX * self._whole_bytes, SMALL_BYTES)
        if is_whole:
            changes = machine.whole()
        if is_whole:
            self._changes, self._bytes, self._whole_bytes = 0, 0, 0
        written = [self._written(part, is_whole=is_whole and not place) for place, part in enumerate(_parts(changes))]
        size = sum(len(each.body) for each in written)
        if is_whole:
            self._whole_bytes = size
        else:
            self._changes, self._bytes = self._changes + 1, self._bytes + size
        return written

    def _written(self, part: Changes, *, is_whole: bool) -> Written:
        self.version += 1
        record = Record(self.version, self._condition, part.since_us, part.now_us, is_whole, part.keys, part.groups)
        return Written(_encode(record), is_whole)


def _parts(changes: Changes) -> list[Changes]:
    """Changes in pieces that each fit an event, in their order."""
    made = [Changes(changes.now_us, changes.since_us, {}, {})]
    size = 0
    for name, state in changes.keys.items():
        size = _room(made, size, len(_encode((name, state))))
        made[-1].keys[name] = state
    for name, found in changes.groups.items():
        size = _room(made, size, len(_encode((name, found))))
        made[-1].groups[name] = found
    return made


def _room(made: list[Changes], size: int, more: int) -> int:
    """Begin another piece where this one would be too large; the size of the last."""
    if size and size + more > RECORD_BYTES_MAX:
        made.append(Changes(made[0].now_us, made[0].since_us, {}, {}))
        return more
    return size + more


def _apply(states: dict[str, Each | None], changes: Mapping[str, Each | None]) -> None:
    for name, state in changes.items():
        states.pop(name, None)
        if state is not None:
            states[name] = state


def condition_name(condition: Condition) -> str:
    """How the states of keys are to be read."""
    name = type(condition).__name__.lower()
    return f"{name}:{condition.field}" if isinstance(condition, Change) else name
