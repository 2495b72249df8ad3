"""A complaint about a selector: a sentence, the line, a caret under the place.

after this, a comparison such as = or IN, an operator, AND, OR or the end of the selector was expected, not 'region'
    amount > 100 region = 'eu'
                 ^
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.errors import BadSelector

# A line of a terminal, less its margin: of a longer line only the part around the place is shown.
SHOWN_MAX = 100
_MARGIN = "    "

# Names in the grammar, and words for people. The first of a group that is possible stands for the whole group.
_IN_WORDS = {
    "NAME": "a name, a number, a 'text', TRUE, FALSE or an opening parenthesis",
    "NUMBER": "a number",
    "STRING": "a text in single quotes",
    "COMPARISON": "a comparison such as = or IN",
    "_BETWEEN": "BETWEEN, IN or LIKE",
    "_NULL": "NULL",
    "LPAR": "an opening parenthesis",
    "SIGN": "an operator",
    "FACTOR": "an operator",
    "COMMA": "a comma",
    "_AND": "AND",
    "_OR": "OR",
    "RPAR": "a closing parenthesis",
    "$END": "the end of the selector",
}
_SAID_BY = {"NAME": {"NUMBER", "STRING", "LPAR", "SIGN"}, "COMPARISON": {"_BETWEEN"}, "SIGN": {"FACTOR"}, "NUMBER": {"SIGN"}}

_HINTS = {
    '"': "texts stand in single quotes, as 'eu'",
    "'": "the text that begins here has no closing quote",
    "!": "write <> for 'not equal' and NOT for 'not'",
    "&": "write AND",
    "|": "write OR",
    "%": "% has a meaning in a LIKE pattern only",
    "#": "names have letters, digits, _ and $",
    ".": "names have letters, digits, _ and $",
}


class Misplaced(Exception):
    """Something is wrong at a place of a selector. It becomes a BadSelector where the whole text is known."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


def refusal(text: str, problem: Misplaced) -> BadSelector:
    """The error that shows the place."""
    at = min(problem.at, len(text))
    line = text.count("\n", 0, at) + 1
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    column = at - begin + 1
    whole = text[begin : end if end >= 0 else len(text)]
    return BadSelector(
        f"selector, line {line}, column {column}: {problem.reason}\n{_shown(whole, column - 1)}",
        reason=problem.reason,
        line=line,
        column=column,
    )


def _shown(line: str, place: int) -> str:
    """The line, or the part of it around the place, and a caret below. Characters that are not printable become blanks."""
    first = max(0, min(place - SHOWN_MAX // 2, len(line) - SHOWN_MAX))
    part = "".join(letter if letter.isprintable() else " " for letter in line[first : first + SHOWN_MAX])
    before, after = "…" * (first > 0), "…" * (first + SHOWN_MAX < len(line))
    return f"{_MARGIN}{before}{part}{after}\n{_MARGIN}{' ' * (len(before) + place - first)}^"


def unexpected(found: str, expected: Collection[str]) -> str:
    """The sentence for a word in the wrong place; `expected` in the grammar's names, `found` empty at the end of the text."""
    found_in_words = f"not {_quoted(found)}" if found else "but the selector ends here"
    return f"{wanted_in_words(expected)} was expected, {found_in_words}"


def wanted_in_words(expected: Collection[str]) -> str:
    said_already = {other for name in expected for other in _SAID_BY.get(name, ())}
    words = list(dict.fromkeys(_IN_WORDS[name] for name in _IN_WORDS if name in expected and name not in said_already))
    if not words:
        return "something else"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def stray(letter: str) -> str:
    """The sentence for a character that begins nothing a selector may contain."""
    hint = _HINTS.get(letter, "names have letters, digits, _ and $")
    return hint if letter == "'" else f"{_quoted(letter)} has no place in a selector; {hint}"


def _quoted(found: str) -> str:
    return repr(found if len(found) <= 30 else found[:30] + "…")
