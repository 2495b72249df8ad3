"""The listener's end of an answer link: dials an engine, proves that it is the one, and sends answers without waiting.

    dial ─▶ Hello ─▶ Welcome(engine, start): the registered ones?      yes ─▶ State, then answers and heartbeats
      ▲                                                                no  ─▶ another program has the port: never again
      └── a pause, each twice as long, while the link is wanted ◀── lost

Sending never delays a call: what finds no link, or UNSENT_BYTES_MAX bytes before it, is dropped. The store has the answer, and
the engine asks for it again (`Resume`), or its client does (continuity rule 17).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Iterator
from typing import NamedTuple, Protocol, cast

from holdfast.continuity.link import frame
from holdfast.continuity.link.frame import (
    HEARTBEAT_SECONDS,
    Frames,
    Goodbye,
    Hello,
    Message,
    Read,
    Resume,
    Roll,
    Running,
    SocketFrame,
    SocketOpen,
    State,
    Stop,
    Traced,
    Welcome,
)
from holdfast.continuity.link.turn_writer import TurnWriter, is_local
from holdfast.errors import ProtocolError
from holdfast.wire import local_socket

log = logging.getLogger("holdfast.continuity")

UNSENT_BYTES_MAX = 8 << 20
# Streams wait while more than this is unsent.
ROOM_BYTES = 1 << 20
WELCOME_SECONDS = 5.0
PAUSE_FIRST_S = 0.02
PAUSE_MAX_S = 2.0
UNIX = "unix:"


class Address(NamedTuple):
    """An engine, as it is registered in the topic."""

    engine: str
    start: str
    address: str  # HOST:PORT, or unix:PATH
    is_tls: bool = False
    local: str = ""  # the name of its local socket


class Ears(Protocol):
    """Who is told what an engine asks."""

    def state(self, with_members: bool) -> State:
        """How far the listener is."""

    def read(self, link: AnswerLink, asked: Read) -> None: ...

    def resume(self, link: AnswerLink, asked: Resume) -> None: ...

    def stop_stream(self, number: str) -> None: ...

    def traced(self, trace: str) -> str:
        """The transaction of this trace that is under way; "" for none."""

    def socket(self, link: AnswerLink, asked: SocketOpen | SocketFrame) -> None:
        """A WebSocket is to be opened, or one that is open goes on."""


class AnswerLink(asyncio.Protocol):
    """A link to one start of one engine. `open` dials until `close`."""

    def __init__(self, address: Address, hello: Hello, ears: Ears, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.is_linked = False
        self.is_other = False  # another program, or another start of the engine, answers there
        self.dropped = 0  # messages
        self._hello = hello
        self._ears = ears
        self._tls = tls
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._writer: TurnWriter | None = None
        self._welcomed: asyncio.Future[None] | None = None
        self._lost = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._told = ""  # why there is no link
        self._beat: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    # --- for the listener --------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Dial from now on."""
        self._task = asyncio.create_task(self._keep())

    async def close(self, reason: str = "the listener stops") -> None:
        """Say goodbye and dial no more. What was sent still goes out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._transport is not None and self._writer is not None and not self._transport.is_closing():
            if self.is_linked:
                self._writer.write(frame.encode(Goodbye(reason)))
            self._writer.flush()
            self._transport.close()
        self._end_of_link()

    def send(self, message: Message) -> bool:
        """Send it if there is a link with room; whether it was sent."""
        writer = self._writer
        if not self.is_linked or writer is None or writer.unsent_bytes > UNSENT_BYTES_MAX:
            self.dropped += 1
            return False
        writer.write(frame.encode(message))
        return True

    async def until_room(self, seconds: float) -> None:
        """Return when the link takes more without holding much, when it is lost, or after this time."""
        if self._has_room.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_room.wait()

    async def until_lost(self) -> None:
        await self._lost.wait()

    def say_state(self, with_members: bool = False) -> None:
        """Say how far the listener is, now."""
        if self.is_linked:
            self.send(self._ears.state(with_members))

    # --- dialling ----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        pause = PAUSE_FIRST_S
        while not self.is_other:
            try:
                await self._dial()
                pause = PAUSE_FIRST_S
                await self._lost.wait()
            except (OSError, TimeoutError, ProtocolError) as problem:
                self._tell(problem)
            finally:
                if self._transport is not None and not self.is_linked:
                    self._transport.abort()
            if not self.is_other:
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_MAX_S)

    def _tell(self, problem: Exception) -> None:
        """Log why there is no link; a reason that goes by itself quietly, another once."""
        is_known = not isinstance(problem, ssl.SSLError | ProtocolError) or str(problem) == self._told
        level = logging.DEBUG if is_known else logging.WARNING
        self._told = self._told if is_known else str(problem)
        log.log(level, "engine %s at %s is not linked: %s", self.address.engine, self.address.address, problem)

    async def _dial(self) -> None:
        """Connect and be welcomed. OSError, TimeoutError or ProtocolError if that fails."""
        loop, where = asyncio.get_running_loop(), self.address.address
        self._lost.clear()
        self._frames = Frames()
        self._welcomed = loop.create_future()
        context = self._tls if self.address.is_tls else None
        if self.address.is_tls and context is None:
            raise ProtocolError("it speaks TLS; give this listener an authority and a certificate")
        if self._tls is not None and not self.address.is_tls and not where.startswith(UNIX):
            raise ProtocolError("it speaks no TLS, and this listener sends no answer in the clear")
        async with asyncio.timeout(WELCOME_SECONDS):
            local = local_socket.dial(self.address.local) if context is None else None
            if local is not None:
                await loop.create_unix_connection(lambda: self, sock=local)
            elif where.startswith(UNIX):
                await loop.create_unix_connection(lambda: self, where[len(UNIX) :])
            else:
                host, _, port = where.rpartition(":")
                await loop.create_connection(lambda: self, host.strip("[]"), int(port), ssl=context)
            await self._welcomed

    # --- from the transport ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=ROOM_BYTES)
        self._writer = TurnWriter(self._transport, asyncio.get_running_loop(), not is_local(self._transport))
        self._writer.write(frame.encode(self._hello))

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._hear(message)
        except ProtocolError as problem:
            log.warning("the link to engine %s ends: %s", self.address.engine, problem)
            self._refuse(problem)

    def connection_lost(self, problem: Exception | None) -> None:
        self._refuse(ProtocolError(f"the link was lost{f': {problem}' if problem else ''}"))
        self._end_of_link()

    def _refuse(self, problem: ProtocolError) -> None:
        if self._welcomed is not None and not self._welcomed.done():
            self._welcomed.set_exception(problem)
            self._welcomed.exception()  # the dialler may have failed already, and look no more
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def _end_of_link(self) -> None:
        self.is_linked = False
        self._has_room.set()
        self._lost.set()
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _hear(self, message: Message) -> None:
        if isinstance(message, Welcome):
            self._greeted(message)
        elif not self.is_linked:
            raise ProtocolError(message.reason if isinstance(message, Goodbye) else "the engine speaks before it says Welcome")
        elif isinstance(message, Read):
            self._ears.read(self, message)
        elif isinstance(message, Resume):
            self._ears.resume(self, message)
        elif isinstance(message, Stop):
            self._ears.stop_stream(message.number)
        elif isinstance(message, Traced):
            self.send(Running(message.number, self._ears.traced(message.trace)))
        elif isinstance(message, SocketOpen | SocketFrame):
            self._ears.socket(self, message)
        elif isinstance(message, Roll):
            self.say_state(with_members=True)

    def _greeted(self, welcome: Welcome) -> None:
        if (welcome.engine, welcome.start) != self.address[:2]:
            self.is_other = True
            raise ProtocolError(f"engine {welcome.engine} with start {welcome.start} answers at {self.address.address}")
        self.is_linked = True
        if self._welcomed is not None and not self._welcomed.done():
            self._welcomed.set_result(None)
        self.say_state(with_members=True)
        self._beat = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat_on)

    def _beat_on(self) -> None:
        self.say_state()
        self._beat = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat_on)


class AnswerLinks:
    """The links of a listener: one to each engine that is registered, at its newest start."""

    def __init__(self, hello: Hello, ears: Ears, tls: ssl.SSLContext | None = None) -> None:
        self._hello = hello
        self._ears = ears
        self._tls = tls
        self._links: dict[str, AnswerLink] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def register(self, address: Address) -> None:
        """An engine was registered: dial it, and leave its former start."""
        former = self._links.get(address.engine)
        if former is not None and former.address == address:
            return
        link = self._links[address.engine] = AnswerLink(address, self._hello, self._ears, self._tls)
        link.open()
        if former is not None:
            self._leave(former)

    def unregister(self, engine: str) -> None:
        """An engine has left."""
        former = self._links.pop(engine, None)
        if former is not None:
            self._leave(former)

    def _leave(self, link: AnswerLink) -> None:
        task = asyncio.create_task(link.close("the engine was registered anew"))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def get(self, engine: str, start: str) -> AnswerLink | None:
        """The link to this start of this engine, if there is one now."""
        link = self._links.get(engine)
        return link if link is not None and link.is_linked and link.address.start == start else None

    def __iter__(self) -> Iterator[AnswerLink]:
        return iter(list(self._links.values()))

    def say_state(self, with_members: bool = False) -> None:
        for link in self._links.values():
            link.say_state(with_members)

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._leaving)
        self._links.clear()
