"""Renaming: which local destination an upstream one becomes.

    from            to                   alerts.eu.disk becomes
    alerts.**       branch.berlin.**     branch.berlin.eu.disk
    alerts.*.*      *.alerts.*           eu.alerts.disk
    alerts.>        alarms               alarms
    alerts.**                            alerts.eu.disk, without a `to`

The wildcards of `to` are those of `from`, in the same order: each takes what its twin stood for. A `**` that stood for no words
takes the separator beside it away. A `to` without wildcards is one name for all.
"""

from __future__ import annotations

import re
from typing import Any

import re2  # type: ignore[import-untyped]  # the package has no types

from holdfast.destination import name as names
from holdfast.errors import BadName, BadPattern, BadSetting
from holdfast.event.pattern import Pattern

_WILDCARD = re.compile(r"\*\*|[*?>]")
_EXPRESSIONS = {"*": "([^./]*)", "?": "([^./])", ">": "(.*[^./].*)"}


class Renaming:
    """A rename of destinations, made ready. BadSetting if `to` does not fit `source`."""

    def __init__(self, source: str, to: str = "", *, is_regex: bool = False) -> None:
        self.source, self.to = source, to
        self._parts = _pieces(to)
        self._wild = [piece for piece in self._parts if _WILDCARD.fullmatch(piece)]
        if not self._wild:
            if to:
                names.check_destination(to)
            self._fits = None
            return
        _check_twins(source, to, self._wild, is_regex)
        self._fits = re2.compile(_expression(source)).fullmatch

    @property
    def is_one(self) -> bool:
        """All events go to one destination."""
        return bool(self.to) and not self._wild

    def target_of(self, name: str) -> str:
        """The local name. BadName if it would be none, such as one that is too long."""
        made = self._renamed(name) if self._fits is not None else self.to or name
        names.check_destination(made)
        return made

    def _renamed(self, name: str) -> str:
        found: Any = self._fits(name) if self._fits is not None else None
        if found is None:
            raise BadName(f"destination {name!r} does not match {self.source!r}, from which the route renames", name=name)
        return _filled(self._parts, iter(found.groups()))

    def targets(self) -> str:
        """A wildcard, or a name, that every local name matches; "" where they are those of upstream."""
        return self.to


def _pieces(text: str) -> list[str]:
    """Wildcards, and what stands between them."""
    return [piece for piece in re.split(r"(\*\*|[*?>])", text) if piece]


def _check_twins(source: str, to: str, wild: list[str], is_regex: bool) -> None:
    if is_regex:
        raise BadSetting(f"to = {to!r} has wildcards, and the route takes a regular expression; write one name", setting="to")
    try:
        Pattern.glob(to)
    except BadPattern as problem:
        raise BadSetting(f"to = {to!r}: {problem.sentence}", setting="to") from problem
    if to.startswith("_"):
        raise BadSetting(f"to = {to!r}: names with a leading underscore are reserved for Holdfast itself", setting="to")
    found = _WILDCARD.findall(source)
    if found != wild:
        raise BadSetting(
            f"to = {to!r} has the wildcards {' '.join(wild)}, and {source!r} has {' '.join(found) or 'none'}; "
            "write the same ones in the same order, or one name without wildcards",
            setting="to",
        )


def _expression(source: str) -> str:
    """A regular expression with a group for each wildcard. The separator beside `**` belongs to the words that it stands for."""
    parts, made = _pieces(source), ""
    for place, part in enumerate(parts):
        follower = parts[place + 1] if place + 1 < len(parts) else ""
        if part != "**":
            before = parts[place - 1] if place else ""
            text = part[1:] if before == "**" else part
            made += _EXPRESSIONS.get(part) or re2.escape(_before(text, follower, place + 2 == len(parts)))
        elif follower:
            made += f"(?:(.*){re2.escape(follower[0])})?"
        elif place:
            made += f"(?:{re2.escape(parts[place - 1][-1])}(.*))?"
        else:
            made += "(.*)"
    return made


def _before(text: str, follower: str, is_last: bool) -> str:
    """A text without the separator that a `**` at the end takes with it."""
    return text[:-1] if follower == "**" and is_last else text


def _filled(parts: list[str], found: Any) -> str:
    made, is_skipped = "", False
    for part in parts:
        if part == "**":
            words = next(found)
            is_skipped = not words
            made += words or ""
        elif _WILDCARD.fullmatch(part):
            made += next(found) or ""
            is_skipped = False
        else:
            made += part[1:] if is_skipped and part[0] in "./" else part
            is_skipped = False
    return made[:-1] if is_skipped and made[-1:] in (".", "/") else made
