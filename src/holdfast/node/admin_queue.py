"""The queue `_ADMIN`: whatever can be asked of a server over a link can be asked by an event too (B16).

    event to `_ADMIN`   type "holdfast.admin.ACTION", data = the arguments, reply_to = who wants to know
    the answer          {"value": …} or {"error": code, "sentence": …}, with the request's correlation id (or its id)

The node itself receives from it, in a session of its own, one event after the other, in order. An event is confirmed when it was
carried out and its answer is durable; after a crash in between it is carried out again, which for most actions is a refusal that
says so ("exists already"). The session is opened when `_ADMIN` is first used: a node that is never asked has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.bus.bus import Bus
from holdfast.bus.message import CreditGranted, Delivered, DeliveredSlice, Holding, Reply
from holdfast.channel.channel import Channel, Purpose
from holdfast.destination import command, name
from holdfast.destination.name import ADMIN
from holdfast.errors import BadEvent, BadName, HoldfastError, OutcomeUnknown, Unavailable
from holdfast.event import batch, identifier
from holdfast.event.event import JSON, Head, decode_data, decode_head, encode_head
from holdfast.event.position import Ranges
from holdfast.node.actions import COMMANDS, no_such_action
from holdfast.node.administration import QUESTIONS
from holdfast.node.clock import Clock
from holdfast.node.identity import Identity

if TYPE_CHECKING:
    from holdfast.node.message_manager import MessageManager

log = logging.getLogger("holdfast.admin_queue")

PREFIX = "holdfast.admin."
ANSWER_TYPE = "holdfast.admin.answer"
SESSION = "_admin-"
RECEIVER = 1
CREDIT_EVENTS = 100
CREDIT_BYTES = 1 << 20
AGAIN_S = 0.5


class AdminQueue:
    def __init__(self, manager: MessageManager, channel: Channel, bus: Bus, identity: Identity, clock: Clock) -> None:
        # New at every start, so that what was meant for a former life reaches nobody.
        own = identifier.to_text(identity.take())
        self._subject = f"administration.{own}"
        self._session = SESSION + own
        self._manager = manager
        self._channel = channel
        self._bus = bus
        self._identity = identity
        self._clock = clock
        self._token = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._handed: asyncio.Queue[DeliveredSlice] = asyncio.Queue()
        self._working: asyncio.Task[None] | None = None
        self._stop_listening = bus.listen(self._subject, self._hear)

    # --- beginning and ending ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """This node is primary: sessions of former lives are ended, and what waits is carried out."""
        for session in list(self._manager.directory.sessions()):
            if session.startswith(SESSION) and session != self._session:
                self._append(command.Detach(session, 0, self._clock.now_ms()))
        if self._manager.directory.backlog((ADMIN, "")).waiting:
            self.attend()

    def attend(self) -> None:
        """Something was sent to `_ADMIN`: receive from it from now on."""
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="administration")

    async def stop(self) -> None:
        self._stop_listening()
        if self._working is not None:
            self._working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._working

    # --- receiving ---------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        self._tell(Holding(self._subject, self._session, RECEIVER, Ranges()))
        await self._until_done(lambda token: command.Attach(self._session, RECEIVER, ADMIN, "", self._subject, token))
        self._tell(CreditGranted(self._session, RECEIVER, CREDIT_EVENTS, CREDIT_BYTES))
        while True:
            handed = await self._handed.get()
            events = batch.Batch(handed.batch)
            for index in range(events.count):
                await self._take(events, index)
                self._confirm(handed.first + index)
            self._tell(CreditGranted(self._session, RECEIVER, handed.events, len(handed.batch)))

    def _hear(self, message: object) -> None:
        if isinstance(message, Delivered):
            for each in message.slices:
                self._handed.put_nowait(each)
        elif isinstance(message, Reply):
            waiting = self._answers.pop(message.token, None)
            if waiting is None or waiting.done():
                return
            if message.error is None:
                waiting.set_result(message.value)
            else:
                waiting.set_exception(message.error)

    def _tell(self, message: object) -> None:
        self._bus.publish(f"message_manager.{self._manager.name}", message)

    def _confirm(self, position: int) -> None:
        ranges = Ranges.of((position, position)).to_bytes()
        self._append(command.Confirm(ADMIN, "", self._session, ranges, position))

    def _append(self, made: command.Command) -> None:
        future = self._channel.append(command.encode(made), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    # --- carrying out ------------------------------------------------------------------------------------------------

    async def _take(self, events: batch.Batch, index: int) -> None:
        head = decode_head(events.head(index))
        try:
            told = {"value": await self._carry_out(head, events.body(index))}
        except HoldfastError as problem:
            told = {"error": problem.code, "sentence": problem.sentence}
        log.info("asked by event: %s, %s", head.type, told.get("sentence", "done"))
        await self._answer(head, head.id or identifier.to_text(events.first_id + index), told)

    async def _carry_out(self, head: Head, body: memoryview) -> Any:
        if not head.type.startswith(PREFIX):
            raise BadEvent(f"type {head.type!r} is not understood; the type of an event to {ADMIN} is {PREFIX}ACTION")
        action, arguments = head.type.removeprefix(PREFIX), decode_data(body, head.datacontenttype)
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise BadEvent(f"the data of {head.type!r} is {type(arguments).__name__}; send the arguments as a JSON object")
        if action in QUESTIONS:
            return QUESTIONS[action](self._manager, arguments)
        if action not in COMMANDS:
            raise no_such_action(action)
        make = COMMANDS[action](arguments, self._clock.now_ms())
        return await self._until_done(lambda token: make(self._subject, token))

    async def _until_done(self, make: Any) -> Any:
        """Append a command and wait until it is applied; while there is no room, try again."""
        while True:
            self._token += 1
            answer = self._answers[self._token] = asyncio.get_running_loop().create_future()
            try:
                await self._channel.append(command.encode(make(self._token)), Purpose.UPKEEP)
                self._manager.hurry()
                return await answer
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("%s waits: %s", ADMIN, problem)
                await asyncio.sleep(AGAIN_S)
            finally:
                self._answers.pop(self._token, None)

    async def _answer(self, asked: Head, id: str, told: dict[str, Any]) -> None:
        """To whom it asked for; nobody who is one of Holdfast's own destinations."""
        if not asked.reply_to:
            return
        try:
            if not name.is_temporary(asked.reply_to):
                name.check_destination(asked.reply_to)
        except BadName as problem:
            log.warning("an answer cannot be sent: %s", problem)
            return
        head = Head(
            type=ANSWER_TYPE,
            time_us=time.time_ns() // 1000,
            datacontenttype=JSON,
            correlation_id=asked.correlation_id or id,
        )
        made = batch.encode(
            [encode_head(head)], [msgspec.json.encode(told)], source=self._manager.name, first_id=self._identity.take()
        )
        while True:
            try:
                sent = command.BatchCommand(asked.reply_to, "", 0, self._clock.now_us())
                await self._channel.append(command.encode(sent, made), Purpose.EVENTS)
                return
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("an answer waits: %s", problem)
                await asyncio.sleep(AGAIN_S)
