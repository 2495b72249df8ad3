"""Sending without a loop, one by one or through a pipeline, and the destinations one sends to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from holdfast.blocking.background import Background, HandOver
from holdfast.blocking.browser import Browser
from holdfast.blocking.recipient import Incoming, ReceivedEvent
from holdfast.client.browser import PAGE_EVENTS
from holdfast.client.checks import ConfirmMode
from holdfast.client.destination import Destination as AsyncDestination
from holdfast.client.destination import Queue as AsyncQueue
from holdfast.client.destination import Topic as AsyncTopic
from holdfast.client.destination import check_many
from holdfast.client.granting import CREDIT_BYTES, CREDIT_EVENTS
from holdfast.client.outgoing import EventFields, Outgoing, prepare
from holdfast.client.pipeline import Pipeline as AsyncPipeline
from holdfast.client.receipt import Receipt, Receipts
from holdfast.client.stream import Progress, Source
from holdfast.errors import Closed, HoldfastError

# Events of a pipeline that may wait for the other thread before `send` waits for them to be taken.
HANDED_OVER_MAX = 1_000


class Pipeline:
    """Many events to one destination: `with destination.pipeline() as pipeline: pipeline.send(…)`."""

    def __init__(self, background: Background, make: Callable[[], AsyncPipeline]) -> None:
        self._background = background
        self._make = make
        self._pipeline: AsyncPipeline | None = None
        self._is_left = False
        self._events: HandOver[Outgoing] = HandOver(background, self._put)

    def _opened(self) -> AsyncPipeline:
        if self._pipeline is None:
            raise Closed("the pipeline is not open; use it inside `with destination.pipeline() as pipeline`")
        return self._pipeline

    def _put(self, event: Outgoing) -> None:
        self._opened().put(event)

    def __enter__(self) -> Self:
        self._pipeline = self._background.run(self._made())
        return self

    async def _made(self) -> AsyncPipeline:
        return self._make()

    def send(self, data: Any = None, **fields: Unpack[EventFields]) -> None:
        """Hand over an event; waits only when too much is unsent."""
        self._opened()
        if self._is_left:
            raise Closed("the pipeline was left; open another to send more")
        event = prepare(data, fields)
        if len(self._events) >= HANDED_OVER_MAX:
            self._background.run(self._taken())
            self._events.raise_error()
        self._events.put(event)

    async def _taken(self) -> None:
        self._events.take_over()
        await self._opened().room()

    def flush(self, timeout: float | None = None) -> Receipts:
        """Wait until everything sent so far is accepted; its receipts. Raises the first refusal."""
        return self._background.run(self._flushed(timeout))

    async def _flushed(self, timeout: float | None) -> Receipts:
        self._events.take_over()
        receipts = await self._opened().flush(timeout)
        self._events.raise_error()
        return receipts

    @property
    def receipts(self) -> Receipts:
        return self._opened().receipts

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_left = True
        try:
            self.flush()
        except HoldfastError:
            if error is None:
                raise


class Destination:
    def __init__(self, background: Background, destination: AsyncDestination) -> None:
        self.name = destination.name
        self._background = background
        self._destination = destination

    def __repr__(self) -> str:
        return repr(self._destination)

    def send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """Send one event, data with fields or an `Event`, and wait until it is durable."""
        return self._background.run(self._destination.send(data, timeout=timeout, **fields))

    def try_send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt:
        """As `send`, but Blocked at once when the destination is at its high water."""
        return self._background.run(self._destination.try_send(data, timeout=timeout, **fields))

    @property
    def is_blocked(self) -> bool:
        """The destination is at its high water, as far as the server has told."""
        return self._destination.is_blocked

    def unblocked(self, timeout: float | None = None) -> None:
        """Wait until the destination is not blocked."""
        self._background.run(self._destination.unblocked(timeout))

    def send_many(self, events: Iterable[Any], *, timeout: float | None = None) -> Receipts:
        """Send many, each data or an `Event`, and wait until all are durable. They are taken from the iterable in this thread."""
        check_many(events)
        with self.pipeline(timeout=timeout) as pipeline:
            for event in events:
                pipeline.send(event)
        return pipeline.receipts

    def send_stream(
        self,
        content: Source,
        /,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,
        **fields: Unpack[EventFields],
    ) -> Receipt:
        """Send one event of any size from a path, bytes, an open binary file, or an iterator of bytes."""
        return self._background.run(self._destination.send_stream(content, progress=progress, timeout=timeout, **fields))

    def request(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> ReceivedEvent:
        """Send a request and wait for the reply to it; the reply is confirmed already."""
        reply = self._background.run(self._destination.request(data, timeout=timeout, **fields))
        return ReceivedEvent(reply._handed, reply._index, _verdict="confirmed")

    def pipeline(self, *, timeout: float | None = None) -> Pipeline:
        """For sending many without waiting for each."""
        return Pipeline(self._background, lambda: self._destination.pipeline(timeout=timeout))


class Queue(Destination):
    """A queue: each event goes to one recipient."""

    _destination: AsyncQueue

    def receive(
        self,
        *,
        selector: str | None = None,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
        confirm: ConfirmMode | None = None,
    ) -> Incoming:
        """Receive: `with queue.receive() as incoming: for event in incoming: …`."""
        queue = self._destination
        return Incoming(
            self._background,
            lambda: queue.receive(selector=selector, credit=credit, credit_bytes=credit_bytes, timeout=timeout, confirm=confirm),
        )

    def browse(self, *, selector: str | None = None, page: int = PAGE_EVENTS, timeout: float | None = None) -> Browser:
        """Look at what waits, without taking it: `with queue.browse() as events: for event in events: …`."""
        return Browser(self._background, self._destination.browse(selector=selector, page=page, timeout=timeout))


class Topic(Destination):
    """A topic: each event goes to every subscription."""

    _destination: AsyncTopic

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
        """Receive what is sent to the topic: with a name, from a durable subscription; without, from now on."""
        topic = self._destination
        return Incoming(
            self._background,
            lambda: topic.subscribe(
                name, durable=durable, shared=shared, no_local=no_local, selector=selector,
                credit=credit, credit_bytes=credit_bytes, timeout=timeout, confirm=confirm,
            ),
        )  # fmt: skip

    def browse(self, name: str, *, selector: str | None = None, page: int = PAGE_EVENTS, timeout: float | None = None) -> Browser:
        """Look at what waits in a subscription of the topic, without taking it."""
        return Browser(self._background, self._destination.browse(name, selector=selector, page=page, timeout=timeout))
