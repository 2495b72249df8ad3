"""`LIKE`: % stands for any characters, _ for exactly one, the ESCAPE character takes the meaning from what follows it.

A pattern is a row of stretches with a % between each two. The first must be where the text begins, the last where it ends, and
the others are taken each where it is found first, which leaves the most room for the next: there is never a reason to go back,
so the time is that of looking for one stretch. No event can be made that stalls a selector.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Looking for a stretch with _ in it may compare all of it at every character of the text: so it must be short. Plain ones may be
# long, for `str.find` does better; the first and the last may be, for they are compared once.
SOUGHT_MAX = 100

Matcher = Callable[[str], object]


class _One:
    """A _ that stands for one character."""


class _Any:
    """A % that stands for any characters."""


_ONE, _ANY = _One(), _Any()
_WILD: dict[str, _One | _Any] = {"_": _ONE, "%": _ANY}


class _Stretch:
    """Letters, some of which may be any; of fixed length, so looking for it never goes back."""

    def __init__(self, letters: list[str | _One]) -> None:
        self.length = len(letters)
        self.plain = "".join(letter for letter in letters if isinstance(letter, str))
        self.is_plain = len(self.plain) == self.length
        expression = "" if self.is_plain else "".join(re.escape(x) if isinstance(x, str) else "." for x in letters)
        self._expression = re.compile(expression, re.DOTALL)

    def is_at(self, text: str, place: int) -> bool:
        return text.startswith(self.plain, place) if self.is_plain else self._expression.match(text, place) is not None

    def end_in(self, text: str, begin: int, end: int) -> int:
        """Where it ends at the first place it is found between these, or -1."""
        if self.is_plain:
            found = text.find(self.plain, begin, end)
            return found + self.length if found >= 0 else -1
        match = self._expression.search(text, begin, end)
        return match.end() if match else -1


def mistake_in(pattern: str, escape: str | None) -> str | None:
    """Why a pattern cannot be used with this ESCAPE character; None when it can."""
    letters = iter(pattern if escape is not None else "")
    for letter in letters:
        if letter == escape and next(letters, None) not in ("%", "_", escape):
            return f"in this pattern the ESCAPE character {escape} stands before neither %, _ nor itself; write it twice"
    if any(not sought.is_plain and sought.length > SOUGHT_MAX for sought in _stretches(pattern, escape)[1:-1]):
        return f"between two % of this pattern are more than {SOUGHT_MAX} characters with _ among them; shorten it"
    return None


def matcher(pattern: str, escape: str | None) -> Matcher:
    """A function whose answer is true when a text is like the pattern, which `mistake_in` has found in order."""
    first, *others = _stretches(pattern, escape)
    if not others:
        return lambda text: len(text) == first.length and first.is_at(text, 0)
    last = others.pop()
    sought = [stretch for stretch in others if stretch.length]
    simple = _simple(first.plain, [stretch.plain for stretch in sought], last.plain)
    if simple and all(stretch.is_plain for stretch in (first, *sought, last)):
        return simple
    return lambda text: _has_in_order(text, first, sought, last)


def _stretches(pattern: str, escape: str | None) -> list[_Stretch]:
    letters = iter(pattern)
    rows: list[list[str | _One]] = [[]]
    for letter in letters:
        meant = next(letters) if letter == escape else _WILD.get(letter, letter)
        if isinstance(meant, _Any):
            rows.append([])
        else:
            rows[-1].append(meant)
    return [_Stretch(row) for row in rows]


def _simple(first: str, sought: list[str], last: str) -> Matcher | None:
    """What most patterns are: a beginning, an end or a part."""
    match first, sought, last:
        case beginning, [], "":
            return lambda text: text.startswith(beginning)
        case "", [], ending:
            return lambda text: text.endswith(ending)
        case "", [part], "":
            return lambda text: part in text
    return None


def _has_in_order(text: str, first: _Stretch, sought: list[_Stretch], last: _Stretch) -> bool:
    at, end = first.length, len(text) - last.length
    if end < at or not first.is_at(text, 0) or not last.is_at(text, end):
        return False
    for stretch in sought:
        at = stretch.end_in(text, at, end)
        if at < 0:
            return False
    return True
