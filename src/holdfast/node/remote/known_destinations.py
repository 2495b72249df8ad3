"""The destinations of a message manager of another process, as far as its primary has told them.

    heartbeat: 17 changes ──▶ behind: 15 are known ──▶ asked for what changed since 15 ──▶ 2 names, or all of them

A primary counts the changes of its destinations, and remembers the newest names. A new primary counts anew: all is asked again.
Until a change is known here, a command goes ahead that creates the destination if it is not there.
"""

from __future__ import annotations

from holdfast.node.message_manager_view import DestinationNews


class KnownDestinations:
    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._deduplicating: set[str] = set()
        self._epoch = 0
        self._version = 0
        self._is_asking = False

    def begin(self, epoch: int, version: int) -> int | None:
        """The primary of this epoch has this version: since which one it is to be asked for news, None if nothing is to ask."""
        since = self.since(epoch)
        if version == since or self._is_asking:
            return None
        self._is_asking = True
        return since

    def since(self, epoch: int) -> int:
        """Since which version the primary of this epoch is to be asked for news."""
        if epoch != self._epoch:
            self._epoch, self._version, self._is_asking = epoch, 0, False
        return self._version

    def learn(self, epoch: int, news: DestinationNews) -> None:
        """The primary of this epoch has answered."""
        if epoch != self._epoch or news.version < self._version:
            return
        self._is_asking = False
        self._version = news.version
        if news.is_whole:
            self._kinds.clear()
            self._deduplicating.clear()
        for name, kind, is_deduplicating in news.changed:
            if kind:
                self._kinds[name] = kind
            else:
                self._kinds.pop(name, None)
            if is_deduplicating:
                self._deduplicating.add(name)
            else:
                self._deduplicating.discard(name)

    def kind_of(self, destination: str) -> str | None:
        return self._kinds.get(destination)

    def is_deduplicating(self, destination: str) -> bool:
        return destination in self._deduplicating
