"""The appender: sends commands in the order of the calls, and takes their acknowledgements.

    append ─▶ waiting ─▶ │ window: sent, not acknowledged │ ─▶ receipt, refusal, or LinkLost after `timeout_ms`

One task publishes, so that the order of the calls is the order on the connection and in the stream. Nothing is sent a second time
here: an unanswered command may be in the stream, and only the sequence of its producer (which the machine checks) makes repeating
it safe. After three silences in a row the client connects again: a server that is cut off from its peers would never answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from holdfast.channel.channel import Receipt
from holdfast.channel.jetstream.nats_errors import FOREIGN, not_answered, refused, translate
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import Blocked, Closed, HoldfastError, OutcomeUnknown, Unreachable

SILENCES_MAX = 3
_DOING = "appending a command"


class _Waiting(NamedTuple):
    command: bytes
    future: asyncio.Future[Receipt]


class _Sent(NamedTuple):
    future: asyncio.Future[Receipt]
    length: int
    deadline: float


class _Refusal(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Acknowledgement(msgspec.Struct):
    seq: int = 0
    error: _Refusal | None = None


_decoder = msgspec.json.Decoder(_Acknowledgement)


class Appender:
    """`accepted` is called with an entry's number and length before its future is answered."""

    def __init__(
        self, connection: Client, names: Names, settings: JetStreamSettings, accepted: Callable[[int, int], None]
    ) -> None:
        self._connection = connection
        self._names = names
        self._settings = settings
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._inbox = connection.new_inbox()
        self._headers = {"Nats-Expected-Stream": names.stream}
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._sent: dict[str, _Sent] = {}  # by token; oldest first, so that deadlines ascend
        self._sent_bytes = 0
        self._tokens = 0
        self._silences = 0
        self._turn = asyncio.Event()  # there may be something to publish, or a window to publish it in
        self._timer: asyncio.TimerHandle | None = None
        self._publisher: asyncio.Task[None] | None = None
        self._reconnect_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._connection.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        self._publisher = self._loop.create_task(self._publish_all())

    @property
    def open_bytes(self) -> int:
        """Bytes that were appended and are not yet known to be in the stream."""
        return self._waiting_bytes + self._sent_bytes

    def append(self, command: bytes) -> asyncio.Future[Receipt]:
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if self._waiting_bytes + len(command) > self._settings.waiting_bytes_max:
            future.set_exception(
                Blocked(
                    f"{self._waiting_bytes} bytes of commands already wait for the cluster; repeat it when some are acknowledged"
                )
            )
            return future
        self._waiting.append(_Waiting(command, future))
        self._waiting_bytes += len(command)
        self._turn.set()
        return future

    async def _publish_all(self) -> None:
        while True:
            await self._turn.wait()
            self._turn.clear()
            while self._waiting and self._has_window():
                waiting = self._next()
                if not waiting.future.cancelled():
                    await self._publish(waiting)

    def _next(self) -> _Waiting:
        waiting = self._waiting.popleft()
        self._waiting_bytes -= len(waiting.command)
        return waiting

    def _has_window(self) -> bool:
        if not self._sent:
            return True
        return len(self._sent) < self._settings.window and self._sent_bytes < self._settings.window_bytes

    async def _publish(self, waiting: _Waiting) -> None:
        self._tokens += 1
        token = str(self._tokens)
        length = len(waiting.command)
        self._sent[token] = _Sent(waiting.future, length, self._loop.time() + self._settings.timeout_s)
        self._sent_bytes += length
        self._watch_deadline()
        try:
            await self._connection.publish(
                self._names.subject, waiting.command, reply=f"{self._inbox}.{token}", headers=self._headers
            )
        except FOREIGN as problem:
            self._answer(token, translate(problem, _DOING))
        except Exception as problem:  # a fault of ours: it costs this command, not those behind it
            self._answer(
                token, OutcomeUnknown(f"{_DOING}: {problem!r}; it may have happened, repeat it with the same source and id")
            )

    async def _on_answer(self, message: Msg) -> None:
        self._silences = 0
        token = message.subject.rpartition(".")[2]
        if not message.data:  # status 503: nobody listens on the stream's subject
            self._answer(token, Unreachable(f"{_DOING}: the stream has no leader at the moment; nothing happened, repeat later"))
            return
        said = _decoder.decode(message.data)
        if said.error is None:
            self._accepted(said.seq, self._sent[token].length if token in self._sent else 0)
            self._answer(token, Receipt(said.seq, self._settings.copies, True))
        else:
            self._answer(token, refused(said.error.err_code, said.error.description, _DOING, said.error.code))

    def _answer(self, token: str, answer: Receipt | HoldfastError) -> None:
        sent = self._sent.pop(token, None)
        if sent is None:
            return
        self._sent_bytes -= sent.length
        self._turn.set()
        if isinstance(answer, HoldfastError):
            _fail(sent.future, answer)
        elif not sent.future.done():
            sent.future.set_result(answer)

    def _watch_deadline(self) -> None:
        if self._timer is None and self._sent:
            oldest = next(iter(self._sent.values()))
            self._timer = self._loop.call_at(oldest.deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = [token for token, sent in self._sent.items() if sent.deadline <= now]
        for token in late:
            self._answer(token, not_answered(_DOING))
        if late:
            self._silences += 1
            if self._silences >= SILENCES_MAX:
                self._silences = 0
                self._reconnect_task = self._loop.create_task(self._connection.force_reconnect())
                self._reconnect_task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is tried again
        self._watch_deadline()

    async def close(self) -> None:
        """Answer unsent commands with Closed; wait for the sent ones until their deadline."""
        if self._publisher is not None:
            self._publisher.cancel()
            await asyncio.gather(self._publisher, return_exceptions=True)
        while self._waiting:
            _fail(self._next().future, Closed("the channel was closed before this command was sent; open it again"))
        if self._sent:
            await asyncio.wait([sent.future for sent in self._sent.values()])
        if self._timer is not None:
            self._timer.cancel()


def _fail(future: asyncio.Future[Receipt], problem: HoldfastError) -> None:
    """Fail a command, unless its caller has stopped waiting."""
    if not future.done():
        future.set_exception(problem)
