"""The objects of a place: bytes that arrive, are kept under their digest, and are read back with a check of every MiB.

    arrive ─▶ spool file, digest and sums ─▶ entered as loose ─▶ taken onto the shelf, durable ─▶ held

All writes of the catalog go through one thread, in turn. Reading and hashing are done in other threads, never in the loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from holdfast.continuity.storage.place.catalog import Catalog, Held
from holdfast.continuity.storage.place.shelf import ObjectGone, Shelf, key_of
from holdfast.continuity.storage.place_link import LinkBroken, PlaceLinks

log = logging.getLogger("holdfast.continuity")

CHUNK = 1 << 20
SUM_BYTES = 16
SWEPT_AT_ONCE = 1_000

T = TypeVar("T")


class BytesLacking(Exception):
    """The bytes of this digest are not here, or not as they were written. Another place may have them."""


class Spool:
    """Bytes that arrive, in a file. `add` and `close` block."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / secrets.token_hex(8)
        self._file = self.path.open("xb")
        self._digest = hashlib.sha256()
        self._sums = bytearray()
        self._sum = hashlib.blake2b(digest_size=SUM_BYTES)
        self._size = 0

    def add(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        view = memoryview(data)
        while view:
            part = view[: CHUNK - self._size % CHUNK]
            self._sum.update(part)
            self._size += len(part)
            if not self._size % CHUNK:
                self._end_sum()
            view = view[len(part) :]

    def _end_sum(self) -> None:
        self._sums += self._sum.digest()
        self._sum = hashlib.blake2b(digest_size=SUM_BYTES)

    def close(self) -> Held:
        """No more comes; what came."""
        self._file.close()
        if self._size % CHUNK:
            self._end_sum()
        return Held(self._digest.hexdigest(), self._size, bytes(self._sums))

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class Objects:
    def __init__(self, catalog: Catalog, shelf: Shelf, spool: Path) -> None:
        self.catalog = catalog
        self.shelf = shelf
        self.spool_folder = spool
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-catalog")

    async def write(self, work: Callable[..., T], *arguments: Any) -> T:
        """Change the catalog, in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def close(self) -> None:
        self._thread.shutdown()
        self.shelf.close()
        self.catalog.close()

    # --- arriving -------------------------------------------------------------------------------------------------------

    async def receive(self, chunks: AsyncIterator[bytes]) -> tuple[Spool, Held]:
        """Take bytes into the spool."""
        spool = Spool(self.spool_folder)
        try:
            async for chunk in chunks:
                await asyncio.to_thread(spool.add, chunk)
            return spool, await asyncio.to_thread(spool.close)
        except BaseException:
            spool.discard()
            raise

    async def stage(self, chunks: AsyncIterator[bytes]) -> Held:
        """Keep bytes that no name stands for yet: durable on return, and loose."""
        spool, held = await self.receive(chunks)
        await self.keep(spool, held)
        return held

    async def keep(self, spool: Spool, held: Held) -> None:
        try:
            await self.write(self.catalog.intend, [held.digest], now_us())
            await asyncio.to_thread(self.shelf.take, key_of(held.digest), spool.path)
            await self.write(self.catalog.hold, [held])
        finally:
            spool.discard()

    async def take_small(self, bodies: Iterable[bytes]) -> list[Held]:
        """Put small bodies onto the shelf. The caller enters them as held, with the writes that name them."""
        return await self.write(self._take_small, list(bodies))

    def _take_small(self, bodies: list[bytes]) -> list[Held]:
        spools = []
        for body in bodies:
            spool = Spool(self.spool_folder)
            spool.add(body)
            spools.append((spool, spool.close()))
        self.catalog.intend([held.digest for _, held in spools], now_us())
        for spool, held in spools:
            self.shelf.take(key_of(held.digest), spool.path)
        return [held for _, held in spools]

    async def fetch(self, links: PlaceLinks, address: str, digest: str) -> bool:
        """Fetch bytes by digest from another place. Whether they are here now."""
        try:
            async with links.ask(address, f"/objects/{digest}") as answer:
                if answer.status != 200:
                    return False
                spool, held = await self.receive(answer.chunks())
        except LinkBroken as problem:
            log.info("bytes of %s did not come from %s: %s", digest[:12], address, problem)
            return False
        if held.digest != digest:
            log.warning("the place at %s gave other bytes than those of %s", address, digest[:12])
            spool.discard()
            return False
        await self.keep(spool, held)
        return True

    # --- reading --------------------------------------------------------------------------------------------------------

    async def read(self, digest: str, begin: int, end: int) -> AsyncIterator[bytes]:
        """The bytes of an object from `begin` up to `end`, each MiB checked before it is given. BytesLacking if they are not as
        they were written: then the object is held no more, and is fetched again."""
        held = self.catalog.held(digest)
        if held is None:
            raise BytesLacking(digest)
        for first in range(begin - begin % CHUNK, end, CHUNK):
            data = await asyncio.to_thread(self._checked, held, first)
            if data is None:
                log.warning("bytes of %s are damaged or gone; they are fetched again", digest[:12])
                await self.write(self.catalog.release, digest)
                raise BytesLacking(digest)
            yield data[max(0, begin - first) : end - first]

    def _checked(self, held: Held, first: int) -> bytes | None:
        """A MiB of an object; None if it is not as it was written."""
        try:
            data = self.shelf.read(key_of(held.digest), first, CHUNK)
        except (ObjectGone, OSError):
            return None
        sum_at = first // CHUNK * SUM_BYTES
        is_whole = len(data) == min(CHUNK, held.size - first)
        is_right = hashlib.blake2b(data, digest_size=SUM_BYTES).digest() == held.sums[sum_at : sum_at + SUM_BYTES]
        return data if is_whole and is_right else None

    # --- removing -------------------------------------------------------------------------------------------------------

    async def sweep(self, loose_seconds: float) -> int:
        """Remove objects that were loose for so long; how many. Call it only while the place is current."""
        return await self.write(self._sweep, now_us() - round(loose_seconds * 1e6))

    def _sweep(self, before_us: int) -> int:
        digests = self.catalog.loose_since(before_us, SWEPT_AT_ONCE)
        for digest in digests:
            self.catalog.release(digest)
            self.shelf.remove(key_of(digest))
            self.catalog.forget(digest)
        return len(digests)


def now_us() -> int:
    return time.time_ns() // 1000
