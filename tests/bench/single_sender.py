"""Sends events one by one over the wire, each a batch and a command of its own, many of them under way.

The client gathers events that wait into one batch, as it should. To see what single events cost the server, this speaks the wire
itself: several sessions on one link, each with as many one-event batches under way as the server's window allows.
"""

from __future__ import annotations

import asyncio
from typing import cast

from holdfast.destination import command
from holdfast.event import batch
from holdfast.event.event import Event, encode_head, to_head_and_body
from holdfast.wire import frame
from holdfast.wire.decoder import FrameDecoder
from tests.bench.peer import WAIT_SECONDS

SESSIONS = 16


class _Lane:
    """One session with its producer."""

    def __init__(self) -> None:
        self.producer = ""
        self.sequence = 0
        self.under_way = 0


class SingleSender(asyncio.Protocol):
    """`await SingleSender.open(port, destination, body)`, then `send(count)` any number of times, then `close()`."""

    def __init__(self, destination: str, body: bytes) -> None:
        head, data = to_head_and_body(Event(data=body))
        self._batch = batch.encode([encode_head(head)], [data], source="bench", first_id=1)
        self._destination = destination
        self._decoder = FrameDecoder()
        self._lanes = {number: _Lane() for number in range(1, SESSIONS + 1)}
        self._window = 0
        self._left = self._unanswered = 0
        loop = asyncio.get_running_loop()
        self._is_open: asyncio.Future[None] = loop.create_future()
        self._is_done: asyncio.Future[None] = loop.create_future()

    @classmethod
    async def open(cls, port: int, destination: str, body: bytes) -> SingleSender:
        loop = asyncio.get_running_loop()
        _, sender = await loop.create_connection(lambda: cls(destination, body), "127.0.0.1", port)
        await asyncio.wait_for(sender._is_open, WAIT_SECONDS)
        return sender

    async def send(self, count: int) -> None:
        """Send so many and wait until each is durable."""
        self._is_done = asyncio.get_running_loop().create_future()
        self._left = self._unanswered = count
        self._transport.write(b"".join(part for number in self._lanes for part in self._fill(number)))
        await asyncio.wait_for(self._is_done, WAIT_SECONDS)

    def close(self) -> None:
        self._say(0, frame.Goodbye())
        self._transport.close()

    # --- the link ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._say(0, frame.Hello(frame.MAGIC, list(frame.VERSIONS), "bench"))

    def connection_lost(self, problem: Exception | None) -> None:
        self._fail(ConnectionError(f"the server ended the link: {problem}"))

    def data_received(self, data: bytes) -> None:
        out: list[bytes] = []
        for got in self._decoder.feed(data):
            if isinstance(got.message, frame.Receipted):
                self._lanes[got.session].under_way -= 1
                self._unanswered -= 1
                out.extend(self._fill(got.session))
            else:
                self._hear(got.session, got.message)
        if out:
            self._transport.write(b"".join(out))
        if self._unanswered == 0 and not self._is_done.done():
            self._is_done.set_result(None)

    def _hear(self, session: int, message: frame.Message) -> None:
        if isinstance(message, frame.Welcome):
            self._window = message.window
            for number in self._lanes:
                self._say(number, frame.OpenSession(1))
        elif isinstance(message, frame.SessionOpened):
            self._say(session, frame.OpenProducer(2))
        elif isinstance(message, frame.Answered):
            self._lanes[session].producer = message.value["producer"]
            if all(lane.producer for lane in self._lanes.values()) and not self._is_open.done():
                self._is_open.set_result(None)
        elif isinstance(message, frame.Ping):
            self._say(session, frame.Pong())
        elif isinstance(message, frame.Failed):
            self._fail(message.error())

    def _fill(self, number: int) -> list[bytes]:
        """Frames for as many events as this session may have under way."""
        lane, made = self._lanes[number], []
        while self._left and lane.under_way < self._window:
            lane.sequence += 1
            lane.under_way += 1
            self._left -= 1
            body = command.encode(command.BatchCommand(self._destination, lane.producer, lane.sequence), self._batch)
            made.append(frame.encode_lead(number, frame.Send(lane.sequence), len(body)))
            made.append(body)
        return made

    def _say(self, session: int, message: frame.Message) -> None:
        self._transport.write(frame.encode_lead(session, message, 0))

    def _fail(self, problem: Exception) -> None:
        for waited in (self._is_open, self._is_done):
            if not waited.done():
                waited.set_exception(problem)
                waited.exception()  # it is raised to whoever waits; nobody may
