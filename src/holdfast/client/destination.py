"""Destinations as a program uses them. Each event of a queue goes to one recipient; each event of a topic goes to every
subscription."""

from __future__ import annotations

from asyncio import Future, ensure_future
from collections.abc import Awaitable, Iterable, Sized
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast

from holdfast.client import checks, tracing
from holdfast.client.assembly.sent_batch import PassedBatch
from holdfast.client.assembly.stream_sender import Progress, Source, send_stream
from holdfast.client.checks import check_name, check_subscription
from holdfast.client.reading.browser import BrowseOptions, Browser
from holdfast.client.receipt import Receipt, Receipts
from holdfast.client.receiving.attachment.attachment import holds_of
from holdfast.client.receiving.credit.receive_credit import CREDIT_BYTES
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.receive_options import PLAIN, Asked, ReceiveOptions, SubscribeOptions, condition, subscription
from holdfast.client.receiving.receiver import Receiver
from holdfast.client.sending.batch_builder import Kind
from holdfast.client.sending.outgoing import EventFields, Outgoing, prepare
from holdfast.client.sending.pipeline import Pipeline, TracedPipeline
from holdfast.destination.state.subscription import key_of_topic
from holdfast.errors import BadEvent, TooLarge

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session
    from holdfast.client.receiving.received_event import ReceivedEvent


