"""`LIKE`: % stands for any characters, _ for exactly one, the ESCAPE character takes the meaning from what follows it.

A pattern is a row of stretches with a % between each two. The first must be where the text begins, the last where it ends.
Each of the others is taken where it is found first, which leaves the most room for the next: there is never a reason to go back.
So the time is that of looking for one stretch, in proportion to the text, whatever the pattern:

    plain letters       `str.find`, which CPython does in linear time
    with _ among them   its longest plain piece is looked for, and the rest compared where that is found. In a text in which that
                        is found too often, and the rest never, all places are compared at once, as bits of a large number: those
                        at which the first letter is, and the second a place further, and so on

No event can stall a selector. A long text is searched in steps, between which others have their turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator

# A stretch with _ in it may be compared letter by letter, at all places: so it must be short. Plain ones may be long, as the
# first and the last, which are compared once.
SOUGHT_MAX = 100
# The cost of a letter of a text, in bytes of a head that are merely read: in a plain search; to find the bits of one letter of
# the stretch. And the cost of comparing a stretch at one place.
FINDING_COST = 4
LETTER_COST = 2
COMPARING_COST = 400
# The cost of a step: some tenths of a millisecond.
STEP_COST = 1 << 18

Matcher = Callable[[str], object]
# Yields the cost of each step.
Steps = Generator[int, None, bool]
_Search = Generator[int, None, int]


class _One:
    """A _ that stands for one character."""


class _Any:
    """A % that stands for any characters."""


_ONE, _ANY = _One(), _Any()
_WILD: dict[str, _One | _Any] = {"_": _ONE, "%": _ANY}


class _Stretch:
    """Letters, some of which may be any; of fixed length."""

    def __init__(self, letters: list[str | _One]) -> None:
        self.length = len(letters)
        self.plain = "".join(letter for letter in letters if isinstance(letter, str))
        self.is_plain = len(self.plain) == self.length
        self._letters = letters
        expression = "" if self.is_plain else "".join(re.escape(x) if isinstance(x, str) else "." for x in letters)
        self._expression = re.compile(expression, re.DOTALL)
        self._fixed = [(index, letter) for index, letter in enumerate(letters) if isinstance(letter, str)]
        self._bits_cost = LETTER_COST * (1 + len({letter for _, letter in self._fixed})) + self.length // 16
        self._piece, self._piece_at = self._longest_piece()

    def _longest_piece(self) -> tuple[str, int]:
        pieces = re.finditer("x+", "".join("x" if isinstance(letter, str) else "_" for letter in self._letters))
        start, end = max((piece.span() for piece in pieces), key=lambda span: span[1] - span[0], default=(0, 0))
        return "".join(str(letter) for letter in self._letters[start:end]), start

    def is_at(self, text: str, place: int) -> bool:
        return text.startswith(self.plain, place) if self.is_plain else self._expression.match(text, place) is not None

    @property
    def cost(self) -> int:
        """The cost of each letter of a text in which it is sought. Tries before `search_by_bits` cost no more than that does."""
        return FINDING_COST if self.is_plain else FINDING_COST + 2 * self._bits_cost

    def end_in(self, text: str, begin: int, end: int) -> _Search:
        """Where it ends at the first place it is found between these, or -1."""
        at, tried = begin, 0
        while True:
            at = yield from self._find_piece(text, at, end)
            if at < 0 or self.is_plain or self.is_at(text, at):
                return at if at < 0 else at + self.length
            at += 1
            tried += COMPARING_COST
            if tried > (at - begin) * self._bits_cost + STEP_COST:
                return (yield from self.search_by_bits(text, at, end))

    def _find_piece(self, text: str, begin: int, end: int) -> _Search:
        """The first place between these, with room for all of it, at which its longest plain piece is where it should be."""
        piece, last = self._piece, end - self.length
        stride = STEP_COST // FINDING_COST
        while begin <= last:
            until = min(begin + stride, last + 1)
            found = text.find(piece, begin + self._piece_at, until - 1 + self._piece_at + len(piece))
            if found >= 0:
                return found - self._piece_at
            yield (until - begin) * FINDING_COST
            begin = until
        return -1

    def search_by_bits(self, text: str, begin: int, end: int) -> _Search:
        """As `end_in`, some thousand letters at a time."""
        stride = max(STEP_COST // self._bits_cost, 4 * self.length)
        for first in range(begin, end - self.length + 1, stride):
            found = self._first_in(text[first : min(first + stride + self.length - 1, end)])
            if found >= 0:
                return first + found + self.length
            yield stride * self._bits_cost
        return -1

    def _first_in(self, part: str) -> int:
        """The first place in a part of a text, or -1. One bit stands for each letter of the part, the highest for the first."""
        places = (1 << len(part)) - 1 >> self.length - 1 << self.length - 1
        planes = _planes(part)
        where: dict[str, int] = {}
        for index, letter in self._fixed:
            if letter not in where:
                where[letter] = _places_of(letter, planes)
            places &= where[letter] << index
            if not places:
                return -1
        return len(part) - places.bit_length()


def _planes(part: str) -> list[bytes]:
    """The bytes of each letter, those of one significance together."""
    try:
        return [part.encode("latin-1")]
    except UnicodeEncodeError:
        data = part.encode("utf-32-le")
        return [data[0::4], data[1::4], data[2::4]]


def _places_of(letter: str, planes: list[bytes]) -> int:
    code = ord(letter).to_bytes(4, "little")
    if any(code[len(planes) :]):
        return 0
    found = -1
    for byte, plane in zip(code, planes, strict=False):
        found &= int(plane.translate(_ONE_OF_256[byte]), 2)
    return found


# For each byte a table that makes a 1 of it, and a 0 of every other.
_ONE_OF_256 = [b"0" * byte + b"1" + b"0" * (255 - byte) for byte in range(256)]


def mistake_in(pattern: str, escape: str | None) -> str | None:
    """Why a pattern cannot be used with this ESCAPE character; None when it can."""
    letters = iter(pattern if escape is not None else "")
    for letter in letters:
        if letter == escape and next(letters, None) not in ("%", "_", escape):
            return f"in this pattern the ESCAPE character {escape} stands before neither %, _ nor itself; write it twice"
    if any(not sought.is_plain and sought.length > SOUGHT_MAX for sought in stretches(pattern, escape)[1:-1]):
        return f"between two % of this pattern are more than {SOUGHT_MAX} characters with _ among them; shorten it"
    return None


class Likeness:
    """A pattern, which `mistake_in` has found in order, ready to be compared with texts."""

    def __init__(self, pattern: str, escape: str | None) -> None:
        self._first, *others = stretches(pattern, escape)
        self._last = others.pop() if others else None
        self._sought = [stretch for stretch in others if stretch.length]
        self.cost = max((stretch.cost for stretch in self._sought), default=0)  # of each letter of a text
        self.matches: Matcher = self._simple() or self._is_like

    def in_steps(self, text: str) -> Steps:
        """Whether a text is like the pattern, in steps of bounded cost."""
        first, last = self._first, self._last
        if last is None:
            return len(text) == first.length and first.is_at(text, 0)
        at, end = first.length, len(text) - last.length
        if end < at or not first.is_at(text, 0) or not last.is_at(text, end):
            return False
        for stretch in self._sought:
            at = yield from stretch.end_in(text, at, end)
            if at < 0:
                return False
        return True

    def _is_like(self, text: str) -> bool:
        steps = self.in_steps(text)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return bool(done.value)

    def _simple(self) -> Matcher | None:
        """A quick matcher for most patterns: a beginning, an end or a part."""
        if self._last is None or not all(stretch.is_plain for stretch in (self._first, *self._sought, self._last)):
            return None
        match self._first.plain, [stretch.plain for stretch in self._sought], self._last.plain:
            case beginning, [], "":
                return lambda text: text.startswith(beginning)
            case "", [], ending:
                return lambda text: text.endswith(ending)
            case "", [part], "":
                return lambda text: part in text
        return None


def stretches(pattern: str, escape: str | None) -> list[_Stretch]:
    letters = iter(pattern)
    rows: list[list[str | _One]] = [[]]
    for letter in letters:
        meant = next(letters) if letter == escape else _WILD.get(letter, letter)
        if isinstance(meant, _Any):
            rows.append([])
        else:
            rows[-1].append(meant)
    return [_Stretch(row) for row in rows]
