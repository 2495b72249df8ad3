"""Bodies: where the bodies of batches lie in the channel. At their own entry, unless they were carried forward (rule 9).

    entry 17 ── carried ──▶ 9,204          locate(17) = 9,204; positions of entry 17 keep their names (rule 1)

Held back are entries that rule 6 holds, or that wait for the commit of their assembly (rule 10): they are in the channel, belong
to a destination, and will be placed later than entries after them.

Pinned are the parts of unfinished assemblies, and the fragments of large events for as long as the event is needed. Pinned
entries are never carried (rule 9): they keep their segments, and everything behind them, until they are let go.

Shared by all backlogs of one message manager.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from holdfast.destination import command as commands
from holdfast.errors import BatchDamaged, NoSuchPosition
from holdfast.event import batch

_LEAD_BYTES = 3
_SENT = (commands.BatchCommand, commands.Part)
# From so many entries on they are taken out of a list together, fewer one by one.
MANY = 64
_WITH_A_PAYLOAD = tuple(kind.KIND for kind in _SENT)


class Large(NamedTuple):
    """The body of a large event: the entries of its fragments, in order, all `fragment_bytes` long but the last."""

    fragments: array[int]
    fragment_bytes: int
    large_bytes: int


# Entries are pinned by an assembly (its session and name), or by a large event (the entry of its batch).
Owner = tuple[str, str] | int


class Bodies:
    def __init__(self) -> None:
        self.larges: dict[int, Large] = {}  # by the entry of the batch
        self._pins: dict[Owner, tuple[int, array[int]]] = {}  # the least entry, and all of them (0: none yet)
        self._at: dict[int, int] = {}
        self._by_place: list[tuple[int, int]] = []  # heap of (where, entry); outdated ones are passed over
        self._held: list[int] = []

    # --- carried -----------------------------------------------------------------------------------------------------

    @property
    def carried(self) -> dict[int, int]:
        return self._at

    def locate(self, entry: int) -> int:
        return self._at.get(entry, entry)

    def carry(self, entry: int, to: int) -> None:
        self._at[entry] = to
        heapq.heappush(self._by_place, (to, entry))

    def forget(self, entry: int) -> None:
        """Nobody needs the body of this entry any more."""
        self._at.pop(entry, None)
        if self.larges.pop(entry, None) is not None:
            self.unpin(entry)

    @property
    def knows_any(self) -> bool:
        """Whether there is something to forget when an entry is needed no more."""
        return bool(self._at or self.larges)

    def knows(self, entry: int) -> bool:
        return entry in self._at or entry in self.larges

    def oldest_carried(self) -> int | None:
        """The least entry number that carries a body that is needed."""
        heap = self._by_place
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def carried_to(self, first: int, last: int) -> list[int]:
        """The entries whose bodies were carried to an entry in first .. last."""
        return [entry for entry, place in self._at.items() if first <= place <= last]

    # --- pinned ------------------------------------------------------------------------------------------------------

    def add_large(self, entry: int, large: Large) -> None:
        """The batch of this entry is a large event with this body."""
        self.larges[entry] = large
        self.pin(entry, min(large.fragments), large.fragments)

    def pin(self, owner: Owner, entry: int, entries: array[int]) -> None:
        """Let these stay where they lie; `entry` is the least of them. More may be added to the array."""
        self._pins[owner] = entry, entries

    def unpin(self, owner: Owner) -> None:
        del self._pins[owner]

    def oldest_pinned(self) -> int | None:
        return min((entry for entry, _ in self._pins.values()), default=None)

    def pinned_between(self, first: int, last: int) -> list[int]:
        found = (each for entry, entries in self._pins.values() if entry <= last for each in entries)
        return [each for each in found if first <= each <= last]

    # --- held back ---------------------------------------------------------------------------------------------------

    def hold(self, entry: int) -> None:
        insort(self._held, entry)

    def let_go(self, entry: int) -> None:
        del self._held[bisect_left(self._held, entry)]

    def let_go_all(self, entries: list[int]) -> None:
        """Let many go at once: this costs no more than one pass over all that are held."""
        if len(entries) < MANY:
            for entry in entries:
                self.let_go(entry)
        else:
            gone = dict.fromkeys(entries)
            self._held = [entry for entry in self._held if entry not in gone]

    @property
    def has_held(self) -> bool:
        return bool(self._held)

    def is_held(self, entry: int) -> bool:
        at = bisect_left(self._held, entry)
        return at < len(self._held) and self._held[at] == entry

    def held_between(self, first: int, last: int) -> list[int]:
        return self._held[bisect_left(self._held, first) : bisect_right(self._held, last)]

    def oldest_held(self) -> int | None:
        return next((entry for entry in self._held if entry not in self._at), None)


class Body(NamedTuple):
    """A batch as it lies in the channel, with its destination and the time of its acceptance."""

    batch: memoryview
    destination: str  # "" if it was not written down
    accepted_us: int  # microseconds since 1970; 0 if it was not written down


def body_in(data: commands.Buffer, entry: int) -> Body:
    """The batch of `entry` in the bytes of the command that has it: its own, or the `Carried` it was copied to."""
    command, payload = commands.decode(data)
    if isinstance(command, _SENT):
        return Body(payload, command.destination, command.accepted_us)
    if not isinstance(command, commands.Carried) or entry not in command.entries:
        raise NoSuchPosition(f"a {type(command).__name__} command does not hold the batch of entry {entry}", entry=entry)
    at = command.entries.index(entry)
    start = sum(command.lengths[:at])
    return Body(
        payload[start : start + command.lengths[at]],
        command.destinations[at] if command.destinations else "",
        command.accepted[at] if command.accepted else 0,
    )


def batch_in(data: commands.Buffer, entry: int) -> memoryview:
    """As `body_in(data, entry).batch`, and cheaper. If the command was read in part, as much as there is."""
    view = memoryview(data)
    if commands.kind_of(view) in _WITH_A_PAYLOAD:
        return view[_LEAD_BYTES + int.from_bytes(view[1:_LEAD_BYTES], "little") :]
    return body_in(view, entry).batch


def events_in(payload: memoryview) -> int:
    """How many events a batch has; BatchDamaged for bytes that cannot be one.

    A client manager checks before it appends, so such bytes are damage.
    """
    events = batch.count_of(payload) if len(payload) >= batch.FIXED_LENGTH else 0
    if not events:
        raise BatchDamaged(f"a batch command carries {len(payload)} bytes that are no batch; the channel is damaged")
    return events


def check_carried(command: commands.Carried, payload: memoryview) -> None:
    if len(command.entries) != len(command.lengths) or sum(command.lengths) != len(payload):
        raise BatchDamaged(
            f"a carried command names {len(command.entries)} batches of {sum(command.lengths)} bytes "
            f"and has {len(payload)} bytes; the channel is damaged"
        )
