"""The engine's end of answer links: listens, greets listeners, and hands what they say to the engine.

    listener ──Hello──▶ checked: version, domain ──▶ Welcome ──▶ Answered, State, Seen …

Memory: a link holds at most one unfinished frame of FRAME_MAX, and LINKS_MAX links are taken. A peer that says no Hello within
HELLO_SECONDS, or says something that is no frame, gets a Goodbye and loses its link.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Protocol, cast

from holdfast.continuity.link import frame
from holdfast.continuity.link.frame import Frames, Goodbye, Hello, Message, Welcome
from holdfast.continuity.link.turn_writer import TurnWriter, is_local
from holdfast.errors import ProtocolError, Unavailable
from holdfast.wire import local_socket

log = logging.getLogger("holdfast.continuity")

LINKS_MAX = 256
HELLO_SECONDS = 5.0
# Frames of a stranger: a Hello needs no more.
HELLO_BYTES_MAX = 16 << 10


class Hall(Protocol):
    """Who is told what listeners say."""

    def came(self, link: ListenerLink) -> None:
        """A listener of this domain has introduced itself."""

    def heard(self, link: ListenerLink, message: Message) -> None: ...

    def went(self, link: ListenerLink) -> None: ...


class ListenerLink(asyncio.Protocol):
    """One link of a listener."""

    def __init__(self, server: AnswerServer) -> None:
        self.hello: Hello | None = None
        self._server = server
        self._frames = Frames(HELLO_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._writer: TurnWriter | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.is_writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # that of uvloop is none by class
        self._transport = transport
        self._writer = TurnWriter(transport, asyncio.get_running_loop(), not is_local(transport))
        if len(self._server.links) >= LINKS_MAX:
            self.end(f"this engine has {LINKS_MAX} links already")
            return
        self._server.links[self] = None
        self._deadline = asyncio.get_running_loop().call_later(HELLO_SECONDS, self.end, "no Hello came in time")

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                if self.hello is None:
                    self._greet(message)
                else:
                    self._server.hall.heard(self, message)
        except ProtocolError as problem:
            self.end(problem.sentence)

    def _greet(self, message: Message) -> None:
        if not isinstance(message, Hello):
            raise ProtocolError("a link begins with Hello")
        if message.version != frame.VERSION:
            raise ProtocolError(f"this engine speaks version {frame.VERSION} of the answer link, not {message.version}")
        if message.domain != self._server.domain:
            raise ProtocolError(f"this engine is of domain {self._server.domain!r}, not {message.domain!r}")
        if self._deadline is not None:
            self._deadline.cancel()
        self.hello = message
        self._frames.widen()
        self.send(Welcome(self._server.name, self._server.start))
        self._server.hall.came(self)

    def send(self, message: Message) -> bool:
        """Say something; whether there is a link. Dropped if it is gone: the listener has its store."""
        return self.send_encoded(frame.encode(message))

    def send_encoded(self, encoded: bytes) -> bool:
        """Say what is encoded already: it is said to several."""
        if self._writer is None or self._transport is None or self._transport.is_closing():
            return False
        self._writer.write(encoded)
        return True

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True

    def end(self, reason: str) -> None:
        """Say goodbye and close."""
        if self._transport is None or self._transport.is_closing():
            return
        if self.hello is None:
            log.info("a link was refused: %s", reason)
        self.send(Goodbye(reason))
        if self._writer is not None:
            self._writer.flush()
        self._transport.close()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._server.links.pop(self, None)
        if self.hello is not None:
            self._server.hall.went(self)


class _Handshake(ssl.SSLObject):
    """TLS that says why a link was refused: the loop says nothing of it."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as problem:
            log.warning("a link was refused: its TLS or its certificate is not accepted: %s", problem)
            raise


class AnswerServer:
    def __init__(self, hall: Hall, domain: str, name: str, start: str) -> None:
        self.hall = hall
        self.domain = domain
        self.name = name
        self.start = start
        self.links: dict[ListenerLink, None] = {}
        self.local = ""  # the name of its local socket, for listeners on this machine
        self._servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Take links from now on; where. Unavailable if the port cannot be had."""
        if tls is not None:
            tls.sslobject_class = _Handshake
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(lambda: ListenerLink(self), host, port, ssl=tls)
        except OSError as problem:
            raise Unavailable(
                f"cannot listen on {host}:{port} for answers ({problem.strerror}); stop what uses the port, or choose another "
                "with --answers"
            ) from problem
        self._servers.append(server)
        if tls is None and (made := local_socket.listen()) is not None:
            self.local, listening = made
            self._servers.append(await loop.create_unix_server(lambda: ListenerLink(self), sock=listening))
        address = server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for link in list(self.links):
            link.end("the engine stops")
        for server in self._servers:
            await server.wait_closed()
