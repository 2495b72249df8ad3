"""Several sessions on one link, frame by frame: how many, whose events, and what attaching again gives back (B4, B12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.event.position import Ranges
from holdfast.node.clients import client_link
from holdfast.node.node import Node
from holdfast.wire.frame import Answered, Attach, CloseSession, Credit, Deliver, Goodbye, OpenSession, SessionOpened
from tests.raw_client import RawClient, failing_node, fill


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Node, RawClient]]:
    """A node, and a client that is greeted and has session 1."""
    node, _ = await failing_node()
    await asyncio.wait_for(node.messages.wait_until_primary(), 5)
    client = RawClient(node)
    await client.greet()
    try:
        yield node, client
    finally:
        await node.close()


def handed(client: RawClient) -> list[tuple[int, int]]:
    """(first position, deliveries before) of every slice so far."""
    return [(each.first, each.deliveries) for message in client.of(Deliver) for each in message.slices]


async def until_handed(client: RawClient, count: int) -> None:
    async with asyncio.timeout(10):
        while len(handed(client)) < count:
            await client.hear(Deliver, len(client.of(Deliver)) + 1)


async def test_a_link_that_opens_more_sessions_than_it_may_is_ended_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_link, "SESSIONS_MAX", 3)
    async with running() as (_, client):
        for number in (2, 3, 4):
            client.say(OpenSession(number), session=number)

        await client.until_lost()

        assert len(client.of(SessionOpened)) == 3
        (goodbye,) = client.of(Goodbye)
        assert (goodbye.code, "at most 3 sessions" in goodbye.sentence) == ("protocol-error", True)


async def test_a_session_that_was_closed_makes_room_and_its_number_may_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_link, "SESSIONS_MAX", 2)
    async with running() as (_, client):
        for token in (10, 20, 30):
            client.say(OpenSession(token), session=2)
            await client.hear(SessionOpened, 1 + token // 10)
            client.say(CloseSession(token + 1), session=2)
            await client.hear(Answered, token // 10)

        assert not client.is_lost
        assert len({opened.session for opened in client.of(SessionOpened)}) == 4


async def test_a_receiver_that_attaches_again_holding_nothing_gives_back_everything_and_has_no_credit_rule_15() -> None:
    """What recovering a session relies on: from the answer on only what was granted anew comes, in order."""
    async with running() as (node, client):
        await fill(node, 20)
        await client.receive(credit=10)
        await until_handed(client, 10)
        first = handed(client)

        await client.ask(Attach, 1, "q", "queue", "", Ranges().to_bytes())
        client.heard.clear()
        await client.ask(Attach, 2, "q", "queue")  # an answer that comes later: nothing was handed out meanwhile
        assert client.of(Deliver) == []
        client.say(Credit(1, 20, 1 << 30))
        await until_handed(client, 20)

        again = handed(client)
        assert again[:10] == first
        assert [position for position, _ in again] == sorted(position for position, _ in again)
        assert {deliveries for _, deliveries in again} == {0}
