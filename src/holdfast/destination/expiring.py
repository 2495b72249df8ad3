"""Expiring: which batches of a backlog have events whose time to live is over, found by the minimum of each page.

    page      earliest expiry of what waits in it          heap of pages ─▶ the pages that are due ─▶ their batches that are
    batch     what its fixed head said, or what was found when its heads were looked at last

A page is gone through when its minimum is due, and no other is. Only batches that were looked at and still wait cost memory
beside what their page keeps. Which events of a batch have expired only their heads say: the shell reads them, gives the expired
ones up, and says when the next of the batch does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from holdfast.destination.backlog import Backlog
from holdfast.destination.page import Page
from holdfast.event.position import INDEX_BITS

_NEVER = 1 << 63


class Expiring:
    def __init__(self, backlog: Backlog) -> None:
        self.backlog = backlog
        self._pages: list[tuple[int, int]] = []  # heap: earliest expiry, first slot
        self._earliest: dict[int, int] = {}  # by first slot; what the heap says beside it is outdated
        self._looked_at: dict[int, dict[int, int]] = {}  # by first slot and slot: when the next event of a batch expires
        for page in backlog.pages():
            self._note(page, min((at_ms for at_ms in page.expiries if at_ms), default=_NEVER))

    def _note(self, page: Page, at_ms: int) -> None:
        """Something in this page expires then."""
        if at_ms < self._earliest.get(page.first_slot, _NEVER):
            self._earliest[page.first_slot] = at_ms
            heapq.heappush(self._pages, (at_ms, page.first_slot))

    def placed(self, position: int) -> None:
        """A batch was placed that begins at this position."""
        entry = position >> INDEX_BITS
        slot, at_ms = self.backlog.slot_of(entry), self.backlog.expiry_of(entry)
        page = self.backlog.page_with(slot) if slot is not None and at_ms else None
        if page is not None:
            if page.first_slot not in self._earliest:
                self._forget_finished_pages()
            self._note(page, at_ms)

    def _forget_finished_pages(self) -> None:
        for first_slot in [each for each in self._looked_at if self._page(each) is None]:
            del self._looked_at[first_slot]
            self._earliest.pop(first_slot, None)

    def _page(self, first_slot: int) -> Page | None:
        page = self.backlog.page_with(first_slot)
        return page if page is not None and page.first_slot == first_slot else None

    @property
    def wake_at_ms(self) -> int | None:
        while self._pages and self._earliest.get(self._pages[0][1]) != self._pages[0][0]:
            heapq.heappop(self._pages)
        return self._pages[0][0] if self._pages else None

    def due(self, now_ms: int, count: int) -> list[int]:
        """At most so many entries whose heads are to be looked at. Say for each what was found: `looked_at`."""
        found: list[int] = []
        while len(found) < count and (at_ms := self.wake_at_ms) is not None and at_ms <= now_ms:
            _, first_slot = heapq.heappop(self._pages)
            del self._earliest[first_slot]
            page = self._page(first_slot)
            if page is not None:
                self._go_through(page, now_ms, count, found)
            else:
                self._looked_at.pop(first_slot, None)
        return found

    def _go_through(self, page: Page, now_ms: int, count: int, found: list[int]) -> None:
        looked_at = self._looked_at.setdefault(page.first_slot, {})
        earliest = _NEVER
        for offset, at_ms in enumerate(page.expiries):
            if not at_ms or not page.remaining[offset]:
                continue
            slot = page.first_slot + offset
            at_ms = looked_at.get(slot, at_ms)
            if at_ms <= now_ms and len(found) < count:
                found.append(self.backlog.entry_at(page, offset))
                looked_at[slot] = _NEVER
            else:
                earliest = min(earliest, at_ms)
        self._note(page, earliest)

    def looked_at(self, entries: Iterable[tuple[int, int]]) -> None:
        """For each entry: when the next of its events that wait expires; 0 when none does any more."""
        for entry, at_ms in entries:
            slot = self.backlog.slot_of(entry)
            page = self.backlog.page_with(slot) if slot is not None else None
            if slot is not None and page is not None:
                self._looked_at.setdefault(page.first_slot, {})[slot] = at_ms or _NEVER
                self._note(page, at_ms or _NEVER)
