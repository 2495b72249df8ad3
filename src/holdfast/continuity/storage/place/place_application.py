"""The application of a place: what fronts and other places ask of it, over HTTP.

    GET  /entry/NAME?number=N               the entry of a name: 200, or 404, as of a number that is N or more
    GET  /list?prefix=&after=&limit=&number=N    a page of names
    GET  /outcome/POSITION?wait=SECONDS     what became of a write
    GET  /objects/DIGEST?begin=&end=        bytes, each MiB checked before it is sent; 404 if they are not here
    PUT  /staged                            keep these bytes: 200 with digest and size, when they are durable
    GET  /changes?after=N&position=P        what changed since a number, as of a moment after the event at that position
    GET  /state                             how the place is

503 declines: the place is not current, or is behind N. Bytes by digest are given in any state. An answer that breaks off had
damaged bytes behind it. The interface is for the programs of one store: `docs/storage.md` says how it is protected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from holdfast.continuity.storage import asgi
from holdfast.continuity.storage.asgi import Receive, Scope, Send
from holdfast.continuity.storage.place.objects import BytesLacking
from holdfast.continuity.storage.place.storage_place import COPY_SECONDS, StoragePlace
from holdfast.continuity.storage.write import DIGEST

log = logging.getLogger("holdfast.continuity")

# A read that is a little ahead of the place waits so long for it.
BEHIND_SECONDS = 0.25
OUTCOME_SECONDS_MAX = 60.0
PAGE_MAX = 1_000


class PlaceApplication:
    """An ASGI application. `place` is given when it is open; before that, everything is declined."""

    def __init__(self) -> None:
        self.place: StoragePlace | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self.place is None:
                await _decline(send, "the place is not open yet")
            else:
                await self._answer(self.place, scope, receive, send)
        except asgi.ClientLeft:
            pass
        except (ValueError, KeyError) as problem:
            await asgi.answer_json(send, 400, {"reason": str(problem)})
        except BytesLacking as problem:  # the answer has begun: it breaks off here, and the one who asked goes elsewhere
            raise ConnectionAbortedError(f"bytes of {problem} are damaged") from problem

    async def _answer(self, place: StoragePlace, scope: Scope, receive: Receive, send: Send) -> None:
        kind, _, rest = asgi.path_of(scope).partition("/")
        query = asgi.query_of(scope)
        if scope["method"] == "PUT" and kind == "staged":
            held = await place.objects.stage(asgi.body_of(receive))
            await asgi.answer_json(send, 200, {"digest": held.digest, "size": held.size})
        elif scope["method"] != "GET":
            await asgi.answer_json(send, 405, {"reason": "only GET, and PUT of staged bytes"})
        elif kind == "entry":
            await self._entry(place, rest, query, send)
        elif kind == "objects":
            await self._object(place, rest, query, receive, send)
        elif kind == "outcome":
            await self._outcome(place, int(rest), query, send)
        elif kind == "list":
            await self._list(place, query, send)
        elif kind == "changes":
            await self._changes(place, query, receive, send)
        elif kind == "state":
            await asgi.answer_json(send, 200, place.description())
        else:
            await asgi.answer_json(send, 404, {"reason": "there is nothing here"})

    async def _entry(self, place: StoragePlace, name: str, query: dict[str, str], send: Send) -> None:
        if not await self._is_current(place, query):
            return await _decline(send, place.state)
        entry = place.catalog.find(name)
        if entry is None:
            return await asgi.answer_json(send, 404, {"number": place.catalog.number})
        found = {"number": place.catalog.number, "entry": entry}
        return await asgi.answer_json(send, 200, found)

    async def _is_current(self, place: StoragePlace, query: dict[str, str]) -> bool:
        if place.state != "current":
            return False
        return await place.until_number(int(query.get("number") or 0), BEHIND_SECONDS)

    async def _object(
        self, place: StoragePlace, digest: str, query: dict[str, str], receive: Receive, send: Send
    ) -> None:  # fmt: skip
        held = place.catalog.held(digest) if DIGEST.match(digest) else None
        if held is None:
            return await asgi.answer_json(send, 404, {"reason": "these bytes are not here"})
        begin = int(query.get("begin") or 0)
        end = min(int(query.get("end") or held.size), held.size)
        if not 0 <= begin <= end:
            raise ValueError("the stretch ends before it begins")
        chunks = place.objects.read(digest, begin, end)
        try:
            first = await anext(chunks, b"")  # damage in the first MiB is told at once
        except BytesLacking:
            return await asgi.answer_json(send, 404, {"reason": "these bytes are damaged here"})
        await asgi.begin(send, 200, {"content-length": str(end - begin), "content-type": "application/octet-stream"})
        return await asgi.stream(send, receive, _chained(first, chunks))

    async def _outcome(self, place: StoragePlace, position: int, query: dict[str, str], send: Send) -> None:
        seconds = min(float(query.get("wait") or 0), OUTCOME_SECONDS_MAX)
        outcome = await place.until_applied(position, seconds)
        if outcome is None:
            return await _decline(send, "not applied yet")
        return await asgi.answer_json(send, 200, msgspec.to_builtins(outcome))

    async def _list(self, place: StoragePlace, query: dict[str, str], send: Send) -> None:
        if not await self._is_current(place, query):
            return await _decline(send, place.state)
        limit = min(int(query.get("limit") or PAGE_MAX), PAGE_MAX)
        found = place.catalog.page(query.get("prefix", ""), query.get("after", ""), limit)
        return await asgi.answer_json(send, 200, {"number": place.catalog.number, "entries": found})

    async def _changes(self, place: StoragePlace, query: dict[str, str], receive: Receive, send: Send) -> None:
        position = int(query["position"])
        if place.state != "current" or await place.until_applied(position, COPY_SECONDS / 2) is None:
            return await _decline(send, place.state)
        # Written down first: a reader of the catalog must not be held open for as long as another place reads.
        lines = await asyncio.to_thread(_write_down, place, int(query.get("after") or 0), position)
        try:
            await asgi.begin(send, 200, {"content-length": str(lines.stat().st_size), "content-type": "application/x-ndjson"})
            await asgi.stream(send, receive, _file_chunks(lines))
        finally:
            lines.unlink()
        return None


async def _decline(send: Send, reason: str) -> None:
    await asgi.answer_json(send, 503, {"reason": reason})


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


def _write_down(place: StoragePlace, after: int, position: int) -> Path:
    path = place.objects.spool_folder / f"copy-{position}-{id(place):x}"
    with path.open("wb") as file:
        file.writelines(place.catalog.copied(after, position))
    return path


async def _file_chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, 1 << 20):
            yield chunk
