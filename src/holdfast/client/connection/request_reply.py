"""Requests and replies as events: a request names a queue for its reply, and the reply repeats the request's correlation id.

    price = (await client.queue("quotes").request({"sku": 7}, timeout=5)).data         one program asks

    async for event in incoming:                                                        another replies
        await event.reply({"price": 12})
        await event.confirm()

All requests of a client share one temporary queue, made when it is first needed. A reply goes to the request with its correlation
id, and is confirmed; one that comes when nobody waits any more is confirmed and dropped. If the server gives the client's session
up, the queue is gone with it: requests that wait fail with LinkLost, and the next one makes another queue.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from holdfast.client import checks
from holdfast.client.receipt import Receipt, naming
from holdfast.client.receiving.credit.receive_credit import CREDIT_BYTES, CREDIT_EVENTS
from holdfast.client.receiving.receiver import Receiver
from holdfast.client.sending.batch_builder import Kind
from holdfast.client.sending.outgoing import EventFields, prepare
from holdfast.destination import name as names
from holdfast.errors import BadEvent, Closed, HoldfastError, LinkLost, NoReply, OutcomeUnknown, TimedOut, Unavailable
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session
    from holdfast.client.receiving.received_event import Received, ReceivedEvent


# The time for sending when making the queue for replies took nearly all of the timeout.
SEND_SECONDS_MIN = 0.001


class Destination(Protocol):
    """Where a request is sent."""

    name: str

    async def send(self, data: Any = None, *, timeout: float | None = None, **fields: Unpack[EventFields]) -> Receipt: ...


class Requests:
    """The requests of one client: which reply each waits for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._incoming: Receiver | None = None
        self._opening: asyncio.Task[Receiver] | None = None
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
            request = await destination.send(data, timeout=left, **asked)
            return await self._replied(destination, request, future, deadline, allowed)
        finally:
            self._waiting.pop(correlation_id, None)
            future.cancel()

    async def _replied(
        self, destination: Destination, request: Receipt, future: asyncio.Future[ReceivedEvent], deadline: float, allowed: float
    ) -> ReceivedEvent:
        try:
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError as problem:
            what_next = "look first, or ask again with the same source and id if the destination deduplicates"
            if request.is_repeated:
                what_next = "it had been taken before, and is answered to whoever asked first: look, or ask with a new id"
            none = NoReply(
                f"no reply to a request to {destination.name!r} came within {allowed:g} s; it was accepted, and may have been "
                f"carried out, or still be: {what_next}"
            )
            raise naming(none, (request.id,)) from problem
        except OutcomeUnknown as problem:
            raise naming(problem, (request.id,)) from problem

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
        """Return the queue for replies. The first request makes it for all, also when it is cancelled meanwhile."""
        if self._incoming is not None:
            return self._incoming.destination
        checks.same_loop(self._session.connection.loop)
        opening = self._opening
        if opening is None or opening.done():
            opening = self._opening = self._session.connection.loop.create_task(self._open())
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to wait for it
        await asyncio.wait([opening])
        return opening.result().destination

    async def _open(self) -> Receiver:
        session = self._session
        made = await session.ask(lambda token: Manage(token, "temporary", {"kind": "queue"}), session.connection.timeout)
        incoming = Receiver(session, made["name"], "queue", "", CREDIT_EVENTS, CREDIT_BYTES, None, confirm="event")
        await incoming.open()
        self._incoming = incoming
        session.connection.spawn(self._take_replies(incoming))
        return incoming

    async def _take_replies(self, incoming: Receiver) -> None:
        while True:
            try:
                event = await incoming.mode.next()
            except Unavailable:
                continue  # no link for a long time; the client goes on trying
            except HoldfastError as problem:
                self._lost(incoming, problem)
                return
            await event.confirm()
            future = self._waiting.get(event.correlation_id or "")
            if future is not None and not future.done():
                future.set_result(event)

    def _lost(self, incoming: Receiver, problem: HoldfastError) -> None:
        """Fail all requests that wait: the queue for their replies is gone. Each caller decides whether to ask again."""
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

    @staticmethod
    async def reply(request: Received, session: Session, data: Any, timeout: float | None, fields: EventFields) -> Receipt:
        """Answer a request: to the destination it names, with its correlation id, or its own id if it has none."""
        if not request.reply_to:
            raise BadEvent(
                f"the event {request.id!r} names no reply_to, so nobody waits for an answer; send one to where you know"
            )
        destination = checks.check_name(request.reply_to)
        connection = session.connection
        correlation_id = fields.get("correlation_id") or request.correlation_id or request.id
        answer = prepare(data, {**fields, "correlation_id": correlation_id}, connection.server_time.now_ms)
        session.check_open()
        checks.same_loop(connection.loop)
        kind: Kind = "topic" if names.is_temporary_topic(destination) else "queue"
        lane = await session.at(destination)
        return await lane.producer.send(destination, kind, answer, checks.seconds(timeout, connection.timeout))
