"""The expiry index: which batches of a backlog have expired events, found by the minimum of each page.

    page      earliest expiry of what waits in it          heap of pages ─▶ the pages that are due ─▶ their batches that are
    batch     what its fixed head said, or what was found when its heads were read last

Only a page whose minimum is due is searched. Only batches whose heads were read and that still wait cost memory beside their
page. Only heads say which events of a batch have expired: the shell reads them, gives the expired ones up, and says when the next
event of the batch expires.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.slots import Page
from holdfast.event.position import INDEX_BITS

_NEVER = 1 << 63


class ExpiryIndex:
    def __init__(self, backlog: Backlog) -> None:
        self.backlog = backlog
        self._pages: list[tuple[int, int]] = []  # heap: earliest expiry, first slot
        self._earliest: dict[int, int] = {}  # by first slot; what the heap says otherwise is outdated
        self._next_expiries: dict[int, dict[int, int]] = {}  # by first slot and slot: when the next event of a batch expires
        for page in backlog.pages():
            self._note(page, min((at_ms for at_ms in page.expiries if at_ms), default=_NEVER))

    def _note(self, page: Page, at_ms: int) -> None:
        """An event in this page expires then."""
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
        for first_slot in [each for each in self._next_expiries if self._page(each) is None]:
            del self._next_expiries[first_slot]
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
        """At most so many entries whose heads are to be read. Answer for each with `heads_read`."""
        found: list[int] = []
        while len(found) < count and (at_ms := self.wake_at_ms) is not None and at_ms <= now_ms:
            _, first_slot = heapq.heappop(self._pages)
            del self._earliest[first_slot]
            page = self._page(first_slot)
            if page is not None:
                self._go_through(page, now_ms, count, found)
            else:
                self._next_expiries.pop(first_slot, None)
        return found

    def _go_through(self, page: Page, now_ms: int, count: int, found: list[int]) -> None:
        heads_read = self._next_expiries.setdefault(page.first_slot, {})
        earliest = _NEVER
        for offset, at_ms in enumerate(page.expiries):
            if not at_ms or not page.remaining[offset]:
                continue
            slot = page.first_slot + offset
            at_ms = heads_read.get(slot, at_ms)
            if at_ms <= now_ms and len(found) < count:
                found.append(self.backlog.entry_at(page, offset))
                heads_read[slot] = _NEVER
            else:
                earliest = min(earliest, at_ms)
        self._note(page, earliest)

    def heads_read(self, entries: Iterable[tuple[int, int]]) -> None:
        """The heads of these entries were read: for each, when the next event that waits expires; 0: none does any more."""
        for entry, at_ms in entries:
            slot = self.backlog.slot_of(entry)
            page = self.backlog.page_with(slot) if slot is not None else None
            if slot is not None and page is not None:
                self._next_expiries.setdefault(page.first_slot, {})[slot] = at_ms or _NEVER
                self._note(page, at_ms or _NEVER)
