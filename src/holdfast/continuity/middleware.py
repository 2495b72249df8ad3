"""Middleware for servers in Python: time and random numbers that are the same at all servers of a domain (28).

    app = AsgiMiddleware(app)              or WsgiMiddleware(app), in the server, behind a domain with `tell_server = true`

    from holdfast.continuity.middleware import now, random
    order = {"id": random().getrandbits(48), "made": now().isoformat()}

The engine puts time and seed into the event of a request: so they are the same, too, when a request is sent again or replayed.
They are not monotone across engines (continuity rule 19). Outside of such a request, `now` is the clock, and `random` cannot be
foreseen.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from random import Random, SystemRandom
from typing import Any

Scope = MutableMapping[str, Any]
AsgiApp = Callable[[Scope, Any, Any], Awaitable[None]]
WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]

_time_us: ContextVar[int | None] = ContextVar("holdfast_time_us", default=None)
_random: ContextVar[Random | None] = ContextVar("holdfast_random", default=None)
_unforeseeable = SystemRandom()


def now() -> datetime.datetime:
    """The time of the request, in UTC."""
    time_us = _time_us.get()
    if time_us is None:
        return datetime.datetime.now(datetime.UTC)
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=time_us)


def random() -> Random:
    """The random numbers of the request: the same sequence at all servers. Not for secrets: the seed is in the event."""
    return _random.get() or _unforeseeable


def _begin(time_us: str | None, seed: str | None) -> None:
    """A request begins: forget the one before, and take what this one says."""
    is_told = time_us is not None and time_us.isdecimal() and seed is not None and seed.isdecimal()
    _time_us.set(int(time_us) if is_told and time_us is not None else None)
    _random.set(Random(int(seed)) if is_told and seed is not None else None)


class AsgiMiddleware:
    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            found = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
            _begin(found.get(b"holdfast-time"), found.get(b"holdfast-seed"))
        await self._app(scope, receive, send)


class WsgiMiddleware:
    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        _begin(environ.get("HTTP_HOLDFAST_TIME"), environ.get("HTTP_HOLDFAST_SEED"))
        return self._app(environ, start_response)
