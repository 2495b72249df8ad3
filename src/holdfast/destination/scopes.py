"""Scopes: how far each has published, so that what is published again changes nothing (D3).

    scope "query 7"    batches 0, 1, 2 are published; 2 again is a repetition, 3 is new

A scope is known by its user and its name. As many are remembered as SCOPES_MAX; then the one that was used least recently is
forgotten, and would publish any number as if it were new. Half of them are for those that have published more than one number:
however many programs publish once and never come back, a query that goes on is not forgotten for them.
"""

from __future__ import annotations

from collections.abc import Iterator

# Far more than there are queries that write: some 200 bytes each.
SCOPES_MAX = 10_000

ScopeKey = tuple[str, str]  # whose stages, name


class Scopes:
    def __init__(self) -> None:
        # The highest number of each, the one used least recently first.
        self._once: dict[ScopeKey, int] = {}
        self._often: dict[ScopeKey, int] = {}

    def __iter__(self) -> Iterator[tuple[str, str, int, bool]]:
        """Whose stages, name, highest number, and whether it has published several."""
        for scopes, is_often in ((self._once, False), (self._often, True)):
            for (session, name), number in scopes.items():
                yield session, name, number, is_often

    def last(self, key: ScopeKey) -> int:
        """The highest number it has published; -1 before the first."""
        return self._once.get(key, self._often.get(key, -1))

    def use(self, key: ScopeKey, number: int) -> None:
        """It publishes this, now or again."""
        last, is_known_once = self.last(key), key in self._once
        is_often = key in self._often or (is_known_once and number > last)
        self._once.pop(key, None)
        self._often.pop(key, None)
        self.restore(key, max(number, last), is_often)
        if len(self._once) + len(self._often) > SCOPES_MAX:
            victims = self._once if len(self._once) > SCOPES_MAX // 2 else self._often
            del victims[next(iter(victims))]

    def restore(self, key: ScopeKey, number: int, is_often: bool) -> None:
        (self._often if is_often else self._once)[key] = number
