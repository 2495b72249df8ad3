"""File stores for tests: places and a front in the test's own loop, each of which can be ended and begun again."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import holdfast
from holdfast.continuity.errors import NotTaken
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage.definition import Definition
from holdfast.continuity.storage.file_store import FileStore
from holdfast.continuity.storage.place.storage_place import StoragePlace
from holdfast.continuity.storage.serving import serve_front, serve_place
from tests.waiting import until


class Storing:
    """`places` run, by name; `front` is HOST:PORT."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.places: dict[str, StoragePlace] = {}
        self._ends: dict[str, AsyncExitStack] = {}
        self.store: FileStore
        self.front: str

    async def begin(self, name: str, at: str = "", **options: Any) -> StoragePlace:
        """Start a place, in a folder of its name if nothing else is said."""
        end = self._ends[name] = AsyncExitStack()
        place = serve_place(self.url, "files", name, at or str(self.folder / name), **options)
        self.places[name] = await end.enter_async_context(place)
        return self.places[name]

    async def end(self, name: str) -> None:
        del self.places[name]
        await self._ends.pop(name).aclose()

    async def end_all(self) -> None:
        for name in list(self._ends):
            await self.end(name)

    async def until_current(self, *names: str) -> None:
        """The front knows that exactly these places are current. It asks: so it notices at once who is gone."""
        wanted = list(names)

        async def are_current() -> bool:
            with contextlib.suppress(NotTaken):
                await self.store.page(limit=1)
            return [each.name for each in self.store.places.current()] == wanted

        await until(are_current, f"places {wanted} are current")

    async def until_equal(self) -> None:
        """Every place has applied what the front has seen, and lacks nothing."""
        places = self.places.values()
        await until(lambda: all(each.catalog.number >= self.store.number for each in places), "all have applied everything")
        await until(lambda: not any(each.catalog.lacking(1) for each in places), "nobody lacks anything")

    async def bytes_at(self, name: str) -> dict[str, bytes]:
        """Every file as a place has it, each byte checked."""
        place = self.places[name]
        found = {}
        for file, entry in place.catalog.page("", "", 10_000):
            chunks = place.objects.read(entry.digest, 0, entry.size)
            found[file] = b"".join([chunk async for chunk in chunks])
        return found


@asynccontextmanager
async def storing(folder: Path, *places: str, url: str = "", **settings: Any) -> AsyncIterator[Storing]:
    """A store with these places, all current, and a front."""
    url = url or f"memory:{secrets.token_hex(4)}"
    made = Storing(url, folder)
    async with holdfast.connect(url) as client:
        settings = {"places_min": min(2, len(places)), **settings}
        await register.create(client, Definition("files", places, **settings))
        try:
            for name in places:
                await made.begin(name)
            async with serve_front(url, "files") as front:
                made.store, made.front = front.store, front.address
                await made.until_current(*sorted(places))
                yield made
        finally:
            await made.end_all()


async def read(store: FileStore, name: str) -> bytes:
    return b"".join([chunk async for chunk in store.read(await store.find(name))])
