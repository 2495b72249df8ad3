"""The voice of a message manager that has backups: of all that follow a channel only the primary speaks.

    deliverer, answers, flow, readers ──▶ Voice ──▶ bus       while it is the primary
                                            ╳                 before its own claim, and after the claim of another

All that a message manager says goes this one way. So a primary that reads the claim of another says nothing more, whatever its
parts have begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.bus.bus import Bus, OnMessage


class Voice:
    def __init__(self, bus: Bus, is_open: bool) -> None:
        self.is_open = is_open
        self._bus = bus

    @property
    def is_quiet(self) -> bool:
        return self._bus.is_quiet

    def publish(self, subject: str, message: Any) -> None:
        if self.is_open:
            self._bus.publish(subject, message)

    def hand_over(self, subject: str, message: Any) -> None:
        if self.is_open:
            self._bus.hand_over(subject, message)

    def listen(self, subject: str, on_message: OnMessage) -> Callable[[], None]:
        return self._bus.listen(subject, on_message)
