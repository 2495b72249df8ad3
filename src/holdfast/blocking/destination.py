"""Destinations without a loop: sending, one by one or through a pipeline, and receiving."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from holdfast.blocking.hand_over import HandOver, waiting_for
from holdfast.blocking.incoming import Incoming, ReceivedEvent
from holdfast.blocking.reading import Browser
from holdfast.client import checks
from holdfast.client.checks import check_many
from holdfast.client.destination import Destination as AsyncDestination
from holdfast.client.destination import Queue as AsyncQueue
from holdfast.client.destination import Topic as AsyncTopic
from holdfast.client.reading.browser import BrowseOptions
from holdfast.client.receipt import Receipts
from holdfast.client.receiving.receive_options import ReceiveOptions, SubscribeOptions
from holdfast.client.sending.encoded_run import EncodedRun
from holdfast.client.sending.event_encoder import EventEncoder, Portion
from holdfast.client.sending.outgoing import EventFields, prepare
from holdfast.client.sending.pipeline import Pipeline as AsyncPipeline
from holdfast.errors import BadEvent, Closed, HoldfastError, TooLarge
from holdfast.node.background import Background

# Events of a pipeline that may wait for the other thread. With more, `send` waits until they are taken.
HANDED_OVER_MAX = 1_000
# The same for runs of events, each about as long as a batch.
RUNS_HANDED_OVER_MAX = 4


class Pipeline:
    """Many events to one destination: `with destination.pipeline() as pipeline: pipeline.send(…)`."""

    def __init__(self, background: Background, make: Callable[[], AsyncPipeline]) -> None:
        self._background = background
        self._make = make
        self._pipeline: AsyncPipeline | None = None
        self._is_left = False
        self._events: HandOver[Portion] = HandOver(background, self._put)

    def _opened(self) -> AsyncPipeline:
        if self._pipeline is None:
            raise Closed("the pipeline is not open; use it inside `with destination.pipeline() as pipeline`")
        return self._pipeline

    def _put(self, event: Portion) -> None:
        self._opened().put(event)

    def __enter__(self) -> Self:
        self._pipeline = self._background.run(self._made())
        return self

    async def _made(self) -> AsyncPipeline:
        return await self._make().located()

    def send(self, data: Any = None, **fields: Unpack[EventFields]) -> None:
        """Hand over an event. Waits only while too much is unsent."""
        self._hand_over(prepare(data, fields, self._unleft().now_ms))

    def send_many(self, events: Iterable[Any], **fields: Unpack[EventFields]) -> None:
        """Hand over many events, each data or an `Event`, with fields for all. They are taken from the iterable, and encoded, in
        this thread. Waits only while too much is unsent."""
        pipeline = self._unleft()
        check_many(events)
        for portion in EventEncoder(fields, pipeline.now_ms).portions(events):
            self._hand_over(portion)

    def _unleft(self) -> AsyncPipeline:
        pipeline = self._opened()
        if self._is_left:
            raise Closed("the pipeline was left; open another to send more")
        return pipeline

    def _hand_over(self, portion: Portion) -> None:
        if len(self._events) >= (RUNS_HANDED_OVER_MAX if isinstance(portion, EncodedRun) else HANDED_OVER_MAX):
            self._background.run(self._taken())
            self._events.raise_error()
        self._events.put(portion)

    async def _taken(self) -> None:
        self._events.take_over()
        await self._opened().room()

    def flush(self, timeout: float | None = None) -> Receipts:
        """Wait until everything sent so far is accepted. Returns the receipts; raises the first refusal."""
        return self._background.run(self._flushed(timeout))

    async def _flushed(self, timeout: float | None) -> Receipts:
        self._events.take_over()
        receipts = await self._opened().flush(timeout)
        self._events.raise_error()
        return receipts

    @property
    def receipts(self) -> Receipts:
        return self._opened().receipts

    def telling(self, problem: HoldfastError) -> HoldfastError:
        """Make the error of a bad event after the end: it also tells how many events before it were accepted."""
        return self._opened().telling(problem)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_left = True
        try:
            self.flush()
        except HoldfastError:
            if error is None:
                raise


class Destination:
    """Where events are sent. Made by `client.queue(name)` and `client.topic(name)`."""

    def __init__(self, background: Background, destination: AsyncDestination) -> None:
        self.name = destination.name
        self._background = background
        self._twin = destination

    def __repr__(self) -> str:
        return repr(self._twin)

    send = waiting_for(AsyncDestination.send)
    try_send = waiting_for(AsyncDestination.try_send)
    send_stream = waiting_for(AsyncDestination.send_stream)
    send_batch = waiting_for(AsyncDestination.send_batch)
    unblocked = waiting_for(AsyncDestination.unblocked)

    @property
    def is_blocked(self) -> bool:
        """The destination is at its high water, as far as this client knows."""
        return self._twin.is_blocked

    def send_many(self, events: Iterable[Any], *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipts:
        """Send many, each data or an `Event`, with fields for all, and wait until all are durable.

        They are taken from the iterable, and encoded, in this thread. BadEvent or TooLarge tells which event cannot be sent in
        `error.index`, counted from 0; those before it are accepted, and those after it were not taken.
        """
        pipeline = self.pipeline(timeout=timeout)
        try:
            with pipeline:
                pipeline.send_many(events, **fields)
        except (BadEvent, TooLarge) as problem:
            raise pipeline.telling(problem) from problem.__cause__
        return pipeline.receipts

    def request(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> ReceivedEvent:
        """Send a request and wait for its reply, which is confirmed already."""
        reply = self._background.run(self._twin.request(data, timeout=timeout, **fields))
        return ReceivedEvent(reply._slice, reply._index, _verdict="confirmed")

    def pipeline(self, *, timeout: float | None = None) -> Pipeline:
        """Send many without waiting for each."""
        return Pipeline(self._background, lambda: self._twin.pipeline(timeout=timeout))


class Queue(Destination):
    """A queue: each event goes to one recipient."""

    _twin: AsyncQueue

    def receive(self, **options: Unpack[ReceiveOptions]) -> Incoming:
        """Receive: `with queue.receive() as incoming: for event in incoming: …`. Options: `ReceiveOptions`."""
        checks.options(options, ReceiveOptions, "receive")
        queue = self._twin
        return Incoming(self._background, lambda: queue.receive(**options))

    def browse(self, **options: Unpack[BrowseOptions]) -> Browser:
        """Look at what waits, without taking it: `with queue.browse() as events: …`. Options: `BrowseOptions`."""
        return Browser(self._background, self._twin.browse(**options))


class Topic(Destination):
    """A topic: each event goes to every subscription."""

    _twin: AsyncTopic

    def subscribe(self, name: str | None = None, **options: Unpack[SubscribeOptions]) -> Incoming:
        """Receive events that are sent to the topic: with a name, from a durable subscription; without, from now on. Options:
        `SubscribeOptions`."""
        checks.options(options, SubscribeOptions, "subscribe")
        topic = self._twin
        return Incoming(self._background, lambda: topic.subscribe(name, **options))

    def browse(self, name: str, **options: Unpack[BrowseOptions]) -> Browser:
        """Look at what waits in a subscription of the topic, without taking it. Options: `BrowseOptions`."""
        return Browser(self._background, self._twin.browse(name, **options))
