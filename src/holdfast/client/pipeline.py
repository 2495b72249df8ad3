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
from collections.abc import Awaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from holdfast.client import checks
from holdfast.client.gathering import BATCH_BYTES, EVENT_BYTES, Gathering, Kind
from holdfast.client.outgoing import AFTER_TIME_OF_BINARY, BEFORE_TIME, EventFields, Outgoing, prepare
from holdfast.client.receipt import Receipts
from holdfast.errors import Closed, HoldfastError, LinkLost
from holdfast.event.event import PRIORITY_DEFAULT

if TYPE_CHECKING:
    from holdfast.client.session import Session

_PLAIN_BYTES = len(BEFORE_TIME) + 8 + len(AFTER_TIME_OF_BINARY) + EVENT_BYTES


class Pipeline:
    def __init__(self, session: Session, destination: str, kind: Kind, timeout: float | None) -> None:
        self.receipts = Receipts()
        self._session = session
        self._producer = session.producer
        self._destination = destination
        self._kind: Kind = kind
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._plain: Gathering | None = None  # the newest gathering, if events that have nothing but data go there
        self._gatherings: list[Gathering] = []
        self._unfinished = 0
        self._refused = 0
        self._error: HoldfastError | None = None
        self._is_closed = False
        self._waiting: list[asyncio.Future[None]] = []
        self._taken: asyncio.Future[None] = session.connection.loop.create_future()
        self._taken.set_result(None)

    def send(self, data: Any = None, **fields: Unpack[EventFields]) -> Awaitable[None]:
        """Hand over an event; to be awaited, which waits only when too much is unsent."""
        gathering = self._plain
        if type(data) is bytes and gathering is not None and gathering.is_open and not fields:
            size = gathering.size + len(data) + _PLAIN_BYTES
            if size < BATCH_BYTES:
                gathering.heads.append(BEFORE_TIME + (time.time_ns() // 1000).to_bytes(8, "big") + AFTER_TIME_OF_BINARY)
                gathering.bodies.append(data)
                gathering.size = size
                return self._taken
        self.put(prepare(data, fields))
        return self._taken if self._producer.callers.has_room(self._destination) else self.room()

    async def room(self) -> None:
        """Wait until not too much is unsent."""
        await self._producer.callers.room(self._destination, self._timeout)

    def put(self, event: Outgoing) -> None:
        """Take a prepared event, whether there is room or not."""
        if self._error is not None:
            raise self._error
        if self._is_closed:
            raise Closed("the pipeline was left; open another to send more")
        self._session.check_open()
        gathering = self._producer.gathering(self, self._destination, self._kind, event.priority, event.delay_ms)
        if not self._gatherings or gathering is not self._gatherings[-1]:
            self._gatherings.append(gathering)
            self._unfinished += 1
            gathering.finished.append(self._finished)
            is_plain = event.priority == PRIORITY_DEFAULT and event.delay_ms == 0
            self._plain = gathering if is_plain else None
        gathering.add(event)
        self._producer.added(gathering)

    def _finished(self, gathering: Gathering) -> None:
        self._unfinished -= 1
        if gathering.error is not None:
            self._refused += gathering.count
            self._error = self._error or gathering.error
        if not self._unfinished:
            for future in self._waiting:
                if not future.done():
                    future.set_result(None)
            self._waiting.clear()

    async def flush(self, timeout: float | None = None) -> Receipts:
        """Wait until everything sent so far is accepted; its receipts, which are also added to `receipts`. Raises the first
        refusal."""
        allowed = checks.seconds(timeout, self._timeout)
        deadline = self._session.connection.deadline(allowed)
        while self._unfinished:
            future = self._session.connection.loop.create_future()
            self._waiting.append(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError as problem:
                self._producer.give_up_unsent(self._gatherings)
                if not self._unfinished:
                    break  # all that was missing was held back
                raise LinkLost(
                    f"not everything was receipted within {allowed:g} s; what was not may have been accepted, or still be, once"
                ) from problem
        return self._collect()

    def _collect(self) -> Receipts:
        made = Receipts()
        gatherings, self._gatherings, self._plain = self._gatherings, [], None
        for gathering in gatherings:
            if gathering.error is None:
                made.extend(gathering, 0, gathering.count)
                self.receipts.extend(gathering, 0, gathering.count)
        if self._error is not None:
            raise type(self._error)(
                f"{self._error.sentence} ({len(self.receipts)} events of this pipeline were accepted, {self._refused} were not)",
                **{**self._error.fields, "accepted": len(self.receipts), "refused": self._refused},
            )
        return made

    async def __aenter__(self) -> Self:
        checks.same_loop(self._session.connection.loop)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_closed = True
        self._plain = None
        try:
            await self.flush()
        except HoldfastError:
            if error is None:
                raise
