"""The reception of a listener: its durable subscription, received in order, and made again after a lost server of Holdfast.

events come ─▶ admitted in the same turn of the loop ─▶ calls begin
            └─ left for a task: behind a large event, whose body is read first, or while the window is full
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_batch import ReceivedBatch
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity.domain import HISTORY, Domain, subscription_of
from holdfast.continuity.listener.requests_in_order import RequestsInOrder
from holdfast.continuity.listener.topic_events import TopicEvents
from holdfast.errors import Closed, Damaged, Detached, HoldfastError, NoSuchSubscription, SubscriptionInUse

log = logging.getLogger("holdfast.continuity")

# After a lost server of Holdfast, receiving is tried again this much later.
AGAIN_SECONDS = 0.2


class Admission:
    """Admits events in their order: at once if that is possible, or else in a task that waits for what they need."""

    def __init__(self, events: TopicEvents, requests: RequestsInOrder) -> None:
        self._events = events
        self._requests = requests
        self._left: deque[ReceivedEvent] = deque()  # bounded by the credit of the subscription
        self._task: asyncio.Task[None] | None = None

    def take(self, batch: ReceivedBatch) -> None:
        """Admit a batch that has just come. What fails ends the listener, as it does in `admit`."""
        try:
            for event in batch:
                if self._left or self._task is not None or event.is_large or self._requests.order.is_full:
                    self._left.append(event)
                else:
                    self._events.admit_at_once(event)
                    self._requests.advance()
        except Exception as problem:
            self._requests.fail(problem)
        if self._left and self._task is None:
            self._task = asyncio.create_task(self._admit_left())

    async def admit(self, batch: Iterable[ReceivedEvent]) -> None:
        """Admit a batch behind what is left of those before it."""
        while self._task is not None:
            await asyncio.wait((self._task,))
        for event in batch:
            await self._events.admit(event)
            self._requests.advance()
            await self._requests.until_room()

    async def _admit_left(self) -> None:
        try:
            while self._left:
                await self._requests.until_room()
                await self._events.admit(self._left.popleft())
                self._requests.advance()
        except Exception as problem:
            self._requests.fail(problem)
        finally:
            self._task = None

    async def close(self) -> None:
        """Admit nothing more."""
        self._left.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))


class Reception:
    def __init__(self, client: Client, domain: Domain, server: str, window: int) -> None:
        """`window`: events that are received and not finished."""
        self._client = client
        self._domain = domain
        self._server = server
        self._window = window
        self._incoming: Incoming

    async def open(self, finished: int) -> int:
        """Take the subscription over: the listener that had it before is gone, or is to go. How many of the events that come
        first are finished, if everything up to this place is."""
        self._incoming = await self._subscribed()
        found = {each["name"]: each for each in await self._client.subscriptions(self._domain.requests)}
        if HISTORY not in found:
            return 0
        newest, waiting = found[HISTORY]["accepted"], found[subscription_of(self._server)]["waiting"]
        return max(0, waiting - (newest - finished))

    async def _subscribed(self, take_over: bool = True) -> Incoming:
        name = subscription_of(self._server)
        return await self._client.subscribe(self._domain.requests, name, take_over=take_over, credit=self._window).open()

    async def run(self, events: TopicEvents, requests: RequestsInOrder) -> None:
        """Receive until the subscription is closed, gone, or taken over by another: two would call the server in turns."""
        admission = Admission(events, requests)
        try:
            await self._receive(admission)
        finally:
            await admission.close()

    async def _receive(self, admission: Admission) -> None:
        while True:
            self._incoming.take_at_once(admission.take)
            try:
                async for batch in self._incoming.batches():
                    await admission.admit(batch)
                return
            except (Closed, Damaged):
                raise
            except HoldfastError as problem:
                log.warning("server %s receives nothing for the moment: %s", self._server, problem)
                self._incoming = await self._subscribed_again(take_over=not isinstance(problem, Detached))

    async def _subscribed_again(self, take_over: bool) -> Incoming:
        """After `Detached` nothing is taken over: whoever has the subscription then is a later listener of the same name."""
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                return await self._subscribed(take_over)
            except (NoSuchSubscription, Closed):
                raise
            except SubscriptionInUse as problem:
                raise SubscriptionInUse(
                    f"another listener of server {self._server!r} was started, and has taken the place of this one; each server "
                    "has one listener: stop the other, or give this one another --name"
                ) from problem
            except HoldfastError as problem:
                log.info("server %s waits for Holdfast: %s", self._server, problem)

    async def close(self) -> None:
        await self._incoming.close()
