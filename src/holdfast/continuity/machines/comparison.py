"""Comparing answers: the digest of what must be alike at all servers, and who is wrong when it is not.

    status       compared
    headers      compared, but for Date, Server, hop-by-hop ones and those that a rule names; their order counts within a name
    JSON body    put into one form: no white space, members sorted, without the paths of rules, numbers on the grid of `tolerance`
    other body   byte for byte
    text         in both kinds of body, parts that match a rule's expression count as alike

A number is rounded to a multiple of `tolerance`. Two numbers at a distance d still fall to different multiples with a chance of
d / `tolerance`: take a tolerance a thousand times as large as the differences.
`Content-Length` is not compared where the body is put into a form. A body over NORMALISED_BYTES_MAX is compared byte for byte, so
that a listener need not hold it: see `raw_comparison_digest`. A rule's Python function stands for all of this. The shell finds
it by its name and hands it in; what it raises goes to the shell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from typing import Any, Literal

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no types

from holdfast.continuity import json_path
from holdfast.continuity.answer import HOP_BY_HOP, Answer, Head, body_digest
from holdfast.continuity.domain import ComparisonRules
from holdfast.continuity.json_path import JsonPath
from holdfast.continuity.request import DIGEST_BYTES
from holdfast.errors import BadSetting

NEVER_COMPARED = HOP_BY_HOP | {b"date", b"server"}
# As large as a frame of the answer link: a listener has that much of an answer in memory anyway.
NORMALISED_BYTES_MAX = 4 << 20
# A server can be outvoted only where so many have answered: of two that differ, nobody knows which is wrong (26).
VOTES_MIN = 3
# Stands for a part of a text that is not compared. No text that people read has it.
_ANYTHING = b"\x00"
_TEXTS = (b"text/", b"json", b"xml", b"javascript", b"x-www-form-urlencoded")

Function = Callable[[Answer], bytes]
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def comparison_digest(answer: Answer, rules: ComparisonRules, function: Function | None = None) -> bytes:
    """The digest of what is compared. `function` is what `rules.function` names."""
    if rules.function:
        if function is None:
            raise BadSetting(f"function {rules.function!r} must be found before answers are compared", setting="function")
        return body_digest(function(answer))
    compiled = _compiled(rules)
    kind = _content_type(answer.head)
    body = compiled.form(answer.body, kind) if len(answer.body) <= NORMALISED_BYTES_MAX else None
    if body is None:
        return compiled.digest(answer.head, body_digest(answer.body), is_raw=True)
    return compiled.digest(answer.head, body_digest(body), is_raw=False)


def raw_comparison_digest(head: Head, digest: bytes, rules: ComparisonRules) -> bytes:
    """The same for a body over NORMALISED_BYTES_MAX, of which only the digest (`answer.body_digest`) is known."""
    return _compiled(rules).digest(head, digest, is_raw=True)


def check_rules(rules: ComparisonRules) -> None:
    """Refuse, with BadSetting, rules that cannot be used."""
    _compiled(rules)
    module, _, name = rules.function.partition(":")
    if rules.function and not all(part.replace(".", "_").isidentifier() for part in (module, name)):
        raise BadSetting(f"{rules.function!r:.80} names no function; write module:name", setting="function")


class _Compiled:
    """Rules, made ready."""

    def __init__(self, rules: ComparisonRules) -> None:
        if not (rules.tolerance >= 0 and isfinite(rules.tolerance)):
            raise BadSetting(f"a tolerance of {rules.tolerance} cannot be used; write 0 or more", setting="tolerance")
        self._ignored = NEVER_COMPARED | {name.lower().encode("latin-1", "replace") for name in rules.headers}
        self._ignored_of_form = self._ignored | {b"content-length"}
        self._paths = [json_path.parse(path, "compare") for path in rules.json]
        self._texts = [_expression(text) for text in rules.text]
        self._tolerance = rules.tolerance

    def digest(self, head: Head, body: bytes, is_raw: bool) -> bytes:
        ignored = self._ignored if is_raw else self._ignored_of_form
        named = _named_by_connection(head)
        compared = [each for each in head.headers if each[0] not in ignored and each[0] not in named]
        compared.sort(key=_name)
        parts = [b"%d %d %s%s" % (len(name), len(value), name, value) for name, value in compared]
        return blake2b(b"%d\n%s%s" % (head.status, b"".join(parts), body), digest_size=DIGEST_BYTES).digest()

    def form(self, body: bytes, kind: bytes) -> bytes | None:
        """The body in its form; None if it is compared as it is."""
        formed = _json_form(body, self._paths, self._tolerance) if b"json" in kind else None
        if self._texts and (not kind or any(text in kind for text in _TEXTS)):
            formed = body if formed is None else formed
            for expression in self._texts:
                formed = expression.sub(_ANYTHING, formed)
        return formed


@lru_cache(maxsize=64)
def _compiled(rules: ComparisonRules) -> _Compiled:
    return _Compiled(rules)


def _json_form(body: bytes, paths: list[JsonPath], tolerance: float) -> bytes | None:
    try:
        value = _decode(body)
        if tolerance:
            value = on_grid(value, tolerance)
        for path in paths:
            json_path.remove(value, path)
        return _encode(value)
    except (ValueError, RecursionError):
        return None  # it is no JSON, whatever its type says


def on_grid(value: Any, tolerance: float) -> Any:
    """A document with each number rounded."""
    if isinstance(value, dict):
        return {name: on_grid(each, tolerance) for name, each in value.items()}
    if isinstance(value, list):
        return [on_grid(each, tolerance) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _rounded(value, tolerance)
    return value


def _rounded(value: float, tolerance: float) -> float:
    """The number of the multiple of `tolerance` next to a value; the value itself where numbers are too large for that."""
    try:
        return round(value / tolerance)
    except OverflowError:
        return value


def _expression(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text.encode(), options)
    except (re2.error, UnicodeEncodeError) as problem:
        raise BadSetting(f"{text!r:.80} is no expression of RE2: {problem}", setting="text") from problem


def _name(header: tuple[bytes, bytes]) -> bytes:
    return header[0]


def _content_type(head: Head) -> bytes:
    return next((value.partition(b";")[0].strip().lower() for name, value in head.headers if name == b"content-type"), b"")


def _named_by_connection(head: Head) -> set[bytes]:
    return {each.strip().lower() for name, value in head.headers if name == b"connection" for each in value.split(b",")}


# --- who is wrong --------------------------------------------------------------------------------------------------------


class Verdict(msgspec.Struct, frozen=True):
    """How the answers of servers relate.

    agree       all are equal; `wrong` is empty
    wrong       a majority of three or more is equal; `wrong` names the others
    undecided   they differ, and nobody has a majority; `wrong` names all of them
    """

    kind: Literal["agree", "wrong", "undecided"]
    wrong: tuple[str, ...] = ()


def judge(digests: Mapping[str, bytes], expected: Iterable[str]) -> Verdict:
    """Compare the digests by server. A majority is one of the servers that were expected, not only of those that answered."""
    groups: dict[bytes, list[str]] = {}
    for server in sorted(digests):
        groups.setdefault(digests[server], []).append(server)
    if len(groups) < 2:
        return Verdict("agree")
    largest = max(groups.values(), key=len)
    voters = max(len(digests), len(set(expected)))
    if len(digests) >= VOTES_MIN and 2 * len(largest) > voters:
        return Verdict("wrong", tuple(server for server in sorted(digests) if server not in largest))
    return Verdict("undecided", tuple(sorted(digests)))
