"""The space of a stream: how full it is, as far as this program knows, and which commands are still accepted.

The servers say how many bytes the stream has, but only when asked, and other programs append too. So this counts the bytes they
named last, plus those that this program has appended since. Each kind of command has its limit (see `settings`); UPKEEP is
accepted until the servers themselves refuse.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.channel.channel import Pressure, Purpose
from holdfast.channel.jetstream.settings import RECORD_FACTOR_MAX, JetStreamSettings, Names
from holdfast.errors import Blocked


class StreamSpace:
    def __init__(self, names: Names, settings: JetStreamSettings, tell: Callable[[Pressure], None]) -> None:
        self._overhead_bytes = names.record_overhead_bytes
        self._settings = settings
        self._tell = tell
        self._used_bytes = 0
        self._is_short = False

    def heard(self, stream_bytes: int, open_bytes: int) -> None:
        """Take the bytes that the servers named; `open_bytes` were appended here and may not be among them."""
        self._used_bytes = stream_bytes + open_bytes
        self._judge()

    def take(self, length: int, purpose: Purpose) -> Blocked | None:
        """Take room for a command; return why there is none, or None."""
        cost = length + self._overhead_bytes
        if purpose == Purpose.EVENTS and self._used_bytes + cost > self._settings.events_limit_bytes:
            self._turn(True)
            return Blocked(
                f"no room for a command of {length} bytes: the stream holds {self._used_bytes} bytes, and events may fill "
                f"{self._settings.events_limit_bytes}; what was accepted is safe; it goes on by itself when recipients confirm",
                length=length,
            )
        self._used_bytes += cost
        self._judge()
        return None

    def _judge(self) -> None:
        """Turn `is_short`. A shortage ends a reserve's size below where it began, so that it does not turn too often."""
        margin = self._settings.reserve_bytes if self._is_short else 0
        self._turn(self._used_bytes > self._settings.ordinary_limit_bytes - margin)

    def _turn(self, is_short: bool) -> None:
        if is_short != self._is_short:
            self._is_short = is_short
            self._tell(self.pressure)

    @property
    def pressure(self) -> Pressure:
        settings, used = self._settings, self._used_bytes
        return Pressure(
            free_bytes=max(0, settings.ordinary_limit_bytes - used),
            events_reserve_bytes=max(0, min(settings.reserve_bytes, (settings.events_limit_bytes - used) // RECORD_FACTOR_MAX)),
            upkeep_reserve_bytes=max(0, min(settings.upkeep_bytes, settings.size_bytes - used)),
            is_short=self._is_short,
            reason=f"the stream holds {used} bytes, and events may fill {settings.events_limit_bytes}" if self._is_short else "",
            used_bytes=used,
            size_bytes=settings.size_bytes,
            ordinary_bytes=settings.ordinary_limit_bytes,
        )
