"""The roster: which receivers are attached, to which backlog each, and through which client manager it is reached.

    expected ──▶ attached ──▶ detached
        └─────── refused

A receiver says what it holds before it attaches, so that none of it is sent to it twice (rule 15). For the same reason those that
were attached when this node became primary are awaited for a little: until they are here, their backlog hands out nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.destination import effect
from holdfast.event.position import Ranges

Holder = tuple[str, int]
BacklogKey = effect.BacklogKey


class Roster:
    def __init__(self) -> None:
        self.places: dict[Holder, BacklogKey] = {}
        self.attachments: dict[Holder, int] = {}  # how often each has attached, so that one that did so anew is told apart
        self.early: set[Holder] = set()
        self.awaited: dict[BacklogKey, set[Holder]] = {}
        self._routes: dict[Holder, str] = {}
        self._held: dict[Holder, Ranges] = {}

    def expect(self, holder: Holder, client_manager: str, held: Ranges) -> None:
        """A receiver is about to attach, holding these; it is reached through that client manager."""
        self._routes[holder] = client_manager
        self._held[holder] = held

    def expect_no_more(self, holder: Holder) -> None:
        """It was refused. One that is attached under the same number stays as it is."""
        if holder not in self.places:
            self._routes.pop(holder, None)
        self._held.pop(holder, None)

    def came_early(self, holder: Holder) -> None:
        """A receiver attached while the channel was still being replayed: it is here, and not waited for."""
        if holder in self._routes:
            self.early.add(holder)

    def wait_for(self, holder: Holder, key: BacklogKey) -> None:
        self.awaited.setdefault(key, set()).add(holder)

    def attach(self, holder: Holder, key: BacklogKey) -> Ranges:
        """It is here: what it said it holds."""
        self.places[holder] = key
        self.attachments[holder] = self.attachments.get(holder, 0) + 1
        self._wait_no_more(holder, key)
        return self._held.pop(holder, Ranges())

    def detach(self, holder: Holder, key: BacklogKey) -> None:
        self.places.pop(holder, None)
        self.attachments.pop(holder, None)
        self._routes.pop(holder, None)
        self._held.pop(holder, None)
        self._wait_no_more(holder, key)

    def _wait_no_more(self, holder: Holder, key: BacklogKey) -> None:
        awaited = self.awaited.get(key)
        if awaited is not None:
            awaited.discard(holder)

    def route(self, holder: Holder) -> str:
        """ "" for one that nobody spoke for."""
        return self._routes.get(holder, "")

    def of_session(self, session: str) -> Iterator[tuple[Holder, BacklogKey]]:
        """Its receivers that are attached, and to what."""
        return ((holder, key) for holder, key in self.places.items() if holder[0] == session)
