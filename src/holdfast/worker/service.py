"""A service: one handler at work. It takes events while a slot is free, and stops in good order.

    receiver ─▶ a free slot ─▶ attempt ─▶ verdict
                    concurrency

Events of one group are handled one after the other. A transactional handler has a session, and a receiver, for each slot: a
rollback gives back what its session was handed, which is then its own event and no other.

Stopping: no more events are taken, the receiver gives back at once and uncounted what it has prefetched, and those in hand are
finished within the grace.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from holdfast.client.client import Client
from holdfast.client.client_session import SessionMethods
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.errors import HoldfastError, Refused, SubscriptionInUse
from holdfast.worker.attempt import InThread, attempt, attempt_in_transaction
from holdfast.worker.handler import Handler

log = logging.getLogger("holdfast.worker")

# When a receiver ended, it is opened again after a pause that doubles from the first of these to the second.
PAUSE_FIRST_S = 0.5
PAUSE_LONGEST_S = 30.0


class Service:
    def __init__(self, handler: Handler, client: Client, in_thread: InThread) -> None:
        self._handler = handler
        self._client = client
        self._in_thread = in_thread
        self._in_hand: set[asyncio.Task[None]] = set()
        self._groups: dict[str, asyncio.Task[None]] = {}
        self._ready = asyncio.Event()
        self._taking: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()

    async def start(self) -> None:
        """Return when events come. What the server refuses is raised: a bad selector, a missing right."""
        lines = self._handler.concurrency if self._handler.is_transactional else 1
        self._taking = [asyncio.create_task(self._take_for_ever(), name=self._handler.title) for _ in range(lines)]
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ready, *self._taking}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        for task in self._taking:
            if task.done():
                await task

    async def stop(self, grace_s: float) -> None:
        """Take no more; give back what was prefetched; wait so long for what is in hand, then cancel it."""
        for task in self._taking:
            task.cancel("stop")
        if self._in_hand:
            _, late = await asyncio.wait(set(self._in_hand), timeout=grace_s)
            for task in late:
                log.warning("%s did not finish within the grace of %g s; its event comes again", self._handler.title, grace_s)
                task.cancel()
        while self._in_hand:
            await asyncio.wait(set(self._in_hand))
        self._closing.set()
        await asyncio.gather(*self._taking, return_exceptions=True)

    async def ended(self) -> None:
        """Return, or raise what ended it, when a line of it has ended."""
        await asyncio.wait(set(self._taking), return_when=asyncio.FIRST_COMPLETED)

    # --- taking events -----------------------------------------------------------------------------------------------

    async def _take_for_ever(self) -> None:
        pause_s = PAUSE_FIRST_S
        while not self._closing.is_set():
            try:
                async with self._receiving() as (incoming, session):
                    self._ready.set()
                    pause_s = PAUSE_FIRST_S
                    await self._take(incoming, session)
                return
            except SubscriptionInUse as problem:
                log.warning("%s waits: %s", self._handler.title, problem)
            except Refused:
                if not self._ready.is_set():
                    raise
                log.exception("%s lost its receiver; it is opened again in %g s", self._handler.title, pause_s)
            except HoldfastError as problem:
                log.warning("%s has no receiver, and tries again in %g s: %s", self._handler.title, pause_s, problem)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LONGEST_S)

    @asynccontextmanager
    async def _receiving(self) -> AsyncIterator[tuple[Incoming, SessionMethods]]:
        if not self._handler.is_transactional:
            yield await self._incoming(self._client).open(), self._client
            return
        async with self._client.session() as session:
            yield await self._incoming(session).open(), session

    def _incoming(self, session: SessionMethods) -> Incoming:
        handler, options = self._handler, dict(self._handler.options)
        # Exact: the pace of a worker is known. Each slot has an event in hand and one before it, whatever others do.
        options.setdefault("credit", 1 if handler.is_transactional else 2 * handler.concurrency)
        if handler.kind == "queue":
            return session.queue(handler.destination).receive(**options)
        return session.subscribe(handler.destination, options.pop("subscription"), **options)

    async def _take(self, incoming: Incoming, session: SessionMethods) -> None:
        """Take events until the receiver ends, or this task is told to stop; then see what is in hand through, and close."""
        slots = asyncio.Semaphore(1 if self._handler.is_transactional else self._handler.concurrency)
        try:
            while True:
                await slots.acquire()
                try:
                    event = await incoming.next()
                except HoldfastError:
                    if not incoming.is_open:
                        raise
                    slots.release()  # no link for a while; the client goes on trying, and has said so
                    continue
                except BaseException:
                    slots.release()
                    raise
                self._begin(event, session, slots.release)
        except asyncio.CancelledError:
            await incoming.give_back_prefetched()
            await self._closing.wait()
        finally:
            await _close(incoming, self._handler)

    def _begin(self, event: ReceivedEvent, session: SessionMethods, done: Callable[[], None]) -> None:
        group = event.group
        before = self._groups.get(group) if group else None
        task = asyncio.create_task(self._after(before, self._attempt(event, session)), name=f"{self._handler.title}: {event.id}")
        self._in_hand.add(task)
        if group:
            self._groups[group] = task

        def ended(task: asyncio.Task[None]) -> None:
            self._in_hand.discard(task)
            if group and self._groups.get(group) is task:
                del self._groups[group]
            if not task.cancelled() and task.exception() is not None:
                log.critical("%s ended with a fault of the worker itself", self._handler.title, exc_info=task.exception())
            done()

        task.add_done_callback(ended)

    @staticmethod
    async def _after(before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]) -> None:
        if before is not None:
            try:
                await asyncio.wait({before})
            except asyncio.CancelledError:
                work.close()
                raise
        await work

    async def _attempt(self, event: ReceivedEvent, session: SessionMethods) -> None:
        try:
            if self._handler.is_transactional:
                transaction = session.transaction()
                await attempt_in_transaction(self._handler, event, self._client, self._in_thread, transaction)
            else:
                await attempt(self._handler, event, self._client, self._in_thread)
        except BaseException:
            if not event.is_decided:
                event.release(0)  # at once, to others: this worker ends
            raise


async def _close(incoming: Incoming, handler: Handler) -> None:
    try:
        await incoming.close()
    except HoldfastError as problem:
        log.warning("%s: %s", handler.title, problem)
