"""Keys of order: which accounts, carts or customers a request touches, found in its path, its headers or its JSON body.

    rule                              request                                      keys
    path   /accounts/([^/]+)          GET /accounts/7/balance?day=1                7
    header x-customer                 x-customer: ann                              ann
    json   $.from, $.to               {"from": 7, "to": 8}                         7, 8
    json   $.items[*].stock           {"items": [{"stock": "a"}, {"stock": "b"}]}  a, b

All rules are looked at, and all keys count: a request with several keys waits for all. Keys of different rules are the same if
their texts are: a transfer in a body and the account in a path meet. A request without a key is a barrier, which is slow and
never wrong. So a doubtful request has none: one whose path has empty or dotted parts, which servers read differently, or whose
JSON cannot be read.
A path is matched from its beginning, as the client wrote it; escapes (`%37`) are undone in the key alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no types

from holdfast.continuity.domain import Domain, KeyRule
from holdfast.continuity.request import Content
from holdfast.errors import BadSetting

# More than any request names. Past it a barrier costs no more than its queues.
KEYS_MAX = 1_000
_DOUBTFUL = re.compile(r"//|/(?:\.|%2e){1,2}(?:/|\Z)|[;\\]|%(?:2f|5c)", re.IGNORECASE)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(?:(\d+)|(\*)|'([^']*)'|\"([^\"]*)\")\]")

Finder = Callable[[Content], Iterable[str]]
_Step = str | int | None  # the name of a member, a number in a list, None for all of a list


def keys_of(rules: tuple[KeyRule, ...], content: Content) -> tuple[str, ...] | None:
    """The keys of a request, each once, in the order of the rules; None if there are none: a barrier."""
    keys: dict[str, None] = {}
    try:
        for find in _finders(rules):
            keys.update(dict.fromkeys(find(content)))
    except _Doubtful:
        return None
    return tuple(keys) if 0 < len(keys) <= KEYS_MAX else None


def keys_in_order(domain: Domain, session: str, content: Content) -> tuple[str, ...] | None:
    """The keys with which `Order.admit` takes a request of this domain."""
    if domain.order == "key":
        return keys_of(domain.keys, content)
    return (session,) if domain.order == "session" else ("",)


def check_rules(rules: tuple[KeyRule, ...]) -> None:
    """Refuse, with BadSetting, a rule that cannot be used."""
    _finders(rules)


class _Doubtful(Exception):
    """Servers may read this request differently: it is a barrier."""


@lru_cache(maxsize=64)
def _finders(rules: tuple[KeyRule, ...]) -> tuple[Finder, ...]:
    found: list[Finder] = [_in_path(rule.path) if rule.path else _in_headers(rule.header) for rule in rules if not rule.json]
    paths = [json_path(rule.json) for rule in rules if rule.json]
    if paths:
        found.append(_in_body(paths))
    return tuple(found)


def _in_path(expression: str) -> Finder:
    try:
        match = re2.compile(expression.encode()).match
    except (re2.error, UnicodeEncodeError) as problem:
        raise BadSetting(f"path {expression!r} is no expression of RE2: {problem}", setting="keys") from problem

    def find(content: Content) -> Iterable[str]:
        path = content.target.partition("?")[0].partition("#")[0]
        if not path.startswith("/") or _DOUBTFUL.search(path):
            raise _Doubtful
        found = match(path.encode("utf-8", "surrogatepass"))
        return (unquote(found[1].decode("utf-8", "replace")),) if found and found[1] else ()

    return find


def _in_headers(name: str) -> Finder:
    wanted = name.lower().encode("latin-1", "replace")

    def find(content: Content) -> Iterable[str]:
        values = (value.strip().decode("latin-1") for header, value in content.headers if header == wanted)
        return [value for value in values if value]

    return find


def _in_body(paths: Sequence[tuple[_Step, ...]]) -> Finder:
    decode = msgspec.json.Decoder().decode

    def find(content: Content) -> Iterable[str]:
        if not content.body:
            return ()
        try:
            body = decode(content.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _Doubtful from None
        return [key for path in paths for value in _values(body, path) if (key := _text(value)) is not None]

    return find


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(int(value)) if value == int(value) else repr(value)


def _values(value: Any, path: tuple[_Step, ...]) -> Iterator[Any]:
    """Go along a path; a step that leads nowhere ends it."""
    if not path:
        yield value
        return
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        for each in value if step is None else value[step : step + 1] if isinstance(step, int) else ():
            yield from _values(each, rest)
    elif isinstance(value, dict) and step in value:
        yield from _values(value[step], rest)


def json_path(text: str) -> tuple[_Step, ...]:
    """The steps of `$.a.b`, `$.a[0]`, `$.a[*]`, `$['a']`; BadSetting for anything else."""
    steps: list[_Step] = []
    at = 1
    while text.startswith("$") and at < len(text) and (found := _STEP.match(text, at)) is not None:
        name, number, every, single, double = found.groups()
        steps.append(
            None if every else int(number) if number else next(each for each in (name, single, double) if each is not None)
        )
        at = found.end()
    if not text.startswith("$") or at != len(text) or not steps:
        raise BadSetting(f"{text!r:.80} is no path into JSON; write it like $.account.id or $.items[*].id", setting="keys")
    return tuple(steps)
