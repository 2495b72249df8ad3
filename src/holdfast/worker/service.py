"""A service: one handler at work. It takes events while a slot is free, and stops in good order.

    receiver ─▶ a free slot ─▶ attempt ─▶ verdict
                    concurrency

Events of one group are handled one after the other. A transactional handler has a session, and a receiver, for each slot: a
rollback gives back what its session was handed, which is then its own event and no other.

Stopping: no more events are taken, the receiver gives back at once and uncounted what it has prefetched, and those in hand are
finished within the grace. An `async def` handler that is late is cancelled. A plain function cannot be: it is left, and the
receiver stays open while it runs, so that nobody else has its event while this process lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from holdfast.client.client import Client
from holdfast.client.client_session import SessionMethods
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.errors import HoldfastError, Refused, SubscriptionInUse
from holdfast.worker.attempt import attempt, attempt_in_transaction, give_up_if_used_up
from holdfast.worker.handler import Handler
from holdfast.worker.threads import Threads

log = logging.getLogger("holdfast.worker")

# When a receiver ended, it is opened again after a pause that doubles from the first of these to the second.
PAUSE_FIRST_S = 0.5
PAUSE_LONGEST_S = 30.0
# How long the last verdicts may take, also where there is no link at the moment.
CLOSE_S = 5.0
# How long a handler may take to end once it was cancelled.
CANCELLED_S = 5.0


class InHand(NamedTuple):
    """A handler, and the event that it works on."""

    handler: str
    event_id: str


class Service:
    def __init__(self, handler: Handler, client: Client, threads: Threads) -> None:
        self._handler = handler
        self._client = client
        self._threads = threads
        self._in_hand: dict[asyncio.Task[None], str] = {}  # and the ids of their events
        self._in_threads: dict[asyncio.Task[None] | None, asyncio.Future[Any]] = {}
        self._groups: dict[str, asyncio.Task[None]] = {}
        self._ready = asyncio.Event()
        self._taking: list[asyncio.Task[None]] = []
        self._closing = asyncio.Event()
        self._is_cut = False

    async def start(self) -> None:
        """Return when events come, or another has the subscription. What the server refuses is raised: a bad selector, a missing
        right."""
        lines = self._handler.concurrency if self._handler.is_transactional else 1
        self._taking = [asyncio.create_task(self._take_for_ever(), name=self._handler.title) for _ in range(lines)]
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ready, *self._taking}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        for task in self._taking:
            if task.done():
                await task

    async def stop(self, grace_s: float) -> None:
        """Take no more; give back what was prefetched; wait so long for what is in hand, then cancel it, or leave it."""
        for task in self._taking:
            task.cancel("stop")
        try:
            if self._in_hand:
                await asyncio.wait(set(self._in_hand), timeout=grace_s)
        finally:
            late = self._cancel_late(grace_s)
        if late:
            await asyncio.wait(late, timeout=CANCELLED_S)
        if not self._in_hand:
            await self.see_out()
        for each in self.in_hand:
            log.error("%s is still at work on event %s after the grace of %g s; it is left, and the event comes again when this "
                      "process has ended", *each, grace_s)  # fmt: skip

    def _cancel_late(self, grace_s: float) -> set[asyncio.Task[None]]:
        late = self._in_hand.keys() - self._in_threads.keys()
        for task in late:
            log.warning("%s did not finish event %s within the grace of %g s; it is cancelled, and the event comes again",
                        self._handler.title, self._in_hand[task], grace_s)  # fmt: skip
            task.cancel()
        return late

    async def see_out(self) -> None:
        """Close the receivers when nothing is in hand any more."""
        while self._in_hand:
            await asyncio.wait(set(self._in_hand))
        self._closing.set()
        await asyncio.gather(*self._taking, return_exceptions=True)

    @property
    def in_hand(self) -> list[InHand]:
        """Its handler, with each event that it works on."""
        return [InHand(self._handler.title, event_id) for event_id in self._in_hand.values()]

    async def ended(self) -> None:
        """Return, or raise what ended it, when a line of it has ended."""
        ended, _ = await asyncio.wait(set(self._taking), return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()

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
                if "shared_asked" in problem.fields and not self._ready.is_set():  # waiting would not change that
                    raise _of_another_kind(self._handler, problem) from problem
                self._ready.set()  # to take over; the other handlers need not wait for that
                log.warning("%s waits: %s", self._handler.title, problem)
            except HoldfastError as problem:
                if isinstance(problem, Refused) and not self._ready.is_set():
                    raise
                log.warning("%s has no receiver, and tries again in %g s: %s", self._handler.title, pause_s, problem)
            except Exception:
                if not self._ready.is_set():
                    raise
                log.exception("%s lost its receiver; it is opened again in %g s", self._handler.title, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LONGEST_S)

    @asynccontextmanager
    async def _receiving(self) -> AsyncIterator[tuple[Incoming, SessionMethods]]:
        if not self._handler.is_transactional:
            yield await self._incoming(self._client).open(), self._client
            return
        session = await self._client.session().open()
        try:
            yield await self._incoming(session).open(), session
        finally:
            if not self._is_cut:
                await session.close()

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
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()  # it goes on to the end, and time limits on the way are no cancellation
            await incoming.give_back_prefetched()
            await self._see_through()
        finally:
            if not self._is_cut:
                await _close(incoming, self._handler)

    async def _see_through(self) -> None:
        """Wait until nothing is in hand. A loop that ends before closes no receiver: nobody may have what a thread works on."""
        try:
            await self._closing.wait()
        except asyncio.CancelledError:
            self._is_cut = bool(self._in_threads)
            raise

    def _begin(self, event: ReceivedEvent, session: SessionMethods, done: Callable[[], None]) -> None:
        group = event.group
        before = self._groups.get(group) if group else None
        task = asyncio.create_task(self._attempt(event, session, before), name=f"{self._handler.title}: {event.id}")
        self._in_hand[task] = event.id
        if group:
            self._groups[group] = task

        def ended(task: asyncio.Task[None]) -> None:
            del self._in_hand[task]
            if group and self._groups.get(group) is task:
                del self._groups[group]
            if not task.cancelled() and task.exception() is not None:
                log.critical("%s ended with a fault of the worker itself", self._handler.title, exc_info=task.exception())
            done()

        task.add_done_callback(ended)

    async def _attempt(self, event: ReceivedEvent, session: SessionMethods, before: asyncio.Task[None] | None) -> None:
        """Hand the event to the handler, after the one before it in its group."""
        try:
            if before is not None:
                await asyncio.wait({before})
            if give_up_if_used_up(self._handler, event):
                return
            if self._handler.is_transactional:
                transaction = session.transaction()
                await attempt_in_transaction(self._handler, event, self._client, self._in_thread, transaction)
            else:
                await attempt(self._handler, event, self._client, self._in_thread)
        except BaseException:
            if not event.is_decided and asyncio.current_task() not in self._in_threads:
                event.release(0)  # at once, to others: this worker ends
            raise

    def _in_thread(self, function: Callable[..., Any], arguments: list[Any]) -> asyncio.Future[Any]:
        task = asyncio.current_task()
        running = self._in_threads[task] = self._threads.call(function, arguments)
        running.add_done_callback(lambda _: self._in_threads.pop(task))
        return running


def _of_another_kind(handler: Handler, problem: SubscriptionInUse) -> SubscriptionInUse:
    wanted = "shares its subscription" if handler.options["shared"] else "does not share its subscription"
    return SubscriptionInUse(
        f"{handler.title} {wanted}: {problem.sentence}. A worker shares its subscription unless the handler says shared=False; "
        "what creates the subscription beforehand must say the same",
        **problem.fields,
    )


async def _close(incoming: Incoming, handler: Handler) -> None:
    try:
        await incoming.close(CLOSE_S)
    except HoldfastError as problem:
        log.warning("%s: the last verdicts may be lost, and their events come again: %s", handler.title, problem)
