"""Questions of engines to a listener, beside the topic: how its server is, reads, and stored answers from a byte on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from holdfast.continuity.answer import Answer
from holdfast.continuity.link.answer_link import AnswerLink
from holdfast.continuity.link.frame import Read, Resume, ServerState, State
from holdfast.continuity.listener.answers import Answers
from holdfast.continuity.listener.requests_in_order import RequestsInOrder
from holdfast.continuity.listener.server_call import ServerCall
from holdfast.continuity.listener.server_connection import CallFailed
from holdfast.continuity.listener.store import Store
from holdfast.continuity.listener.topic_events import TopicEvents


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
        compare: Callable[[Answer], bytes],
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

    def state(self, with_members: bool) -> State:
        """How the server is, and how far."""
        encoded = self._membership.encode() if with_members else b""
        places = (self._order.finished, self._order.admitted)
        in_doubt, keys = len(self._requests.doubt.in_doubt), len(self._events.keys)
        return State(self._state(), *places, self._membership.number, encoded, in_doubt, keys)

    def read(self, link: AnswerLink, asked: Read) -> None:
        """Answer a request that is not in the topic, if everything that it must see is finished (continuity rule 10)."""
        is_fresh = self._is_linked() and self._state() == "current"
        if not is_fresh or asked.place > self._order.finished or asked.membership > self._membership.number:
            return self._answers.send_to(link, asked.number, 0, "declined", None, "behind, or not current")
        task = asyncio.create_task(self._read(link, asked))
        self._reads.add(task)
        return task.add_done_callback(self._reads.discard)

    async def _read(self, link: AnswerLink, asked: Read) -> None:
        place = self._order.finished
        try:
            answer = await self._server.ask(asked.content)
        except CallFailed as failure:
            return self._answers.send_to(link, asked.number, place, "failed", None, str(failure))
        answer = msgspec.structs.replace(answer, comparison=self._compare(answer))
        return self._answers.send_to(link, asked.number, place, "answered", answer)

    def resume(self, link: AnswerLink, asked: Resume) -> None:
        """Send a stored answer again, from a byte of its body on."""
        place = self._store.place_of(asked.transaction)
        answer = self._store.find(place) if place is not None else None
        if place is not None and answer is not None:
            self._answers.send_to(link, asked.transaction, place, "answered", answer, offset=asked.offset)

    async def close(self) -> None:
        """End the reads under way."""
        for task in self._reads:
            task.cancel()
        await asyncio.gather(*self._reads, return_exceptions=True)
