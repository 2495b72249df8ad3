"""A client that says what a test tells it to, frame by frame, to a node in the same loop; and a channel that can fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.channel.channel import Buffer, Purpose, Receipt
from holdfast.channel.memory_channel import MemoryChannel
from holdfast.destination import command
from holdfast.errors import Blocked, NoSuchPosition
from holdfast.event import batch
from holdfast.event.event import Head, encode_head
from holdfast.node.identity import Identity
from holdfast.node.messages.start import BeforeClaim
from holdfast.node.node import Node
from holdfast.wire.frame import (
    MAGIC,
    VERSIONS,
    Attach,
    Credit,
    Frame,
    Hello,
    Message,
    OpenProducer,
    OpenSession,
    SessionOpened,
    Welcome,
)
from holdfast.wire.in_process_link import pair
from tests.running_server import SETTINGS


class FailingChannel(MemoryChannel):
    """Refuses commands of the kinds in `refused`, as when the reserve is used up; finds nothing `blind` times,
    and fails at reading with each of `faults`."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[type[command.Command]] = set()
        self._refusals: Counter[type[command.Command]] = Counter()
        self._has_refused = asyncio.Event()
        self.blind = 0
        self.faults: list[Exception] = []

    def append(self, data: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        kind = command.KINDS[command.kind_of(data)]
        if kind in self.refused:
            self._refusals[kind] += 1
            self._has_refused.set()
            failed: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
            failed.set_exception(Blocked("the reserve for upkeep is used up"))
            return failed
        return super().append(data, purpose)

    async def until_refused(self, kind: type[command.Command], count: int = 1) -> None:
        async with asyncio.timeout(10):
            while self._refusals[kind] < count:
                self._has_refused.clear()
                await self._has_refused.wait()

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        if self.faults:
            raise self.faults.pop(0)
        if self.blind:
            self.blind -= 1
            raise NoSuchPosition(f"entry {numbers[0]} is not held")
        return await super().fetch(numbers, bytes_max, front)


async def failing_node(
    before_claim: BeforeClaim | None = None, refused: Iterable[type[command.Command]] = ()
) -> tuple[Node, FailingChannel]:
    channel = FailingChannel()
    channel.refused = set(refused)
    return await Node.over(channel, Identity.in_memory(), SETTINGS, before_claim=before_claim), channel


class RawClient:
    """One link, and session 1 on it."""

    def __init__(self, node: Node) -> None:
        self.heard: list[Message] = []
        self.is_lost = False
        self.session = ""
        self._heard = asyncio.Event()
        self._link, theirs = pair()
        self._link.received, self._link.lost = self._received, self._lost
        node.clients.accept(theirs)
        self._token = 1 << 48

    def _received(self, frame: Frame) -> None:
        self.heard.append(frame.message)
        self._heard.set()

    def _lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._heard.set()

    def say(self, message: Message, body: bytes = b"", session: int = 1) -> None:
        self._link.send(Frame(session, message, body))

    def cut(self) -> None:
        self._link.cut()

    async def hear(self, kind: type[Message], count: int = 1) -> list[Any]:
        async with asyncio.timeout(10):
            while len(self.of(kind)) < count:
                assert not self.is_lost, f"the link was lost; heard {self.heard[-1]}"
                self._heard.clear()
                await self._heard.wait()
        return self.of(kind)

    async def until_lost(self) -> None:
        async with asyncio.timeout(10):
            while not self.is_lost:
                self._heard.clear()
                await self._heard.wait()

    def of(self, kind: type[Message]) -> list[Any]:
        return [message for message in self.heard if type(message) is kind]

    async def ask(self, kind: type[Message], *arguments: Any, **named: Any) -> Any:
        """The answer to a question, whatever it is."""
        self._token += 1
        self.say(kind(self._token, *arguments, **named))
        async with asyncio.timeout(10):
            while True:
                for message in self.heard:
                    if getattr(message, "token", 0) == self._token:
                        return message
                assert not self.is_lost, f"the link was lost; heard {self.heard[-1]}"
                self._heard.clear()
                await self._heard.wait()

    async def greet(self, resume: str = "", user: str = "", password: str = "", client: str = "") -> SessionOpened:
        self.say(Hello(MAGIC, list(VERSIONS), "", user, password, client), session=0)
        await self.hear(Welcome)
        opened: SessionOpened = await self.ask(OpenSession, "raw", resume)
        self.session = opened.session
        return opened

    async def receive(self, queue: str = "q", credit: int = 100_000, receiver: int = 1) -> None:
        await self.ask(Attach, receiver, queue, "queue")
        self.say(Credit(receiver, credit, 1 << 30))

    async def open_producer(self) -> str:
        return str((await self.ask(OpenProducer)).value["producer"])


def batch_command(producer: str, sequence: int, queue: str = "q", events: int = 1) -> bytes:
    encoded = batch.encode([encode_head(Head())] * events, [b"x"] * events, source="raw", first_id=sequence % (1 << 64))
    return command.encode(command.BatchCommand(queue, producer, sequence), encoded)


async def fill(node: Node, batches: int, queue: str = "q") -> None:
    """So many batches of one event wait in a queue."""
    node.channel.append(command.encode(command.Create(queue, "queue", is_implicit=True)))
    await asyncio.gather(*(node.channel.append(batch_command("", 0, queue)) for _ in range(batches)))
