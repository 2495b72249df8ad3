"""How much rules have told and actions have done, since the program began. `count` shows it with its own counters."""

from __future__ import annotations

from collections import Counter
from typing import Literal

Figure = Literal["alerts", "actions_done", "actions_failed"]
MEANINGS: dict[Figure, str] = {
    "alerts": "Alerts that a rule told.",
    "actions_done": "Alerts for which an action was done.",
    "actions_failed": "Tries of an action that failed.",
}


class Figures:
    def __init__(self) -> None:
        self._counts: Counter[tuple[Figure, str, str]] = Counter()

    def add(self, figure: Figure, rule: str, action: str = "", count: int = 1) -> None:
        self._counts[figure, rule, action] += count

    def rows(self) -> dict[tuple[Figure, str, str], int]:
        """All counts, by figure, rule and action. Any thread may ask."""
        return dict(self._counts)
