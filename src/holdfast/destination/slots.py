"""The slots of a backlog: one for every batch that waits, in placement order, and found by entry.

    slot       0     1     2     3     4     5          counts up for ever
    entry      7     9    12    10*   13    15          * displaced: held back by rule 6, placed after a later entry
    stored     7     9    12    12    13    15          what the page keeps: never falls, so that an entry is found by bisection

Placement order is nearly always entry order. The few displaced slots keep their real entry in two small dicts. Pages whose
batches are all finished are dropped.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator

from holdfast.destination.page import Page
from holdfast.destination.traits import PLAIN, Traits
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges


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
        """A batch at the end; its slot."""
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
        """Many plain batches at the end, ascending, each later than all before them."""
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
        """A page as it was before."""
        page.alive = len(page.remaining) if page.has_one_of_each else sum(map(bool, page.remaining))
        page.waiting = page.alive if page.has_one_of_each else sum(page.remaining)
        self._add_page(page, page.entries[0])

    def _add_page(self, page: Page, first_entry: int) -> None:
        self.pages.append(page)
        self._first_slots.append(page.first_slot)
        self._first_entries.append(first_entry)

    def finish(self, page: Page, offset: int) -> None:
        """Nothing of a batch remains."""
        page.alive -= 1
        if not page.alive:
            self._has_finished_page = True
        if self.real_entry:
            entry = self.real_entry.pop(page.first_slot + offset, None)
            if entry is not None:
                del self.displaced[entry]

    def drop_finished_pages(self) -> None:
        """Forget pages of which nothing remains; the newest only when nothing remains at all, because it is being filled."""
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
        """Which page has this slot, or the slots before it."""
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
        """The page and offset of an entry that has something remaining."""
        slot = self.displaced.get(entry)
        if slot is not None:
            return self.at(slot)
        slot, is_exact = self.lower_bound(entry)
        if not is_exact:
            return None
        page, offset = self.at(slot)
        return (page, offset) if page.remaining[offset] else None

    def lower_bound(self, entry: int) -> tuple[int, bool]:
        """The first slot that stores this entry or a later one, and whether it is really this one's."""
        start = max(bisect_left(self._first_entries, entry) - 1, 0)
        for page in self.pages[start : start + 2]:
            offset = bisect_left(page.entries, entry)
            if offset < len(page.entries):
                slot = page.first_slot + offset
                return slot, page.entries[offset] == entry and slot not in self.real_entry
        return self.next_slot, False

    def between(self, first: int, last: int) -> Iterator[tuple[Page, int, int]]:
        """(page, offset, entry) of everything in entries first .. last that has something remaining; displaced slots last."""
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
        """(page, offset, first position of the batch, first index, last index) of what the ranges name of batches that remain."""
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
        """The least entry with something remaining that is not among these (nor ever will be again)."""
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
