"""The appender: sends commands, takes their acknowledgements, and repeats what was not taken, through an election if need be.

    append ─▶ send_window ─▶ publish ─▶ receipt, refusal, or LinkLost after `append_timeout_ms`
                  ▲                 │
                  └── not taken ◀───┘   the same command with the same id: the servers store it once

`machines/send_window` decides what is sent when; this module sends it. One task publishes, so that the order of its decisions
is the order on the connection. nats-py keeps nothing to send later (`pending_size=-1`): while there is no connection, publishing
fails at once, and the window tries again. After three silences in a row the client connects elsewhere: a server that is cut off
from its peers would never answer.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from holdfast.channel.channel import Purpose, Receipt
from holdfast.channel.jetstream.machines.send_window import Limits, SendWindow
from holdfast.channel.jetstream.machines.tail_judge import TailJudge
from holdfast.channel.jetstream.nats_errors import FOREIGN, IN_PROCESS, not_answered, not_taken, refused, translate
from holdfast.channel.jetstream.settings import (
    FRAGMENTS_BYTES_MAX,
    JetStreamSettings,
    Names,
    checksum_of,
    message_headers,
    message_id,
)
from holdfast.errors import Blocked, Closed, HoldfastError, OutcomeUnknown, Unreachable

log = logging.getLogger(__name__)

_DOING = "appending a command"
# Where no room could be made for upkeep, it is refused for so long before that is tried again.
NO_ROOM_S = 1.0


class _Command(NamedTuple):
    purpose: Purpose
    bytes: bytes
    future: asyncio.Future[Receipt]
    checksum: int
    known_when_put: int  # its number will be higher
    put_s: float


class _Refusal(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Acknowledgement(msgspec.Struct):
    seq: int = 0
    error: _Refusal | None = None


_decoder = msgspec.json.Decoder(_Acknowledgement)


class Appender:
    """`accepted` is called with an entry's number, its length, and the seconds that it took, before its future is answered;
    `damaged` with what is wrong.

    `make_room` is called when the servers refuse upkeep because the stream is full; it returns whether that was of use.
    """

    def __init__(
        self,
        connection: Client,
        names: Names,
        settings: JetStreamSettings,
        judge: TailJudge,
        accepted: Callable[[int, int, float], None],
        damaged: Callable[[str], HoldfastError],
        make_room: Callable[[], Coroutine[None, None, bool]],
    ) -> None:
        self._connection = connection
        self._names = names
        self._settings = settings
        self._judge = judge
        self._accepted = accepted
        self._damaged = damaged
        self._make_room = make_room
        self._room_task: asyncio.Task[bool] | None = None
        self._has_no_room_until = 0.0
        self._loop = asyncio.get_running_loop()
        self._inbox = connection.new_inbox()
        self._id = secrets.token_hex(4)
        self._commands: dict[int, _Command] = {}
        self._tokens = 0
        self._window = SendWindow(
            Limits(
                settings.window,
                settings.window_bytes,
                FRAGMENTS_BYTES_MAX,
                settings.attempt_ms / 1000,
                settings.append_timeout_ms / 1000,
            )
        )
        self._turn = asyncio.Event()  # there may be something to publish
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0  # kept here: a timer of uvloop whose time has passed already does not tell it
        self._publisher: asyncio.Task[None] | None = None
        self._reconnect_task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None  # done when everything is answered

    async def start(self) -> None:
        await self._connection.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        self._publisher = self._loop.create_task(self._publish_all())

    @property
    def open_bytes(self) -> int:
        """Bytes that were appended and are not yet known to be in the stream."""
        return self._window.open_bytes

    @property
    def waiting_s(self) -> float:
        """For how long the oldest command has waited for its acknowledgement; 0 when none does."""
        oldest = next(iter(self._commands.values()), None)
        return self._loop.time() - oldest.put_s if oldest is not None else 0.0

    def append(self, command: bytes, purpose: Purpose) -> asyncio.Future[Receipt]:
        future: asyncio.Future[Receipt] = self._loop.create_future()
        waiting = self._window.waiting_bytes
        if waiting + len(command) > self._settings.waiting_bytes_max:
            future.set_exception(
                Blocked(f"{waiting} bytes of commands already wait for the cluster; repeat it when some are acknowledged")
            )
            return future
        self._tokens += 1
        now_s = self._loop.time()
        self._commands[self._tokens] = _Command(purpose, command, future, checksum_of(command), self._judge.known, now_s)
        self._window.put(self._tokens, len(command), purpose is Purpose.FRAGMENTS, now_s)
        self._turn.set()
        return future

    # --- sending -------------------------------------------------------------------------------------------------------

    async def _publish_all(self) -> None:
        while True:
            await self._turn.wait()
            self._turn.clear()
            while (token := self._window.next_to_send(self._loop.time())) is not None:
                command = self._commands[token]
                if command.future.cancelled():
                    self._window.forget(token)
                    self._forget(token)
                else:
                    await self._publish(token, command)
            if self._timer is None:  # the one that is set comes early enough: it looks again at what is due then
                self._watch_time()

    async def _publish(self, token: int, command: _Command) -> None:
        headers = message_headers(self._names.stream, message_id(self._id, token), command.checksum)
        try:
            await self._connection.publish(self._names.subject, command.bytes, reply=f"{self._inbox}.{token}", headers=headers)
        except FOREIGN as problem:
            said = translate(problem, _DOING)
            if isinstance(said, Unreachable):
                self._window.not_taken(token, self._loop.time(), is_answer=False)
                self._watch_time()
            else:
                self._give_up(token, said)
        except Exception as problem:  # a fault of ours: it costs this command, not those behind it
            self._give_up(
                token, OutcomeUnknown(f"{_DOING}: {problem!r}; it may have happened, repeat it with the same source and id")
            )

    def on_connection_lost(self) -> None:
        """Send again what was under way, in its order, as soon as there is a connection."""
        self._window.connection_lost(self._loop.time())
        self._watch_time()

    # --- answers -------------------------------------------------------------------------------------------------------

    async def _on_answer(self, message: Msg) -> None:
        token = int(message.subject.rpartition(".")[2])
        if token not in self._commands:
            return
        if not message.data:  # status 503: nobody listens on the stream's subject
            self._window.not_taken(token, self._loop.time())
            self._watch_time()
            return
        said = _decoder.decode(message.data)
        if said.error is None:
            self._accept(token, said.seq)
        elif said.error.err_code != IN_PROCESS:  # the first attempt is being stored, and will be answered
            self._on_refusal(token, refused(said.error.err_code, said.error.description, _DOING, said.error.code))

    def _accept(self, token: int, number: int) -> None:
        command = self._commands[token]
        self._window.accepted(token)
        wrong = self._judge.accepted(number, command.checksum, command.known_when_put)
        if wrong:
            self._refuse(token, self._damaged(wrong))
            return
        self._accepted(number, len(command.bytes), self._loop.time() - command.put_s)
        self._forget(token)
        if not command.future.done():
            command.future.set_result(Receipt(number, self._settings.copies, True))
        self._turn.set()

    def _on_refusal(self, token: int, problem: HoldfastError) -> None:
        if isinstance(problem, Unreachable) or (isinstance(problem, Blocked) and self._is_room_made_for(token)):
            self._window.not_taken(token, self._loop.time())
            self._watch_time()
        else:
            self._refuse(token, problem)

    def _is_room_made_for(self, token: int) -> bool:
        """Begin to make room for upkeep; False for events, and where that was of no use a moment ago."""
        if self._commands[token].purpose is not Purpose.UPKEEP or self._loop.time() < self._has_no_room_until:
            return False
        if self._room_task is None or self._room_task.done():
            self._room_task = self._loop.create_task(self._make_room())
            self._room_task.add_done_callback(self._on_room)
        return True

    def _on_room(self, done: asyncio.Task[bool]) -> None:
        if done.cancelled() or done.exception() is not None or not done.result():
            self._has_no_room_until = self._loop.time() + NO_ROOM_S

    def _refuse(self, token: int, problem: HoldfastError) -> None:
        self._window.refused(token)
        _fail(self._forget(token), problem)
        self._turn.set()

    def _give_up(self, token: int, problem: HoldfastError) -> None:
        self._window.forget(token)
        _fail(self._forget(token), problem)

    def _forget(self, token: int) -> asyncio.Future[Receipt]:
        future = self._commands.pop(token).future
        if not self._commands and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        return future

    def stop(self, problem: HoldfastError) -> None:
        """Answer everything with this problem."""
        for token in list(self._commands):
            self._refuse(token, problem)

    # --- time ----------------------------------------------------------------------------------------------------------

    def _watch_time(self) -> None:
        at = self._window.wake_at()
        if at is None or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._on_time), at

    def _on_time(self) -> None:
        self._timer = None
        for token, may_be_stored in self._window.expire(self._loop.time()):
            _fail(self._forget(token), not_answered(_DOING) if may_be_stored else not_taken(_DOING))
        if self._window.wants_another_server:
            self._window.turned_away()
            log.warning("channel %s: three attempts were not answered; another server is tried", self._names.channel)
            self._reconnect_task = self._loop.create_task(self._connection.force_reconnect())
            self._reconnect_task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is tried again
        self._turn.set()
        self._watch_time()

    # --- the end -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Answer unsent commands with Closed; wait for the sent ones as long as for a question."""
        for token in self._window.drop_waiting():
            _fail(self._forget(token), Closed("the channel was closed before this command was sent; open it again"))
        self._window.hurry(self._loop.time() + self._settings.timeout_s)
        if self._commands:
            self._watch_time()
            self._idle = self._loop.create_future()
            await self._idle
        if self._publisher is not None:
            self._publisher.cancel()
            await asyncio.gather(self._publisher, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        if self._room_task is not None:
            self._room_task.cancel()


def _fail(future: asyncio.Future[Receipt], problem: HoldfastError) -> None:
    """Fail a command, unless its caller has stopped waiting."""
    if not future.done():
        future.set_exception(problem)
