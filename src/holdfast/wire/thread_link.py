"""A link between two loops of one process, each in a thread of its own: a client in one, a shared node in the other.

    send ─▶ inbox of the other end ─▶ its loop is woken ─▶ received, over there

It keeps the rules of every link. Each end is used in its own loop only. The two ends share a deque, which threads may append to
and take from at the same time. When the loop of one end has ended without closing it, the other end is lost with its next frame,
a heartbeat at the latest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.wire.frame import Frame
from holdfast.wire.in_process_link import LinkEnd
from holdfast.wire.link import report_fault


class ThreadLink(LinkEnd):
    """One end; `pair` makes two."""

    def __init__(self, peer: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(peer, loop)
        self._other: ThreadLink | None = None
        self._inbox: deque[Frame | None] = deque()  # None: the other end was closed
        self._is_due = False  # the inbox will be looked at

    def send(self, frame: Frame) -> None:
        if self._is_closing or self._is_lost:
            return
        self._bytes_waiting += len(frame.body)
        self._put(frame)

    def send_now(self, frame: Frame) -> None:
        self.send(frame)

    def flush(self) -> None:
        """Do nothing: the first frame wakes the other loop."""

    def close(self) -> None:
        if not (self._is_closing or self._is_lost):
            self._is_closing = True
            self._put(None)
            self._loop.call_soon(self._lose, None)

    def _put(self, frame: Frame | None) -> None:
        """Put a frame into the other inbox. Its end resets `_is_due` before it looks, so a later frame asks for another turn."""
        other = self._other
        if other is None:
            return
        other._inbox.append(frame)
        if not other._is_due:
            other._is_due = True
            self._call(other, other._take)

    def _call(self, other: ThreadLink, work: Callable[..., None], *arguments: int) -> None:
        try:
            other._loop.call_soon_threadsafe(work, *arguments)
        except RuntimeError:  # its loop is closed
            self._loop.call_soon(self._lose, ConnectionResetError("the event loop at the other end has ended"))

    def _take(self) -> None:
        """Receive frames, in the loop of this end. Frames that come meanwhile have another turn, and so has everyone else."""
        self._is_due = False
        taken = 0
        for _ in range(len(self._inbox)):
            frame = self._inbox.popleft()
            if self._is_lost:
                return
            if frame is None:
                self._lose(None)
                return
            taken += len(frame.body)
            try:
                self.received(frame)
            except Exception as problem:
                report_fault(self._peer, problem)
                self.close()
                return
        other = self._other
        if taken and other is not None:
            self._call(other, other._taken, taken)
        if self._inbox and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._take)

    def _taken(self, size: int) -> None:
        self._bytes_waiting -= size
        if not self.is_congested:
            self._wake_drained()

    def _forget_other(self) -> None:
        self._other = None


def pair(ours: asyncio.AbstractEventLoop, theirs: asyncio.AbstractEventLoop) -> tuple[ThreadLink, ThreadLink]:
    """Return the two ends of one link, each for its own loop."""
    near, far = ThreadLink("in process", ours), ThreadLink("in process", theirs)
    near._other, far._other = far, near
    return near, far
