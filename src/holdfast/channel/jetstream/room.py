"""How full the stream is, as far as this program knows, and who is still let in.

The servers say how many bytes the stream has, but only when asked, and other programs append too. So: what they said last, plus
what was appended from here since. Each kind of command has its limit (see `settings`); those of UPKEEP are let in until the
servers themselves refuse.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.channel.channel import Pressure, Purpose
from holdfast.channel.jetstream.settings import RECORD_OVERHEAD_BYTES, JetStreamSettings
from holdfast.errors import Blocked


class Room:
    def __init__(self, settings: JetStreamSettings, tell: Callable[[Pressure], None]) -> None:
        self._settings = settings
        self._tell = tell
        self._used_bytes = 0
        self._is_short = False

    def heard(self, stream_bytes: int, open_bytes: int) -> None:
        """The servers said how many bytes the stream has; `open_bytes` were appended here and may not be among them."""
        self._used_bytes = stream_bytes + open_bytes
        self._judge()

    def take(self, length: int, purpose: Purpose) -> Blocked | None:
        """None when there was room."""
        cost = length + RECORD_OVERHEAD_BYTES
        if purpose == Purpose.EVENTS and self._used_bytes + cost > self._events_limit:
            self._turn(True)
            return Blocked(
                f"no room for a command of {length} bytes: the stream holds {self._used_bytes} of the {self._events_limit} bytes "
                "that events may fill; what was accepted is safe; it goes on by itself when recipients confirm",
                length=length,
            )
        self._used_bytes += cost
        self._judge()
        return None

    @property
    def _events_limit(self) -> int:
        return self._settings.size_bytes - self._settings.upkeep_bytes

    @property
    def _ordinary_limit(self) -> int:
        return self._events_limit - self._settings.reserve_bytes

    def _judge(self) -> None:
        self._turn(self._used_bytes > self._ordinary_limit)

    def _turn(self, is_short: bool) -> None:
        if is_short != self._is_short:
            self._is_short = is_short
            self._tell(self.pressure)

    @property
    def pressure(self) -> Pressure:
        used = self._used_bytes
        return Pressure(
            free_bytes=max(0, self._ordinary_limit - used),
            events_reserve_bytes=max(0, min(self._settings.reserve_bytes, self._events_limit - used)),
            upkeep_reserve_bytes=max(0, min(self._settings.upkeep_bytes, self._settings.size_bytes - used)),
            is_short=self._is_short,
            reason=f"the stream holds {used} bytes of {self._events_limit}" if self._is_short else "",
        )
