"""A backlog: the batches that wait in one queue or one subscription, in the order in which they were placed.

    slot       0     1     2     3     4     5          counts up for ever; a slot is one batch
    entry      7     9    12    10*   13    15          * displaced: held back by rule 6, placed after a later entry
    stored     7     9    12    12    13    15          what the page keeps: never falls, so that an entry is found by bisection
    finished         all        2..4                    a bitmap for the batches that are finished in part, and only for them

Placement order is nearly always entry order. The few displaced slots keep their real entry in two small dicts. Pages whose
batches are all finished are dropped. So a batch costs twelve bytes, an event nothing, and no operation grows with what
waits behind it.

How often an event was delivered before is known only as far as it matters (rule 5): positions that came back are counted,
and every new epoch leaves a mark: what was placed up to the newest event known to be handed out may have been delivered
once more.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from holdfast.destination.bodies import Bodies
from holdfast.destination.history import History
from holdfast.destination.page import Page, bits, runs_of
from holdfast.destination.runs import Run
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges

Span = tuple[int, int]  # first position, last position


class Backlog:
    def __init__(self, bodies: Bodies | None = None, is_reopening: bool = False) -> None:
        """`is_reopening`: finished positions may come to wait again, so no range may span what was never handed out."""
        self._bodies = bodies or Bodies()
        self.is_reopening = is_reopening
        self.waiting = 0
        self.history = History()
        self.next_slot = 0
        self._newest = 0
        self._pages: list[Page] = []
        self._first_slots: list[int] = []
        self._first_entries: list[int] = []
        self._has_finished_page = False
        self._finished: dict[int, int] = {}
        self._real_entry: dict[int, int] = {}
        self._displaced: dict[int, int] = {}
        self._displaced_heap: list[int] = []
        self._oldest_slot = 0

    # --- placing -----------------------------------------------------------------------------------------------------

    def place(self, entry: int, events: int, finished: int = 0) -> None:
        """A batch waits from now on; `finished` are the bits of those of its events that do not."""
        slot = self.next_slot
        self.next_slot += 1
        if entry > self._newest:
            self._newest = entry
        else:
            self._real_entry[slot] = entry
            self._displaced[entry] = slot
            heapq.heappush(self._displaced_heap, entry)
        remaining = events
        if finished:
            remaining -= finished.bit_count()
            self._finished[slot] = finished
        self._page_for(slot).add(self._newest, events, remaining)
        self.waiting += remaining

    def _page_for(self, slot: int) -> Page:
        if self._pages and not self._pages[-1].is_full:
            return self._pages[-1]
        page = Page(slot)
        self._pages.append(page)
        self._first_slots.append(slot)
        self._first_entries.append(self._newest)
        return page

    def reopen(self, entry: int, wanted: int) -> int:
        """Let the events `wanted` (bits) of a batch that is not finished wait again.

        The bits that did not wait; -1 when there is no such batch.
        """
        found = self._find(entry)
        if found is None:
            return -1
        page, offset = found
        slot = page.first_slot + offset
        opened = self._finished.get(slot, 0) & wanted
        if opened:
            self._keep_finished(slot, self._finished[slot] & ~opened)
            page.remaining[offset] += opened.bit_count()
            self.waiting += opened.bit_count()
        return opened

    # --- finishing ---------------------------------------------------------------------------------------------------

    def finish(self, ranges: Ranges) -> Ranges:
        """These positions are finished.

        What newly is, range by range within entries; what is finished or foreign is passed over.
        """
        found: list[Span] = []
        for page, offset, base, low, high in self._slots_in(ranges):
            self._finish_in(page, offset, base, low, high, found)
        if found:
            self.history.forget(found)
            self._drop_finished_pages()
        return Ranges.gather(found)

    def _finish_in(self, page: Page, offset: int, base: int, first: int, last: int, found: list[Span]) -> None:
        slot = page.first_slot + offset
        remaining = page.remaining[offset]
        newly = last - first + 1
        if newly == remaining == page.events[offset]:
            found.append((base, base + last))
        else:
            before, wanted = self._finished.get(slot, 0), bits(first, last)
            if before & wanted:
                fresh = wanted & ~before
                newly = fresh.bit_count()
                found.extend((base + low, base + high) for low, high in runs_of(fresh))
            else:
                found.append((base + first, base + last))
            self._keep_finished(slot, (before | wanted) if newly < remaining else 0)
        page.remaining[offset] = remaining - newly
        self.waiting -= newly
        if newly == remaining:
            page.alive -= 1
            self._has_finished_page = self._has_finished_page or not page.alive
            self._forget_displaced(slot)

    def _keep_finished(self, slot: int, finished: int) -> None:
        if finished:
            self._finished[slot] = finished
        else:
            self._finished.pop(slot, None)

    def _forget_displaced(self, slot: int) -> None:
        if self._real_entry:
            entry = self._real_entry.pop(slot, None)
            if entry is not None:
                del self._displaced[entry]

    def _drop_finished_pages(self) -> None:
        if not self.waiting:
            kept: list[Page] = []
        elif self._has_finished_page:
            newest = self._pages[-1]
            kept = [page for page in self._pages if page.alive or (page is newest and not page.is_full)]
        else:
            return
        self._has_finished_page = False
        self._pages = kept
        self._first_slots = [page.first_slot for page in kept]
        self._first_entries = [page.entries[0] for page in kept]

    # --- coming back (rule 5) ----------------------------------------------------------------------------------------

    def give_back(self, ranges: Ranges, not_before_ms: int, is_counted: bool) -> Ranges:
        """These wait again, if they are not finished; which ones do."""
        spans = list(self.unfinished(ranges))
        for first, last in spans:
            self.history.give_back(first, last, not_before_ms, is_counted)
        return Ranges.gather(spans)

    def begin_epoch(self) -> None:
        """Another primary: what was handed out up to the newest position known may have been delivered once more."""
        if self.history.delivered_up_to and self.waiting:
            self.history.add_mark(self.place_of(self.history.delivered_up_to), self.oldest_slot() << INDEX_BITS)

    def deliveries_over(self, first: int, last: int) -> list[Run[int]]:
        """How often first .. last (waiting, of one entry) were delivered before, in runs."""
        if self.history.is_empty_for(first):
            return [(first, last, 0)]
        return self.history.deliveries_over(first, last, self.place_of(first))

    @property
    def has_history(self) -> bool:
        """Some events may have been delivered before."""
        return bool(self.history.marks or self.history.returns)

    def deliveries(self, position: int) -> int:
        return self.deliveries_over(position, position)[0][2]

    def not_before_over(self, first: int, last: int) -> list[Run[int]]:
        """Before when (ms) first .. last (of one entry) must not be delivered, in runs; 0: at once."""
        return self.history.not_before.filled(first, last, 0)

    # --- asking ------------------------------------------------------------------------------------------------------

    def is_waiting(self, position: int) -> bool:
        found = self._find(position >> INDEX_BITS)
        if found is None:
            return False
        page, offset = found
        index = position & INDEX_MASK
        return index < page.events[offset] and not self._finished.get(page.first_slot + offset, 0) >> index & 1

    def needs(self, entry: int) -> bool:
        return self._find(entry) is not None

    def events_of(self, entry: int) -> int:
        """How many events the batch of this entry has, finished ones too."""
        found = self._find(entry)
        assert found is not None, f"entry {entry} is not in this backlog"
        return found[0].events[found[1]]

    def unfinished(self, ranges: Ranges) -> Iterator[Span]:
        """Those positions of the ranges that wait here, in spans within entries."""
        for page, offset, base, low, high in self._slots_in(ranges):
            finished = self._finished.get(page.first_slot + offset, 0)
            if not finished:
                yield base + low, base + high
            else:
                for start, end in runs_of(bits(low, high) & ~finished):
                    yield base + start, base + end

    def entries_between(self, first: int, last: int) -> Iterator[int]:
        """The entries in first .. last that have something waiting here."""
        for _, _, entry in self._between(first, last):
            yield entry

    def oldest_entry(self) -> int | None:
        """The least entry with something waiting here whose body was not carried elsewhere."""
        carried, heap = self._bodies.carried, self._displaced_heap
        while heap and (heap[0] not in self._displaced or heap[0] in carried):
            heapq.heappop(heap)
        oldest = self._oldest_in_order(carried)
        if oldest is None or not heap:
            return heap[0] if heap else oldest
        return min(oldest, heap[0])

    def _oldest_in_order(self, carried: dict[int, int]) -> int | None:
        while (slot := self._slot_at_or_after(self._oldest_slot)) < self.next_slot:
            self._oldest_slot = slot
            page, offset = self._at(slot)
            entry = page.entries[offset]
            if slot not in self._real_entry and entry not in carried:
                return entry
            self._oldest_slot += 1
        return None

    def may_span(self, first_entry: int, last_entry: int) -> bool:
        """No position between two entries is or can come to be displaced: one range may reach from the one to the other."""
        if self.is_reopening or first_entry in self._displaced or last_entry in self._displaced:
            return False
        if self._displaced and any(first_entry < entry < last_entry for entry in self._displaced):
            return False
        return not self._bodies.has_held or not self._bodies.held_between(first_entry, last_entry)

    # --- walking -----------------------------------------------------------------------------------------------------

    def next_run(self, slot: int, index: int = 0) -> tuple[int, int, int] | None:
        """The next positions that wait, at or after a place: (slot, first position, events), within one batch.

        None at the end.
        """
        for at in range(max(bisect_right(self._first_slots, slot) - 1, 0), len(self._pages)):
            page = self._pages[at]
            remaining = page.remaining
            if page.first_slot > slot:
                index = 0
            for offset in range(max(slot - page.first_slot, 0), len(remaining)):
                if remaining[offset] and (found := self._run_in(page, offset, index)):
                    return found
                index = 0
        return None

    def _run_in(self, page: Page, offset: int, index: int) -> tuple[int, int, int] | None:
        events = page.events[offset]
        if index >= events:
            return None
        slot = page.first_slot + offset
        base = self._real_entry.get(slot, page.entries[offset]) << INDEX_BITS
        finished = self._finished.get(slot, 0)
        if not finished:
            return slot, base + index, events - index
        for low, high in runs_of(bits(index, events - 1) & ~finished):
            return slot, base + low, high - low + 1
        return None

    def place_of(self, position: int) -> int:
        """Slot and index of a position, in one number; the end of the slot before it when the backlog does not have it."""
        entry = position >> INDEX_BITS
        slot = self._displaced.get(entry)
        if slot is None:
            slot, is_exact = self._lower_bound(entry)
            if not is_exact:
                return (slot << INDEX_BITS) - 1
        return slot << INDEX_BITS | position & INDEX_MASK

    def _lower_bound(self, entry: int) -> tuple[int, bool]:
        """The first slot that stores this entry or a later one, and whether it is really this one's."""
        start = max(bisect_left(self._first_entries, entry) - 1, 0)
        for page in self._pages[start : start + 2]:
            offset = bisect_left(page.entries, entry)
            if offset < len(page.entries):
                slot = page.first_slot + offset
                return slot, page.entries[offset] == entry and slot not in self._real_entry
        return self.next_slot, False

    def slot_of(self, entry: int) -> int | None:
        found = self._find(entry)
        return None if found is None else found[0].first_slot + found[1]

    def oldest_slot(self) -> int:
        """The first slot with something waiting; `next_slot` when there is none."""
        return self._slot_at_or_after(0)

    def _slot_at_or_after(self, slot: int) -> int:
        """The next slot, from this one on, with something remaining; `next_slot` when there is none."""
        for at in range(max(bisect_right(self._first_slots, slot) - 1, 0), len(self._pages)):
            page = self._pages[at]
            remaining = page.remaining
            for offset in range(max(slot - page.first_slot, 0), len(remaining)):
                if remaining[offset]:
                    return page.first_slot + offset
        return self.next_slot

    def _at(self, slot: int) -> tuple[Page, int]:
        page = self._pages[bisect_right(self._first_slots, slot) - 1]
        return page, slot - page.first_slot

    def _find(self, entry: int) -> tuple[Page, int] | None:
        """The page and offset of an entry that has something remaining."""
        slot = self._displaced.get(entry)
        if slot is not None:
            return self._at(slot)
        slot, is_exact = self._lower_bound(entry)
        if not is_exact:
            return None
        page, offset = self._at(slot)
        return (page, offset) if page.remaining[offset] else None

    def _slots_in(self, ranges: Ranges) -> Iterator[tuple[Page, int, int, int, int]]:
        """(page, offset, first position of the batch, first index, last index) of everything in the ranges that may wait here."""
        known, found = 0, None
        for first, last in ranges:
            entry = first >> INDEX_BITS
            if entry != last >> INDEX_BITS:
                for page, offset, between in self._between(entry, last >> INDEX_BITS):
                    base = between << INDEX_BITS
                    low, high = max(first - base, 0), min(last - base, page.events[offset] - 1)
                    if low <= high:
                        yield page, offset, base, low, high
                continue
            if entry != known or found is None or not found[0].remaining[found[1]]:
                known, found = entry, self._find(entry)
            if found is not None:
                low, high = first & INDEX_MASK, min(last & INDEX_MASK, found[0].events[found[1]] - 1)
                if low <= high:
                    yield *found, entry << INDEX_BITS, low, high

    def _between(self, first: int, last: int) -> Iterator[tuple[Page, int, int]]:
        """(page, offset, entry) of everything in entries first .. last that has something remaining; displaced slots last."""
        for at in range(max(bisect_left(self._first_entries, first) - 1, 0), len(self._pages)):
            page = self._pages[at]
            entries, remaining = page.entries, page.remaining
            end = bisect_right(entries, last)
            for offset in range(bisect_left(entries, first), end):
                if remaining[offset] and page.first_slot + offset not in self._real_entry:
                    yield page, offset, entries[offset]
            if end < len(entries):
                break
        if self._displaced:
            for entry in self._displaced_between(first, last):
                yield *self._at(self._displaced[entry]), entry

    def _displaced_between(self, first: int, last: int) -> list[int]:
        if last - first < len(self._displaced):
            return [entry for entry in range(first, last + 1) if entry in self._displaced]
        return sorted(entry for entry in self._displaced if first <= entry <= last)

    # --- as a whole --------------------------------------------------------------------------------------------------

    @property
    def newest_entry(self) -> int:
        """The greatest entry ever placed here."""
        return self._newest

    def pages(self) -> list[Page]:
        return self._pages

    def finished_in_part(self) -> dict[int, int]:
        """The bits that are finished, by slot, of batches that are finished in part."""
        return self._finished

    def displaced(self) -> dict[int, int]:
        """The real entry of each displaced slot."""
        return self._real_entry

    @classmethod
    def rebuilt(cls, bodies: Bodies, is_reopening: bool, newest_entry: int, next_slot: int, history: History) -> Backlog:
        """An empty backlog that has been in use; `rebuild_page` and `rebuild_slots` bring back what waits."""
        backlog = cls(bodies, is_reopening)
        backlog._newest = newest_entry
        backlog.next_slot = next_slot
        backlog.history = history
        return backlog

    def rebuild_page(self, page: Page) -> None:
        page.alive = sum(map(bool, page.remaining))
        self._pages.append(page)
        self._first_slots.append(page.first_slot)
        self._first_entries.append(page.entries[0])
        self.waiting += sum(page.remaining)

    def rebuild_finished(self, slot: int, finished: int) -> None:
        self._finished[slot] = finished

    def rebuild_displaced(self, slot: int, entry: int) -> None:
        self._real_entry[slot] = entry
        self._displaced[entry] = slot
        heapq.heappush(self._displaced_heap, entry)
