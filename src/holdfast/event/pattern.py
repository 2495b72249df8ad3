r"""Patterns over the names of destinations: a wildcard or a regular expression, for those that exist and those to come (B15).

A name is a row of words, and both `.` and `/` stand between words: `orders.eu-west.new` and `plant/7/alarms` have three each.
They are different characters all the same: `a.b` is not `a/b`. Two of them in a row have an empty word between them, and so has
one at either end: `/plant` is a name, as in MQTT. `*` and `>` do not stand for an empty word, `**` does.

    glob        stands for                                      matches                     does not match
    orders.*    one word                                        orders.new                  orders.eu.new  orders  orders.
    eu-*.new    a part of a word too, and nothing               eu-west.new  eu-.new        us-west.new
    plant/?     one character within a word                     plant/7                     plant/77  plant/.
    orders.>    at the end: one word or more                    orders.new  orders.eu.new   orders
    orders.**   any number of words, none included              orders  orders.eu.new       ordersnew
    **.new      also at the beginning or in the middle          new  orders.eu.new          renew

    regex       RE2's syntax, and it must fit the whole name    orders\.(eu|us)\..*

Both take time in proportion to the name, whatever the pattern, and give the same answer on every replica (rule 12).

A name with a leading underscore belongs to Holdfast itself, and only a pattern that begins with an underscore matches it: `**`
does not match `_LOG`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import re2  # type: ignore[import-untyped]  # the package has no types

from holdfast.errors import BadPattern

LENGTH_MAX = 1_024
# RE2's limit for a compiled expression and its memory while matching. Every wildcard of the full length fits.
MEMORY_MAX_BYTES = 1 << 20

_FOREIGN = re.compile(r"[^A-Za-z0-9._/*?>-]")
_WILD = re.compile(r"[*?>]")
# The wildcards of MQTT and AMQP; no name has these letters either.
_FOREIGN_WILD = ("#", "+")
_SEPARATOR = re.compile(r"([./])")
_NOT_AVAILABLE = {
    "invalid perl operator": "look-ahead, look-behind and atomic groups are not available, because they can take unbounded time",
    **{
        f"invalid escape sequence: \\{digit}": "references back are not available, because they can take unbounded time"
        for digit in (*"123456789", "g", "k")
    },
    "pattern too large": "it is too large once compiled; use smaller repetitions",
    "invalid repetition size": "repetitions go up to 1000, also multiplied by those around them",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of names. Made by `Pattern.glob` or `Pattern.regex`; equal when kind and text are."""

    kind: Literal["glob", "regex"]
    text: str
    _fits: Callable[[str], object] = field(repr=False, compare=False)

    @classmethod
    def glob(cls, text: str) -> Pattern:
        """A wildcard, or a plain name; BadPattern for a text that is neither."""
        _check_length("a wildcard", text)
        _check_glob(text)
        return cls("glob", text, _fitting(_expression(text)) if _WILD.search(text) else text.__eq__)

    @classmethod
    def regex(cls, text: str) -> Pattern:
        """A regular expression; BadPattern, with the reason, for one that RE2 does not take."""
        _check_length("a regular expression", text)
        try:
            return cls("regex", text, _fitting(text))
        except re2.error as problem:
            raise BadPattern(f"regular expression {_shown(text)}: {_explained(problem)}", pattern=text) from None
        except UnicodeEncodeError:
            raise BadPattern(f"regular expression {_shown(text)} contains half a character (a surrogate); remove it") from None

    @property
    def is_literal(self) -> bool:
        """Whether this is one name and no other. A regular expression never is: it may be meant for names to come."""
        return self.kind == "glob" and not _WILD.search(self.text)

    @property
    def _is_of_reserved(self) -> bool:
        """Whether it matches reserved names only: `_a|.*` does not."""
        return self.text.startswith("_") and "|" not in self.text

    def matches(self, name: str) -> bool:
        """Whether this name matches. Names are ASCII, so nothing else does."""
        if not name.isascii() or (name.startswith("_") and not self._is_of_reserved):
            return False
        return bool(self._fits(name))

    def __str__(self) -> str:
        return self.text


