"""A received event is sent on as it is, over every place a client can find its events at: with a new id, or with its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.receiving.received_event import Received
from holdfast.errors import BadEvent, TooLarge
from holdfast.event.cloudevent import to_cloudevent
from holdfast.event.cloudevent_http import from_http, to_http
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

FIELDS: dict[str, Any] = {
    "type": "order.placed",
    "source": "/shop",
    "time": datetime(2026, 3, 1, tzinfo=UTC),
    "subject": "7",
    "dataschema": "https://example.org/order.json",
    "properties": {"amount": 120, "urgent": True},
    "priority": 7,
    "group": "ada",
    "correlation_id": "c-1",
    "reply_to": "answers",
}


def told(event: Received) -> dict[str, Any]:
    """What both have in common, but for the id."""
    return {field: getattr(event, field) for field in FIELDS} | {"data": event.data, "datacontenttype": event.datacontenttype}


async def one(client: holdfast.Client, queue: str) -> holdfast.ReceivedEvent:
    async with client.queue(queue).receive() as incoming:
        event = await incoming.next(timeout=10)
        await event.confirm()
        return event


async def test_an_event_is_sent_on_with_everything_but_its_id(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send({"sku": 7}, **FIELDS)
        first = await one(client, name)

        await client.queue(f"{name}.next").send(first)

        second = await one(client, f"{name}.next")
        assert told(second) == told(first)
        assert second.id != first.id


async def test_an_event_keeps_its_id_when_told_so_and_takes_other_fields(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(b"\x00", properties={"a": 1}, id="mine")
        first = await one(client, name)

        await client.queue(f"{name}.next").send(first, keep_id=True, type="other")

        second = await one(client, f"{name}.next")
        assert (second.id, second.type, second.data, second.properties) == ("mine", "other", b"\x00", {"a": 1})


async def test_a_browsed_event_is_sent_on_by_every_way_of_sending(url: str, name: str) -> None:
    target = f"{name}.next"
    async with holdfast.connect(url) as client:
        await client.queue(name).send("text")
        async with client.queue(name).browse() as events:
            browsed = [event async for event in events]

        await client.queue(target).send_many(browsed)
        await client.queue(target).try_send(browsed[0])
        async with client.queue(target).pipeline() as pipeline:
            await pipeline.send(browsed[0], keep_id=True)
        async with client.transaction() as transaction:
            await transaction.queue(target).send(browsed[0])

        found = [await one(client, target) for _ in range(4)]
        assert [event.data for event in found] == ["text"] * 4
        assert [event.id == browsed[0].id for event in found] == [False, False, True, False]


async def test_a_request_that_is_sent_on_is_still_answered(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        asked = asyncio.create_task(client.queue(name).request("?", timeout=10))
        await client.queue(f"{name}.next").send(await one(client, name))
        await (await one(client, f"{name}.next")).reply("!")

        assert (await asked).data == "!"


async def test_what_is_left_of_a_time_to_live_is_sent_on(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1, ttl_ms=3_600_000)
        first = await one(client, name)

        await client.queue(f"{name}.next").send(first)

        assert abs((await one(client, f"{name}.next")).expires_at_ms - first.expires_at_ms) < 60_000


async def test_an_event_that_has_expired_is_sent_on_only_with_a_new_time_to_live(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send(1, ttl_ms=3_600_000)
        event = await one(client, name)
        event.head.expires_at_ms = 1

        with pytest.raises(BadEvent, match="expired at 1970"):
            await client.queue(f"{name}.next").send(event)
        await client.queue(f"{name}.next").send(event, ttl_ms=None)

        assert (await one(client, f"{name}.next")).expires_at_ms == 0


async def test_a_large_event_is_sent_on_as_a_stream(url: str, name: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 2048
    async with holdfast.connect(url) as client:
        await client.queue(name).send_stream(content)
        async with client.queue(name).receive() as incoming:
            event = await incoming.next(timeout=10)
            with pytest.raises(TooLarge, match="send_stream"):
                await client.queue(f"{name}.next").send(event)
            async with event.open_stream() as stream:
                await client.queue(f"{name}.next").send_stream(stream, type=event.type)
            await event.confirm()
        async with client.queue(f"{name}.next").receive() as incoming, (await incoming.next(timeout=10)).open_stream() as stream:
            assert await stream.read() == content


async def test_keep_id_without_a_received_event_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        for data in ("data", holdfast.Event(data=1, id="mine")):
            with pytest.raises(BadEvent, match="id=…"):
                await client.queue(name).send(data, keep_id=True)


async def test_a_received_event_is_a_cloudevent_under_its_own_id(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send({"sku": 7}, **FIELDS)
        event = await one(client, name)

    assert to_cloudevent(event).get_id() == event.id
    for back in (from_http(*to_http(event)), from_http(*to_http(event, "structured"))):
        assert (back.id, back.data, back.properties, back.group) == (event.id, {"sku": 7}, event.properties, "ada")


def test_the_blocking_client_sends_on_too(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send({"sku": 7}, **FIELDS)
        with client.queue(name).receive() as incoming:
            first = incoming.next(timeout=10)
            client.queue(f"{name}.next").send(first, keep_id=True)
            first.confirm()
        with client.queue(f"{name}.next").receive() as incoming:
            second = incoming.next(timeout=10)
            assert told(second) == told(first)
            assert second.id == first.id
