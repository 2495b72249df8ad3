"""WebSockets that are passed through to one current server each, on routes that are declared as streams (23).

    client ═ws═▶ engine ──SocketOpen──▶ listener of a current server ═ws═▶ server
                        ◀─SocketOpened─                                     messages both ways, then a close

The servers take turns. One that declines, or cannot be reached, passes the turn to the next; one that answers the opening with a
status refuses it for all. When a server or its link is lost, or it is not current any more, its WebSockets are closed with 1012
and the reason: the client comes again, and gets another server. Nothing of it is in the journal.
"""

from __future__ import annotations

import asyncio

from holdfast.continuity.answer import Answer
from holdfast.continuity.engine.servers import Server
from holdfast.continuity.errors import NotAnswered, NotTaken
from holdfast.continuity.link.frame import SocketFrame, SocketOpen, SocketOpened, SocketRefused
from holdfast.continuity.link.socket_end import NORMAL, RESTART, OpeningAnswered, SocketEnd
from holdfast.continuity.request import Content


class PassedSocket(SocketEnd):
    """A WebSocket at a server."""

    def __init__(self, number: str, server: Server) -> None:
        super().__init__(number, server.link.send)
        self.server = server.name
        self.opening: asyncio.Future[SocketOpened | SocketRefused] = asyncio.get_running_loop().create_future()


class Sockets:
    def __init__(self, start: str, timeout: float) -> None:
        """`timeout`: for a server to accept one, in seconds."""
        self._start = start
        self._timeout = timeout
        self._sockets: dict[str, PassedSocket] = {}
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._sockets)

    async def open(self, content: Content, place: int, current: list[Server]) -> tuple[PassedSocket, SocketOpened]:
        """A WebSocket at one of these servers. Say `leave` at its end. OpeningAnswered, NotTaken or NotAnswered without one."""
        turn = (self._numbers + 1) % len(current)
        refused: SocketRefused | None = None
        for server in current[turn:] + current[:turn]:
            self._numbers += 1
            number = f"{self._start}-w{self._numbers:x}"
            socket = self._sockets[number] = PassedSocket(number, server)
            try:
                async with asyncio.timeout(self._timeout):
                    server.link.send(SocketOpen(number, content, place))
                    opened = await socket.opening
            except TimeoutError:
                self.leave(socket)
                opened = SocketRefused(number, "failed", "the server has not accepted it in time")
            except BaseException:
                self.leave(socket)
                raise
            if isinstance(opened, SocketOpened):
                return socket, opened
            self._sockets.pop(number, None)
            if opened.head is not None:
                raise OpeningAnswered(Answer(opened.head, opened.body))
            refused = opened
        assert refused is not None, "somebody is current"
        if refused.outcome == "declined":
            raise NotTaken(f"no server takes the WebSocket: {refused.reason}; repeat it later")
        raise NotAnswered(502, f"no server takes the WebSocket: {refused.reason}", refused.number, "")

    def hear(self, server: str, frame: SocketFrame) -> None:
        """A listener says something of a WebSocket."""
        socket = self._sockets.get(frame.number)
        if socket is None or socket.server != server:
            return
        if not isinstance(frame, SocketOpened | SocketRefused):
            socket.hear(frame)
        elif not socket.opening.done():
            socket.opening.set_result(frame)

    def lose(self, server: str, why: str) -> None:
        """A server is not to be had any more: its clients come again."""
        for socket in [each for each in self._sockets.values() if each.server == server]:
            if not socket.opening.done():
                socket.opening.set_result(SocketRefused(socket.number, "failed", f"{server}: {why}"))
            socket.close(RESTART, f"server {server}: {why}; connect again")

    def leave(self, socket: PassedSocket) -> None:
        """The client is gone."""
        socket.close(NORMAL, "")
        self._sockets.pop(socket.number, None)
