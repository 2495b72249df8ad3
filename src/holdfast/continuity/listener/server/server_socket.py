"""A WebSocket from a listener to its server, opened as the client asked for it.

The server sees the client's target, `Host`, subprotocols and headers; those of one connection (`Sec-WebSocket-Key`, extensions)
are the listener's own. Nothing is compressed. A redirect is an answer like any other: it is not followed.
Memory: one message of MESSAGE_BYTES_MAX is read ahead, then the socket is not read; a larger message ends it with 1009.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.link.socket_end import MESSAGE_BYTES_MAX, RESTART, OpeningAnswered
from holdfast.continuity.listener.server.http_caller import HttpCaller
from holdfast.continuity.listener.server.server_connection import CallFailed, passed_on
from holdfast.continuity.request import Content, Headers

CLOSE_SECONDS = 2.0
_OWN = b"sec-websocket-"
_PROTOCOL = b"sec-websocket-protocol"
_LEFT_OUT = frozenset((b"accept-encoding", b"content-length", b"expect", b"host"))


class SocketEnded(Exception):
    """The server has ended the WebSocket, or is lost."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class ServerSocket:
    """An open WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, caller: HttpCaller, content: Content, timeout: float) -> Self:
        """Connect and be accepted. OpeningAnswered if the server answers with a status, CallFailed if it cannot be reached."""
        address = caller.address
        host = next((value.decode("latin-1") for name, value in content.headers if name == b"host"), address.authority)
        headers = [each for each in passed_on(content.headers) if each[0] not in _LEFT_OUT and not each[0].startswith(_OWN)]
        where: dict[str, Any] = (
            {"unix": True, "path": address.path} if address.path else {"host": address.host, "port": address.port}
        )
        if address.is_tls:
            where |= {"ssl": caller.tls, "server_hostname": address.host}
        try:
            async with asyncio.timeout(timeout):
                return cls(
                    await _Connect(
                        f"{'wss' if address.is_tls else 'ws'}://{host}{content.target}",
                        subprotocols=_subprotocols(content.headers) or None, compression=None, user_agent_header=None, proxy=None,
                        additional_headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers],
                        open_timeout=None, close_timeout=CLOSE_SECONDS, max_size=MESSAGE_BYTES_MAX, max_queue=1, **where,
                    )
                )  # fmt: skip
        except InvalidStatus as refused:
            raise OpeningAnswered(_answer(refused)) from refused
        except TimeoutError as problem:
            raise CallFailed("timed out", f"{caller.url} has not accepted the WebSocket within {timeout:g} s") from problem
        except (InvalidURI, InvalidHandshake, WebSocketException, OSError, ValueError) as problem:
            raise CallFailed("refused", f"{caller.url} has not accepted the WebSocket: {problem}") from problem

    @property
    def subprotocol(self) -> str:
        return self._connection.subprotocol or ""

    @property
    def headers(self) -> Headers:
        """What the server said when it accepted, without what concerns the connection."""
        assert self._connection.response is not None
        said = _encoded(self._connection.response.headers.raw_items())
        return [each for each in passed_on(said) if not each[0].startswith(_OWN)]

    async def receive(self) -> tuple[bytes, bool]:
        """The next message, and whether it is text. SocketEnded after the last one."""
        try:
            data = await self._connection.recv()
        except ConnectionClosed as closed:
            raise _ended(closed) from closed
        return (data.encode(), True) if isinstance(data, str) else (data, False)

    async def send(self, data: bytes, is_text: bool) -> None:
        """Send a message, when the server takes it. SocketEnded if there is nobody any more."""
        try:
            await self._connection.send(data, text=is_text)
        except ConnectionClosed as closed:
            raise _ended(closed) from closed

    async def close(self, code: int, reason: str) -> None:
        """End it; the server has CLOSE_SECONDS to agree."""
        await self._connection.close(code, reason)


def _ended(closed: ConnectionClosed) -> SocketEnded:
    if closed.rcvd is not None:
        return SocketEnded(closed.rcvd.code, closed.rcvd.reason)
    if closed.sent is not None and not closed.rcvd_then_sent:
        return SocketEnded(closed.sent.code, closed.sent.reason)  # it was ended here: a message that is too large, no pong
    return SocketEnded(RESTART, "the server is lost; connect again")


def _answer(refused: InvalidStatus) -> Answer:
    body = bytes(refused.response.body or b"")
    headers = passed_on(_encoded(refused.response.headers.raw_items()))
    return Answer(Head(refused.response.status_code, headers, len(body)), body)


def _encoded(headers: object) -> Headers:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]  # type: ignore[attr-defined]


def _subprotocols(headers: Headers) -> list[Subprotocol]:
    said = [value.decode("latin-1").split(",") for name, value in headers if name == _PROTOCOL]
    return [Subprotocol(each.strip()) for names in said for each in names if each.strip()]
