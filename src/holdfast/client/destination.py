"""Destinations as a program uses them: a queue, whose events each go to one recipient, and a topic, whose events go to every
subscription."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from holdfast.client import checks
from holdfast.client.gathering import Kind
from holdfast.client.outgoing import EventFields, prepare
from holdfast.client.pipeline import Pipeline
from holdfast.client.receipt import Receipt, Receipts
from holdfast.client.recipient import CREDIT_BYTES, CREDIT_EVENTS, Incoming
from holdfast.destination import name as names
from holdfast.errors import BadEvent
from holdfast.event.event import Event

if TYPE_CHECKING:
    from holdfast.client.session import Session


def check_name(name: str) -> str:
    """Refuse what cannot be a name before it travels. Dead events may be received; to send to them is refused by the server."""
    if name != names.DEAD:
        names.check_destination(name)
    return name


def check_subscription(name: str) -> str:
    names.check_subscription(name)
    return name


def check_many(events: Iterable[Any]) -> None:
    """Refuse one event where many are expected: the letters of a text, or the names in a dict, are never meant."""
    if isinstance(events, str | bytes | Mapping | Event) or not isinstance(events, Iterable):
        raise BadEvent(f"send_many takes a list of events, not {type(events).__name__}; send one with send")


class Destination:
    """Where events are sent. Made by `client.queue(name)` and `client.topic(name)`; making one creates nothing and asks
    nobody."""

    KIND: ClassVar[Kind]

    def __init__(self, session: Session, name: str) -> None:
        self.name = check_name(name)
        self._session = session

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """Send one event, data with fields or an `Event`, and wait until it is durable.

        Data is bytes, text (as UTF-8), or anything JSON can hold, and arrives as JSON has it: a tuple or a set as a list, NaN as
        None. `fields` are those of `Event`: `type`, `properties`, `priority` …

        Raises BadEvent and TooLarge for what cannot be sent; Unreachable, TimedOut and Blocked when nothing happened; LinkLost
        when it was sent and no receipt came in time: it may be accepted, or still be, once. A cancelled send may be accepted
        too.
        """
        event = prepare(data, fields)
        connection = self._session.connection
        connection.check_open()
        checks.same_loop(connection.loop)
        return await self._session.producer.send(self.name, self.KIND, event, checks.seconds(timeout, connection.timeout))

    async def send_many(self, events: Iterable[Any], *, timeout: float | None = None) -> Receipts:
        """Send many, each data or an `Event`, and wait until all are durable; their receipts in order."""
        check_many(events)
        async with self.pipeline(timeout=timeout) as pipeline:
            for event in events:
                await pipeline.send(event)
        return pipeline.receipts

    def pipeline(self, *, timeout: float | None = None) -> Pipeline:
        """For sending many without waiting for each: `async with destination.pipeline() as pipeline: await pipeline.send(…)`."""
        self._session.connection.check_open()
        return Pipeline(self._session, self.name, self.KIND, timeout)


class Queue(Destination):
    KIND = "queue"

    def receive(self, *, credit: int = CREDIT_EVENTS, credit_bytes: int = CREDIT_BYTES, timeout: float | None = None) -> Incoming:
        """Receive: `async with queue.receive() as incoming: async for event in incoming: …`.

        At most `credit` events and about `credit_bytes` are handed over ahead of use. With a `timeout`, waiting longer for an
        event raises TimedOut.
        """
        return Incoming(self._session, self.name, "queue", "", credit, credit_bytes, timeout)


class Topic(Destination):
    KIND = "topic"

    def subscribe(
        self,
        name: str | None = None,
        *,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
    ) -> Incoming:
        """Receive what is sent to the topic: with a name, from a durable subscription that remembers while nobody receives;
        without, from now on."""
        subscription = "" if name is None else check_subscription(name)
        return Incoming(self._session, self.name, "topic", subscription, credit, credit_bytes, timeout)
