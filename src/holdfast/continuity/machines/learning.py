"""Learning: rules for comparison, proposed from answers of servers that run one version and so should be alike (25).

    answers to the same request     a   {"id": 17, "total": 5}   ETag: x
                                    b   {"id": 93, "total": 5}   ETag: y
    proposed                        headers: etag (seen 1 of 1)    json: $.id (seen 1 of 1)

The least is proposed: only headers and values that were seen to differ; a value before the object that holds it; `[*]` for a list
whose elements differ in the same way; a tolerance only if all differences are numbers that are very close together. Differences
in status, in text and in the length of lists have no rule: they are told as they are, for people. A proposal is not in force:
who reads `$.balance` in it has found a defect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import msgspec

from holdfast.continuity import json_path
from holdfast.continuity.answer import Answer
from holdfast.continuity.domain import ComparisonRules
from holdfast.continuity.json_path import Every, JsonPath, Step
from holdfast.continuity.machines.comparison import NEVER_COMPARED, comparison_digest, on_grid

# Numbers that differ by less than this share of their size come from adding in another order, not from another meaning.
CLOSE = 1e-6
# More paths than this are no rule; the objects that hold them are proposed instead.
PATHS_MAX = 50


class Difference(msgspec.Struct, frozen=True, order=True):
    """What was seen to differ, and in how many of the requests."""

    where: str  # "header etag", "json $.id", "status", "body"
    count: int
    example: tuple[str, str]


class Proposal(msgspec.Struct, frozen=True):
    """Rules under which more answers are alike than before.

    rules         the rules there were, and the new ones
    differences   everything that was seen, the most frequent first
    requests      how many were looked at
    unequal       how many are still not alike under the proposed rules
    """

    rules: ComparisonRules
    differences: tuple[Difference, ...]
    requests: int
    unequal: int


def propose(rules: ComparisonRules, requests: Iterable[Sequence[Answer]]) -> Proposal:
    """Propose rules from answers to the same requests: for each request, those of all servers."""
    answers = [list(each) for each in requests]
    seen = _Seen()
    for group in answers:
        seen.add_all(_differences(group, rules))
    proposed = _with(rules, seen)
    unequal = sum(len({comparison_digest(answer, proposed) for answer in group}) > 1 for group in answers)
    return Proposal(proposed, seen.differences(), len(answers), unequal)


# --- what differs --------------------------------------------------------------------------------------------------------


class _Found(msgspec.Struct, frozen=True):
    kind: str  # header, json, number (json that is close), status, body
    name: str
    path: JsonPath
    example: tuple[str, str]
    distance: float = 0.0


class _Seen:
    """Differences, counted once for each request."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, _Found] = {}
        self.distances: list[float] = []

    def add_all(self, found: Iterable[_Found]) -> None:
        once: dict[str, _Found] = {}
        for each in found:
            once.setdefault(each.name, each)
            if each.kind == "json" and once[each.name].kind == "number":
                once[each.name] = each
            if each.kind == "number":
                self.distances.append(each.distance)
        for name, each in once.items():
            self._counts[name] = self._counts.get(name, 0) + 1
            if name not in self._first or (self._first[name].kind, each.kind) == ("number", "json"):
                self._first[name] = each

    def of_kind(self, kind: str) -> list[_Found]:
        return [each for each in self._first.values() if each.kind == kind]

    def differences(self) -> tuple[Difference, ...]:
        found = [Difference(name, self._counts[name], each.example) for name, each in self._first.items()]
        return tuple(sorted(found, key=lambda each: (-each.count, each.where)))


def _differences(group: list[Answer], rules: ComparisonRules) -> Iterator[_Found]:
    for one, other in combinations(group, 2):
        if comparison_digest(one, rules) != comparison_digest(other, rules):
            yield from _between(one, other, rules)


