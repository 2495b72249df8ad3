"""An engine is found by its registration, and is registered again when its queue for answers is lost."""

from __future__ import annotations

import asyncio

import msgspec

import holdfast
from holdfast.client.receiving.incoming import Incoming
from holdfast.continuity import register, request
from holdfast.continuity.answer import Part, without
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.registration import Registration
from tests.waiting import until


async def _registered(incoming: Incoming) -> str:
    """The queue of the next registration."""
    while True:
        event = await incoming.next(timeout=60)
        await event.confirm()
        if event.type == request.ENGINE:
            return str(event.data["reply_to"])


async def test_a_queue_that_is_gone_is_made_anew_registered_and_received_from() -> None:
    taken: list[tuple[str, Part]] = []
    async with holdfast.connect("memory:") as client:
        await register.create(client, Domain(name="shop"))
        async with client.subscribe("domain.shop.requests", "test") as incoming:
            topic = client.topic("domain.shop.requests")
            made = await Registration.open(client, topic, {"engine": "e"}, lambda server, part: taken.append((server, part)))
            await client.delete(await _registered(incoming))
            receiving = asyncio.create_task(made.receive_for_ever())
            queue = client.queue(await _registered(incoming))
            await queue.send(b"no part", properties={"server": "a"})
            await queue.send(msgspec.msgpack.encode(without("t", 3, "failed", "away")), properties={"server": "a"})
            await until(lambda: taken, "the answer is taken")
            receiving.cancel()

    assert taken == [("a", without("t", 3, "failed", "away"))]
