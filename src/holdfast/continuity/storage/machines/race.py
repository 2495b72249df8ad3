"""A race: a question goes to several places at once, and the first valid answer wins.

    declined    the place is not current, is behind the number that was asked for, or lacks the bytes
    failed      it could not be reached, or broke off

If the winner breaks off in the middle of the bytes, those that have not failed race on from there: bytes of one digest are the
same everywhere. Nobody is asked twice after it failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["win", "late", "declined"]


class Race:
    def __init__(self, places: Iterable[str], number: int = 0) -> None:
        """`number`: the newest write that the answer must contain."""
        self._number = number
        self._open = dict.fromkeys(places)  # a set that keeps its order
        self._running = dict.fromkeys(self._open)
        self.winner = ""

    @property
    def runners(self) -> list[str]:
        """Those who are asked in this heat."""
        return list(self._running)

    def answer(self, place: str, number: int) -> Verdict:
        """A place answers, as of this number."""
        if place not in self._running or self.winner:
            return "late"
        if number < self._number:
            self.decline(place)
            return "declined"
        self.winner = place
        return "win"

    def decline(self, place: str) -> None:
        """A place cannot answer."""
        self._running.pop(place, None)
        self._open.pop(place, None)

    def fail(self, place: str) -> list[str]:
        """A place broke off. If it was the winner, those are told who run on."""
        self.decline(place)
        if place != self.winner:
            return []
        self.winner = ""
        self._running = dict.fromkeys(self._open)
        return self.runners
