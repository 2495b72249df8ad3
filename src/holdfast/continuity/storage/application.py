"""The front of a file store: its files over HTTP, for uvicorn or any ASGI server.

    GET, HEAD  /NAME     200, 206 with Range, 304 and 412 with conditions, 404, 416; strong ETag, Last-Modified
    PUT        /NAME     201 or 204; If-Match, If-None-Match: 412
    DELETE     /NAME     204; 404, 412
    MOVE       /NAME     with `Destination: /OTHER`: 201 or 204
    GET        /  /DIR/  the files and folders there, as JSON; ?prefix=…&recursive=1&after=…&limit=… for pages

`Holdfast-Write` is the number of the newest write that the answer contains. A client that sends it back, to any front, reads
nothing older. 401, 403: the client has to show a token, or another one (`machines.login`). 503: nothing was done, repeat it. 504:
the write is accepted, or may be, and nobody has told its outcome.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

from holdfast.continuity.errors import FileDiffers, NoSuchFile, NotAnswered, NotTaken
from holdfast.continuity.request import unknown_coding
from holdfast.continuity.storage import asgi
from holdfast.continuity.storage.asgi import Receive, Scope, Send
from holdfast.continuity.storage.file_store import FileCut, FileStore
from holdfast.continuity.storage.listing import listed
from holdfast.continuity.storage.machines.decision import Entry, Outcome, excludes, matches
from holdfast.continuity.storage.machines.http_terms import Stretch, Unsatisfiable, condition_in, stretch_in, tag_of
from holdfast.continuity.storage.machines.login import Login
from holdfast.errors import BadName

log = logging.getLogger("holdfast.continuity")

NUMBER = "holdfast-write"
# Requests at once; each has a bounded share of memory.
REQUESTS_MAX = 1_000
CONTENT_TYPE_MAX = 255
TEXT = "text/plain; charset=utf-8"


class FrontApplication:
    """An ASGI application over an open `FileStore`."""

    def __init__(self, store: FileStore, login: Login | None = None) -> None:
        self._store = store
        self._login = login or Login()
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"a front answers http, not {scope['type']}")
        self._under_way += 1
        try:
            if self._under_way > REQUESTS_MAX:
                raise NotTaken("too many requests at once; repeat it")
            if await self._is_taken(scope, send):
                await self._answer(scope, receive, send)
        except asgi.ClientLeft:
            pass
        except FileCut as cut:  # the answer has begun: it ends the connection, so that nobody takes it for whole
            raise ConnectionAbortedError(str(cut)) from cut
        except NoSuchFile as problem:
            await self._refuse(send, 404, problem.sentence)
        except FileDiffers as problem:
            await self._refuse(send, 412, problem.sentence)
        except NotTaken as problem:
            await self._refuse(send, 503, problem.sentence, {"retry-after": str(problem.retry_after)})
        except NotAnswered as problem:
            await self._refuse(send, problem.status, problem.sentence)
        except (BadName, ValueError) as problem:
            await self._refuse(send, 400, str(problem))
        finally:
            self._under_way -= 1

    async def _is_taken(self, scope: Scope, send: Send) -> bool:
        """Whether the client may ask that; if not, it is told so, and nothing else."""
        judged = self._login.judge(scope["method"], scope["headers"])
        if judged == "unknown":
            body = b"a token is needed; send it as: Authorization: Bearer TOKEN\n"
            await asgi.answer(send, 401, body, {"content-type": TEXT, "www-authenticate": "Bearer"})
        elif judged == "may not write":
            await asgi.answer(send, 403, b"this token is for reading; writing needs the other one\n", {"content-type": TEXT})
        return judged == "taken"

    async def _refuse(self, send: Send, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        told = {"content-type": TEXT, NUMBER: str(self._store.number), **(headers or {})}
        await asgi.answer(send, status, f"{sentence}\n".encode(), told)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, headers, method = asgi.path_of(scope), asgi.headers_of(scope), scope["method"]
        if coding := unknown_coding(scope["headers"]):
            sentence = f"Transfer-Encoding: {coding:.80} is not understood; send the body plain or chunked"
            await self._refuse(send, 501, sentence)
            return
        if headers.get(NUMBER, "").isdigit():
            self._store.reach(int(headers[NUMBER]))
        if method in ("GET", "HEAD"):
            if not name or name.endswith("/"):
                await self._list(send, name, asgi.query_of(scope), method)
            else:
                await self._get(send, receive, name, headers, method)
        elif method == "PUT":
            if_match, if_none_match = _conditions(headers)
            outcome = await self._store.put(
                name, asgi.body_of(receive), content_type=headers.get("content-type", "")[:CONTENT_TYPE_MAX],
                if_match=if_match, if_none_match=if_none_match,
            )  # fmt: skip
            await self._written(send, outcome)
        elif method == "DELETE":
            await self._written(send, await self._store.delete(name, if_match=_conditions(headers)[0]))
        elif method == "MOVE":
            await self._move(send, name, headers)
        else:
            await self._refuse(send, 405, f"{method} is not taken", {"allow": "GET, HEAD, PUT, DELETE, MOVE"})

    async def _move(self, send: Send, name: str, headers: dict[str, str]) -> None:
        to = asgi.name_in(urlsplit(headers.get("destination", "")).path)
        is_exclusive = headers.get("overwrite", "").upper() == "F"
        if_none_match = ("*",) if is_exclusive else ()
        await self._written(send, await self._store.move(name, to, if_match=_conditions(headers)[0], if_none_match=if_none_match))

    async def _written(self, send: Send, outcome: Outcome) -> None:
        headers = {NUMBER: str(outcome.number)} | ({"etag": tag_of(outcome.digest)} if outcome.digest else {})
        status = 201 if outcome.kind == "created" else 204
        if status == 204:
            await asgi.begin(send, status, headers)
            await send({"type": "http.response.body", "body": b""})
        else:
            await asgi.answer(send, status, b"", headers)

    # --- reading --------------------------------------------------------------------------------------------------------

    async def _get(self, send: Send, receive: Receive, name: str, headers: dict[str, str], method: str) -> None:
        entry = await self._store.find(name)
        told = self._head(entry)
        if not matches(condition_in(headers.get("if-match", ""), weak=False), entry):
            return await self._refuse(send, 412, "the file is another one")
        if excludes(condition_in(headers.get("if-none-match", ""), weak=True), entry):
            await asgi.begin(send, 304, told)
            return await send({"type": "http.response.body", "body": b""})
        try:
            stretch = stretch_in(headers.get("range", ""), entry.size) if _is_range_meant(headers, entry) else None
        except Unsatisfiable:
            return await self._refuse(send, 416, "the range begins behind the end", {"content-range": f"bytes */{entry.size}"})
        begin, end = stretch or Stretch(0, entry.size)
        told["content-length"] = str(end - begin)
        if stretch is not None:
            told["content-range"] = f"bytes {begin}-{end - 1}/{entry.size}"
        status = 206 if stretch is not None else 200
        if method == "HEAD":
            await asgi.begin(send, status, told)
            return await send({"type": "http.response.body", "body": b""})
        return await self._send_bytes(send, receive, status, told, self._store.read(entry, begin, end))

    async def _send_bytes(
        self, send: Send, receive: Receive, status: int, told: dict[str, str], chunks: AsyncIterator[bytes]
    ) -> None:  # fmt: skip
        first = await anext(chunks, b"")  # who cannot begin says so with a status

        async def rest() -> AsyncIterator[bytes]:
            yield first
            async for chunk in chunks:
                yield chunk

        await asgi.begin(send, status, told)
        await asgi.stream(send, receive, rest())

    def _head(self, entry: Entry) -> dict[str, str]:
        modified = datetime.fromtimestamp(entry.modified_us // 1_000_000, UTC)
        return {
            "etag": tag_of(entry.digest),
            "last-modified": format_datetime(modified, usegmt=True),
            "content-type": entry.content_type or "application/octet-stream",
            "accept-ranges": "bytes",
            NUMBER: str(self._store.number),
        }

    async def _list(self, send: Send, folder: str, query: dict[str, str], method: str) -> None:
        found: dict[str, Any] = await listed(
            self._store, folder + query.get("prefix", ""), query.get("after", ""),
            limit=int(query.get("limit") or 0), is_recursive=query.get("recursive", "") not in ("", "0", "false"),
        )  # fmt: skip
        await asgi.answer_json(send, 200, found if method == "GET" else {}, {NUMBER: str(self._store.number)})


def _conditions(headers: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """If-Match and If-None-Match of a write."""
    return (
        condition_in(headers.get("if-match", ""), weak=False),
        condition_in(headers.get("if-none-match", ""), weak=True),
    )


def _is_range_meant(headers: dict[str, str], entry: Entry) -> bool:
    """If-Range: the range counts only for the file that the client has a part of."""
    meant = headers.get("if-range", "")
    return not meant or condition_in(meant, weak=False) == (entry.digest,)
