"""A link within one process: the frames themselves are handed over, at the next turn of the loop.

Embedded mode and tests use it. It keeps the rules of every link: frames arrive in order, or the link is lost. A frame is never
received within `send`, only within `flush` and `send_now`. Frames that were sent before `close` arrive; frames under way when
the link is `cut` may be lost, as on a network.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from holdfast.wire.frame import Frame
from holdfast.wire.link import report_fault, unset_lost, unset_received

CONGESTED_BYTES = 4 << 20


class LinkEnd(ABC):
    """One end of a link within one process, whether both ends live in one loop or each in its own."""

    def __init__(self, peer: str, loop: asyncio.AbstractEventLoop) -> None:
        self.received: Callable[[Frame], None] = unset_received
        self.lost: Callable[[Exception | None], None] = unset_lost
        self._peer = peer
        self._loop = loop
        self._bytes_waiting = 0
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
    def heard(self) -> bytes:
        return b""

    @property
    def is_congested(self) -> bool:
        return self._bytes_waiting > CONGESTED_BYTES

    @property
    def bytes_waiting(self) -> int:
        return self._bytes_waiting

    async def drained(self) -> None:
        while self.is_congested and not self._is_lost:
            waiting = self._loop.create_future()
            self._waiting_to_drain.append(waiting)
            await waiting

    def admit(self) -> None:  # noqa: B027  # it does nothing on purpose
        """Do nothing: there are no limits within a process."""

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._bytes_waiting = 0
        self._forget_other()
        self._wake_drained()
        self._loop.call_soon(self._tell_lost, error)

    @abstractmethod
    def _forget_other(self) -> None:
        """Drop the frames under way: the link is lost."""

    def _tell_lost(self, error: Exception | None) -> None:
        try:
            self.lost(error)
        except Exception as problem:
            report_fault(self._peer, problem)
        self.received, self.lost = unset_received, unset_lost  # so that the link does not keep its user alive

    def _wake_drained(self) -> None:
        for waiting in self._waiting_to_drain:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting_to_drain.clear()


class InProcessLink(LinkEnd):
    """One end; `pair` makes two."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer, asyncio.get_running_loop())
        self._other: InProcessLink | None = None
        self._under_way: deque[Frame] = deque()
        self._is_handing_over = False

    def send(self, frame: Frame) -> None:
        if self._is_closing or self._is_lost:
            return
        if not self._under_way:
            self._loop.call_soon(self._hand_over)
        self._under_way.append(frame)
        self._bytes_waiting += len(frame.body)

    def send_now(self, frame: Frame) -> None:
        """Hand over now, behind the frames under way. As with `flush`, frames may come back before it returns."""
        other = self._other
        if self._under_way or self._is_handing_over or other is None:
            self.send(frame)
            self.flush()
        elif not (self._is_closing or self._is_lost or other._is_lost):
            self._is_handing_over = True
            try:
                other._take(frame)
            finally:
                self._is_handing_over = False

    def flush(self) -> None:
        """Hand over now. The caller must be prepared to receive frames before it returns."""
        if self._under_way and not self._is_lost:
            self._hand_over()

    def close(self) -> None:
        if not (self._is_closing or self._is_lost):
            self._is_closing = True
            self._loop.call_soon(self._end)

    def cut(self, error: Exception | None = None) -> None:
        """Lose the link at once, both ends, with the frames under way."""
        reason = error or ConnectionResetError("the link was cut")
        for end in (self, self._other):
            if end is not None:
                end._lose(reason)

    def _hand_over(self) -> None:
        if self._is_handing_over:  # a flush from within: its frames come after those that are being handed over
            return
        self._is_handing_over = True
        try:
            for _ in range(len(self._under_way)):
                other = self._other
                if other is None or other._is_lost or self._is_lost:
                    return
                frame = self._under_way.popleft()
                self._bytes_waiting -= len(frame.body)
                other._take(frame)
        finally:
            self._is_handing_over = False
        self._wake_drained()
        if self._under_way:
            self._loop.call_soon(self._hand_over)

    def _take(self, frame: Frame) -> None:
        """Receive a frame. A fault of the receiving side costs the link, as on a network, and is logged."""
        try:
            self.received(frame)
        except Exception as problem:
            report_fault(self._peer, problem)
            self.cut(ConnectionAbortedError(f"a frame could not be taken ({type(problem).__name__})"))

    def _end(self) -> None:
        self._hand_over()
        for end in (self._other, self):
            if end is not None:
                end._lose(None)

    def _forget_other(self) -> None:
        self._under_way.clear()
        self._other = None


def pair(client: str = "in process", server: str = "in process") -> tuple[InProcessLink, InProcessLink]:
    """Return the two ends of one link: each receives what the other sends. The names are those of the peers."""
    ours, theirs = InProcessLink(server), InProcessLink(client)
    ours._other, theirs._other = theirs, ours
    return ours, theirs
