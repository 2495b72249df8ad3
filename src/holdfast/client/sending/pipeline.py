"""A pipeline: many events to one destination, sent as fast as they are taken.

    async with orders.pipeline() as pipeline:
        for line in lines:
            await pipeline.send(line)          # waits only when too much is unsent
    pipeline.receipts                          # of all of them, in order

`send` does not wait for a receipt. `flush`, and leaving, wait for all of them; a refusal is raised there, and by a `send` that
notices it earlier. The error says how many of the pipeline's events were accepted and how many were not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack, cast

from holdfast.client import checks, tracing
from holdfast.client.link.waiters import Waiters
from holdfast.client.receipt import EventIds, Receipts, naming
from holdfast.client.sending.batch_builder import BATCH_BYTES, EVENT_BYTES, BatchBuilder, Kind
from holdfast.client.sending.encoded_run import EncodedRun
from holdfast.client.sending.event_encoder import EventEncoder, Portion
from holdfast.client.sending.outgoing import AFTER_TIME_OF_BINARY, BEFORE_TIME, EventFields, prepare
from holdfast.client.sending.producer import Producer
from holdfast.errors import Closed, HoldfastError, LinkLost, OutcomeUnknown
from holdfast.event.event import PRIORITY_DEFAULT

_PLAIN_BYTES = len(BEFORE_TIME) + 8 + len(AFTER_TIME_OF_BINARY) + EVENT_BYTES


class Pipeline:
    def __init__(
        self, producer: Producer, destination: str, kind: Kind, timeout: float | None, at: Callable[[str], Awaitable[Any]]
    ) -> None:
        """`at` finds the session of the channel of a destination, whose producer then sends."""
        session = producer.session
        self.receipts = Receipts()
        self._session: Any = session
        self._at = at
        self._is_located = session.is_alone
        self._producer = producer
        self._destination = destination
        self._kind: Kind = kind
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self.now_ms = session.connection.server_time.now_ms
        self._plain: BatchBuilder | None = None  # the newest builder, if it takes events without fields
        self._builders: list[BatchBuilder] = []
        self._unfinished = 0
        self._refused = 0
        self._error: HoldfastError | None = None
        self._is_closed = False
        self._waiting = Waiters()
        self._taken: asyncio.Future[None] = session.connection.loop.create_future()
        self._taken.set_result(None)

    def send(self, data: Any = None, **fields: Unpack[EventFields]) -> Awaitable[None]:
        """Hand over an event. Await it: that waits only when too much is unsent."""
        builder = self._plain
        if type(data) is bytes and builder is not None and builder.is_open and not fields:
            size = builder.size + len(data) + _PLAIN_BYTES
            if size < BATCH_BYTES:
                builder.heads.append(BEFORE_TIME + (time.time_ns() // 1000).to_bytes(8, "big") + AFTER_TIME_OF_BINARY)
                builder.bodies.append(data)
                builder.size = size
                return self._taken
        if not self._is_located:
            return self._send_located(prepare(data, fields, self.now_ms))
        self.put(prepare(data, fields, self.now_ms))
        return self._taken if self._producer.waiters.has_room(self._destination) else self.room()

    async def send_many(self, events: Iterable[Any], **fields: Unpack[EventFields]) -> None:
        """Hand over many events, each data or an `Event`, with fields for all. Waits only when too much is unsent.

        BadEvent or TooLarge, with `index`, for an event that cannot be sent: those before it are sent.
        """
        checks.check_many(events)
        for portion in EventEncoder(fields, self.now_ms).portions(events):
            self.put(portion)
            if not self._producer.waiters.has_room(self._destination):
                await self.room()

    async def room(self) -> None:
        """Wait until not too much is unsent."""
        await self._producer.waiters.room(self._destination, self._timeout)

    def put(self, event: Portion) -> None:
        """Take a prepared event, or a run of them, whether there is room or not."""
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise Closed("the pipeline was left; open another to send more")
        self._session.check_open()
        builder = self._producer.builder_for(self, self._destination, self._kind, event)
        if not self._builders or builder is not self._builders[-1]:
            self._builders.append(builder)
            self._unfinished += 1
            builder.finished.append(self._finished)
            is_plain = event.priority == PRIORITY_DEFAULT and event.delay_ms == 0
            self._plain = builder if is_plain else None
        if isinstance(event, EncodedRun):
            builder.add_run(event)
        else:
            builder.add(event)
        self._producer.added(builder)

    def _finished(self, builder: BatchBuilder) -> None:
        self._unfinished -= 1
        if builder.error is not None:
            self._refused += builder.count
            self._error = self._error or builder.error
        if not self._unfinished:
            self._waiting.wake()

    async def flush(self, timeout: float | None = None) -> Receipts:
        """Wait until everything sent so far is accepted; return its receipts, and add them to `receipts`. Raises the first
        refusal."""
        allowed = checks.seconds(timeout, self._timeout)
        deadline = self._session.connection.deadline(allowed)
        while self._unfinished:
            try:
                await self._waiting.wait(deadline)
            except TimeoutError as problem:
                self._producer.give_up_unsent(self._builders)
                if not self._unfinished:
                    break  # all of them were held back
                late = LinkLost(
                    f"not everything was receipted within {allowed:g} s; what was not may be stored already, or later, "
                    "at most once"
                )
                raise naming(late, self._ids(each for each in self._builders if each.is_under_way)) from problem
        return self._collect()

    def _collect(self) -> Receipts:
        made = Receipts()
        builders, self._builders, self._plain = self._builders, [], None
        for builder in builders:
            if builder.error is None:
                made.extend(builder, 0, builder.count)
                self.receipts.extend(builder, 0, builder.count)
        if self._error is not None:
            error = type(self._error)(
                f"{self._error.sentence} ({len(self.receipts)} events of this pipeline were accepted, {self._refused} were not)",
                **{**self._error.fields, "accepted": len(self.receipts), "refused": self._refused},
            )
            unknown = (each for each in builders if isinstance(each.error, OutcomeUnknown))
            raise naming(error, self._ids(unknown)) if isinstance(error, OutcomeUnknown) else error
        return made

    def telling(self, problem: HoldfastError) -> HoldfastError:
        """Make the error of a bad event after the end: it also tells how many events before it were accepted."""
        index = problem.fields.get("index")
        if index is None:
            return problem
        sentence = f"{problem.sentence} (of the {index} events before it, {len(self.receipts)} were accepted)"
        return type(problem)(sentence, **{**problem.fields, "accepted": len(self.receipts)})

    @staticmethod
    def _ids(builders: Iterable[BatchBuilder]) -> EventIds:
        """Return the ids of all events of these builders, which were sent."""
        sent = Receipts()
        for builder in builders:
            sent.extend(builder, 0, builder.count)
        return EventIds(sent)

    async def __aenter__(self) -> Self:
        checks.same_loop(self._session.connection.loop)
        return await self.located()

    async def located(self) -> Self:
        """Find the session of the channel of its destination; before anything is sent."""
        self._session = await self._at(self._destination)
        self._producer = self._session.producer
        self._is_located = True
        return self

    async def _send_located(self, event: Portion) -> None:
        """The first event of a pipeline that is used without `async with`: it finds the channel first."""
        await self.located()
        self.put(event)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_closed = True
        self._plain = None
        try:
            await self.flush()
        except HoldfastError:
            if error is None:
                raise


class TracedPipeline(Pipeline):
    """A pipeline opened within a span that is recorded: each event carries the context of the span it is sent in."""

    def send(self, data: Any = None, **fields: Unpack[EventFields]) -> Awaitable[None]:
        return super().send(data, **cast(EventFields, tracing.carried(data, fields)) if tracing.is_recording() else fields)

    async def send_many(self, events: Iterable[Any], **fields: Unpack[EventFields]) -> None:
        if not tracing.is_recording():
            await super().send_many(events, **fields)
            return
        checks.check_many(events)
        await super().send_many(tracing.carried_by(events, fields))
