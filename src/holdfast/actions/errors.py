"""What can go wrong with rules and actions, in words for the one who wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import Refused, Unavailable


class Mistake(NamedTuple):
    """A mistake in rules. `line` and `column` count from 1; 0 where there is no file."""

    path: tuple[str | int, ...]
    sentence: str
    line: int = 0
    column: int = 0

    @property
    def where(self) -> str:
        """The setting that is wrong: rules.disk-full.actions[1].url."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}{self.where}: {self.sentence}" if self.path else f"{place}{self.sentence}"


class BadRules(Refused):
    """The rules have mistakes, and none of them is used. `mistakes` has all of them. Correct them and check again."""

    code = "bad-rules"

    def __init__(self, what: str, mistakes: Sequence[Mistake]) -> None:
        several = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__(f"{what} has {several}, and is not used: {'; '.join(map(str, mistakes))}", mistakes=len(mistakes))
        self.mistakes = list(mistakes)


class ActionFailed(Unavailable):
    """An action could not be done. It is tried again, and goes to the dead events with this sentence after the last try."""

    code = "action-failed"


class ActionRefused(Refused):
    """An action can never be done for this alert, such as one past the hop limit. The alert goes to the dead events at once."""

    code = "action-refused"
