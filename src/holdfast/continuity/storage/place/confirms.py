"""The confirms of a place: lazily, and never before Holdfast was told how far the disk is.

    applied, durable ─▶ gathered for CONFIRM_SECONDS ─▶ mark told ─▶ confirmed

So what is confirmed is below the mark that was told, and that is on this disk: a disk that has less is stale (ADR 18).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from holdfast.client.client import Client
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage.definition import Definition
from holdfast.continuity.storage.place.catalog import Catalog
from holdfast.errors import Closed, HoldfastError

log = logging.getLogger("holdfast.continuity")

CONFIRM_SECONDS = 0.05
# After so many marks, those that later ones have replaced are removed.
MARKS_KEPT = 64


class Confirms:
    def __init__(self, client: Client, definition: Definition, place: str, catalog: Catalog) -> None:
        self._client, self._definition, self._place, self._catalog = client, definition, place, catalog
        self._events: dict[int, ReceivedEvent] = {}  # by position: an event that comes again is one
        self._some = asyncio.Event()
        self._told = 0

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
        self._told += 1
        if self._told % MARKS_KEPT == 1:
            await register.forget_marks(self._client, self._definition, self._place, self._catalog.number)
