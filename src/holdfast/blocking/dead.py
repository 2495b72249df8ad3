"""The dead events without a loop: see `holdfast.client.dead`."""

from __future__ import annotations

import builtins
from collections.abc import Iterable

from holdfast.blocking.background import Background
from holdfast.client.browser import BrowsedEvent
from holdfast.client.dead import LIST_MAX, Progress
from holdfast.client.dead import DeadEvents as AsyncDeadEvents


class DeadEvents:
    """`client.dead`. `progress` is called in the background's thread."""

    def __init__(self, background: Background, dead: AsyncDeadEvents) -> None:
        self._background = background
        self._dead = dead

    def list(
        self, *, selector: str | None = None, limit: int = LIST_MAX, timeout: float | None = None
    ) -> builtins.list[BrowsedEvent]:
        """The first `limit` dead events."""
        return self._background.run(self._dead.list(selector=selector, limit=limit, timeout=timeout))

    def show(self, position: int, *, timeout: float | None = None) -> BrowsedEvent:
        """One dead event."""
        return self._background.run(self._dead.show(position, timeout=timeout))

    def replay(
        self,
        positions: Iterable[int] | None = None,
        *,
        selector: str | None = None,
        everything: bool = False,
        to: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> int:
        """Send dead events again and remove them, each once: how many."""
        return self._background.run(
            self._dead.replay(positions, selector=selector, everything=everything, to=to, progress=progress, timeout=timeout)
        )

    def purge(
        self,
        positions: Iterable[int] | None = None,
        *,
        selector: str | None = None,
        everything: bool = False,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> int:
        """Throw dead events away, for good: how many."""
        return self._background.run(
            self._dead.purge(positions, selector=selector, everything=everything, progress=progress, timeout=timeout)
        )
