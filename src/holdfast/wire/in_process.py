"""A link within one process: the frames themselves are handed over, at the next turn of the loop.

Embedded mode and tests use it. It keeps the rules of every link: in order, or lost; never to be received within `send` (only
within `flush`, by who asks for it). What was sent before `close` arrives; what is under way when the link is `cut` may be
lost, as on a network.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.wire.frame import Frame

CONGESTED_BYTES = 4 << 20


def _unset_received(frame: Frame) -> None:
    raise AssertionError("`received` of a link was not set before its first frame came")


def _unset_lost(error: Exception | None) -> None:
    pass


class InProcessLink:
    """One end; `pair` makes two."""

    def __init__(self, peer: str) -> None:
        self.received: Callable[[Frame], None] = _unset_received
        self.lost: Callable[[Exception | None], None] = _unset_lost
        self._peer = peer
        self._other: InProcessLink | None = None
        self._loop = asyncio.get_running_loop()
        self._under_way: deque[Frame] = deque()
        self._bytes_under_way = 0
        self._is_handing_over = False
        self._is_closing = False
        self._is_lost = False
        self._waiting_to_drain: list[asyncio.Future[None]] = []

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def certificate_names(self) -> tuple[str, ...]:
        return ()

    @property
    def is_congested(self) -> bool:
        return self._bytes_under_way > CONGESTED_BYTES

    @property
    def bytes_waiting(self) -> int:
        return self._bytes_under_way

    def send(self, frame: Frame) -> None:
        if self._is_closing or self._is_lost:
            return
        if not self._under_way:
            self._loop.call_soon(self._hand_over)
        self._under_way.append(frame)
        self._bytes_under_way += len(frame.body)

    def send_now(self, frame: Frame) -> None:
        """Hand over now, behind what is under way. As with `flush`, something may be sent in turn before it returns."""
        other = self._other
        if self._under_way or self._is_handing_over or other is None:
            self.send(frame)
            self.flush()
        elif not (self._is_closing or self._is_lost or other._is_lost):
            self._is_handing_over = True
            try:
                other.received(frame)
            finally:
                self._is_handing_over = False

    def flush(self) -> None:
        """Hand over now. Whoever asks for it is prepared to be sent something before it returns."""
        if self._under_way and not self._is_lost:
            self._hand_over()

    async def drained(self) -> None:
        while self.is_congested and not self._is_lost:
            waiting = self._loop.create_future()
            self._waiting_to_drain.append(waiting)
            await waiting

    def close(self) -> None:
        if not (self._is_closing or self._is_lost):
            self._is_closing = True
            self._loop.call_soon(self._end)

    def cut(self, error: Exception | None = None) -> None:
        """Lose the link at once, both ends, with what is under way."""
        reason = error or ConnectionResetError("the link was cut")
        for end in (self, self._other):
            if end is not None:
                end._lose(reason)

    def _hand_over(self) -> None:
        if self._is_handing_over:  # a flush from within: what it wants sent comes after what is being handed over
            return
        self._is_handing_over = True
        try:
            for _ in range(len(self._under_way)):
                other = self._other
                if other is None or other._is_lost or self._is_lost:
                    return
                frame = self._under_way.popleft()
                self._bytes_under_way -= len(frame.body)
                other.received(frame)
        finally:
            self._is_handing_over = False
        self._wake_drained()
        if self._under_way:
            self._loop.call_soon(self._hand_over)

    def _end(self) -> None:
        self._hand_over()
        for end in (self._other, self):
            if end is not None:
                end._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._under_way.clear()
        self._bytes_under_way = 0
        self._other = None
        self._wake_drained()
        self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        self.lost(error)
        self.received, self.lost = _unset_received, _unset_lost  # whoever used it is not kept alive by it

    def _wake_drained(self) -> None:
        for waiting in self._waiting_to_drain:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting_to_drain.clear()


def pair(client: str = "in process", server: str = "in process") -> tuple[InProcessLink, InProcessLink]:
    """Two ends of one link: what one is told to send, the other receives. The names are what each says its peer is."""
    ours, theirs = InProcessLink(server), InProcessLink(client)
    ours._other, theirs._other = theirs, ours
    return ours, theirs
