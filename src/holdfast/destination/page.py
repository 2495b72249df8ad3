"""A page: the batches in some thousand consecutive slots of a backlog, packed into arrays.

    slot      first_slot + 0   + 1   + 2   …
    entry          17           17    20         64 bits: never falls (see `backlog` for slots that are displaced)
    events        100            3     1         16 bits: of the whole batch
    remaining      40            0     1         16 bits: not finished; 0: the batch is finished

Twelve bytes a batch and nothing the garbage collector has to look at, however many wait. Three more arrays are made when the
first batch comes that is not plain, and reach as far as the last one that is not:

    lane           9           17           8 bits: priority, and whether it has groups (see `traits`)
    delay          0      1 767 …          64 bits: before when (ms since 1970) it must not be delivered; 0: at once
    expiry         0      1 768 …          64 bits: when the first of its events expires; 0: none does
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from holdfast.destination.traits import LANE_PLAIN, Traits

# Large enough that pages are few (2,441 for ten million batches), small enough that a finished one comes free soon.
SLOTS_MAX = 4096


# What remains of the batches of a full page of single events that all wait.
_ONE_OF_EACH = array("H", [1]) * SLOTS_MAX


class Page:
    __slots__ = ("alive", "delays", "entries", "events", "expiries", "first_slot", "lanes", "remaining", "waiting")

    def __init__(self, first_slot: int) -> None:
        self.first_slot = first_slot
        self.entries: array[int] = array("Q")
        self.events: array[int] = array("H")
        self.remaining: array[int] = array("H")
        self.alive = 0  # slots with something remaining
        self.waiting = 0  # events: the sum of what remains
        self.lanes = bytearray()
        self.delays: array[int] = array("Q")
        self.expiries: array[int] = array("Q")

    @property
    def is_full(self) -> bool:
        return len(self.entries) == SLOTS_MAX

    @property
    def has_one_of_each(self) -> bool:
        """Quick to ask, where counting a page of single events is not."""
        return self.remaining == _ONE_OF_EACH

    @property
    def is_plain(self) -> bool:
        return not (self.lanes or self.delays or self.expiries)

    def add(self, entry: int, events: int, remaining: int) -> None:
        self.entries.append(entry)
        self.events.append(events)
        self.remaining.append(remaining)
        self.alive += 1
        self.waiting += remaining
        if len(self.entries) == SLOTS_MAX:
            self._trim()

    def extend(self, entries: array[int], events: array[int]) -> int:
        """Add as many of these batches as there is room for, all of whose events wait; how many that were."""
        taken = min(SLOTS_MAX - len(self.entries), len(entries))
        self.entries.extend(entries[:taken])
        self.events.extend(events[:taken])
        self.remaining.extend(events[:taken])
        self.alive += taken
        self.waiting += sum(events[:taken])
        return taken

    def note(self, traits: Traits) -> None:
        """The batch that was added last is not a plain one."""
        offset = len(self.entries) - 1
        if traits.lane != LANE_PLAIN:
            self.lanes.extend(bytes((LANE_PLAIN,)) * (offset - len(self.lanes)))
            self.lanes.append(traits.lane)
        for times, at_ms in ((self.delays, traits.not_before_ms), (self.expiries, traits.earliest_expiry_ms)):
            if at_ms:
                times.frombytes(bytes(8 * (offset - len(times))))
                times.append(at_ms)

    def lane(self, offset: int) -> int:
        return self.lanes[offset] if offset < len(self.lanes) else LANE_PLAIN

    def delay(self, offset: int) -> int:
        return self.delays[offset] if offset < len(self.delays) else 0

    def expiry(self, offset: int) -> int:
        return self.expiries[offset] if offset < len(self.expiries) else 0

    def next_of_lane(self, lane: int, offset: int) -> int:
        """The first slot of this lane, from an offset on; past the end when there is none."""
        found = self.lanes.find(lane, offset)
        if found >= 0:
            return found
        return max(offset, len(self.lanes)) if lane == LANE_PLAIN else len(self.entries)

    def _trim(self) -> None:
        """Give back what the arrays hold for growing: a full page grows no more."""
        self.entries = array("Q", self.entries)
        self.events = array("H", self.events)
        self.remaining = array("H", self.remaining)


def bits(first: int, last: int) -> int:
    """A number whose bits first .. last are set."""
    return (1 << last + 1) - (1 << first)


def runs_of(number: int) -> Iterator[tuple[int, int]]:
    """The runs of set bits, lowest first, as (first, last)."""
    base = 0
    while number:
        zeros = (number & -number).bit_length() - 1
        number >>= zeros
        base += zeros
        ones = (~number & number + 1).bit_length() - 1
        yield base, base + ones - 1
        number >>= ones
        base += ones
