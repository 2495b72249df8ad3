"""A server that says what a test tells it to, over in-process links: for what a real one does only in rare moments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.client.connection.connection import Connection
from holdfast.destination import command
from holdfast.event import batch
from holdfast.event.event import Head, encode_head
from holdfast.wire.frame import (
    FRAME_BYTES_MAX,
    Answered,
    Attach,
    CloseSession,
    Deliver,
    DetachReceiver,
    ForgetProducer,
    Frame,
    Goodbye,
    Hello,
    Message,
    OpenProducer,
    OpenSession,
    Receipted,
    Send,
    SessionOpened,
    Settle,
    Slice,
    Welcome,
)
from holdfast.wire.in_process_link import InProcessLink, pair


class ScriptedServer:
    """Keeps all it hears. Answers greetings, sessions, producers, receivers by itself; sends and verdicts only while told to."""

    def __init__(self, window: int = 4, heartbeat_ms: int = 60_000) -> None:
        self.heard: list[Message] = []
        self.bodies: dict[int, bytes] = {}  # of sends, by sequence
        self.is_receipting = True
        self.is_settling = True
        self.is_resuming = True
        self.is_refusing_links = False
        self.producer_answer: dict[str, Any] = {"producer": "p1", "last_sequence": 0, "receipts": []}
        self.answers: dict[type[Message], Callable[[Any], Message | None]] = {}
        self.first_id = 1 << 100
        self.links = 0
        self._welcome = Welcome(1, "scripted", FRAME_BYTES_MAX, heartbeat_ms, window)
        self._link: InProcessLink | None = None
        self._heard = asyncio.Event()

    @property
    def knows_others(self) -> bool:
        return False

    @property
    def where(self) -> str:
        return "the scripted server"

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def dial(self, timeout: float) -> InProcessLink:
        if self.is_refusing_links:
            raise ConnectionRefusedError("not now")
        ours, theirs = pair()
        theirs.received = self._received
        self._link = theirs
        self.links += 1
        return ours

    def _received(self, frame: Frame) -> None:
        message = frame.message
        self.heard.append(message)
        if isinstance(message, Send):
            self.bodies[message.token] = bytes(frame.body)
        answer = self._answer(message)
        if answer is not None:
            self.say(answer, 0 if isinstance(answer, Goodbye) else frame.session)
        self._heard.set()

    def _answer(self, message: Message) -> Message | None:
        if type(message) in self.answers:
            return self.answers[type(message)](message)
        match message:
            case Hello():
                return self._welcome
            case OpenSession():
                self.first_id += 1 << 80
                return SessionOpened(
                    message.token, "s1", self.first_id.to_bytes(16, "big"), bool(message.resume) and self.is_resuming
                )
            case OpenProducer():
                return Answered(message.token, self.producer_answer)
            case Send() if self.is_receipting:
                return Receipted(message.token, message.token + 100, 1, True)
            case Settle() if self.is_settling:
                return Answered(message.token)
            case Attach() | DetachReceiver() | CloseSession() | ForgetProducer():
                return Answered(message.token)
        return None

    def say(self, message: Message, session: int = 1, body: bytes = b"") -> None:
        assert self._link is not None
        self._link.send(Frame(session, message, body))

    def cut(self) -> None:
        assert self._link is not None
        self._link.cut()

    def of(self, kind: type[Message]) -> list[Any]:
        return [message for message in self.heard if type(message) is kind]

    async def hear(self, kind: type[Message], count: int = 1) -> list[Any]:
        """Wait until so many of a kind were heard."""
        async with asyncio.timeout(10):
            while len(self.of(kind)) < count:
                self._heard.clear()
                await self._heard.wait()
        return self.of(kind)

    def deliver(
        self, receiver: int, *slices: tuple[int, int, bool], is_careful: bool = False, deliveries: tuple[int, ...] = ()
    ) -> None:
        """Hand over slices: (first position, events, is adjoining); `deliveries` before, of each."""
        made, bodies = [], []
        for (first, events, is_adjoining), before in zip(slices, deliveries or [0] * len(slices), strict=True):
            heads = [encode_head(Head())] * events
            bodies.append(batch.encode(heads, [b"%d" % (first + index) for index in range(events)], source="s", first_id=first))
            made.append(Slice(first, events, before, is_adjoining, len(bodies[-1])))
        self.say(Deliver(receiver, made, is_careful), body=b"".join(bodies))

    def deliver_expiring(self, receiver: int, events: tuple[int, int], ttl_ms: int) -> None:
        """Hand over a slice (first position, events), of which all but the first event expire."""
        first, count = events
        at_ms = time.time_ns() // 1_000_000 + ttl_ms
        heads = [encode_head(Head())] + [encode_head(Head(expires_at_ms=at_ms))] * (count - 1)
        made = batch.encode(heads, [b"1"] * count, source="s", first_id=first, earliest_expiry_ms=at_ms, latest_expiry_ms=at_ms)
        self.say(Deliver(receiver, [Slice(first, count, 0, False, len(made))]), body=made)

    def sent(self, sequence: int) -> tuple[command.BatchCommand, batch.Batch]:
        made, payload = command.decode(self.bodies[sequence])
        assert isinstance(made, command.BatchCommand)
        return made, batch.Batch(payload)


@asynccontextmanager
async def connected(server: ScriptedServer, timeout: float = 5.0) -> AsyncIterator[Connection]:
    connection = Connection(server, "test", "source", timeout)
    await connection.open()
    try:
        yield connection
    finally:
        await connection.close()
