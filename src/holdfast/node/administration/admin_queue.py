"""The queue `_ADMIN`: every action of administration can be asked for by an event, as it can over a link (B16).

    event to `_ADMIN`   type "holdfast.admin.ACTION", data = the arguments, reply_to = where the answer goes
    the answer          {"value": …} or {"error": code, "sentence": …}, with the request's correlation id (or its id)

The node itself receives from it, in a session of its own, one event after the other, in order. An event is confirmed when it is
carried out and its answer is durable. After a crash in between it is carried out again, which for most actions is a refusal that
says so ("exists already"). The session is opened when `_ADMIN` is first used: a node that is never asked has none.

A request whose head cannot be read, or that meets a fault of ours, goes to `_DMQ` as "unreadable", and the next one is carried
out. An answer that is too large for an event is the error "too-large": `list` and `subscriptions` are asked for page by page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.bus.bus import Bus, message_manager_subject
from holdfast.bus.message import CreditGranted, Delivered, DeliveredSlice, Holding, Question, Reply
from holdfast.channel.channel import Channel, Purpose
from holdfast.cluster.places import Places
from holdfast.destination import command, name
from holdfast.destination.name import ADMIN, DEAD
from holdfast.errors import (
    BadEvent,
    BadName,
    Closed,
    HoldfastError,
    NoReply,
    OutcomeUnknown,
    Refused,
    TimedOut,
    TooLarge,
    Unavailable,
)
from holdfast.event import batch, identifier
from holdfast.event.event import JSON, NOT_READABLE, Head, decode_data, decode_head, encode_head
from holdfast.event.position import Ranges
from holdfast.node import supervision
from holdfast.node.administration.actions import COMMANDS, QUESTIONS, Maker, no_such_action, with_revision
from holdfast.node.administration.arguments import Delete, Subscriptions, Unsubscribe, read
from holdfast.node.administration.gathering import gathered, most_waiting_first
from holdfast.node.administration.routing import route
from holdfast.node.administration.touched import Arguments
from holdfast.node.clock import Clock
from holdfast.node.identity import Identity
from holdfast.node.message_manager_view import MessageManagerView

log = logging.getLogger("holdfast.admin_queue")

PREFIX = "holdfast.admin."
ANSWER_TYPE = "holdfast.admin.answer"
SESSION = "_admin-"
RECEIVER = 1
CREDIT_EVENTS = 100
CREDIT_BYTES = 1 << 20
AGAIN_S = 0.5
AGAIN_MS = 500
# An answer is one event. The rest of a MiB is for its head, whose correlation id the asker chose.
ANSWER_BYTES_MAX = 512 << 10
SENTENCE_LENGTH_MAX = 4_000
# A question to a message manager of another process is asked so often, after so long each time: longer than a takeover takes.
ASKED_MAX = 5
ASKED_AGAIN_S = 4.0


class _Told(NamedTuple):
    """An answer, and its line in the log."""

    body: bytes
    sentence: str


class _Manager(NamedTuple):
    messages: MessageManagerView
    channel: Channel


class AdminQueue:
    def __init__(
        self,
        managers: Sequence[tuple[str, MessageManagerView, Channel]],
        places: Places | None,
        bus: Bus,
        identity: Identity,
        clock: Clock,
        client_manager: str = "",
    ) -> None:
        """`managers` and `places` as of a client manager; `_ADMIN` is at the first. In a cluster the others may be in other
        processes, and their answers come by way of the subject of the client manager."""
        # New at every start, so that an answer meant for a former life reaches nobody.
        own = identifier.to_text(identity.take())
        self._subject = f"{client_manager}.administration-{own}" if client_manager else f"administration.{own}"
        self._session = SESSION + own
        self._managers = {name: _Manager(view, channel) for name, view, channel in managers}
        self._home, self._messages, self._channel = managers[0]
        self._places = places
        self._bus = bus
        self._identity = identity
        self._clock = clock
        self._token = 0
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._handed: asyncio.Queue[DeliveredSlice] = asyncio.Queue()
        self._working: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._stop_listening = bus.listen(self._subject, self._hear)

    # --- beginning and ending ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """This node is primary: end the sessions of former lives, and carry out the requests that wait."""
        self._messages.list_sessions(self._detach_former)
        if self._messages.waiting_in(ADMIN):
            self.attend()

    def _detach_former(self, sessions: Set[str]) -> None:
        for session in list(sessions):
            if session.startswith(SESSION) and session != self._session:
                self._append(command.Detach(session, 0, self._clock.now_ms()))

    def attend(self) -> None:
        """Something was sent to `_ADMIN`: receive from it from now on."""
        if self._working is None:
            self._working = supervision.start(self._work(), "administration", self._attend_again)

    def _attend_again(self, _: Exception) -> None:
        """Attach again after a failure: the requests that it held are delivered again."""
        self._clock.call_later(AGAIN_MS, self._restart)

    def _restart(self) -> None:
        if not self._is_stopped:
            self._working = None
            self._handed = asyncio.Queue()  # the requests that it held are delivered again
            self.attend()

    async def stop(self) -> None:
        self._is_stopped = True
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
                if self._messages.is_waiting(ADMIN, "", handed.first + index):
                    await self._take_one(events, index, handed.first + index)
            self._tell(CreditGranted(self._session, RECEIVER, handed.events, len(handed.batch)))

    async def _take_one(self, events: batch.Batch, index: int, position: int) -> None:
        """Carry out a request and confirm it, or set it aside."""
        try:
            await self._take(decode_head(events.head(index)), events, index)
        except Closed:
            raise
        except NOT_READABLE:
            log.error("the request at %d of %s has a head that cannot be read, and goes to %s", position, ADMIN, DEAD)
            await self._set_aside(position, "its head cannot be read")
        except Exception as problem:
            supervision.report(f"the request at {position} of {ADMIN}", problem)
            await self._set_aside(position, f"it cannot be answered: {supervision.described(problem)}")
        else:
            self._confirm(position)

    async def _set_aside(self, position: int, reason: str) -> None:
        where, now = Ranges.of((position, position)).to_bytes(), self._clock.now_ms()
        await self._until_done(lambda token: command.Dead(0, ADMIN, "", where, reason, "unreadable", now, self._subject, token))

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
        self._bus.publish(message_manager_subject(self._messages.name), message)

    def _confirm(self, position: int) -> None:
        ranges = Ranges.of((position, position)).to_bytes()
        self._append(command.Confirm(ADMIN, "", self._session, ranges, position))

    def _append(self, made: command.Command) -> None:
        future = self._channel.append(command.encode(made), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    # --- carrying out ------------------------------------------------------------------------------------------------

    async def _take(self, head: Head, events: batch.Batch, index: int) -> None:
        try:
            told = self._told(await self._carry_out(head, events.body(index)))
        except Closed:
            raise
        except Exception as problem:
            told = self._told_error(supervision.as_refusal(problem))
        log.info("asked by event: %.100s, %s", head.type, told.sentence)
        id = head.id or identifier.to_text(events.first_id + index)
        try:
            await self._answer(head, id, told.body)
        except TooLarge as problem:  # a small journal takes less than an event may have
            await self._answer(head, id, self._told_error(problem).body)

    def _told(self, value: Any) -> _Told:
        body = msgspec.json.encode({"value": value})
        if len(body) > ANSWER_BYTES_MAX:
            raise TooLarge(
                f"the answer has {len(body)} bytes, and one event holds {ANSWER_BYTES_MAX}; ask for it page by page "
                '(after="", then after=next), or over a link',
                size=len(body),
            )
        return _Told(body, "done")

    def _told_error(self, problem: HoldfastError) -> _Told:
        sentence = problem.sentence[:SENTENCE_LENGTH_MAX]
        return _Told(msgspec.json.encode({"error": problem.code, "sentence": sentence}), sentence)

    async def _carry_out(self, head: Head, body: memoryview) -> Any:
        if not head.type.startswith(PREFIX):
            raise BadEvent(f"type {head.type!r} is not understood; the type of an event to {ADMIN} is {PREFIX}ACTION")
        action, arguments = head.type.removeprefix(PREFIX), decode_data(body, head.datacontenttype)
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise BadEvent(f"the data of {head.type!r} is {type(arguments).__name__}; send the arguments as a JSON object")
        if action not in QUESTIONS and action not in COMMANDS:
            raise no_such_action(action)
        asked = read(action, arguments)
        managers = await self._routed(action, asked)
        if action in QUESTIONS:
            answers = {name: await self._ask(name, action, asked) for name in managers}
            return gathered(action, answers) if len(answers) > 1 else answers[managers[0]]
        if isinstance(asked, Unsubscribe) and len(managers) > 1:
            rows = Subscriptions(topic=asked.topic, match=asked.match)
            there = {name: await self._ask(name, "subscriptions", rows) for name in managers}
            managers = most_waiting_first(there, asked.name)
        make = COMMANDS[action](asked, self._clock.now_ms())
        if isinstance(asked, Delete) and self._places is not None:
            return await self._delete(asked.name, make, managers[0], self._places)
        told = [await self._until_done(lambda token: make(self._subject, token), name) for name in managers]
        return told[0]

    async def _routed(self, action: str, asked: Arguments) -> Sequence[str]:
        """The names of the message managers that this is for."""
        if self._places is None:
            return (self._home,)
        found: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
        route(self._places, self._home, action, asked, found.set_result, found.set_exception)
        return await found

    async def _delete(self, destination: str, make: Maker, manager: str, places: Places) -> Any:
        """Delete a destination, noted in the table of places before and after it."""
        begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        places.begin_delete(destination, begun.set_result, begun.set_exception)
        revision, ended = await begun, asyncio.Event()
        try:
            value = await self._until_done(lambda token: replace(make(self._subject, token), revision=revision), manager)
        except Refused:
            places.end_delete(destination, revision, False, ended.set)
            await ended.wait()
            raise
        places.end_delete(destination, revision, True, ended.set)
        await ended.wait()
        return value

    async def _ask(self, name: str, action: str, asked: Arguments) -> Any:
        self._token += 1
        token = self._token
        answer = self._answers[token] = asyncio.get_running_loop().create_future()
        subject = message_manager_subject(self._managers[name].messages.name)
        try:
            for _ in range(ASKED_MAX):  # in a cluster its primary may be lost before it has answered
                self._bus.publish(subject, Question(self._subject, token, action, asked))
                done, _ = await asyncio.wait({answer}, timeout=ASKED_AGAIN_S)
                if done:
                    return answer.result()
        finally:
            self._answers.pop(token, None)
        raise TimedOut(f"message manager {name} did not answer within {ASKED_MAX * ASKED_AGAIN_S:g} s; repeat it")

    async def _until_done(self, make: Callable[[int], command.Command], name: str | None = None) -> Any:
        """Append a command and wait until it is applied; while there is no room, try again. `name`: at which message manager."""
        manager = self._managers[self._home if name is None else name]
        while True:
            self._token += 1
            token = self._token
            answer = self._answers[token] = asyncio.get_running_loop().create_future()
            try:
                await manager.channel.append(command.encode(with_revision(make(token), self._places)), Purpose.UPKEEP)
                manager.messages.apply_now()
                is_here = manager.messages is self._messages
                done, _ = await asyncio.wait({answer}, timeout=None if is_here else ASKED_MAX * ASKED_AGAIN_S)
                if done:
                    return answer.result()
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("%s waits: %s", ADMIN, problem)
                await asyncio.sleep(AGAIN_S)
                continue
            finally:
                self._answers.pop(token, None)
            raise NoReply(f"message manager {name} did not answer; this may have been done: look before you repeat it")

    async def _manager_of(self, destination: str) -> _Manager:
        if self._places is None:
            return self._managers[self._home]
        learned = asyncio.Event()
        if self._places.learn(destination, False, learned.set):
            await learned.wait()
        return self._managers[self._places.find(destination) or self._home]

    async def _answer(self, asked: Head, id: str, body: bytes) -> None:
        """Send the answer to `reply_to`, unless that is one of Holdfast's own destinations."""
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
        made = batch.encode([encode_head(head)], [body], source=self._messages.name, first_id=self._identity.take())
        while True:
            try:
                sent = command.BatchCommand(asked.reply_to, "", 0, self._clock.now_us())
                manager = await self._manager_of(asked.reply_to)
                await manager.channel.append(command.encode(sent, made), Purpose.EVENTS)
                return
            except (Unavailable, OutcomeUnknown) as problem:
                log.error("an answer waits: %s", problem)
                await asyncio.sleep(AGAIN_S)
