"""Questions of engines to a listener, beside the topic: how its server is, reads, streams, WebSockets,
and stored answers from a byte on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

import msgspec

from holdfast.continuity.answer import Answer
from holdfast.continuity.link.answer_link import AnswerLink
from holdfast.continuity.link.frame import Read, Resume, ServerState, SocketFrame, SocketOpen, SocketRefused, State
from holdfast.continuity.listener.answers import Answers, AnswerStream
from holdfast.continuity.listener.durable.store import Store
from holdfast.continuity.listener.requests_in_order import RequestsInOrder
from holdfast.continuity.listener.server.server_call import Declined, ServerCall
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.listener.server.server_sockets import ServerSockets
from holdfast.continuity.listener.topic_events import TopicEvents
from holdfast.continuity.roll_call import SHOWN_BYTES_MAX

# Streams that are passed on at once: each has a connection to the server, and others need some, too.
STREAMS_MAX = 64


class EngineQuestions:
    """`state` says how the server is, `is_linked` that its listener hears of everything new. `compare` gives the digest of an
    answer that is compared."""

    def __init__(
        self,
        server: ServerCall,
        answers: Answers,
        store: Store,
        requests: RequestsInOrder,
        events: TopicEvents,
        compare: Callable[[Answer, AnswerStream], bytes],
        state: Callable[[], ServerState],
        is_linked: Callable[[], bool],
    ) -> None:
        self._server = server
        self._answers = answers
        self._store = store
        self._requests = requests
        self._order = requests.order
        self._events = events
        self._membership = events.membership
        self._compare = compare
        self._state = state
        self._is_linked = is_linked
        self._reads: set[asyncio.Task[None]] = set()
        self._streams: dict[str, asyncio.Task[None]] = {}  # by their number
        self._sockets = ServerSockets(server)

    def state(self, with_members: bool) -> State:
        """How the server is, and how far."""
        encoded = self._membership.encode() if with_members else b""
        places = (self._order.finished, self._order.admitted)
        in_doubt, keys = len(self._requests.doubt.in_doubt), len(self._events.keys)
        return State(self._state(), *places, self._membership.number, encoded, in_doubt, keys, self._events.bytes)

    def read(self, link: AnswerLink, asked: Read) -> None:
        """Answer a request that is not in the topic, if everything that it must see is finished (continuity rule 10)."""
        declined = self._reason_to_decline(asked.place, asked.membership, asked.is_stream)
        if declined:
            return self._answers.send_to(link, asked.number, 0, "declined", None, declined)
        if not asked.is_stream and self._server.is_at_hand:
            place = self._order.finished
            stream = self._answers.stream_to(link, asked.number, place)
            return self._server.begin_read(asked.content, stream, partial(self._answer, link, asked, place, stream))
        task = asyncio.create_task(self._pass_on(link, asked) if asked.is_stream else self._read(link, asked))
        if asked.is_stream:
            self._streams[asked.number] = task
        self._reads.add(task)
        return task.add_done_callback(self._reads.discard)

    def _reason_to_decline(self, place: int, membership: int, is_stream: bool) -> str:
        """Why this server should not be asked; "" if it may be."""
        is_fresh = self._is_linked() and self._state() == "current"
        if not is_fresh or place > self._order.finished or membership > self._membership.number:
            return "behind, or not current"
        if is_stream and len(self._streams) + len(self._sockets) >= STREAMS_MAX:
            return f"{STREAMS_MAX} streams are passed on already"
        return ""

    def socket(self, link: AnswerLink, asked: SocketOpen | SocketFrame) -> None:
        """Open a WebSocket at the server, or go on with one."""
        if not isinstance(asked, SocketOpen):
            self._sockets.hear(link, asked)
        elif declined := self._reason_to_decline(asked.place, 0, True):
            link.send(SocketRefused(asked.number, "declined", declined))
        else:
            self._sockets.open(link, asked)

    async def _read(self, link: AnswerLink, asked: Read) -> None:
        place = self._order.finished
        stream = self._answers.stream_to(link, asked.number, place)
        try:
            told: Answer | CallFailed = await self._server.read(asked.number, asked.content, stream)
        except Declined as reason:
            stream.leave()
            return self._answers.send_to(link, asked.number, place, "declined", None, str(reason))
        except CallFailed as failure:
            told = failure
        except BaseException:
            stream.leave()
            raise
        return self._answer(link, asked, place, stream, told)

    def _answer(self, link: AnswerLink, asked: Read, place: int, stream: AnswerStream, answer: Answer | CallFailed) -> None:
        stream.leave()
        if isinstance(answer, CallFailed):
            return self._answers.send_to(link, asked.number, place, "failed", None, str(answer))
        answer = msgspec.structs.replace(answer, comparison=self._compare(answer, stream))
        if stream.is_begun:
            stream.end(answer.comparison)
        else:
            self._answers.send_to(link, asked.number, place, "answered", answer)
        return None

    async def _pass_on(self, link: AnswerLink, asked: Read) -> None:
        """Pass a stream on until it ends, its engine stops it, or the link is lost."""
        try:
            async with aclosing(self._server.pass_through(asked.content)) as parts:
                passing = asyncio.ensure_future(self._answers.pass_on(link, asked.number, self._order.finished, parts))
                lost = asyncio.ensure_future(link.until_lost())
                try:
                    await asyncio.wait((passing, lost), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    passing.cancel()
                    lost.cancel()
                    await asyncio.gather(passing, lost, return_exceptions=True)
        finally:
            self._streams.pop(asked.number, None)

    def stop_stream(self, number: str) -> None:
        """The client of a stream has left."""
        task = self._streams.get(number)
        if task is not None:
            task.cancel()

    def resume(self, link: AnswerLink, asked: Resume) -> None:
        """Send a stored answer again, from a byte of its body on."""
        place = self._store.place_of(asked.transaction)
        answer = self._store.find(place) if place is not None else None
        if place is not None and answer is not None:
            self._answers.send_to(link, asked.transaction, place, "answered", answer, offset=asked.offset)
        else:
            self._answers.resume(link, asked.transaction, asked.offset)

    def stored(self, transaction: str) -> Answer | None:
        """What the server answered, for people who compare; None if that is not kept, or too large."""
        place = self._store.place_of(transaction)
        answer = self._store.find(place) if place is not None else None
        return answer if answer is not None and len(answer.body) <= SHOWN_BYTES_MAX else None

    async def close(self) -> None:
        """End the reads under way."""
        await self._sockets.close()
        for task in self._reads:
            task.cancel()
        await asyncio.gather(*self._reads, return_exceptions=True)
