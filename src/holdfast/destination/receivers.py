"""Who receives from a queue or a subscription: receivers of sessions, and since which entry of the channel.

Only attachment is known here, because confirms depend on it (rule 4): whoever is not attached may not confirm. What a
receiver holds is not (rule 3).
"""

from __future__ import annotations

from collections.abc import Iterator

Holder = tuple[str, int]  # a session, and the number of a receiver in it


class Receivers:
    def __init__(self) -> None:
        self._since: dict[Holder, int] = {}
        self._by_session: dict[str, int] = {}
        self._selectors: dict[Holder, str] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __iter__(self) -> Iterator[tuple[Holder, int]]:
        """Every receiver and the entry at which it attached, in that order."""
        return iter(self._since.items())

    def is_attached(self, session: str) -> bool:
        return session in self._by_session

    def selector_of(self, holder: Holder) -> str:
        """Which events it wants; "" for all."""
        return self._selectors.get(holder, "")

    def selectors(self) -> Iterator[tuple[str, int, str]]:
        """(session, receiver, selector) of those that have one."""
        return ((session, receiver, selector) for (session, receiver), selector in self._selectors.items())

    def select(self, holder: Holder, selector: str) -> None:
        """It wants only what matches."""
        if selector:
            self._selectors[holder] = selector

    def is_there(self, holder: Holder) -> bool:
        return holder in self._since

    def attach(self, holder: Holder, entry: int) -> None:
        if holder not in self._since:
            self._since[holder] = entry
            self._by_session[holder[0]] = self._by_session.get(holder[0], 0) + 1

    def detach(self, holder: Holder) -> None:
        del self._since[holder]
        self._selectors.pop(holder, None)
        self._by_session[holder[0]] -= 1
        if not self._by_session[holder[0]]:
            del self._by_session[holder[0]]
