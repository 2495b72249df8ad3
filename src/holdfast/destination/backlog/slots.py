"""The slots of a backlog: one for every batch that waits, in placement order, and found by entry.

    slot       0     1     2     3     4     5          counts up for ever
    entry      7     9    12    10*   13    15          * displaced: held back by rule 6, placed after a later entry
    stored     7     9    12    12    13    15          what the page keeps: never falls, so that an entry is found by bisection

Placement order is nearly always entry order. The few displaced slots keep their real entry in two small dicts. Slots lie in
pages; a page whose batches are all finished is dropped.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator

from holdfast.destination.batch_traits import LANE_PLAIN, PLAIN, Traits
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges

# Large enough that pages are few (2,441 for ten million batches), small enough that a finished one comes free soon.
SLOTS_MAX = 4096
# `remaining` of a full page of single events that all wait.
_ONE_OF_EACH = array("H", [1]) * SLOTS_MAX


class Page:
    """The batches in some thousand consecutive slots, packed into arrays.

        slot      first_slot + 0   + 1   + 2   …
        entry          17           17    20         64 bits: never falls (displaced slots keep theirs elsewhere)
        events        100            3     1         16 bits: of the whole batch
        remaining      40            0     1         16 bits: not finished; 0: the batch is finished

    Twelve bytes a batch, and nothing for the garbage collector, however many wait. Three more arrays are made when the first
    batch comes that is not plain, and reach as far as the last one that is not:

        lane           9           17           8 bits: priority, and whether it has groups (see `batch_traits`)
        delay          0      1 767 …          64 bits: before when (ms since 1970) it must not be delivered; 0: at once
        expiry         0      1 768 …          64 bits: when the first of its events expires; 0: none does
    """

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
        """Whether this is a full page of single events that all wait: quicker than counting."""
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
        """Add as many of these batches as there is room for, with all their events waiting; how many were added."""
        taken = min(SLOTS_MAX - len(self.entries), len(entries))
        self.entries.extend(entries[:taken])
        self.events.extend(events[:taken])
        self.remaining.extend(events[:taken])
        self.alive += taken
        self.waiting += sum(events[:taken])
        return taken

    def copy(self) -> Page:
        """The same batches. Of a full page only `remaining` changes: the other arrays are shared."""
        made = Page(self.first_slot)
        made.entries, made.events = (self.entries, self.events) if self.is_full else (self.entries[:], self.events[:])
        made.remaining, made.alive, made.waiting = self.remaining[:], self.alive, self.waiting
        made.lanes, made.delays, made.expiries = self.lanes[:], self.delays[:], self.expiries[:]
        return made

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
        """Give back the memory that the arrays hold for growing: a full page grows no more."""
        self.entries = array("Q", self.entries)
        self.events = array("H", self.events)
        self.remaining = array("H", self.remaining)


class Slots:
    def __init__(self, newest_entry: int = 0, next_slot: int = 0) -> None:
        self.newest_entry = newest_entry  # the greatest ever placed
        self.next_slot = next_slot
        self.pages: list[Page] = []
        self.real_entry: dict[int, int] = {}  # of each displaced slot that is not finished
        self.displaced: dict[int, int] = {}  # the slot of each displaced entry that is not finished
        self._displaced_heap: list[int] = []
        self._first_slots: list[int] = []
        self._first_entries: list[int] = []
        self._has_finished_page = False
        self._oldest_slot = 0  # nothing before it can be the oldest

    # --- changing ----------------------------------------------------------------------------------------------------

    def add(self, entry: int, events: int, remaining: int, traits: Traits = PLAIN) -> int:
        """Add a batch at the end; its slot."""
        slot = self.next_slot
        self.next_slot += 1
        if entry > self.newest_entry:
            self.newest_entry = entry
        else:
            self.add_displaced(slot, entry)
        if not self.pages or self.pages[-1].is_full:
            self._add_page(Page(slot), self.newest_entry)
        self.pages[-1].add(self.newest_entry, events, remaining)
        if traits is not PLAIN:
            self.pages[-1].note(traits)
        return slot

    def extend(self, entries: array[int], events: array[int]) -> None:
        """Add many plain batches at the end, ascending, each later than all before them."""
        while entries:
            if not self.pages or self.pages[-1].is_full:
                self._add_page(Page(self.next_slot), entries[0])
            taken = self.pages[-1].extend(entries, events)
            self.next_slot += taken
            self.newest_entry = entries[taken - 1]
            entries, events = entries[taken:], events[taken:]

    def add_displaced(self, slot: int, entry: int) -> None:
        self.real_entry[slot] = entry
        self.displaced[entry] = slot
        heapq.heappush(self._displaced_heap, entry)

    def add_full_page(self, page: Page) -> None:
        """Add a page from a snapshot."""
        page.alive = len(page.remaining) if page.has_one_of_each else sum(map(bool, page.remaining))
        page.waiting = page.alive if page.has_one_of_each else sum(page.remaining)
        self._add_page(page, page.entries[0])

    def _add_page(self, page: Page, first_entry: int) -> None:
        self.pages.append(page)
        self._first_slots.append(page.first_slot)
        self._first_entries.append(first_entry)

    def copy(self) -> Slots:
        """The same batches in the same slots."""
        made = Slots(self.newest_entry, self.next_slot)
        for page in self.pages:
            made._add_page(page.copy(), page.entries[0])
        for slot, entry in self.real_entry.items():
            made.add_displaced(slot, entry)
        made._has_finished_page = self._has_finished_page
        return made

    def finish(self, page: Page, offset: int) -> None:
        """A batch is finished."""
        page.alive -= 1
        if not page.alive:
            self._has_finished_page = True
        if self.real_entry:
            entry = self.real_entry.pop(page.first_slot + offset, None)
            if entry is not None:
                del self.displaced[entry]

    def drop_finished_pages(self) -> None:
        """Drop finished pages; the newest only when nothing remains at all, because it is being filled."""
        if not self._has_finished_page:
            return
        newest = self.pages[-1]
        alive = [page for page in self.pages if page.alive]
        if alive and not newest.alive and not newest.is_full:
            alive.append(newest)
        self._has_finished_page = False
        self.pages = alive
        self._first_slots = [page.first_slot for page in alive]
        self._first_entries = [page.entries[0] for page in alive]

    # --- finding -----------------------------------------------------------------------------------------------------

    def at(self, slot: int) -> tuple[Page, int]:
        page = self.pages[self.page_at(slot)]
        return page, slot - page.first_slot

    def page_at(self, slot: int) -> int:
        """The index of the page that has this slot, or the slots before it."""
        return max(bisect_right(self._first_slots, slot) - 1, 0)

    def at_or_after(self, slot: int) -> int:
        """The next slot, from this one on, with something remaining; `next_slot` when there is none."""
        for at in range(self.page_at(slot), len(self.pages)):
            page = self.pages[at]
            remaining = page.remaining
            for offset in range(max(slot - page.first_slot, 0), len(remaining)):
                if remaining[offset]:
                    return page.first_slot + offset
        return self.next_slot

    def find(self, entry: int) -> tuple[Page, int] | None:
        """The page and offset of an entry that is not finished."""
        slot = self.displaced.get(entry)
        if slot is not None:
            return self.at(slot)
        slot, is_exact = self.lower_bound(entry)
        if not is_exact:
            return None
        page, offset = self.at(slot)
        return (page, offset) if page.remaining[offset] else None

    def lower_bound(self, entry: int) -> tuple[int, bool]:
        """The first slot that stores this entry or a later one, and whether it really belongs to this entry."""
        start = max(bisect_left(self._first_entries, entry) - 1, 0)
        for page in self.pages[start : start + 2]:
            offset = bisect_left(page.entries, entry)
            if offset < len(page.entries):
                slot = page.first_slot + offset
                return slot, page.entries[offset] == entry and slot not in self.real_entry
        return self.next_slot, False

    def between(self, first: int, last: int) -> Iterator[tuple[Page, int, int]]:
        """(page, offset, entry) of the entries in first .. last that are not finished; displaced slots last."""
        for at in range(max(bisect_left(self._first_entries, first) - 1, 0), len(self.pages)):
            page = self.pages[at]
            entries, remaining = page.entries, page.remaining
            end = bisect_right(entries, last)
            for offset in range(bisect_left(entries, first), end):
                if remaining[offset] and page.first_slot + offset not in self.real_entry:
                    yield page, offset, entries[offset]
            if end < len(entries):
                break
        if self.displaced:
            for entry in self._displaced_between(first, last):
                yield *self.at(self.displaced[entry]), entry

    def _displaced_between(self, first: int, last: int) -> list[int]:
        if last - first < len(self.displaced):
            return [entry for entry in range(first, last + 1) if entry in self.displaced]
        return sorted(entry for entry in self.displaced if first <= entry <= last)

    def within(self, ranges: Ranges) -> Iterator[tuple[Page, int, int, int, int]]:
        """(page, offset, first position of the batch, first index, last index) of unfinished batches that the ranges name."""
        known, found = 0, None
        for first, last in ranges:
            entry = first >> INDEX_BITS
            if entry != last >> INDEX_BITS:
                for page, offset, between in self.between(entry, last >> INDEX_BITS):
                    base = between << INDEX_BITS
                    low, high = max(first - base, 0), min(last - base, page.events[offset] - 1)
                    if low <= high:
                        yield page, offset, base, low, high
                continue
            if entry != known or found is None or not found[0].remaining[found[1]]:
                known, found = entry, self.find(entry)
            if found is not None:
                low, high = first & INDEX_MASK, min(last & INDEX_MASK, found[0].events[found[1]] - 1)
                if low <= high:
                    yield *found, entry << INDEX_BITS, low, high

    # --- the oldest --------------------------------------------------------------------------------------------------

    def oldest_entry(self, but_for: Container[int]) -> int | None:
        """The least unfinished entry that is not among these. Those among these are never asked for again."""
        found = (self._oldest_displaced(but_for), self._oldest_in_order(but_for))
        return min((entry for entry in found if entry is not None), default=None)

    def _oldest_displaced(self, but_for: Container[int]) -> int | None:
        heap = self._displaced_heap
        while heap and (heap[0] not in self.displaced or heap[0] in but_for):
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _oldest_in_order(self, but_for: Container[int]) -> int | None:
        while (slot := self.at_or_after(self._oldest_slot)) < self.next_slot:
            self._oldest_slot = slot
            page, offset = self.at(slot)
            entry = page.entries[offset]
            if slot not in self.real_entry and entry not in but_for:
                return entry
            self._oldest_slot += 1
        return None
