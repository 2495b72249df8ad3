"""Looking at what waits, without a loop: `with queue.browse() as events: for event in events: …`."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from holdfast.blocking.background import Background
from holdfast.client.browser import BrowsedEvent
from holdfast.client.browser import Browser as AsyncBrowser


class Browser:
    def __init__(self, background: Background, browser: AsyncBrowser) -> None:
        self._background = background
        self._browser = browser

    def __enter__(self) -> Self:
        self._background.run(self._browser.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._background.run(self._browser.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[BrowsedEvent]:
        while (event := self.next()) is not None:
            yield event

    def next(self) -> BrowsedEvent | None:
        """The next event; None at the end."""
        waiting = self._browser.take()
        return waiting if waiting is not None else self._background.run(self._browser.next())
