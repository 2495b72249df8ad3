"""Routes: which requests are declared as reads or as streams. All others are writes, and go through the topic.

    pattern          fits                                   does not fit
    /balance         /balance  /balance?day=1               /balance/  /Balance
    /accounts/*      /accounts/7                            /accounts  /accounts/  /accounts/7/x
    /files/**        /files  /files/  /files/a/b            /file
    /**/*.css        /a.css  /x/y/a.css                     /a.css/b

A request is called a read only if it certainly is one: taken for a write, it is slow and right. So a path that servers read
differently (`//`, `/../`, escaped slashes, `;`) fits no route.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import re2  # type: ignore[import-untyped]  # the package has no types

from holdfast.continuity.domain import Route
from holdfast.continuity.request import Headers
from holdfast.errors import BadSetting

_DOUBTFUL = re.compile(r"//|/(?:\.|%2e){1,2}(?:/|\Z)|[;\\]|%(?:2f|5c|00)", re.IGNORECASE)
_METHOD = re.compile(r"[A-Z]+\Z")
# Paths whose routes are remembered: looking one up is most of what an engine does to tell a read from a write.
REMEMBERED_MAX = 4_096


class Routes:
    """The routes of a domain, made ready; BadSetting for one that cannot be used."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = [(frozenset(route.methods), _fitting(route), route) for route in routes]
        self._remembered: dict[tuple[str, str], Route | None] = {}

    def find(self, method: str, target: str) -> Route | None:
        """The first route that fits; None for a write."""
        if not self._routes:
            return None
        asked = (method, target.partition("?")[0])
        try:
            return self._remembered[asked]
        except KeyError:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            found = self._remembered[asked] = self._look_up(*asked)
            return found

    def _look_up(self, method: str, path: str) -> Route | None:
        if not path.startswith("/") or _DOUBTFUL.search(path):
            return None
        text = path.encode("utf-8", "surrogatepass")
        return next((route for methods, fits, route in self._routes if method in methods and fits(text) is not None), None)


def asks_for_stream(headers: Headers) -> bool:
    """Whether a client wants server-sent events or a WebSocket: 501, except on a route of kind `stream` (23)."""
    return any(
        (name == b"upgrade" and b"websocket" in value.lower()) or (name == b"accept" and b"text/event-stream" in value.lower())
        for name, value in headers
    )


def _fitting(route: Route) -> Any:
    if not route.methods or not all(map(_METHOD.match, route.methods)):
        raise BadSetting(f"route {route.path!r:.80} names its methods in capitals, as in GET", setting="routes")
    return fitting(route.path)


def fitting(pattern: str, setting: str = "routes") -> Any:
    """A function that tells whether a pattern fits a path, in bytes: it gives None if not."""
    if not pattern.startswith("/"):
        raise BadSetting(f"path {pattern!r:.80} does not begin with /; write it like /accounts/*", setting=setting)
    try:
        return re2.compile("".join(map(_part, pattern[1:].split("/"))).encode()).fullmatch
    except (re2.error, UnicodeEncodeError) as problem:
        raise BadSetting(f"path {pattern!r:.80} cannot be used: {problem}", setting=setting) from problem


def _part(part: str) -> str:
    if part == "**":
        return "(?:/[^/]*)*"
    if part == "*":
        return "/[^/]+"
    return "/" + "[^/]*".join(map(re2.escape, part.split("*")))
