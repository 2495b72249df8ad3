"""The bus listener of a message manager: takes the messages of client managers to the parts they are for.

    what receivers hold and may be sent, links, sessions ──▶ deliverer
    which destinations are full                          ──▶ flow
    questions, pages to browse                           ──▶ answered, each once, in turns with everyone else

A message that depends on the state waits until the state is known, when this node is primary. An answer covers everything that
was receipted before the question.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.bus.bus import Bus
from holdfast.bus.message import (
    AdministrationAsked,
    BrowseAsked,
    CreditGranted,
    HandedOn,
    Holding,
    LinkCongested,
    LinkDown,
    LinkEnded,
    LinkMade,
    NotAttached,
    PeerCongested,
    Question,
    Reply,
    SessionGone,
    WatermarksAsked,
)
from holdfast.node import supervision
from holdfast.node.messages import answers
from holdfast.node.reading.browse_pages import BrowsePages
from holdfast.node.reading.outcome_waiters import QUESTION as OUTCOMES
from holdfast.node.reading.outcome_waiters import OutcomeWaiters
from holdfast.node.reading.place_readers import QUESTIONS as READERS_QUESTIONS
from holdfast.node.reading.place_readers import PlaceReaders

if TYPE_CHECKING:
    from holdfast.node.messages.message_manager import MessageManager


# Questions are answered for so long before others have a turn of the loop.
TURN_S = 0.002


class BusListener:
    def __init__(self, manager: MessageManager, readers: PlaceReaders, outcomes: OutcomeWaiters, bus: Bus) -> None:
        self._readers = readers
        self._outcomes = outcomes
        self._manager = manager
        self._deliverer = manager.deliverer
        self._bus = bus
        self._browse_pages = BrowsePages(manager.directory, manager.channel, manager.turn)
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: deque[Question] = deque()

    def hear(self, message: object) -> None:
        manager, deliverer = self._manager, self._deliverer
        if isinstance(message, CreditGranted):
            manager.when_primary(partial(deliverer.grant, (message.session, message.receiver), *message[2:]))
        elif isinstance(message, HandedOn):
            manager.when_primary(partial(deliverer.reached, (message.session, message.receiver), message.handed))
        elif isinstance(message, Holding | LinkDown | SessionGone) and self._has_moved(message.session, message.link):
            return  # its client has come by another client manager since
        elif isinstance(message, Holding):
            holding = (message.held, message.ahead, message.keeps)
            deliverer.expect((message.session, message.receiver), message.client_manager, *holding)
        elif isinstance(message, NotAttached):
            deliverer.expect_no_more((message.session, message.receiver))
        elif isinstance(message, LinkDown):
            deliverer.pause(message.session)
        elif isinstance(message, SessionGone):
            manager.when_primary(partial(deliverer.detach_session, message.session, message.link))
        elif isinstance(message, AdministrationAsked):
            manager.when_primary(manager.administration_asked)
        elif isinstance(message, WatermarksAsked):
            manager.when_primary(partial(manager.flow.tell, message.client_manager))
        elif isinstance(message, LinkCongested):
            manager.when_primary(partial(deliverer.congested, message.session, message.is_congested))
        elif isinstance(message, PeerCongested):
            deliverer.client_manager_congested(message.peer, message.is_congested)
        elif isinstance(message, LinkMade | LinkEnded):
            deliverer.link_began(message.peer)
        elif isinstance(message, Question):
            manager.when_caught_up(partial(self._ask, message), message.durable)
        elif isinstance(message, BrowseAsked):
            manager.when_caught_up(partial(self._browse, message), message.durable)

    def _has_moved(self, session: str, link: int) -> bool:
        """Whether the session has come by a later link of its client than this one."""
        found = self._manager.directory.sessions().get(session) if link else None
        return found is not None and link < found.link

    def _ask(self, question: Question) -> None:
        self._questions.append(question)
        if len(self._questions) == 1:
            self._spawn(self._answer_all(), "answering questions")

    async def _answer_all(self) -> None:
        until_s = time.perf_counter() + TURN_S
        while self._questions:
            self._answer(self._questions[0])
            self._questions.popleft()
            if time.perf_counter() > until_s:
                await asyncio.sleep(0)
                until_s = time.perf_counter() + TURN_S

    def _answer(self, question: Question) -> None:
        try:
            if question.action in READERS_QUESTIONS:
                self._readers.begin(question)
                self._manager.hurry()  # a reader may wait for the next entries: no pause before they are applied
                return
            if question.action == OUTCOMES:
                self._outcomes.begin(question)
                return
            value = answers.answer(self._manager, question.action, question.arguments)
            if asyncio.iscoroutine(value):
                self._spawn(self._answer_later(question, value), "answering a question")
                return
            self._bus.publish(question.client_manager, Reply(question.token, value, None))
        except Exception as problem:  # the asker gets it, whatever it is
            self._bus.publish(question.client_manager, Reply(question.token, None, supervision.as_refusal(problem)))

    async def _answer_later(self, question: Question, value: Coroutine[Any, Any, Any]) -> None:
        try:
            self._bus.publish(question.client_manager, Reply(question.token, await value, None))
        except Exception as problem:  # the asker gets it, whatever it is
            self._bus.publish(question.client_manager, Reply(question.token, None, supervision.as_refusal(problem)))

    def _browse(self, asked: BrowseAsked) -> None:
        self._spawn(self._show(asked), "showing a page")

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = supervision.start(work, what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _show(self, asked: BrowseAsked) -> None:
        try:
            page = await self._browse_pages.page(asked)
            self._bus.publish(asked.client_manager, Reply(asked.token, page, None))
        except Exception as problem:  # the asker gets it, whatever it is
            self._bus.publish(asked.client_manager, Reply(asked.token, None, supervision.as_refusal(problem)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