def _check_length(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise BadPattern(f"{what} is text, not {type(text).__name__}; write it in quotes")
    if not text:
        raise BadPattern(f"{what} is empty and would match nothing; write ** for every destination in a wildcard", pattern=text)
    if len(text) > LENGTH_MAX:
        raise BadPattern(f"{what} has at most {LENGTH_MAX} characters, {_shown(text)} has {len(text)}", length=len(text))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


# --- wildcards -----------------------------------------------------------------------------------------------------------


def _check_glob(text: str) -> None:
    found = _FOREIGN.search(text)
    if found and found.group() in _FOREIGN_WILD:
        raise BadPattern(
            f"wildcard {_shown(text)} contains {found.group()!r}, a wildcard of MQTT and AMQP; "
            "write ** for any number of words and * for one word",
            pattern=text,
            column=found.start() + 1,
        )
    if found:
        raise BadPattern(
            f"wildcard {_shown(text)} contains {found.group()!r}, which no name has; use letters, digits, '.', '_', '-', '/' and "
            "the wildcards *, ?, ** and >",
            pattern=text,
            column=found.start() + 1,
        )
    words = _SEPARATOR.split(text)[::2]
    for place, word in enumerate(words):
        if "**" in word and word != "**":
            raise BadPattern(
                f"wildcard {_shown(text)}: ** stands for whole words, so nothing may touch it but . or /", pattern=text
            )
        if ">" in word and (word != ">" or place < len(words) - 1):
            raise BadPattern(
                f"wildcard {_shown(text)}: > stands for all further words, so it is the last one, alone", pattern=text
            )


def expression_of(text: str) -> str:
    """The regular expression of a wildcard or a plain name, so that several become one; BadPattern for a text that is neither."""
    made = Pattern.glob(text)
    return str(re2.escape(text)) if made.is_literal else _expression(text)


class _Word(NamedTuple):
    text: str
    separator: str  # what follows the word; "" after the last one


def _expression(text: str) -> str:
    """The regular expression of a wildcard. `**` takes a separator with it when it stands for no words at all."""
    words = _words(text)
    made = "".join(f"(?:.*{re2.escape(word.separator)})?" if word.text == "**" else _plain(word) for word in words[:-1])
    last = words[-1]
    if last.text == ">":
        return made + ".*[^./].*"
    if last.text != "**":
        return made + _plain(last)
    if not words[:-1]:
        return ".*"
    separator = re2.escape(words[-2].separator)
    return f"{made.removesuffix(separator)}(?:{separator}.*)?"


def _words(text: str) -> list[_Word]:
    """The words with what follows each; of several `**` at the end only the first, which takes all that is left."""
    parts = [*_SEPARATOR.split(text), ""]
    words = [_Word(word, separator) for word, separator in zip(parts[::2], parts[1::2], strict=True)]
    while len(words) > 1 and words[-1].text == words[-2].text == "**":
        words.pop()
    return words


def _plain(word: _Word) -> str:
    if word.text == "*":
        return f"[^./]+{re2.escape(word.separator)}"
    letters = {"*": "[^./]*", "?": "[^./]"}
    return "".join((*(letters.get(letter) or re2.escape(letter) for letter in word.text), re2.escape(word.separator)))


# --- regular expressions -------------------------------------------------------------------------------------------------


def _fitting(expression: str) -> Callable[[str], object]:
    """A function that says whether an expression fits a whole name. RE2's wrapper is three times faster with bytes."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MEMORY_MAX_BYTES
    fullmatch = re2.compile(expression, options).fullmatch
    return lambda name: fullmatch(name.encode()) is not None


def _explained(problem: Exception) -> str:
    said: str = b"".join(problem.args).decode(errors="replace")
    reason = next((reason for sign, reason in _NOT_AVAILABLE.items() if said.startswith(sign)), None)
    return f"{said}; {reason}" if reason else f"{said}; correct it there"


# --- two wildcards -------------------------------------------------------------------------------------------------------

# A step through a wildcard takes one certain letter, or one of these.
_ANY, _IN_WORD, _NOTHING = "any", "in a word", ""
_SEPARATORS = (".", "/")
_ENDING = re.compile(r"\*\*([./]\*\*)+\Z")


def can_meet(one: str, other: str) -> bool:
    """Whether some name may match both wildcards: a recipient that follows both would get its events twice.

    The wildcards are gone through together, letter by letter.
    """
    if one.startswith("_") != other.startswith("_"):
        return False  # one is for reserved names, the other for all others
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
    """The steps from a place of a wildcard: what each takes, and where it leads."""
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
    """Whether both steps can take the same letter."""
    if _NOTHING in (one, other):
        return False
    if _ANY in (one, other) or one == other:
        return True
    return _IN_WORD in (one, other) and one not in _SEPARATORS and other not in _SEPARATORS
