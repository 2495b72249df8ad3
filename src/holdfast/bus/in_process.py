"""The bus within one process: messages are handed over as they are, in order, at the next turn of the loop.

Handing over later, never from within `publish`, keeps shells from being entered again while they are at work; `hand_over` is for
those who are prepared for it, and never overtakes what was published. All messages published in one turn of the loop cost one
wake-up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.bus.bus import Heard

# Handed over without a turn for everyone else.
MESSAGES_A_TURN = 128


class InProcessBus:
    def __init__(self) -> None:
        self._listeners: dict[str, list[Heard]] = {}
        self._waiting: deque[tuple[str, Any]] = deque()
        self._is_handing_over = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_quiet(self) -> bool:
        return not self._waiting and not self._is_handing_over

    def publish(self, subject: str, message: Any) -> None:
        if self.is_quiet:
            self._loop.call_soon(self._hand_over)
        self._waiting.append((subject, message))

    def hand_over(self, subject: str, message: Any) -> None:
        if self.is_quiet:
            self._tell(subject, message)
        else:
            self.publish(subject, message)

    def listen(self, subject: str, heard: Heard) -> Callable[[], None]:
        self._listeners.setdefault(subject, []).append(heard)

        def stop() -> None:
            listeners = self._listeners.get(subject, [])
            if heard in listeners:
                listeners.remove(heard)

        return stop

    def _hand_over(self) -> None:
        # Only what waits now, and not too much of it: the rest, and what the listeners publish in turn, has a turn of its own, so
        # that sockets are served in between.
        self._is_handing_over = True
        for _ in range(min(len(self._waiting), MESSAGES_A_TURN)):
            self._tell(*self._waiting.popleft())
        self._is_handing_over = False
        if self._waiting:
            self._loop.call_soon(self._hand_over)

    def _tell(self, subject: str, message: Any) -> None:
        for heard in tuple(self._listeners.get(subject, ())):
            try:
                heard(message)
            except Exception as problem:  # one listener's fault must not cost another its messages
                self._loop.call_exception_handler({"message": f"a listener on {subject} failed", "exception": problem})
