"""The confirms of a place: lazily, and never before Holdfast was told how far the disk is.

    applied, durable ─▶ gathered for CONFIRM_SECONDS ─▶ mark told ─▶ confirmed

So what is confirmed is below the mark that was told, and that is on this disk: a disk that has less is stale (ADR 18).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage.definition import Definition
from holdfast.continuity.storage.place.catalog import Catalog
from holdfast.errors import Closed, HoldfastError, TimedOut

log = logging.getLogger("holdfast.continuity")

CONFIRM_SECONDS = 0.05
# Marks that are received ahead, to be removed when a later one has replaced them.
MARKS_AHEAD = 64


class Confirms:
    def __init__(self, client: Client, definition: Definition, place: str, catalog: Catalog) -> None:
        self._client, self._definition, self._place, self._catalog = client, definition, place, catalog
        self._events: dict[int, ReceivedEvent] = {}  # by position: an event that comes again is one
        self._some = asyncio.Event()
        self._marks: Incoming | None = None
        self._greatest: ReceivedEvent | None = None  # mark

    def add(self, events: Iterable[ReceivedEvent]) -> None:
        """These events are applied and durable, or were before."""
        self._events.update((each.position, each) for each in events)
        self._some.set()

    def __len__(self) -> int:
        return len(self._events)

    async def run(self) -> None:
        """Confirm until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(CONFIRM_SECONDS)
            self._some.clear()
            try:
                await self.flush()
            except Closed:
                return
            except HoldfastError as problem:
                log.info("place %s cannot confirm for the moment: %s", self._place, problem)
                self._some.set()

    async def flush(self) -> None:
        """Tell the mark, then confirm."""
        events = list(self._events.values())  # more may come while the mark is told, and are above it
        if not events:
            return
        await register.tell_mark(self._client, self._definition, self._place, self._catalog.number)
        for event in events:
            if self._events.get(event.position) is event:
                del self._events[event.position]
            try:
                await event.confirm()
            except HoldfastError as problem:  # it is delivered again, and passed over then
                log.debug("place %s: an event is not confirmed: %s", self._place, problem)
        await self._forget_marks()

    async def _forget_marks(self) -> None:
        """Confirm the marks that a later one has replaced. The greatest that was received is held: it stays in its queue."""
        try:
            if self._marks is None:
                self._marks = await self._client.queue(self._definition.mark(self._place)).receive(credit=MARKS_AHEAD).open()
            while True:
                mark = await self._marks.next(timeout=0)
                lesser, self._greatest = sorted((mark, self._greatest or mark), key=lambda each: int(each.data["number"]))
                if lesser is not self._greatest:
                    await lesser.confirm()
        except TimedOut:  # no more is here
            return
        except HoldfastError as problem:  # they come again, to another receiver
            log.debug("place %s: old marks are not removed for the moment: %s", self._place, problem)
            self._marks, self._greatest = None, None
