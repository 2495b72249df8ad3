"""The WebSockets that a listener passes through between engines and its server.

    SocketOpen ─▶ opened at the server ─▶ SocketOpened ─▶ messages both ways ─▶ the first close ends both sides

Each ends with its server, its client or its link, whichever is first. Messages wait for room on the link as streams do.
"""

from __future__ import annotations

import asyncio

from holdfast.continuity.link.answer_link import AnswerLink
from holdfast.continuity.link.frame import SocketClose, SocketFrame, SocketOpen, SocketOpened, SocketRefused
from holdfast.continuity.link.socket_end import RESTART, OpeningAnswered, SocketEnd
from holdfast.continuity.listener.server.server_call import ServerCall
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.listener.server.server_socket import ServerSocket, SocketEnded

# A message waits so long for room on the link; then the link drops it if there is still none, and the WebSocket ends.
ROOM_SECONDS = 10.0


class ServerSockets:
    def __init__(self, server: ServerCall) -> None:
        self._server = server
        self._ends: dict[tuple[AnswerLink, str], SocketEnd] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._ends)

    def open(self, link: AnswerLink, asked: SocketOpen) -> None:
        """Open a WebSocket at the server for this engine, and pass it through."""
        end = self._ends[link, asked.number] = SocketEnd(asked.number, link.send)
        task = asyncio.create_task(self._run(link, asked, end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def hear(self, link: AnswerLink, frame: SocketFrame) -> None:
        end = self._ends.get((link, frame.number))
        if end is not None:
            end.hear(frame)

    async def close(self) -> None:
        """End all of them: their clients come again, to another server."""
        for end in list(self._ends.values()):
            end.close(RESTART, "the listener stops; connect again")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, link: AnswerLink, asked: SocketOpen, end: SocketEnd) -> None:
        try:
            socket = await self._server.open_socket(asked.content)
        except OpeningAnswered as answered:
            answer = answered.answer
            link.send(SocketRefused(asked.number, "answered", str(answered), answer.head, answer.body))
        except CallFailed as failure:
            link.send(SocketRefused(asked.number, "failed", str(failure)))
        else:
            link.send(SocketOpened(asked.number, socket.subprotocol, socket.headers))
            await _pass_through(link, end, socket)
        finally:
            self._ends.pop((link, asked.number), None)


async def _pass_through(link: AnswerLink, end: SocketEnd, socket: ServerSocket) -> None:
    ways = [asyncio.ensure_future(each) for each in (_to_engine(link, end, socket), _to_server(end, socket))]
    lost = asyncio.ensure_future(link.until_lost())
    try:
        await asyncio.wait((*ways, lost), return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            end.end(RESTART, "the engine is lost")
    finally:
        for each in (*ways, lost):
            each.cancel()
        await asyncio.wait((*ways, lost))
        closed = end.closed or SocketClose(end.number, RESTART, "the listener stops")
        await socket.close(closed.code, closed.reason)
    for each in ways:
        if not each.cancelled():
            each.result()


async def _to_engine(link: AnswerLink, end: SocketEnd, socket: ServerSocket) -> None:
    try:
        while True:
            data, is_text = await socket.receive()
            await link.until_room(ROOM_SECONDS)
            if not await end.put(data, is_text):
                await asyncio.Event().wait()  # the other way says what came before the close, and the close
    except SocketEnded as ended:
        end.close(ended.code, ended.reason)


async def _to_server(end: SocketEnd, socket: ServerSocket) -> None:
    try:
        while not isinstance(message := await end.get(), SocketClose):
            await socket.send(message.data, message.is_text)
    except SocketEnded as ended:
        end.close(ended.code, ended.reason)