class Destination:
    """Where events are sent. Made by `client.queue(name)` and `client.topic(name)`, which ask the server nothing."""

    KIND: ClassVar[Kind]

    def __init__(self, session: Session, name: str) -> None:
        self.name = check_name(name)
        self._session = session

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """Send one event, data with fields or an `Event`, and wait until it is durable.

        Data is bytes, text (as UTF-8), or anything JSON can hold. It arrives as JSON has it: a tuple or a set as a list. A
        value that JSON cannot hold (NaN, infinity, bytes) is refused, with its path. `fields` are those of `Event`: `type`,
        `properties`, `priority` …

        Raises BadEvent or TooLarge when it cannot be sent; Unreachable, TimedOut or Blocked when nothing happened; LinkLost
        when it was sent and no receipt came in time: it may be stored already, or later, at most once. Where the destination
        deduplicates, `send(…, id=error.id)` is then safe. A cancelled send may be accepted, too.
        """
        if tracing.is_recording():
            with tracing.sending(self.name):
                return await self._submit(data, timeout, cast(EventFields, tracing.carried(data, fields)))
        return await self._submit(data, timeout, fields)

    def _submit(self, data: Any, timeout: float | None, fields: EventFields) -> Awaitable[Receipt]:
        session, connection = self._session, self._session.connection
        event = prepare(data, fields, connection.server_time.now_ms)
        session.check_open()
        checks.same_loop(connection.loop)
        allowed = checks.seconds(timeout, connection.timeout)
        if session.lanes is not None:
            return self._submit_located(event, allowed)
        return session.producer.send(self.name, self.KIND, event, allowed)

    async def _submit_located(self, event: Outgoing, timeout: float) -> Receipt:
        lane = await self._session.at(self.name)
        return await lane.producer.send(self.name, self.KIND, event, timeout)

    async def try_send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """As `send`, but do not wait while the destination is at its high water (`events_max`, `bytes_max`): then Blocked at
        once, and nothing is sent."""
        return await self._begin_send(data, timeout, fields)

    def begin_send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Future[Receipt]:
        """As `try_send`, without waiting: the event is on its way when this returns, and the future is given its receipt, or the
        error that `try_send` would raise later on. Recipients come first: the server sends the receipt after the event.

        Where there are several message managers, a task finds the right one first.
        """
        return ensure_future(self._begin_send(data, timeout, fields, is_patient=True))

    def _begin_send(self, data: Any, timeout: float | None, fields: EventFields, is_patient: bool = False) -> Awaitable[Receipt]:
        session, connection = self._session, self._session.connection
        if tracing.is_recording():
            fields = cast(EventFields, tracing.carried(data, fields))
        event = prepare(data, fields, connection.server_time.now_ms)
        session.check_open()
        checks.same_loop(connection.loop)
        allowed = checks.seconds(timeout, connection.timeout)
        if session.lanes is not None:
            return self._try_located(event, allowed, is_patient)
        return session.producer.try_send(self.name, self.KIND, event, allowed, is_patient)

    async def _try_located(self, event: Outgoing, timeout: float, is_patient: bool) -> Receipt:
        lane = await self._session.at(self.name)
        return await lane.producer.try_send(self.name, self.KIND, event, timeout, is_patient)

    @property
    def is_blocked(self) -> bool:
        """The destination is at its high water, as far as this client knows: the server tells clients that have sent there."""
        lanes = self._session.lanes
        return (self._session if lanes is None else lanes.known(self.name)).producer.flow.is_blocked(self.name)

    async def unblocked(self, timeout: float | None = None) -> None:
        """Wait until the destination is not blocked. TimedOut when that takes longer."""
        connection = self._session.connection
        self._session.check_open()
        checks.same_loop(connection.loop)
        lane = await self._session.at(self.name)
        await lane.producer.flow.unblocked(self.name, checks.seconds(timeout, connection.timeout))

    async def send_many(
        self, events: Iterable[Any], *, timeout: float | None = None, **fields: Unpack[EventFields]
    ) -> Receipts:  # fmt: skip
        """Send many, each data or an `Event`, and wait until all are durable. Returns their receipts in order.

        `fields` are for all of them: `send_many(orders, type="order.placed")` sends what `send(order, type="order.placed")`
        for each order would, many times faster. An event is encoded before the next is taken from `events`, and no more are
        taken while too much is unsent.

        Raises what `send` raises. For an event that cannot be sent, `error.index` of BadEvent or TooLarge tells which, counted
        from 0; those before it are accepted, and those after it were not taken.
        """
        if not tracing.is_recording():
            return await self._send_all(events, timeout, fields)
        with tracing.sending(self.name, len(events) if isinstance(events, Sized) else None):
            return await self._send_all(events, timeout, fields)

    async def _send_all(self, events: Iterable[Any], timeout: float | None, fields: EventFields) -> Receipts:
        pipeline = self.pipeline(timeout=timeout)
        try:
            async with pipeline:
                await pipeline.send_many(events, **fields)
        except (BadEvent, TooLarge) as problem:
            raise pipeline.telling(problem) from problem.__cause__
        return pipeline.receipts

    async def request(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> ReceivedEvent:
        """Send a request and wait for its reply: the event that a recipient sends with `event.reply(…)`. It is confirmed already.

        Raises what `send` raises; NoReply when no reply comes in time (the request was accepted); LinkLost when the link was
        lost for so long that no reply can come.
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
        """Send one event of any size, and wait until all of it is durable: only then can a recipient see it.

        `content` is a path, bytes, an open binary file, or an iterator of bytes. It is read in fragments, never held in memory
        as a whole. `progress` is called with the bytes sent, and the bytes in all or None. After a lost link it goes on;
        `timeout` is how long it may stand still. When it fails, or is cancelled, nothing of it is left. A recipient reads it
        with `event.open_stream()`.

        Raises TooLarge when the server does not take so much; Blocked when it has no room; LinkLost when all was sent and no
        answer came.
        """
        session = self._session
        session.check_open()
        checks.same_loop(session.connection.loop)
        allowed = checks.seconds(timeout, session.connection.timeout)
        if tracing.is_recording():
            fields = cast(EventFields, tracing.carried(None, fields))
        lane = await session.at(self.name)
        return await send_stream(lane.parts, lane.producer, self.name, self.KIND, content, progress, fields, allowed)

    async def send_batch(self, batch: bytes | memoryview, *, timeout: float | None = None) -> Receipt:
        """Send a batch as it is (`incoming.encoded()`), and wait until it is durable: its events keep ids, times and all else.

        The receipt is that of its first event; the others have the positions behind it. Raises what a transaction raises.
        """
        session = self._session
        session.check_open()
        checks.same_loop(session.connection.loop)
        allowed, passed = checks.seconds(timeout, session.connection.timeout), PassedBatch(batch)
        lane = await session.at(self.name)
        assembly = lane.parts.new()
        assembly.events.extend(passed, 0, passed.count)
        assembly.add(passed.data, self.name, self.KIND)
        answer = await assembly.commit([], allowed)
        return passed.receipt_at(answer.entry, assembly.proof, lane.channel)

    def pipeline(self, *, timeout: float | None = None) -> Pipeline:
        """Send many without waiting for each: `async with destination.pipeline() as pipeline: await pipeline.send(…)`."""
        self._session.check_open()
        kind = TracedPipeline if tracing.is_recording() else Pipeline
        return kind(self._session.producer, self.name, self.KIND, timeout, self._session.at)


def subscribe(session: Session, topic: str | None, name: str | None, regex: str | None, options: SubscribeOptions) -> Incoming:
    """A receiver of a subscription, of a topic or of a pattern."""
    checks.options(options, SubscribeOptions, "subscribe")
    durable, take_over = options.get("durable"), options.get("take_over", False)
    wanted = subscription(topic, name, options, durable=durable, regex=regex, take_over=take_over)
    return _receiver(session, wanted.topic, "topic", wanted.subscription, options, wanted.asked)


def _receiver(
    session: Session, name: str, kind: Kind, subscribed: str, options: ReceiveOptions | SubscribeOptions, asked: Asked
) -> Incoming:
    credit, credit_bytes = options.get("credit"), options.get("credit_bytes", CREDIT_BYTES)
    timeout, confirm = options.get("timeout"), options.get("confirm")
    held = options.get("held")
    holds = None if held is None else holds_of(held)

    def make(lane: Session, of: int = 1) -> Receiver:
        """One of several receivers that share the credit; each has some, so that none stands still."""
        share = (credit, credit_bytes)
        if of > 1:
            share = (None if credit is None else max(1, credit // of), max(1, credit_bytes // of))
        return Receiver(lane, name, kind, subscribed, *share, timeout, asked, confirm, holds)

    return Incoming(session, make, key_of_topic(name, asked.match) if kind == "topic" else name)


class Queue(Destination):
    KIND = "queue"

    def receive(self, **options: Unpack[ReceiveOptions]) -> Incoming:
        """Receive: `async with queue.receive() as incoming: async for event in incoming: …`. Options: `ReceiveOptions`."""
        checks.options(options, ReceiveOptions, "receive")
        selector = options.get("selector")
        asked = Asked(selector=condition(selector)) if selector else PLAIN
        return _receiver(self._session, self.name, "queue", "", options, asked)

    def browse(self, **options: Unpack[BrowseOptions]) -> Browser:
        """Look at what waits, without taking it: `async with queue.browse() as events: async for event in events: …`.

        Options: `BrowseOptions`. `holdfast.client.reading.browser` tells what is seen.
        """
        return Browser(self._session, self.name, "", **options)


class Topic(Destination):
    KIND = "topic"

    def subscribe(self, name: str | None = None, **options: Unpack[SubscribeOptions]) -> Incoming:
        """Receive events that are sent to the topic: with a name, from a durable subscription that keeps events while nobody
        receives; without, from now on. Options: `SubscribeOptions`. `client.subscribe` tells more."""
        return subscribe(self._session, self.name, name, None, options)

    def browse(self, name: str, **options: Unpack[BrowseOptions]) -> Browser:
        """Look at what waits in a subscription of the topic, without taking it."""
        return Browser(self._session, self.name, check_subscription(name), **options)
