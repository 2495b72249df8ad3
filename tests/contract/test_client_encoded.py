"""Unopened batches over every place a client can find its events at (A9): received as bytes, passed on as they are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_batch import EncodedBatch
from holdfast.errors import BadSetting, TransactionAborted
from holdfast.event import batch as batches
from holdfast.event.hops import origin_tag
from holdfast.event.position import Ranges
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

BERLIN = origin_tag("berlin")


async def taken(incoming: Incoming, events: int) -> list[EncodedBatch]:
    """Unopened batches of so many events in all."""
    batches: list[EncodedBatch] = []
    async for batch in incoming.encoded():
        batches.append(batch)
        if sum(map(len, batches)) >= events:
            break
    return batches


async def test_a_batch_is_passed_on_unopened_and_its_events_arrive_as_they_were_sent(url: str, name: str) -> None:
    when = datetime(2024, 5, 6, tzinfo=UTC)
    async with holdfast.connect(url, name="till") as client:
        here, there = client.queue(name), client.queue(f"{name}-there")
        await here.send("one", id="own", type="order", properties={"n": 1}, time=when, priority=7, group="g", subject="s")
        receipts = await here.send_many([{"n": number} for number in range(50)], type="order", ttl_ms=600_000)
        async with here.receive(credit=100) as incoming:
            batches = await taken(incoming, 51)
            for batch in batches:
                assert (batch.destination, batch.hops, batch.origin, batch.redelivered) == (name, 0, 0, False)
                assert batch.accepted_at is not None and not batch.is_large
                receipt = await there.send_batch(batch.passed_on(BERLIN))
                assert (await client.outcomes(there.name, [(receipt.position, receipt.position + batch.count - 1)])).counting
                batch.confirm()
        assert (await client.describe(name))["waiting"] == 0

        async with there.receive(credit=100) as incoming:
            first, *others = [await incoming.next(timeout=10) for _ in range(51)]
            assert (first.id, first.data, first.type, first.source, first.time) == ("own", "one", "order", "till", when)
            assert (first.properties, first.priority, first.group, first.subject) == ({"n": 1}, 7, "g", "s")
            assert [each.id for each in others] == [each.id for each in receipts]
            assert [each.data for each in others] == [{"n": number} for number in range(50)]
            assert all(each.expires_at_ms for each in others)
        async with there.receive(credit=100) as incoming:
            assert {(each.hops, each.origin) for each in await taken(incoming, 51)} == {(1, BERLIN)}


async def test_batches_and_a_mark_become_visible_together_and_the_transaction_tells_where_they_are(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        topic = f"{name}-local"
        await client.create_topic(topic)
        await client.create_subscription(topic, "one")
        await client.queue(name).send_many(range(10))
        await client.queue(name).send("last")
        async with client.queue(name).receive(credit=100, held=()) as incoming:
            batches = await taken(incoming, 11)
            async with client.transaction() as tx:
                for batch in batches:
                    await tx.topic(topic).send_batch(batch.data)
                await tx.queue(f"{name}-marks").send([(batch.first, batch.last) for batch in batches])
            *sent, mark = tx.sent
            assert [(each.destination, each.events) for each in sent] == [(topic, batch.count) for batch in batches]
            assert incoming.confirm([(batch.first, batch.last) for batch in batches]).count == 11

        asked = Ranges.gather((each.first, each.last) for each in sent)
        assert (await client.outcomes(topic, asked)).waiting == asked
        async with client.subscribe(topic, "one") as incoming:
            events = [await incoming.next(timeout=10) for _ in range(11)]
            assert [each.data for each in events] == [*range(10), "last"]
            assert [each.position for each in events] == [at for first, last in asked for at in range(first, last + 1)]
            for event in events:
                event.confirm()
        assert (await client.outcomes(topic, asked)).confirmed == asked
        async with client.queue(f"{name}-marks").receive() as incoming:
            assert (await incoming.next(timeout=10)).position == mark.first


async def test_nothing_of_a_transaction_that_is_rolled_back_is_there(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("one")
        await client.create_queue(f"{name}-there")
        async with client.queue(name).receive() as incoming:
            (batch,) = await taken(incoming, 1)
            async with client.transaction() as tx:
                await tx.queue(f"{name}-there").send_batch(batch.data)
                await tx.rollback()
        assert (await client.describe(f"{name}-there"))["waiting"] == 0


async def test_events_sent_before_a_batch_in_a_transaction_come_before_it(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send("passed on")
        async with client.queue(name).receive() as incoming:
            (batch,) = await taken(incoming, 1)
            async with client.transaction() as tx:
                await tx.queue(f"{name}-there").send("before")
                await tx.queue(f"{name}-there").send_batch(batch.data)
                await tx.queue(f"{name}-there").send("after")
        async with client.queue(f"{name}-there").receive() as incoming:
            assert [(await incoming.next(timeout=10)).data for _ in range(3)] == ["before", "passed on", "after"]


async def test_a_selector_leaves_out_what_came_from_the_other_side(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        selector = f"holdfast_origin IS NULL OR holdfast_origin <> {BERLIN}"
        await client.create_subscription(name, "to-berlin", selector=selector)
        await client.create_subscription(name, "all")
        await client.queue(f"{name}-from").send("from berlin")
        async with client.queue(f"{name}-from").receive() as incoming:
            (batch,) = await taken(incoming, 1)
            receipt = await client.topic(name).send_batch(batch.passed_on(BERLIN))
            await client.topic(name).send_batch(batch.passed_on(origin_tag("rome")))
        await client.topic(name).send("from here")

        async with client.subscribe(name, "to-berlin", selector=selector) as incoming:
            seen = [await incoming.next(timeout=10) for _ in range(2)]
            assert [each.data for each in seen] == ["from berlin", "from here"]
            assert receipt.position not in [each.position for each in seen]
        asked = [(receipt.position, receipt.position)]
        assert (await client.outcomes(name, asked, subscription="to-berlin")).confirmed.count == 1
        assert (await client.outcomes(name, asked, subscription="all")).waiting.count == 1


async def test_a_large_event_is_told_apart_and_passed_on_in_pieces(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_stream(b"x" * 600_000, type="scan")
        await client.queue(name).send(b"")
        async with client.queue(name).receive() as incoming:
            large, empty = await taken(incoming, 2)
            assert (large.is_large, empty.is_large) == (True, False)
            event = large.events[0]
            async with event.open_stream() as stream:
                await client.queue(f"{name}-there").send_stream(stream, type=event.type, id=event.id)
            large.confirm()
        async with client.queue(f"{name}-there").receive() as incoming:
            passed = await incoming.next(timeout=10)
            assert passed.id == event.id
            async with passed.open_stream() as stream:
                assert await stream.read() == b"x" * 600_000


async def test_what_is_no_batch_is_refused_and_a_damaged_one_is_not_accepted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadSetting, match="batch"):
            await client.queue(name).send_batch(b"no batch")
        await client.queue(name).send("one")
        async with client.queue(name).receive() as incoming:
            (batch,) = await taken(incoming, 1)
            damaged = bytearray(batch.data)
            damaged[-1] ^= 1
            with pytest.raises(TransactionAborted, match="checksum"):
                await client.queue(name).send_batch(bytes(damaged))
        async with client.queue(name).receive(confirm="auto") as incoming:
            with pytest.raises(BadSetting, match="confirm='event'"):
                await anext(incoming.encoded())


def test_the_blocking_twin_sends_batches_as_they_are(url: str, name: str) -> None:
    made = batches.encode([b"\x80", b"\x80"], [b"1", b"2"], source="s", first_id=7)
    with holdfast.blocking.connect(url) as client:
        receipt = client.queue(name).send_batch(made)
        with client.transaction() as tx:
            tx.queue(name).send_batch(made)
        (sent,) = tx.sent
        with client.queue(name).receive() as incoming:
            positions = [incoming.next(timeout=10).position for _ in range(4)]
        assert positions == [receipt.position, receipt.position + 1, sent.first, sent.last]


def test_the_blocking_twin_passes_on_unopened_batches(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(3))
        with client.queue(name).receive(credit=10) as incoming:
            batch = next(incoming.encoded())
            assert (batch.count, [each.data for each in batch.events]) == (3, [0, 1, 2])
            client.queue(f"{name}-there").send_batch(batch.passed_on(BERLIN))
            batch.confirm()
        assert client.describe(name)["waiting"] == 0
        with client.queue(f"{name}-there").receive() as incoming:
            assert [incoming.next(timeout=10).data for _ in range(3)] == [0, 1, 2]