def _between(one: Answer, other: Answer, rules: ComparisonRules) -> Iterator[_Found]:
    if one.head.status != other.head.status:
        yield _Found("status", "status", (), (str(one.head.status), str(other.head.status)))
        return  # another status has another body; rules for it would hide everything
    yield from _between_headers(one, other, {name.lower().encode("latin-1", "replace") for name in rules.headers})
    values = [_json(answer, rules) for answer in (one, other)]
    if all(value is not _NO_JSON for value in values):
        yield from _between_values(values[0], values[1], ())
    elif comparison_digest(one, rules) != comparison_digest(msgspec.structs.replace(one, body=other.body), rules):
        yield _Found("body", "body", (), (repr(one.body[:40]), repr(other.body[:40])))


def _between_headers(one: Answer, other: Answer, ignored: set[bytes]) -> Iterator[_Found]:
    names = {name for answer in (one, other) for name, _ in answer.head.headers} - NEVER_COMPARED - ignored - {b"content-length"}
    for name in sorted(names):
        values = [[value for each, value in answer.head.headers if each == name] for answer in (one, other)]
        if values[0] != values[1]:
            shown = [b", ".join(each).decode("latin-1")[:80] for each in values]
            yield _Found("header", f"header {name.decode('latin-1')}", (), (shown[0], shown[1]))


def _between_values(one: Any, other: Any, path: JsonPath) -> Iterator[_Found]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            further: Step | None = name if json_path.is_written(name) else None
            if further is None or name not in one or name not in other:
                if one.get(name, _NO_JSON) != other.get(name, _NO_JSON):
                    yield _found(path if further is None else (*path, further), one.get(name), other.get(name))
            else:
                yield from _between_values(one[name], other[name], (*path, further))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from _between_values(left, right, (*path, Every()))
    elif type(one) is not type(other) or one != other:
        yield _found(path, one, other)


def _found(path: JsonPath, one: Any, other: Any) -> _Found:
    example = (_shown(one), _shown(other))
    if not path:
        return _Found("body", "body", (), example)
    name = f"json {json_path.written(path)}"
    if isinstance(one, float) and isinstance(other, float) and abs(one - other) <= CLOSE * max(abs(one), abs(other)):
        return _Found("number", name, path, example, abs(one - other))
    return _Found("json", name, path, example)


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:80]


class _NoJson:
    pass


_NO_JSON = _NoJson()


def _json(answer: Answer, rules: ComparisonRules) -> Any:
    """The JSON of a body, without what is not compared already."""
    if not any(name == b"content-type" and b"json" in value.lower() for name, value in answer.head.headers):
        return _NO_JSON
    try:
        value = msgspec.json.decode(answer.body)
    except (ValueError, RecursionError):
        return _NO_JSON
    for path in rules.json:
        json_path.remove(value, json_path.parse(path, "compare"))
    return on_grid(value, rules.tolerance) if rules.tolerance else value


# --- what is proposed ----------------------------------------------------------------------------------------------------


def _with(rules: ComparisonRules, seen: _Seen) -> ComparisonRules:
    headers = [each.name.removeprefix("header ") for each in seen.of_kind("header")]
    paths = [each.path for each in seen.of_kind("json")]
    close = [each.path for each in seen.of_kind("number")]
    tolerance = rules.tolerance
    if close and not paths:
        # Rounding must not part numbers that are this close: see `comparison`.
        tolerance = max(tolerance, 1_000 * max(seen.distances))
    else:
        paths += close
    return msgspec.structs.replace(
        rules,
        headers=(*rules.headers, *sorted(headers)),
        json=(*rules.json, *(json_path.written(path) for path in _fewest(paths))),
        tolerance=tolerance,
    )


def _fewest(paths: list[JsonPath]) -> list[JsonPath]:
    """Without paths that another one covers; shorter ones where there are too many."""
    depth = max(map(len, paths), default=0)
    while depth > 1 and len(set(paths)) > PATHS_MAX:
        depth -= 1
        paths = [path[:depth] for path in paths]
    kept: list[JsonPath] = []
    for path in sorted(set(paths), key=lambda path: (len(path), json_path.written(path))):
        if not any(path[: len(short)] == short for short in kept):
            kept.append(path)
    return sorted(kept, key=json_path.written)
