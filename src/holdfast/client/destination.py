"""Destinations as a program uses them: a queue, whose events each go to one recipient, and a topic, whose events go to every
subscription."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from holdfast.client import checks
from holdfast.client.browser import PAGE_EVENTS, Browser
from holdfast.client.checks import ConfirmMode
from holdfast.client.confirming import receiver_for
from holdfast.client.gathering import Kind
from holdfast.client.granting import CREDIT_BYTES, CREDIT_EVENTS
from holdfast.client.outgoing import EventFields, prepare
from holdfast.client.pipeline import Pipeline
from holdfast.client.receipt import Receipt, Receipts
from holdfast.client.recipient import Incoming
from holdfast.client.stream import Progress, Source, send_stream
from holdfast.client.subscribing import PLAIN, Asked, condition, subscription
from holdfast.destination import name as names
from holdfast.errors import BadEvent
from holdfast.event.event import Event

if TYPE_CHECKING:
    from holdfast.client.received import ReceivedEvent
    from holdfast.client.session import Session


def check_name(name: str) -> str:
    """Refuse what cannot be a name before it travels. What may be done with Holdfast's own destinations the server says."""
    if isinstance(name, str) and names.is_temporary(name):
        names.check_temporary(name)
    else:
        names.check_usable(name)
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
        self._session.check_open()
        checks.same_loop(connection.loop)
        return await self._session.producer.send(self.name, self.KIND, event, checks.seconds(timeout, connection.timeout))

    async def try_send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """As `send`, but Blocked at once, and nothing sent, when the destination is at its high water (`events_max`,
        `bytes_max`), instead of waiting until it is not."""
        event = prepare(data, fields)
        connection = self._session.connection
        self._session.check_open()
        checks.same_loop(connection.loop)
        return await self._session.producer.try_send(self.name, self.KIND, event, checks.seconds(timeout, connection.timeout))

    @property
    def is_blocked(self) -> bool:
        """The destination is at its high water, as far as the server has told; it tells those who have sent there."""
        return self._session.producer.flow.is_blocked(self.name)

    async def unblocked(self, timeout: float | None = None) -> None:
        """Wait until the destination is not blocked; at once when it is not. TimedOut when that takes longer."""
        connection = self._session.connection
        self._session.check_open()
        checks.same_loop(connection.loop)
        await self._session.producer.flow.unblocked(self.name, checks.seconds(timeout, connection.timeout))

    async def send_many(self, events: Iterable[Any], *, timeout: float | None = None) -> Receipts:
        """Send many, each data or an `Event`, and wait until all are durable; their receipts in order."""
        check_many(events)
        async with self.pipeline(timeout=timeout) as pipeline:
            for event in events:
                await pipeline.send(event)
        return pipeline.receipts

    async def request(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> ReceivedEvent:
        """Send a request and wait for the reply to it: the event that a recipient answers with `event.reply(…)`, confirmed.

        NoReply when none comes in time (the request itself was accepted); LinkLost when the link was lost for so long that a
        reply can no longer come. What `send` raises is raised too.
        """
        self._session.check_open()
        return await self._session.connection.requests.ask(self, data, timeout, fields)

    async def send_stream(
        self,
        content: Source,
        /,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
        **fields: Unpack[EventFields],
    ) -> Receipt:
        """Send one event of any size, and wait until all of it is durable: only then does anybody see it.

        `content` is a path, bytes, an open binary file, or an iterator of bytes; it is read in fragments, never held in memory as
        a whole. `progress` is told (bytes sent, bytes in all or None). A link that is lost is waited for; `timeout` is for how
        long nothing may move. When it fails, or is cancelled, nothing of it is left. A recipient reads it with
        `event.open_stream()`.

        Raises TooLarge when the server does not take so much, Blocked when it has no room; LinkLost when all was sent and no
        answer came.
        """
        connection = self._session.connection
        self._session.check_open()
        checks.same_loop(connection.loop)
        allowed = checks.seconds(timeout, connection.timeout)
        return await send_stream(self._session, self.name, self.KIND, content, progress, fields, allowed)

    def pipeline(self, *, timeout: float | None = None) -> Pipeline:
        """For sending many without waiting for each: `async with destination.pipeline() as pipeline: await pipeline.send(…)`."""
        self._session.check_open()
        return Pipeline(self._session, self.name, self.KIND, timeout)


class Queue(Destination):
    KIND = "queue"

    def receive(
        self,
        *,
        selector: str | None = None,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
        confirm: ConfirmMode | None = None,
    ) -> Incoming:
        """Receive: `async with queue.receive() as incoming: async for event in incoming: …`.

        With a `selector`, only what matches; the rest waits for others. At most `credit` events and about `credit_bytes` are
        handed over ahead of use. With a `timeout`, waiting longer for an event raises TimedOut. `confirm` says when an event
        counts as finished, if not as the session says: see `confirming`.
        """
        receiver = receiver_for(self._session, confirm)
        asked = Asked(selector=condition(selector)) if selector else PLAIN
        return receiver(self._session, self.name, "queue", "", credit, credit_bytes, timeout, asked)

    def browse(self, *, selector: str | None = None, page: int = PAGE_EVENTS, timeout: float | None = None) -> Browser:
        """Look at what waits, without taking it: `async with queue.browse() as events: async for event in events: …`.

        With a `selector`, at what matches. `page` events are asked for at a time. What is seen is told in `browser`.
        """
        return Browser(self._session, self.name, "", selector, page, timeout)


class Topic(Destination):
    KIND = "topic"

    def subscribe(
        self,
        name: str | None = None,
        *,
        durable: bool | None = None,
        shared: bool = False,
        no_local: bool = False,
        selector: str | None = None,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
        confirm: ConfirmMode | None = None,
    ) -> Incoming:
        """Receive what is sent to the topic: with a name, from a durable subscription that remembers while nobody receives;
        without, from now on. What the rest means is told by `client.subscribe`."""
        wanted = subscription(self.name, name, durable=durable, shared=shared, no_local=no_local, selector=selector)
        receiver = receiver_for(self._session, confirm)
        return receiver(self._session, self.name, "topic", wanted.subscription, credit, credit_bytes, timeout, wanted.asked)

    def browse(self, name: str, *, selector: str | None = None, page: int = PAGE_EVENTS, timeout: float | None = None) -> Browser:
        """Look at what waits in a subscription of the topic, without taking it."""
        return Browser(self._session, self.name, check_subscription(name), selector, page, timeout)
