"""Links over TCP, on asyncio's or uvloop's loop.

    send      frames gather until the end of this turn of the loop, then go out together; a large body is written as it lies
    receive   bytes go through `FrameDecoder`; what is not a frame is answered with a Goodbye that says so, and the link ends
    listen    a connection is nobody until its first frame, a Hello: only then does `on_link` hear of it

Connections that stay silent are dropped after `greeting_timeout`, and the oldest of them at once when there are more than
`silent_max`: ten thousand of them cost a thousand file descriptors for a moment, and nobody else anything.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from holdfast.errors import HoldfastError, ProtocolError, Unreachable
from holdfast.wire.conversation import farewell
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import FRAME_BYTES_MAX, Buffer, Frame, Hello, encode_lead

# Bytes waiting in the transport at which a link calls itself congested, and at which it stops to.
CONGESTED_BYTES = 4 << 20
DRAINED_BYTES = 1 << 20
# Bodies from here on are written as they lie; smaller ones are cheaper to join than to write apart.
LARGE_BODY_BYTES = 16 << 10
# Gathered bytes that are not kept until the end of the turn.
GATHERED_BYTES_MAX = 256 << 10
# How long a closing link may take to send what waits, before it is given up: the other side may have stopped reading.
CLOSING_TIMEOUT_S = 5.0
BACKLOG_MAX = 1024


def _unset_lost(error: Exception | None) -> None:
    pass


class TcpLink(asyncio.Protocol):
    """One TCP connection as a `Link`."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.received: Callable[[Frame], None] = self._greeted
        self.lost: Callable[[Exception | None], None] = _unset_lost
        self._decoder = FrameDecoder(frame_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._peer = "nobody"
        self._gathered: list[Buffer] = []
        self._gathered_bytes = 0
        self._is_reading = False
        self._is_congested = False
        self._is_closing = False
        self._problem: Exception | None = None
        self._waiting_to_drain: list[asyncio.Future[None]] = []
        self._giving_up: asyncio.TimerHandle | None = None

    # --- what a Link is ----------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def is_congested(self) -> bool:
        return self._is_congested

    @property
    def bytes_waiting(self) -> int:
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return waiting + self._gathered_bytes

    def send(self, frame: Frame) -> None:
        if self._is_closing:
            return
        session, message, body = frame
        size = len(body)
        lead = encode_lead(session, message, size)
        if not self._gathered and not self._is_reading:
            self._loop.call_soon(self.flush)
        self._gathered.append(lead)
        if size >= LARGE_BODY_BYTES:
            self.flush()
            self._write(body)
        elif size:
            self._gathered.append(body)
        self._gathered_bytes += size + len(lead)
        if self._gathered_bytes > GATHERED_BYTES_MAX:
            self.flush()

    async def drained(self) -> None:
        while self._is_congested:
            waiting = self._loop.create_future()
            self._waiting_to_drain.append(waiting)
            await waiting

    def close(self) -> None:
        if self._is_closing:
            return
        self.flush()
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()
            self._giving_up = self._loop.call_later(CLOSING_TIMEOUT_S, self._transport.abort)

    # --- what the loop calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        self._transport = transport
        transport.set_write_buffer_limits(high=CONGESTED_BYTES, low=DRAINED_BYTES)
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._is_reading = True
        try:
            for frame in self._decoder.feed(data):
                if self._is_closing:
                    return
                self.received(frame)
        except HoldfastError as problem:
            self.refuse(problem)
        finally:
            self._is_reading = False
            if self._gathered:
                self.flush()

    def refuse(self, problem: HoldfastError) -> None:
        """Say why, and end. `lost` will hear of it."""
        self.send(Frame(0, farewell(problem)))
        self._problem = problem
        self.close()

    def pause_writing(self) -> None:
        self._is_congested = True

    def resume_writing(self) -> None:
        self._is_congested = False
        for waiting in self._waiting_to_drain:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting_to_drain.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._gathered.clear()
        if self._giving_up is not None:
            self._giving_up.cancel()
        if exc is None and self._problem is None and not self._decoder.is_between_frames:
            exc = ConnectionResetError("the link ended in the middle of a frame")
        self.resume_writing()
        self.lost(self._problem or exc)
        self.received, self.lost = self._greeted, _unset_lost  # whoever used it is not kept alive by it

    def _greeted(self, frame: Frame) -> None:
        raise ProtocolError("a frame came before anyone was there to receive it; wait for the greeting")

    def flush(self) -> None:
        gathered = self._gathered
        if not gathered or self._is_closing:
            return
        self._gathered = []
        self._gathered_bytes = 0
        self._write(gathered[0] if len(gathered) == 1 else b"".join(gathered))

    def _write(self, data: Buffer) -> None:
        assert self._transport is not None
        self._transport.write(data)


class _IncomingLink(TcpLink):
    """A link that a client opened: unknown to `on_link` until it says Hello."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.frame_bytes_max)
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listener.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.gone(self)
        super().connection_lost(exc)

    def _greeted(self, frame: Frame) -> None:
        if type(frame.message) is not Hello or frame.session != 0:
            raise ProtocolError("the first frame of a link must be a Hello on session 0; this is not a Holdfast client")
        self._listener.greeted(self)
        self.received(frame)


class Listener:
    """Takes connections; made by `listen`."""

    def __init__(
        self, on_link: Callable[[TcpLink], None], *, greeting_timeout: float, silent_max: int, frame_bytes_max: int
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._on_link = on_link
        self._greeting_timeout = greeting_timeout
        self._silent_max = silent_max
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._silent: dict[TcpLink, float] = {}  # in order of arrival, with the time at which patience ends
        self._open: set[TcpLink] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens, with the port it was given when it asked for port 0."""
        assert self._server is not None
        return [each.getsockname()[:2] for each in self._server.sockets]

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    async def start(self, host: str, port: int) -> None:
        self._server = await self._loop.create_server(lambda: _IncomingLink(self), host, port, backlog=BACKLOG_MAX)

    async def close(self) -> None:
        """Take no more connections and end those there are, each after what it has still to send."""
        if self._server is not None:
            self._server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for link in [*self._silent, *self._open]:
            link.close()
        if self._silent or self._open:
            self._all_gone = self._loop.create_future()
            await self._all_gone

    def connected(self, link: TcpLink) -> None:
        self._silent[link] = self._loop.time() + self._greeting_timeout
        if len(self._silent) > self._silent_max:
            self._drop(next(iter(self._silent)), f"more than {self._silent_max} connections have not said Hello; connect again")
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._greeting_timeout, self._drop_overdue)

    def greeted(self, link: TcpLink) -> None:
        del self._silent[link]
        self._open.add(link)
        self._on_link(link)

    def gone(self, link: TcpLink) -> None:
        self._silent.pop(link, None)
        self._open.discard(link)
        if self._all_gone is not None and not (self._silent or self._open or self._all_gone.done()):
            self._all_gone.set_result(None)

    def _drop_overdue(self) -> None:
        now = self._loop.time()
        while self._silent and (oldest := next(iter(self._silent.items())))[1] <= now:
            self._drop(oldest[0], f"no Hello within {self._greeting_timeout:g} s; greet first")
        patience_ends = next(iter(self._silent.values()), None)
        self._sweep = None if patience_ends is None else self._loop.call_at(patience_ends, self._drop_overdue)

    def _drop(self, link: TcpLink, sentence: str) -> None:
        self._silent.pop(link)
        link.refuse(ProtocolError(sentence))


async def listen(
    host: str,
    port: int,
    on_link: Callable[[TcpLink], None],
    *,
    greeting_timeout: float = 10.0,
    silent_max: int = 1_000,
    frame_bytes_max: int = FRAME_BYTES_MAX,
) -> Listener:
    """Take connections. `on_link` gets each link with its Hello waiting: it must set `received` and `lost` before it returns."""
    listener = Listener(on_link, greeting_timeout=greeting_timeout, silent_max=silent_max, frame_bytes_max=frame_bytes_max)
    await listener.start(host, port)
    return listener


async def dial(address: tuple[str, int], timeout: float) -> TcpLink:
    """A link to the server at (host, port); Unreachable with the reason if there is none within the timeout."""
    host, port = address
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            _, link = await loop.create_connection(TcpLink, host, port)
    except TimeoutError as problem:
        raise Unreachable(
            f"no answer from {host}:{port} within {timeout:g} s; is it the right address?", host=host, port=port
        ) from problem
    except OSError as problem:
        raise Unreachable(
            f"cannot connect to {host}:{port}: {problem.strerror or problem}; is the server running?", host=host, port=port
        ) from problem
    return link
