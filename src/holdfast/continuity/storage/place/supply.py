"""The supply of a place with bytes: those that a write needs, those that it lacks, and those that nobody needs any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.continuity.storage import write as writes
from holdfast.continuity.storage.place.catalog import Held, Numbered
from holdfast.continuity.storage.place.objects import Objects
from holdfast.continuity.storage.place_link import PlaceLinks
from holdfast.continuity.storage.places import Places

log = logging.getLogger("holdfast.continuity")

# So long a write waits for bytes that no place seems to have; then its name is entered as lacking.
BYTES_SECONDS = 10.0
AGAIN_SECONDS = 0.2
REPAIR_SECONDS = 0.5
REPAIRED_AT_ONCE = 100
SWEEP_SECONDS_MAX = 60.0


class Supply:
    """`is_filled`: every object that was lacking after a copy was asked for."""

    def __init__(self, objects: Objects, links: PlaceLinks, places: Places, name: str) -> None:
        self._objects, self._links, self._places, self._name = objects, links, places, name
        self.is_filled = not objects.catalog.fact("filling")

    async def bytes_of(self, events: Sequence[Numbered]) -> list[Held]:
        """See to it that the bytes of these writes are on the shelf. Those that came with a write are the caller's to enter."""
        puts = [each.write for each in events if isinstance(each.write, writes.Put)]
        for put in puts:
            if put.body is None and self._objects.catalog.held(put.digest) is None:
                await self._fetch(put.digest)
        return await self._objects.take_small(put.body for put in puts if put.body is not None)

    async def _fetch(self, digest: str) -> None:
        """Fetch staged bytes from whoever has them. After BYTES_SECONDS go on without: the repair tries further."""
        try:
            async with asyncio.timeout(BYTES_SECONDS):
                while True:
                    if await self._fetch_once(digest):
                        return
                    await asyncio.sleep(AGAIN_SECONDS)
        except TimeoutError:
            log.warning("place %s: no place gives the bytes of %s; it goes on without them", self._name, digest[:12])

    async def _fetch_once(self, digest: str) -> bool:
        for peer in self._places.reachable(besides=self._name):
            if await self._objects.fetch(self._links, peer.address, digest):
                return True
        return False

    async def repair(self, is_joined: Callable[[], bool]) -> None:
        """Fetch what is lacking, until cancelled. A place that has just copied is filled when everything was tried once."""
        while True:
            await asyncio.sleep(REPAIR_SECONDS if self.is_filled else AGAIN_SECONDS)
            if not is_joined():
                continue
            lacking = self._objects.catalog.lacking(REPAIRED_AT_ONCE if self.is_filled else -1)
            if lacking and not self._places.reachable(besides=self._name):
                continue
            try:
                for digest, _ in lacking:
                    await self._fetch_once(digest)
                if not self.is_filled:
                    await self._objects.write(self._objects.catalog.set_fact, "filling", 0)
                    self.is_filled = True
            except OSError as problem:
                log.error("place %s cannot write: %s", self._name, problem)

    async def sweep(self, loose_seconds: float, is_current: Callable[[], bool]) -> None:
        """Remove what was loose for long, until cancelled; only while the place is current: every write that could name it is
        applied then."""
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS_MAX, loose_seconds / 2))
            if not is_current():
                continue
            try:
                await self._objects.sweep(loose_seconds)
            except OSError as problem:
                log.error("place %s cannot remove: %s", self._name, problem)
