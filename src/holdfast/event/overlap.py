"""Whether two wildcards can mean the same name, so that whoever follows both would get its events twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

# What a step through a wildcard takes, where that is not one certain letter. The wildcards are explained in `pattern`.
_ANY, _IN_WORD, _NOTHING = "any", "in a word", ""
_SEPARATORS = (".", "/")
_ENDING = re.compile(r"\*\*([./]\*\*)+\Z")


def can_meet(one: str, other: str) -> bool:
    """Whether there may be a name that both wildcards match: they are gone through together, letter by letter."""
    if one.startswith("_") != other.startswith("_"):
        return False  # one is for reserved names, the other for all but these
    one, other = (_ENDING.sub("**", text) for text in (one, other))
    seen = {(0, 0)}
    left = [(0, 0)]
    while left:
        here, there = left.pop()
        if (here, there) == (len(one), len(other)):
            return True
        mine, theirs = list(_steps(one, here)), list(_steps(other, there))
        found = {(place, there) for taken, place in mine if taken == _NOTHING}
        found |= {(here, place) for taken, place in theirs if taken == _NOTHING}
        found |= {(onward, place) for taken, onward in mine for also, place in theirs if _is_same(taken, also)}
        left.extend(found - seen)
        seen |= found
    return False


def _steps(text: str, place: int) -> Iterator[tuple[str, int]]:
    """What can be taken at a place of a wildcard, and where one is then."""
    rest, end = text[place : place + 4], len(text)
    if rest in ("**", ">"):
        yield from ((_ANY, place), (_NOTHING, end))
    elif rest in (".**", "/**"):
        yield from ((rest[0], place + 1), (_NOTHING, end))
    elif rest.startswith("**"):  # with the separator after it, or no words at all
        yield from ((_NOTHING, place + 1), (_NOTHING, place + 3))
    elif rest.startswith("*") and text[:place].endswith("*"):
        yield from ((_ANY, place), (rest[1], place + 2))
    elif rest.startswith("*"):
        yield from ((_IN_WORD, place), (_NOTHING, place + 1))
    elif rest:
        yield _IN_WORD if rest[0] == "?" else rest[0], place + 1


def _is_same(one: str, other: str) -> bool:
    """Whether there is a letter that both steps take."""
    if _NOTHING in (one, other):
        return False
    if _ANY in (one, other) or one == other:
        return True
    return _IN_WORD in (one, other) and one not in _SEPARATORS and other not in _SEPARATORS
