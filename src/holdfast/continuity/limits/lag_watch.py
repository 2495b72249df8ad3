"""The lag of servers: how many events, bytes and seconds each is behind the newest place, by what a current listener saw pass.

    noted     place  100    200    300    400       a sample with each: seconds, bytes up to it
    server               ▲ it has confirmed so far: it lags by 400 - 150 events, in bytes and seconds by what the next sample says

Memory: SAMPLES_MAX samples; past that every other goes. Pure: the time comes in.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from holdfast.continuity.domain import LagLimit

SAMPLES_MAX = 1_024


class _Sample(NamedTuple):
    place: int
    seconds: float
    bytes: int


class Lag(NamedTuple):
    events: int
    bytes: int
    seconds: float


class LagWatch:
    def __init__(self) -> None:
        self._samples: list[_Sample] = []

    def note(self, place: int, now: float, bytes: int) -> None:
        """The newest place is this, and so many bytes have passed up to it. A place that stays is noted once, when it came;
        its bytes may be heard of later."""
        if self._samples and place <= self._samples[-1].place:
            self._samples[-1] = self._samples[-1]._replace(bytes=max(bytes, self._samples[-1].bytes))
            return
        self._samples.append(_Sample(place, now, bytes))
        if len(self._samples) > SAMPLES_MAX:
            del self._samples[1:-1:2]

    def lag(self, place: int, now: float) -> Lag:
        """How far a server is behind that has finished this place. Bytes and seconds are at least so many: as far as was seen."""
        if not self._samples or place >= self._samples[-1].place:
            return Lag(0, 0, 0.0)
        newest = self._samples[-1]
        following = bisect_right(self._samples, place, key=lambda each: each.place)
        after = self._samples[following]
        return Lag(newest.place - place, newest.bytes - after.bytes, now - after.seconds)


def beyond(lag: Lag, limit: LagLimit) -> str:
    """Why a server with this lag is to be taken out; "" if it is not."""
    if limit.events and lag.events > limit.events:
        return f"it is {lag.events} events behind, more than {limit.events}"
    if limit.bytes and lag.bytes > limit.bytes:
        return f"it is {lag.bytes} bytes behind, more than {limit.bytes}"
    if limit.seconds and lag.seconds > limit.seconds:
        return f"it is {lag.seconds:.1f} s behind, more than {limit.seconds:g}"
    return ""
