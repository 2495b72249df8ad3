"""The mark store: the marks of a route, as events of a local topic that only the relay reads.

    relay.NAME.ROUTE.marks      a topic with one durable subscription, `marks`
      holdfast.relay.base       one event: the upstream subscription that is known, msgpack
      holdfast.relay.mark       a mark, msgpack; sent in one transaction with the events that it is about

At a start the store takes the subscription over, and reads back what waits in it. From then on no other process of this relay
can commit: every transaction demands that the subscription is still ours. So what was read is all there is, also if the process
before was killed with a commit on its way.

A mark that goes is confirmed. Until then it is held, also by a relay that starts again and again: a store is a keeper, whose
deliveries are not counted. An event that somebody else has sent to the topic is rejected: it is no reason to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Self

import msgspec

from holdfast.client.client import Client
from holdfast.client.client_session import ClientSession
from holdfast.errors import Detached, NoSuchDestination, NoSuchSubscription, SubscriptionRemoved, Unavailable
from holdfast.relay.errors import TakenOver
from holdfast.relay.machines.marks import Mark

if TYPE_CHECKING:
    from holdfast.client.receiving.incoming import Incoming
    from holdfast.client.receiving.received_event import ReceivedEvent
    from holdfast.client.transaction import Transaction

log = logging.getLogger("holdfast.relay")

SUBSCRIPTION = "marks"
MARK = "holdfast.relay.mark"
BASE = "holdfast.relay.base"
# How long reading back one mark may take.
READ_S_MAX = 30.0

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Mark).decode


class Base(msgspec.Struct, frozen=True):
    """The upstream subscription that a route draws from, and how it renames what comes from there.

    session   of an upstream queue: the session that receives from it. A queue has no lock that a later process could take over,
              but that process goes on with this session, and so with what it holds
    """

    identity: str = ""
    source: str = ""
    to: str = ""
    session: str = ""


_decode_base = msgspec.msgpack.Decoder(Base).decode


async def look(local: Client, topic: str) -> list[Mark]:
    """The marks that are kept, without taking the store over."""
    try:
        async with local.browse(topic, SUBSCRIPTION) as browser:
            return [_decode(event.body) async for event in browser if event.type == MARK]
    except (NoSuchDestination, NoSuchSubscription):
        return []


class MarkStore:
    def __init__(self, session: ClientSession, topic: str, incoming: Incoming) -> None:
        self.topic = topic
        self.marks: list[Mark] = []  # as they were read back
        self.known = Base()
        self._session = session
        self._incoming = incoming
        self._bases: list[int] = []  # positions of bases, the newest last
        self._positions: dict[int, int] = {}  # of marks, by number
        self._number = 0  # of the newest mark
        self._going: set[int] = set()  # marks that go as soon as they came
        self._taking: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, local: Client, session: ClientSession, topic: str) -> Self:
        await local.ensure_subscription(topic, SUBSCRIPTION)
        incoming = await session.subscribe(topic, SUBSCRIPTION, take_over=True, held=()).open()
        made = cls(session, topic, incoming)
        found = await local.subscriptions(topic)
        for _ in range(next(each["waiting"] for each in found if each["name"] == SUBSCRIPTION)):
            made._read_back(await incoming.next(READ_S_MAX))
        made._taking = asyncio.create_task(made._take(), name=f"marks of {topic}")
        return made

    def _read_back(self, event: ReceivedEvent) -> None:
        read = self._read(event)
        if isinstance(read, Base):
            self._bases.append(event.position)
            self.known = read
        elif read is not None:
            self._number = max(self._number, read.number)
            self._positions[read.number] = event.position
            self.marks.append(read)

    def _read(self, event: ReceivedEvent) -> Base | Mark | None:
        """What is in an event; None of one that is not ours, which is rejected."""
        try:
            if event.type == BASE:
                return _decode_base(event.body)
            if event.type == MARK:
                return _decode(event.body)
            problem = f"its type is {event.type!r:.40}"
        except msgspec.MsgspecError as raised:
            problem = str(raised)
        log.warning("an event in %s is no mark, and goes to the dead events: %s", self.topic, problem)
        self._incoming.reject([(event.position, event.position)], f"it is no mark of the relay: {problem}")
        return None

    async def _take(self) -> None:
        """Take marks as they come back from the transactions that sent them."""
        async for event in self._incoming:
            read = self._read(event)
            if isinstance(read, Base):
                self._incoming.confirm([(position, position) for position in self._bases])
                self._bases = [event.position]
            elif read is not None and read.number in self._going:
                self._going.discard(read.number)
                self._incoming.confirm([(event.position, event.position)])
            elif read is not None:
                self._positions[read.number] = event.position

    def next_number(self) -> int:
        self._number += 1
        return self._number

    async def add_to(self, transaction: Transaction, mark: Mark) -> None:
        """Send a mark with a transaction, which is committed only while the store is ours."""
        transaction.demand(self._incoming)
        await transaction.topic(self.topic).send(_encode(mark), type=MARK)

    async def know(self, base: Base) -> None:
        """Remember the upstream subscription."""
        if base != self.known:
            async with self._session.transaction() as transaction:
                transaction.demand(self._incoming)
                await transaction.topic(self.topic).send(_encode(base), type=BASE)
            self.known = base

    def drop(self, numbers: list[int]) -> None:
        """Let marks go: at once, or when they come."""
        here = [number for number in numbers if number in self._positions]
        self._going.update(number for number in numbers if number not in self._positions)
        self._incoming.confirm([(position, position) for position in sorted(map(self._positions.pop, here))])

    async def ended(self) -> None:
        """Return, by raising why, when the store is not ours any more."""
        assert self._taking is not None
        try:
            await asyncio.shield(self._taking)
        except SubscriptionRemoved:
            raise
        except Detached as problem:
            raise TakenOver(
                f"another process of this relay has taken over {self.topic!r}; only one may run: stop it, or give one of them "
                "another name"
            ) from problem
        raise Unavailable(f"the receiver of {self.topic!r} has ended")

    async def check_ours(self, patience_s: float) -> None:
        """TakenOver, if it is told within this time that another process has the store."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self.ended()

    async def close(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
        await self._incoming.close()
