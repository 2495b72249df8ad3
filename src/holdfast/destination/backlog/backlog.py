"""A backlog: the batches that wait in one queue or one subscription, in the order in which they were placed.

    slot        0     1     2     3          one for every batch, in placement order (see `slots`)
    events      1   100   100     5
    remaining   1     0    97     5          a batch of which nothing remains is forgotten
    finished              2..4               a bitmap for the batches that are finished in part, and only for them

A batch costs twelve bytes, an event nothing, and no operation grows with what waits behind it.

Deliveries before are known only as far as they matter (rule 5): positions that came back are counted, and those that were noted
as in hand when their primary died (see `history`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import compress

from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.backlog.history import History
from holdfast.destination.backlog.locks import Locks
from holdfast.destination.backlog.runs import Run, bits, runs_of
from holdfast.destination.backlog.sizes import Sizes
from holdfast.destination.backlog.slots import Page, Slots
from holdfast.destination.batch_traits import LANE_PLAIN, LANES, PLAIN, Traits
from holdfast.destination.effect import Holder
from holdfast.event.position import INDEX_BITS, INDEX_MASK, Ranges

Span = tuple[int, int]  # first position, last position


class Backlog:
    def __init__(self, bodies: Bodies | None = None, is_reopening: bool = False) -> None:
        """`is_reopening`: finished positions may come to wait again, so no range may span what was never handed out."""
        self._bodies = bodies or Bodies()
        self.is_reopening = is_reopening
        self.waiting = 0
        self.furthest = 0  # the newest position that was finished; after a restore the newest one at all. No part of the state
        self.finished_count = 0  # events ever finished here; with those that wait, all events ever placed
        self.history = History()
        self.sizes: Sizes | None = None  # kept only if the high water is set in bytes
        self.locks: Locks | None = None  # kept only while a prepared transaction has some
        self._slots = Slots()
        self._finished: dict[int, int] = {}
        self.lanes = 1 << LANE_PLAIN  # the bits of all lanes that ever had a batch, and the plain one
        self.has_delays = False  # whether a batch has come that is not to be delivered at once
        self.has_expiries = False  # whether a batch has come whose events expire

    # --- placing -----------------------------------------------------------------------------------------------------

    def place(self, entry: int, events: int, finished: int = 0, traits: Traits = PLAIN) -> None:
        """A batch waits from now on; `finished` are the bits of its events that do not."""
        remaining = events - finished.bit_count() if finished else events
        slot = self._slots.add(entry, events, remaining, traits)
        if traits is not PLAIN:
            self.lanes |= 1 << traits.lane
            self.has_delays = self.has_delays or traits.not_before_ms > 0
            self.has_expiries = self.has_expiries or traits.earliest_expiry_ms > 0
        if finished:
            self._finished[slot] = finished
        self.waiting += remaining

    def move_page(self, page: Page, to: Backlog) -> bool:
        """Let the events of a page wait in another backlog too, all at once. False, and nothing is done, if an event was
        delivered before, or a batch is finished in part, is displaced, or would be displaced there."""
        if self.has_history or self._finished or self._slots.real_entry or page.entries[0] <= to.newest_entry:
            return False
        events = array("H", compress(page.events, page.remaining))
        to._slots.extend(array("Q", compress(page.entries, page.remaining)), events)
        to.waiting += sum(events)
        return True

    def reopen(self, entry: int, wanted: int) -> int:
        """Let the events `wanted` (bits) of a batch that is not finished wait again.

        The bits that did not wait; -1 when there is no such batch.
        """
        found = self._slots.find(entry)
        if found is None:
            return -1
        page, offset = found
        slot = page.first_slot + offset
        opened = self._finished.get(slot, 0) & wanted
        if opened:
            self._keep_finished(slot, self._finished[slot] & ~opened)
            page.remaining[offset] += opened.bit_count()
            page.waiting += opened.bit_count()
            self.waiting += opened.bit_count()
        return opened

    # --- finishing ---------------------------------------------------------------------------------------------------

    def finish(self, ranges: Ranges) -> Ranges:
        """These positions are finished.

        The answer: the newly finished ones, range by range within entries. Finished, locked and foreign ones are passed over.
        """
        if self.locks is not None:
            ranges = self.locks.outside(ranges)
        found: list[Span] = []
        for page, offset, base, low, high in self._slots.within(ranges):
            self._finish_in(page, offset, base, low, high, found)
        if found:
            self.furthest = max(self.furthest, max(last for _, last in found))
            self.history.forget(found)
            self._slots.drop_finished_pages()
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
        page.waiting -= newly
        self.waiting -= newly
        self.finished_count += newly
        if newly == remaining:
            self._slots.finish(page, offset)
            if self.sizes is not None:
                self.sizes.finish(slot)

    def _keep_finished(self, slot: int, finished: int) -> None:
        if finished:
            self._finished[slot] = finished
        else:
            self._finished.pop(slot, None)

    # --- locking (ADR 25) --------------------------------------------------------------------------------------------

    def lock(self, ranges: Ranges) -> None:
        """A prepared transaction will decide on these, which wait and are not locked."""
        self.locks = self.locks or Locks()
        self.locks.add(ranges)

    def unlock(self, ranges: Ranges) -> None:
        assert self.locks is not None, "only what was locked is given free"
        self.locks.remove(ranges)
        self.locks = self.locks if len(self.locks) else None

    # --- coming back (rule 5) ----------------------------------------------------------------------------------------

    def give_back(self, ranges: Ranges, not_before_ms: int, is_counted: bool, reason: str = "") -> Ranges:
        """These wait again, if they are not finished or locked; which ones."""
        spans = list(self.unfinished(ranges if self.locks is None else self.locks.outside(ranges)))
        for first, last in spans:
            self.history.give_back(first, last, not_before_ms, is_counted, reason)
        return Ranges.gather(spans)

    def back_off(self, ranges: Ranges, at_ms: int, delay_of: Callable[[int], int]) -> None:
        """These came back at a time: each run waits from then on as long as its number of deliveries demands."""
        for first, last in self.unfinished(ranges):
            for low, high, deliveries in self.deliveries_over(first, last):
                if delay_ms := delay_of(deliveries):
                    self.history.delay(low, high, at_ms + delay_ms)

    def begin_epoch(self) -> None:
        """Another primary begins: the events that the former one noted as in hand were delivered once more."""
        self.history.begin_epoch()

    def note_in_hand(self, ranges: Ranges, holder: Holder) -> None:
        """Note that these positions, if they wait, are handed to a program now."""
        for first, last in self.unfinished(ranges):
            self.history.in_hand.put(first, last, holder)

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
        runs = self.history.not_before.filled(first, last, 0)
        found = self._slots.find(first >> INDEX_BITS) if self.has_delays else None
        delay_ms = found[0].delay(found[1]) if found else 0
        return [(low, high, max(at_ms, delay_ms)) for low, high, at_ms in runs] if delay_ms else runs

    # --- asking ------------------------------------------------------------------------------------------------------

    def is_waiting(self, position: int) -> bool:
        found = self._slots.find(position >> INDEX_BITS)
        if found is None:
            return False
        page, offset = found
        index = position & INDEX_MASK
        return index < page.events[offset] and not self._finished.get(page.first_slot + offset, 0) >> index & 1

    def oldest_placed(self) -> int:
        """No entry before this one waits here."""
        pages = self._slots.pages
        return min((pages[0].entries[0] if pages else self.newest_entry, *self._slots.displaced))

    def needs(self, entry: int) -> bool:
        return self._slots.find(entry) is not None

    def events_of(self, entry: int) -> int:
        """How many events the batch of this entry has, finished ones too."""
        found = self._slots.find(entry)
        assert found is not None, f"entry {entry} is not in this backlog"
        return found[0].events[found[1]]

    def unfinished(self, ranges: Ranges) -> Iterator[Span]:
        """The positions of the ranges that wait here, in spans within entries."""
        for page, offset, base, low, high in self._slots.within(ranges):
            finished = self._finished.get(page.first_slot + offset, 0)
            if not finished:
                yield base + low, base + high
            else:
                for start, end in runs_of(bits(low, high) & ~finished):
                    yield base + start, base + end

    def entries_between(self, first: int, last: int) -> Iterator[int]:
        """The entries in first .. last of which events wait here."""
        for _, _, entry in self._slots.between(first, last):
            yield entry

    def oldest_entry(self) -> int | None:
        """The least entry of which events wait here and whose body was not carried elsewhere."""
        return self._slots.oldest_entry(self._bodies.carried)

    def first_waiting_entry(self) -> int:
        """The entry of the batch that was placed first, of those that wait."""
        assert self.waiting, "nothing waits here"
        return self.entry_at(*self._slots.at(self.oldest_slot()))

    def may_span(self, first_entry: int, last_entry: int) -> bool:
        """Whether one range may reach from one entry to another: no position between them is displaced, or can become so."""
        if self.is_reopening or first_entry in self._slots.displaced or last_entry in self._slots.displaced:
            return False
        if self._slots.displaced and any(first_entry < entry < last_entry for entry in self._slots.displaced):
            return False
        return not self._bodies.has_held or not self._bodies.held_between(first_entry, last_entry)

    def lane_of(self, entry: int) -> int:
        """The lane of a batch of which events wait here; the plain one for any other."""
        found = self._slots.find(entry) if self.lanes != 1 << LANE_PLAIN else None
        return found[0].lane(found[1]) if found else LANE_PLAIN

    def expiry_of(self, entry: int) -> int:
        """When the first of a batch's events expires; 0: none does."""
        found = self._slots.find(entry) if self.has_expiries else None
        return found[0].expiry(found[1]) if found else 0

    def page_with(self, slot: int) -> Page | None:
        """The page that has this slot; None when it was dropped."""
        if not self._slots.pages:
            return None
        page, offset = self._slots.at(slot)
        return page if 0 <= offset < len(page.entries) else None

    def entry_at(self, page: Page, offset: int) -> int:
        return self._slots.real_entry.get(page.first_slot + offset, page.entries[offset])

    # --- walking -----------------------------------------------------------------------------------------------------

    def next_run_of(self, lane: int, slot: int, index: int = 0) -> tuple[int, int, int] | None:
        """As `next_run`, for the batches of one lane."""
        if self.lanes == 1 << lane:
            return self.next_run(slot, index)
        for at in range(self._slots.page_at(slot), len(self._slots.pages)):
            page = self._slots.pages[at]
            offset = page.next_of_lane(lane, max(slot - page.first_slot, 0))
            while offset < len(page.entries):
                begin = index if page.first_slot + offset == slot else 0
                if page.remaining[offset] and (found := self._run_in(page, offset, begin)):
                    return found
                offset = page.next_of_lane(lane, offset + 1)
        return None

    def next_run(self, slot: int, index: int = 0) -> tuple[int, int, int] | None:
        """The next positions that wait, at or after a place: (slot, first position, events), within one batch.

        None at the end.
        """
        for at in range(self._slots.page_at(slot), len(self._slots.pages)):
            page = self._slots.pages[at]
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
        base = self._slots.real_entry.get(slot, page.entries[offset]) << INDEX_BITS
        finished = self._finished.get(slot, 0)
        if not finished:
            return slot, base + index, events - index
        for low, high in runs_of(bits(index, events - 1) & ~finished):
            return slot, base + low, high - low + 1
        return None

    def place_of(self, position: int) -> int:
        """Slot and index of a position, in one number; the end of the slot before it when the backlog does not have it."""
        entry = position >> INDEX_BITS
        slot = self._slots.displaced.get(entry)
        if slot is None:
            slot, is_exact = self._slots.lower_bound(entry)
            if not is_exact:
                return (slot << INDEX_BITS) - 1
        return slot << INDEX_BITS | position & INDEX_MASK

    def slot_of(self, entry: int) -> int | None:
        found = self._slots.find(entry)
        return None if found is None else found[0].first_slot + found[1]

    def oldest_slot(self) -> int:
        """The first slot of which events wait; `next_slot` when there is none."""
        return self._slots.at_or_after(0)

    # --- as a whole --------------------------------------------------------------------------------------------------

    @property
    def next_slot(self) -> int:
        return self._slots.next_slot

    @property
    def newest_entry(self) -> int:
        """The greatest entry ever placed here."""
        return self._slots.newest_entry

    def copy(self) -> Backlog:
        """All that waits here, in the same slots, as if it had just been placed: nothing was delivered or finished before."""
        made = Backlog(self._bodies)
        made.waiting, made.lanes = self.waiting, self.lanes
        made.has_delays, made.has_expiries = self.has_delays, self.has_expiries
        made._slots, made._finished = self._slots.copy(), dict(self._finished)
        made.sizes = self.sizes.copy() if self.sizes is not None else None
        return made

    def pages(self) -> list[Page]:
        return self._slots.pages

    def finished_in_part(self) -> dict[int, int]:
        """The finished bits, by slot, of batches that are finished in part."""
        return self._finished

    def displaced(self) -> dict[int, int]:
        """The real entry of each displaced slot."""
        return self._slots.real_entry

    def rebuild(self, newest_entry: int, next_slot: int) -> None:
        """Rebuild a backlog, empty so far, that was in use; the other `rebuild` methods bring back its events."""
        self._slots.newest_entry, self._slots.next_slot = newest_entry, next_slot
        self.furthest = ((newest_entry + 1) << INDEX_BITS) - 1

    def rebuild_page(self, page: Page) -> None:
        self._slots.add_full_page(page)
        self.waiting += page.waiting

    def rebuild_traits(self, lanes: bytes, delays: bytes, expiries: bytes) -> None:
        """Rebuild the traits of the page that was rebuilt last."""
        page = self._slots.pages[-1]
        page.lanes.extend(lanes)
        page.delays.frombytes(delays)
        page.expiries.frombytes(expiries)
        for lane in range(LANES):
            if lane in lanes:
                self.lanes |= 1 << lane
        self.has_delays = self.has_delays or bool(delays)
        self.has_expiries = self.has_expiries or bool(expiries)

    def rebuild_finished(self, slot: int, finished: int) -> None:
        self._finished[slot] = finished

    def rebuild_displaced(self, slot: int, entry: int) -> None:
        self._slots.add_displaced(slot, entry)
