"""Staging: bytes that are too large for the channel go to several places at once, each of which makes them durable.

The slowest place sets the pace; one that breaks off or stands still is left out, as long as enough are left. A place tells the
digest of what it has: only those with the right one count.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from holdfast.continuity.errors import NotTaken
from holdfast.continuity.storage.machines.known_places import PlaceState
from holdfast.continuity.storage.place_link import LinkBroken, PlaceLinks, Upload

log = logging.getLogger("holdfast.continuity")

# When all bytes are sent, a place has so long to make them durable.
SYNC_SECONDS = 60.0


async def staged(
    links: PlaceLinks,
    places: Sequence[PlaceState],
    places_min: int,
    begun: bytes,
    rest: AsyncIterator[bytes],
    fail: Callable[[str], None],
) -> tuple[str, int]:
    """Stage bytes at places; their digest and size. NotTaken if fewer than `places_min` have them."""
    staging = _Staging(links, places_min, fail)
    try:
        await staging.open(places)
        await staging.send(begun)
        async for chunk in rest:
            await staging.send(chunk)
        return await staging.finish()
    finally:
        staging.cancel()


class _Staging:
    def __init__(self, links: PlaceLinks, places_min: int, fail: Callable[[str], None]) -> None:
        self._links = links
        self._places_min = places_min
        self._fail = fail
        self._uploads: dict[str, Upload] = {}
        self._digest = hashlib.sha256()
        self._size = 0

    async def open(self, places: Sequence[PlaceState]) -> None:
        made = await asyncio.gather(*(self._links.upload(each.address, "/staged") for each in places), return_exceptions=True)
        self._uploads = {each.name: upload for each, upload in zip(places, made, strict=True) if isinstance(upload, Upload)}
        self._leave_out({each.name: upload for each, upload in zip(places, made, strict=True) if not isinstance(upload, Upload)})

    async def send(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._size += len(chunk)
        uploads = list(self._uploads.items())
        done = await asyncio.gather(*(each.send(chunk) for _, each in uploads), return_exceptions=True)
        self._leave_out({name: problem for (name, _), problem in zip(uploads, done, strict=True) if problem is not None})

    async def finish(self) -> tuple[str, int]:
        digest = self._digest.hexdigest()
        uploads = list(self._uploads.items())
        told = await asyncio.gather(*(each.finish(SYNC_SECONDS) for _, each in uploads), return_exceptions=True)
        self._leave_out({
            name: each for (name, _), each in zip(uploads, told, strict=True)
            if not (isinstance(each, dict) and each.get("digest") == digest)
        })  # fmt: skip
        return digest, self._size

    def _leave_out(self, problems: dict[str, object]) -> None:
        for name, problem in problems.items():
            if isinstance(problem, BaseException) and not isinstance(problem, LinkBroken):
                raise problem
            log.warning("place %s does not take these bytes: %s", name, problem)
            upload = self._uploads.pop(name, None)
            if upload is not None:
                upload.cancel()
            self._fail(name)
        if len(self._uploads) < self._places_min:
            raise NotTaken(
                f"{len(self._uploads)} of {self._places_min} places have taken the bytes; nothing was written, repeat it"
            )

    def cancel(self) -> None:
        for upload in self._uploads.values():
            upload.cancel()
