"""Fetches what waits between two places, page by page, a little ahead of its reader.

    fetching   ─ page ─▶ ─ page ─▶  at most PAGES_AHEAD  ─▶  slices, one after the other

A page is up to a MiB of whole batches. However much there is to read, no more than three pages are in memory, here or
on the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.event.batch import UnreadBatch
from holdfast.event.extent import EVERYTHING, Bounds, ReadSlice
from holdfast.wire.frame import Browse, Browsed, Buffer

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

PAGE_BYTES = 1 << 20
PAGE_EVENTS = 1 << 16
PAGES_AHEAD = 2

# A page, or why there is none; None at the end.
Fetched = tuple[Browsed, Buffer] | Exception | None


class PageFetcher:
    def __init__(
        self,
        lane: Callable[[], Awaitable[Session]],
        key: str,
        subscription: str,
        start: int,
        end: int,
        selector: str,
        timeout: float,
        within: Bounds = EVERYTHING,
    ) -> None:
        """`lane` finds the session in the channel of the destination."""
        self._lane = lane
        self._key = key
        self._subscription = subscription
        self._cursor = start
        self._end = end
        self._selector = selector
        self._timeout = timeout
        self._within = within

    async def slices(self) -> AsyncIterator[ReadSlice]:
        if self._cursor >= self._end:
            return
        ahead: asyncio.Queue[Fetched] = asyncio.Queue(PAGES_AHEAD)
        fetching = asyncio.create_task(self._fetch_all(ahead))
        try:
            while (page := await ahead.get()) is not None:
                if isinstance(page, Exception):
                    raise page
                for each in self._slices_of(*page):
                    yield each
        finally:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)

    def _slices_of(self, message: Browsed, body: Buffer) -> list[ReadSlice]:
        view, at, found = memoryview(body), 0, []
        for each in message.slices:
            batch = UnreadBatch(view[at : at + each.length])
            batch.check()
            at += each.length
            found.append(ReadSlice(each.first, each.events, each.destination or self._key, each.accepted_us, batch))
        return found

    async def _fetch_all(self, ahead: asyncio.Queue[Fetched]) -> None:
        try:
            is_end = False
            while not is_end:
                message, body = await self._fetch()
                self._cursor, is_end = message.cursor, message.is_end or message.cursor >= self._end
                if message.slices:
                    await ahead.put((message, body))
            await ahead.put(None)
        except Exception as problem:  # the reader raises it, whatever it is
            await ahead.put(problem)

    async def _fetch(self) -> tuple[Browsed, Buffer]:
        """The next page. After a lost link it is asked for again: reading takes nothing."""
        found: tuple[Browsed, Buffer] = await (await self._lane()).ask_again(self._question, self._timeout)
        return found

    def _question(self, token: int) -> Browse:
        where = (self._key, self._subscription, self._cursor, PAGE_EVENTS, self._selector)
        return Browse(token, *where, self._end, PAGE_BYTES, self._within)
