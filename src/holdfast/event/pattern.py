r"""Patterns over the names of destinations: a wildcard or a regular expression, for those that exist and those to come (B15).

A name is a row of words, and both `.` and `/` stand between words: `orders.eu-west.new` and `plant/7/alarms` have three each.
They are different characters all the same: `a.b` is not `a/b`. Two of them in a row have an empty word between them.

    glob        stands for                                      matches                     does not match
    orders.*    any characters within one word                  orders.new                  orders.eu.new  orders
    eu-*.new    a part of a word too, and nothing               eu-west.new  eu-.new        us-west.new
    plant/?     one character within a word                     plant/7                     plant/77  plant/.
    orders.>    at the end: one word or more                    orders.new  orders.eu.new   orders
    orders.**   any number of words, none included              orders  orders.eu.new       ordersnew
    **.new      also at the beginning or in the middle          new  orders.eu.new          renew

    regex       RE2's syntax, and it must fit the whole name    orders\.(eu|us)\..*

Both take time in proportion to the name whatever the pattern, and give the same answer on every replica (rule 12).

A name with a leading underscore belongs to Holdfast itself, and only a pattern that begins with an underscore matches it: who
asks for everything does not get `_LOG`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import re2  # type: ignore[import-untyped]  # the package has no types

from holdfast.errors import BadPattern

LENGTH_MAX = 1_024
# RE2's measure for a compiled expression and what it remembers while matching. Every wildcard of the full length fits.
MEMORY_MAX_BYTES = 1 << 20

_FOREIGN = re.compile(r"[^A-Za-z0-9._/*?>-]")
_WILD = re.compile(r"[*?>]")
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
    """Which names are meant. Made by `Pattern.glob` or `Pattern.regex`; equal when kind and text are."""

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
        """Whether this is one name and no other. A regular expression never is: it may have been meant to grow."""
        return self.kind == "glob" and not _WILD.search(self.text)

    @property
    def _is_of_reserved(self) -> bool:
        """It asks for reserved names, and for nothing else: `_a|.*` does not."""
        return self.text.startswith("_") and "|" not in self.text

    def matches(self, name: str) -> bool:
        """Whether this name is meant. Names are ASCII, so nothing else is."""
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


class _Word(NamedTuple):
    text: str
    separator: str  # what follows the word; "" after the last one


def _expression(text: str) -> str:
    """The regular expression of a wildcard. `**` takes a separator with it when it stands for no words at all."""
    words = _words(text)
    made = "".join(f"(?:.*{re2.escape(word.separator)})?" if word.text == "**" else _plain(word) for word in words[:-1])
    last = words[-1]
    if last.text == ">":
        return made + ".*"
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
    letters = {"*": "[^./]*", "?": "[^./]"}
    return "".join((*(letters.get(letter) or re2.escape(letter) for letter in word.text), re2.escape(word.separator)))


# --- regular expressions -------------------------------------------------------------------------------------------------


def _fitting(expression: str) -> Callable[[str], object]:
    """Whether an expression fits the whole of a name. RE2 is asked with bytes: the wrapper is three times faster with them."""
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
