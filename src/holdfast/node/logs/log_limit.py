"""The log limit: logs a line at once or folds it into a later one, so that nobody can fill the log. Pure: it is given the time.

    first of its key ──▶ said at once
    more of it       ──▶ counted; one line at the end of the interval says how many, and the newest of them

A key is what lines have in common: an address, a destination. Beyond `keys_max` keys in one interval, the others count as one: so
there are at most `keys_max + 1` lines an interval, whatever happens.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

Text = TypeVar("Text")

# Stands for all keys that are too many.
OTHERS = ""


class Line(NamedTuple, Generic[Text]):
    """`text` is the newest of `times` lines of its key; it stands for `others` too, lines of keys that were too many."""

    text: Text
    times: int
    others: int = 0


class _Folded(Generic[Text]):
    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.line: Line[Text] | None = None


class LogLimit(Generic[Text]):
    def __init__(self, interval_s: float, keys_max: int) -> None:
        self._interval_s = interval_s
        self._keys_max = keys_max
        self._keys: dict[str, _Folded[Text]] = {}  # in order of when their intervals end

    @property
    def due_s(self) -> float | None:
        """When `due` next has something to do."""
        return next((each.until_s for each in self._keys.values()), None)

    def note(self, key: str, text: Text, now_s: float, times: int = 1) -> Line[Text] | None:
        """The line to log now; None when it is folded."""
        if key not in self._keys and len(self._keys) >= self._keys_max:
            key = OTHERS
        folded = self._keys.get(key)
        if folded is None:
            self._keys[key] = _Folded(now_s + self._interval_s)
            return Line(text, times)
        before = folded.line or Line(text, 0)
        if key == OTHERS:
            folded.line = Line(text, times, before.times + before.others)
        else:
            folded.line = Line(text, times + before.times)
        return None

    def due(self, now_s: float) -> list[Line[Text]]:
        """The lines folded in intervals that are over. Each begins a new interval."""
        lines = []
        while self._keys and (oldest := next(iter(self._keys.items())))[1].until_s <= now_s:
            key, folded = oldest
            del self._keys[key]
            if folded.line is not None:
                self._keys[key] = _Folded(now_s + self._interval_s)
                lines.append(folded.line)
        return lines

    def all(self) -> list[Line[Text]]:
        """All folded lines, however young: no more will come."""
        lines = [each.line for each in self._keys.values() if each.line is not None]
        self._keys.clear()
        return lines
