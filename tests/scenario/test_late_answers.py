"""A client manager takes the answers of its message manager whenever they come, as from one of another process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence, Set
from contextlib import asynccontextmanager

import pytest

from holdfast.node import node as node_module
from holdfast.node.message_manager_view import Holding, RememberedSession
from holdfast.node.messages.local_view import LocalView
from holdfast.node.node import Node
from holdfast.wire.frame import Attach, Failed, OpenSession, SessionOpened
from tests.raw_client import RawClient
from tests.running_server import SETTINGS
from tests.waiting import until

LATE_S = 0.01


class LateView(LocalView):
    """Answers every question that need not be answered at once a while later."""

    def recall_session(self, session: str, then: Callable[[RememberedSession | None], None]) -> None:
        super().recall_session(session, lambda answer: _later(lambda: then(answer)))

    def list_sessions(self, then: Callable[[Set[str]], None]) -> None:
        super().list_sessions(lambda answer: _later(lambda: then(frozenset(answer))))

    def list_holders(self, destination: str, subscription: str, then: Callable[[Sequence[Holding]], None]) -> None:
        super().list_holders(destination, subscription, lambda answer: _later(lambda: then(answer)))

    def when_primary(self, then: Callable[[], None]) -> None:
        super().when_primary(lambda: _later(then))

    def when_caught_up(self, then: Callable[[], None], known: int = 0) -> None:
        super().when_caught_up(lambda: _later(then), known)


def _later(then: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(LATE_S, then)


@pytest.fixture(autouse=True)
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "LocalView", LateView)


@asynccontextmanager
async def running() -> AsyncIterator[Node]:
    node = await Node.in_memory(SETTINGS)
    await asyncio.wait_for(node.messages.wait_until_primary(), 5)
    try:
        yield node
    finally:
        await node.close()


async def greeted(node: Node) -> RawClient:
    client = RawClient(node)
    await client.greet()
    return client


async def test_a_session_is_resumed_with_what_it_had_open() -> None:
    async with running() as node:
        first = await greeted(node)
        await first.receive()
        producer = await first.open_producer()
        first.cut()
        del node.clients.sessions[first.session]  # as after a restart of the client manager

        opened = await RawClient(node).greet(first.session)

        session = node.clients.sessions[first.session]
        assert opened.is_resumed
        assert (list(session.receivers), list(session.producers)) == ([1], [producer])


async def test_a_link_that_is_lost_before_its_session_is_found_opens_none() -> None:
    async with running() as node:
        first = await greeted(node)
        await first.receive()
        first.cut()
        hasty = await greeted(node)

        hasty.say(OpenSession(7, "raw", first.session), session=2)
        hasty.cut()
        other = await RawClient(node).greet(first.session)

        assert other.is_resumed
        assert not [opened for opened in hasty.of(SessionOpened) if opened.session == first.session]
        assert list(node.clients.links) == [first.session]


async def test_a_subscription_whose_receiver_has_lost_its_link_is_refused_with_that() -> None:
    async with running() as node:
        first, second = await greeted(node), await greeted(node)
        await first.ask(Attach, 1, "t", "topic", "s")
        here = await second.ask(Attach, 1, "t", "topic", "s")
        first.cut()
        await until(lambda: node.clients.sessions[first.session].away_since_ms is not None, "its link is lost")

        away = await second.ask(Attach, 1, "t", "topic", "s")

        assert isinstance(here, Failed) and "is_holder_away" not in here.fields
        assert isinstance(away, Failed) and away.fields["is_holder_away"] is True


async def test_sessions_that_did_not_come_back_are_given_up() -> None:
    async with running() as node:
        first = await greeted(node)
        await first.receive()
        first.cut()
        del node.clients.sessions[first.session]

        node.clients.unclaimed.give_up_former("")

        await until(lambda: first.session not in node.messages.directory.sessions(), "it is detached")
