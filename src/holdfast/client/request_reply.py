"""Asking and answering with events: a request names a queue for its reply, and the reply repeats the request's correlation id.

    price = (await client.queue("quotes").request({"sku": 7}, timeout=5)).data         who asks

    async for event in incoming:                                                        who answers
        await event.reply({"price": 12})
        await event.confirm()

All requests of a client share one temporary queue, made when it is first needed; what comes in there finds who waits for it by
its correlation id, and is confirmed. A reply that comes when nobody waits any more is confirmed and dropped. If the server gives
the client's session up, the queue is gone with it: whoever waits hears LinkLost, and the next request makes another.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from holdfast.client import checks
from holdfast.client.granting import CREDIT_BYTES, CREDIT_EVENTS
from holdfast.client.outgoing import EventFields
from holdfast.client.receipt import Receipt
from holdfast.client.recipient import Incoming
from holdfast.destination import name as names
from holdfast.errors import BadEvent, Closed, HoldfastError, LinkLost, NoReply, TimedOut, Unavailable
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.destination import Destination
    from holdfast.client.received import Received, ReceivedEvent
    from holdfast.client.session import Session


# What is left for sending when making the queue for replies took nearly all the time there was.
SEND_SECONDS_MIN = 0.001


class Requests:
    """The requests of one client: who waits for which reply."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._incoming: Incoming | None = None
        self._opening: asyncio.Task[Incoming] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[ReceivedEvent]] = {}

    async def ask(self, destination: Destination, data: Any, timeout: float | None, fields: EventFields) -> ReceivedEvent:
        """Send a request and wait for its reply."""
        allowed = checks.seconds(timeout, self._session.connection.timeout)
        deadline = self._session.connection.deadline(allowed)
        correlation_id = self._correlation_id(fields)
        future: asyncio.Future[ReceivedEvent] = self._session.connection.loop.create_future()
        self._waiting[correlation_id] = future
        try:
            reply_to = await self._reply_to_in_time(deadline, allowed)
            asked: EventFields = {**fields, "reply_to": reply_to, "correlation_id": correlation_id}
            left = max(deadline - self._session.connection.loop.time(), SEND_SECONDS_MIN)
            await destination.send(data, timeout=left, **asked)
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError as problem:
            raise NoReply(
                f"no reply to a request to {destination.name!r} came within {allowed:g} s; it was accepted, and may have been "
                "carried out, or still be: ask again with the same id, or look first"
            ) from problem
        finally:
            self._waiting.pop(correlation_id, None)
            future.cancel()

    def _correlation_id(self, fields: EventFields) -> str:
        if fields.get("reply_to"):
            raise BadEvent("a request is answered to this client; leave reply_to out, or use send and receive the reply yourself")
        given = fields.get("correlation_id")
        if given is not None and not isinstance(given, str):
            raise BadEvent(f"correlation_id is text, not {type(given).__name__}; write correlation_id={str(given)!r}")
        if given is not None and given in self._waiting:
            raise BadEvent(f"a request with correlation_id {given!r} waits for its reply; use another, or leave it out")
        return given or f"{self._session.connection.client}-{next(self._numbers)}"

    async def _reply_to_in_time(self, deadline: float, allowed: float) -> str:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._reply_to()
        except TimeoutError as problem:
            raise TimedOut(
                f"a queue for replies could not be had within {allowed:g} s ({self._session.connection.problem_text}); "
                "nothing was asked"
            ) from problem

    async def _reply_to(self) -> str:
        """One request makes the queue for all, and goes on making it when that one is cancelled: otherwise it would be left."""
        if self._incoming is not None:
            return self._incoming.destination
        checks.same_loop(self._session.connection.loop)
        opening = self._opening
        if opening is None or opening.done():
            opening = self._opening = self._session.connection.loop.create_task(self._open())
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits hears it; nobody has to
        await asyncio.wait([opening])
        return opening.result().destination

    async def _open(self) -> Incoming:
        session = self._session
        made = await session.ask(lambda token: Manage(token, "temporary", {"kind": "queue"}), session.connection.timeout)
        incoming = Incoming(session, made["name"], "queue", "", CREDIT_EVENTS, CREDIT_BYTES, None)
        await incoming.open()
        self._incoming = incoming
        session.connection.spawn(self._take_replies(incoming))
        return incoming

    async def _take_replies(self, incoming: Incoming) -> None:
        while True:
            try:
                event = await incoming.next()
            except Unavailable:
                continue  # no link for a long time: it is being made again
            except HoldfastError as problem:
                self._lost(incoming, problem)
                return
            await event.confirm()
            future = self._waiting.get(event.correlation_id or "")
            if future is not None and not future.done():
                future.set_result(event)

    def _lost(self, incoming: Incoming, problem: HoldfastError) -> None:
        """Replies went to a queue that is gone. Whoever waits must decide whether to ask again."""
        if self._incoming is incoming:
            self._incoming = None
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    problem
                    if isinstance(problem, Closed)
                    else LinkLost(
                        f"the queue for replies is gone with the session it belonged to ({problem}); what was asked for may "
                        "have been done"
                    )
                )


async def reply(event: Received, session: Session, data: Any, timeout: float | None, fields: EventFields) -> Receipt:
    """Answer a request: to the destination it names, with its correlation id, or its own id if it has none."""
    from holdfast.client.destination import Queue, Topic

    if not event.reply_to:
        raise BadEvent(f"the event {event.id!r} names no reply_to, so nobody waits for an answer; send one to where you know")
    is_topic = names.is_temporary_topic(event.reply_to)
    destination = Topic(session, event.reply_to) if is_topic else Queue(session, event.reply_to)
    answer: EventFields = {**fields, "correlation_id": fields.get("correlation_id") or event.correlation_id or event.id}
    return await destination.send(data, timeout=timeout, **answer)
