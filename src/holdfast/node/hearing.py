"""What a message manager hears from client managers, over the bus.

    what receivers hold and may be sent, links, sessions ──▶ deliverer
    which destinations are full                          ──▶ flow
    questions, pages to browse                           ──▶ answered, each once

What depends on the state is not looked at before the state is known: it waits until this node is primary. Whoever asks sees also
what was receipted before.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from holdfast.bus.bus import Bus
from holdfast.bus.message import (
    AdministrationAsked,
    BrowseAsked,
    CreditGranted,
    Holding,
    LinkCongested,
    LinkDown,
    NotAttached,
    Question,
    Reply,
    SessionGone,
    WatermarksAsked,
)
from holdfast.errors import HoldfastError
from holdfast.node import administration
from holdfast.node.browsing import Browsing
from holdfast.node.clock import Clock
from holdfast.node.readers import QUESTIONS as READERS_QUESTIONS
from holdfast.node.readers import Readers

if TYPE_CHECKING:
    from holdfast.node.message_manager import MessageManager


class Hearing:
    def __init__(self, manager: MessageManager, bus: Bus, clock: Clock) -> None:
        """Of a manager whose state is restored."""
        self.readers = Readers(manager.directory, manager.channel, bus, clock)
        self._manager = manager
        self._deliverer = manager.deliverer
        self._bus = bus
        self._browsing = Browsing(manager.directory, manager.channel)
        self._browsers: set[asyncio.Task[None]] = set()

    def hear(self, message: object) -> None:
        manager, deliverer = self._manager, self._deliverer
        if isinstance(message, CreditGranted):
            manager.when_primary(partial(deliverer.grant, (message.session, message.receiver), message.events, message.bytes))
        elif isinstance(message, Holding):
            deliverer.expect((message.session, message.receiver), message.client_manager, message.held)
        elif isinstance(message, NotAttached):
            deliverer.expect_no_more((message.session, message.receiver))
        elif isinstance(message, LinkDown):
            deliverer.pause(message.session)
        elif isinstance(message, SessionGone):
            manager.when_primary(partial(deliverer.give_up, message.session))
        elif isinstance(message, AdministrationAsked):
            manager.when_primary(manager.administration_asked)
        elif isinstance(message, WatermarksAsked):
            manager.when_primary(partial(manager.flow.tell, message.client_manager))
        elif isinstance(message, LinkCongested):
            manager.when_primary(partial(deliverer.congested, message.session, message.is_congested))
        elif isinstance(message, Question):
            manager.when_caught_up(partial(self._answer, message))
        elif isinstance(message, BrowseAsked):
            manager.when_caught_up(partial(self._browse, message))

    def _answer(self, question: Question) -> None:
        try:
            if question.action in READERS_QUESTIONS:
                self.readers.begin(question)
                self._manager.hurry()  # what comes next must not linger if it is waited for now
                return
            value = administration.answer(self._manager, question.action, question.arguments)
            self._bus.publish(question.client_manager, Reply(question.token, value, None))
        except HoldfastError as problem:
            self._bus.publish(question.client_manager, Reply(question.token, None, problem))

    def _browse(self, asked: BrowseAsked) -> None:
        task = asyncio.create_task(self._show(asked))
        self._browsers.add(task)
        task.add_done_callback(self._browsers.discard)

    async def _show(self, asked: BrowseAsked) -> None:
        try:
            page = await self._browsing.page(asked)
            self._bus.publish(asked.client_manager, Reply(asked.token, page, None))
        except HoldfastError as problem:
            self._bus.publish(asked.client_manager, Reply(asked.token, None, problem))

    async def stop(self) -> None:
        for browser in self._browsers:
            browser.cancel()
        await asyncio.gather(*self._browsers, return_exceptions=True)
        await self.readers.stop()
