"""The application behind HTTP: four addresses to read, nothing to change.

/metrics    for Prometheus              /healthz    200 while the server runs
/status     as `holdfast status`        /readyz     200 while it takes and delivers events, 503 with the reasons otherwise
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

import msgspec

from holdfast.errors import HoldfastError
from holdfast.http.metrics import CONTENT_TYPE, Reading, rendered
from holdfast.http.protection import has_token
from holdfast.node import supervision

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = tuple[int, str, bytes]

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class Watch(Protocol):
    """What is shown of a server: of one that is alone (`server_watch`), or of a node of a cluster (`cluster_watch`)."""

    async def read(self) -> Reading:
        """The numbers of this moment."""

    async def status(self) -> dict[str, Any]: ...

    async def problems(self) -> list[str]:
        """Why it is not ready; empty when it is."""

    def close(self) -> None: ...


class Application:
    """An ASGI application."""

    def __init__(self, watch: Watch, token: str | None) -> None:
        self._watch = watch
        self._token = token
        self._turn = asyncio.Lock()
        self._answers: dict[str, Callable[[bool], Awaitable[Answer]]] = {
            "/metrics": self._show_metrics,
            "/status": self._show_status,
            "/healthz": self._show_health,
            "/readyz": self._show_readiness,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, content_type, body = await self._answer(scope)
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        if status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="holdfast"'))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Scope) -> Answer:
        show = self._answers.get(scope["path"])
        if scope["method"] not in ("GET", "HEAD"):
            return 405, TEXT, b"here is nothing to change; ask with GET\n"
        if show is None:
            return 404, TEXT, f"there is nothing here; there are {', '.join(self._answers)}\n".encode()
        is_known = self._token is None or has_token(scope["headers"], self._token)
        if not is_known and show not in (self._show_health, self._show_readiness):
            return 401, TEXT, b"a token is needed; send it as: Authorization: Bearer TOKEN\n"
        try:
            return await show(is_known)
        except HoldfastError as problem:
            return 503, TEXT, f"{problem.sentence}\n".encode()
        except Exception as problem:  # a fault of ours costs this answer, and nothing else
            supervision.report(f"answering {scope['path']}", problem)
            return 500, TEXT, b"this is a fault of Holdfast itself; see the log of the server\n"

    async def _show_metrics(self, is_known: bool) -> Answer:
        """The exposition. One is made at a time, whoever asks."""
        async with self._turn:
            reading = await self._watch.read()
            return 200, CONTENT_TYPE, await asyncio.to_thread(rendered, reading)

    async def _show_status(self, is_known: bool) -> Answer:
        return 200, JSON, msgspec.json.encode(await self._watch.status()) + b"\n"

    async def _show_health(self, is_known: bool) -> Answer:
        return 200, TEXT, b"ok\n"

    async def _show_readiness(self, is_known: bool) -> Answer:
        problems = await self._watch.problems()
        if not problems:
            return 200, TEXT, b"ok\n"
        lines = problems if is_known else ["not ready"]
        return 503, TEXT, "".join(f"{line}\n" for line in lines).encode()
