"""One end of a WebSocket that is passed through over an answer link: the engine has one, the listener the other.

    client ═ws═ engine: SocketEnd ◀── SocketMessage, SocketTaken, SocketClose ──▶ SocketEnd :listener ═ws═ server

Whole messages travel. Pings are answered by whoever gets them, engine or listener, and are not passed on.
Memory: `put` waits while WINDOW_BYTES or more are not taken by the other side. So each end holds at most WINDOW_BYTES and one
message of MESSAGE_BYTES_MAX; a peer that sends more is cut off. Nothing is read from a client or server while `put` waits.

Close codes are those of RFC 6455. A side that is lost without a close is told as 1012: the client may come again, and gets
another server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from holdfast.continuity.answer import Answer
from holdfast.continuity.link.frame import Message, SocketClose, SocketFrame, SocketMessage, SocketTaken

MESSAGE_BYTES_MAX = 1 << 20
WINDOW_BYTES = 256 << 10
# What a message costs beside its bytes: empty ones are bounded, too.
MESSAGE_COST = 64
REASON_BYTES_MAX = 123
NORMAL, NO_STATUS, FAILED, RESTART = 1000, 1005, 1011, 1012
# What else may stand in a close frame beside 3000 to 4999.
_WRITABLE = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014))


def size_of(message: SocketMessage) -> int:
    return len(message.data) + MESSAGE_COST


def close_of(number: str, code: int, reason: str) -> SocketClose:
    """A close that can be written in a close frame: another code and a shorter reason where these cannot."""
    if code == NO_STATUS:
        code = NORMAL
    elif code not in _WRITABLE and not 3000 <= code <= 4999:
        code = FAILED
    return SocketClose(number, code, reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore"))


class OpeningAnswered(Exception):
    """The server has answered the opening of a WebSocket with a status: the client gets that answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"the server has answered {answer.head.status}")
        self.answer = answer


class SocketEnd:
    """`put` what the near side says, `get` what the far side says. `send` puts a frame on the link; whether it was sent."""

    def __init__(self, number: str, send: Callable[[Message], bool]) -> None:
        self.number = number
        self._send = send
        self._came: deque[SocketMessage] = deque()
        self._held = 0  # of what came
        self._untaken = 0  # of what was sent
        self._closed: SocketClose | None = None
        self._changed = asyncio.Event()

    @property
    def closed(self) -> SocketClose | None:
        """How it was closed."""
        return self._closed

    async def put(self, data: bytes, is_text: bool) -> bool:
        """Send a message when the other side has room; whether it was sent. False: the WebSocket has ended."""
        while self._untaken >= WINDOW_BYTES and self._closed is None:
            await self._change()
        if self._closed is not None:
            return False
        message = SocketMessage(self.number, data, is_text)
        self._untaken += size_of(message)
        if not self._send(message):
            self.end(RESTART, "the link between engine and listener took a message no more")
            return False
        return True

    async def get(self) -> SocketMessage | SocketClose:
        """The next message of the other side, or the close after the last one."""
        while not self._came:
            if self._closed is not None:
                return self._closed
            await self._change()
        message = self._came.popleft()
        self._held -= size_of(message)
        if self._closed is None:
            self._send(SocketTaken(self.number, size_of(message)))
        return message

    def hear(self, frame: SocketFrame) -> None:
        """A frame of the other side."""
        if self._closed is not None:
            return
        if isinstance(frame, SocketMessage):
            self._came.append(frame)
            self._held += size_of(frame)
            if self._held > WINDOW_BYTES + MESSAGE_BYTES_MAX + MESSAGE_COST:
                self.close(FAILED, "more came than there was room for")
        elif isinstance(frame, SocketTaken):
            self._untaken -= frame.size
        elif isinstance(frame, SocketClose):
            self.end(frame.code, frame.reason)
        self._changed.set()

    def close(self, code: int, reason: str) -> None:
        """The near side ends it: tell the other."""
        if self._closed is None:
            self._send(close_of(self.number, code, reason))
            self.end(code, reason)

    def end(self, code: int, reason: str) -> None:
        """The other side has ended it, or is lost. What came before is still to be had."""
        if self._closed is None:
            self._closed = close_of(self.number, code, reason)
            self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
