"""Outcome waiters: many ranges are looked at in turns, what is decided meanwhile is not missed, and memory is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.client.client import Client
from holdfast.event.position import Ranges
from holdfast.node.node import Node
from holdfast.node.reading import outcome_waiters
from holdfast.node.settings import NodeSettings
from tests.client_of import client_of, sibling_of
from tests.waiting import turn_loop


@asynccontextmanager
async def waiting_for(monkeypatch: pytest.MonkeyPatch, count: int, at_once: int = 4) -> AsyncIterator[tuple[Client, Ranges]]:
    """A client, and the positions of so many events in a queue; few are looked at in one step."""
    monkeypatch.setattr(outcome_waiters, "LOOKED_AT_ONCE", at_once)
    monkeypatch.setattr(outcome_waiters, "TURN_S", -1.0)
    node = await Node.in_memory(NodeSettings())
    async with client_of(node) as client:
        positions = [(await client.queue("orders").send(number)).position for number in range(count)]
        yield client, Ranges.gather((each, each) for each in positions)


async def test_what_is_decided_while_a_waiter_looks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting_for(monkeypatch, 50) as (client, asked), client.queue("orders").receive(held=asked) as incoming:
        for first, last in asked:
            question = asyncio.create_task(client.outcomes("orders", asked, wait=60))
            await turn_loop()
            incoming.confirm([(first, last)])
            found = await question
            assert found.confirmed == Ranges.of((first, last)) and found.waiting.count == asked.count - 1
            asked = found.waiting


async def test_a_long_look_is_answered_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting_for(monkeypatch, 60) as (client, asked), client.queue("orders").receive(held=asked) as incoming:
        spans = list(asked)
        incoming.confirm(spans[::3])
        incoming.reject(spans[1::3], "broken")
        await incoming.settled()
        found = await client.outcomes("orders", asked)
        assert list(found.confirmed) == spans[::3] and list(found.waiting) == spans[2::3]
        assert [(list(each.ranges), each.reason) for each in found.dead] == [(spans[1::3], "broken")]


async def test_a_subscription_that_is_deleted_while_a_waiter_looks_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with waiting_for(monkeypatch, 1) as (client, _):
        await client.create_topic("alerts")
        await client.create_subscription("alerts", "one")
        sent = [(await client.topic("alerts").send(number)).position for number in range(50)]
        asked = Ranges.gather((each, each) for each in sent)
        question = asyncio.create_task(client.outcomes("alerts", asked, wait=60))
        await turn_loop()
        await client.delete_subscription("alerts", "one", force=True)
        assert (await question).nobody == asked


async def test_past_the_limit_of_all_who_wait_the_one_with_the_most_ranges_waits_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outcome_waiters, "RANGES_WAITING_MAX", 40)
    monkeypatch.setattr(outcome_waiters, "RANGES_OF_ONE", 0)
    async with waiting_for(monkeypatch, 30, at_once=1_000) as (client, asked), sibling_of(client) as other:
        small = Ranges.of(next(iter(asked)))
        patient = [asyncio.create_task(client.outcomes("orders", small, wait=60)) for _ in range(5)]
        greedy = [asyncio.create_task(other.outcomes("orders", asked, wait=0.3)) for _ in range(3)]
        assert [each.waiting for each in await asyncio.gather(*greedy)] == [asked] * 3
        assert not any(each.done() for each in patient)

        async with client.queue("orders").receive(held=small) as incoming:
            incoming.confirm(small)
            assert [each.confirmed for each in await asyncio.gather(*patient)] == [small] * 5
