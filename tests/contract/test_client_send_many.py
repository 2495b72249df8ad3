"""`send_many`: fields for all, what a bad event leaves behind."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from holdfast.errors import BadEvent, TooLarge
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def data_of(client: holdfast.Client, queue: str, count: int) -> list[Any]:
    async with client.queue(queue).receive(confirm="auto") as incoming:
        return [(await incoming.next(timeout=10)).data for _ in range(count)]


async def waiting(client: holdfast.Client, queue: str) -> int:
    return int((await client.describe(queue))["waiting"])


async def test_fields_are_for_all_and_win_over_those_of_an_event(url: str, name: str) -> None:
    fields: Any = {"type": "order.placed", "properties": {"region": "eu"}, "subject": "s", "priority": 7, "group": "g"}
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_many([{"n": 1}, "two", b"3", holdfast.Event(data=4, type="mine", id="four")], **fields)

        events = [await incoming.next(timeout=10) for _ in range(4)]

        assert [event.data for event in events] == [{"n": 1}, "two", b"3", 4]
        assert all({each: getattr(event, each) for each in fields} == fields for event in events)
        assert events[3].id == "four"


async def test_the_blocking_client_takes_fields_for_all_too(url: str, name: str) -> None:
    def send() -> list[tuple[Any, ...]]:
        with holdfast.blocking.connect(url) as client:
            client.queue(name).send_many([{"n": 1}, {"n": 2}], type="order")
            with client.queue(name).pipeline() as pipeline:
                pipeline.send(0)
                pipeline.send_many(range(2_000), type="number")
                pipeline.send("last")
            with client.transaction() as transaction:
                transaction.queue(name).send_many([{"n": 3}], type="committed")
            with client.queue(name).receive(confirm="auto") as incoming:
                return [(event.data, event.type) for event in (incoming.next(timeout=10) for _ in range(2_005))]

    got = await asyncio.to_thread(send)

    assert got[:3] == [({"n": 1}, "order"), ({"n": 2}, "order"), (0, "event")]
    assert got[3:-2] == [(number, "number") for number in range(2_000)]
    assert got[-2:] == [("last", "event"), ({"n": 3}, "committed")]


async def test_a_pipeline_and_a_transaction_take_many_in_their_order(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.queue(name).pipeline() as pipeline:
            await pipeline.send("first")
            await pipeline.send_many(range(1_500), type="number")
            await pipeline.send("last")
        async with client.transaction() as transaction:
            await transaction.queue(name).send("begin")
            await transaction.queue(name).send_many(range(1_500))
            await transaction.queue(name).send("end")

        numbers = list(range(1_500))
        assert await data_of(client, name, 3_004) == ["first", *numbers, "last", "begin", *numbers, "end"]
        assert len(pipeline.receipts) == 1_502


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"price": math.nan}, r"\$\.price"),
        ({"lines": [1, {"key": b"secret"}]}, r"\$\.lines\[1\]\.key"),
        ({b"key": 1}, "the key b'key'"),
        ("half \ud800", "not valid Unicode"),
        (holdfast.Event(data=1, properties={"two words": 1}), "not an identifier"),
        (holdfast.Event(data=1, priority=4.0), "priority 4.0"),  # type: ignore[arg-type]
        (object(), "cannot be encoded"),
    ],
)
async def test_a_bad_event_is_named_by_its_index_and_those_before_it_stay_sent(bad: Any, told: str) -> None:
    taken = []

    def events() -> Iterator[Any]:
        for number in range(900):
            taken.append(number)
            yield bad if number == 700 else {"n": number}

    async with holdfast.connect("memory:") as client:
        with pytest.raises(BadEvent, match=f"event 700 of send_many.*{told}.*700 were accepted") as caught:
            await client.queue("q").send_many(events())

        assert (caught.value.index, caught.value.fields["accepted"], len(taken)) == (700, 700, 701)
        assert await data_of(client, "q", 700) == [{"n": number} for number in range(700)]
        assert await waiting(client, "q") == 0
    with holdfast.blocking.connect("memory:") as blocking:
        with pytest.raises(BadEvent, match=f"event 1 of send_many.*{told}.*1 were accepted") as caught:
            blocking.queue("q").send_many([1, bad, 2])
        assert caught.value.index == 1
        with pytest.raises(BadEvent, match="event 1 of send_many"), blocking.transaction() as transaction:
            transaction.queue("q").send_many([1, bad, 2])
        assert blocking.describe("q")["waiting"] == 1


async def test_fields_that_no_event_can_have_are_refused_before_an_event_is_taken() -> None:
    events = iter([1, 2, 3])
    async with holdfast.connect("memory:") as client:
        queue = client.queue("q")
        wrong: list[Any] = [{"type": ""}, {"priority": 11}, {"colour": "red"}, {"properties": {"n": [1]}}, {"id": "for all"}]
        for fields in wrong:
            with pytest.raises(BadEvent) as caught:
                await queue.send_many(events, **fields)
            assert caught.value.index is None

        assert list(events) == [1, 2, 3]


async def test_an_event_is_encoded_before_the_next_is_taken() -> None:
    def reused() -> Iterator[dict[str, Any]]:
        row: dict[str, Any] = {}
        for number in range(1_000):
            row["n"] = number
            yield row

    expected = [{"n": number} for number in range(1_000)]
    async with holdfast.connect("memory:") as client:
        await client.queue("q").send_many(reused())
        async with client.transaction() as transaction:
            await transaction.queue("q").send_many(reused())
        assert await data_of(client, "q", 2_000) == expected * 2
    with holdfast.blocking.connect("memory:") as blocking:
        blocking.queue("q").send_many(reused())
        with blocking.transaction() as together:
            together.queue("q").send_many(reused())
        with blocking.queue("q").receive(confirm="auto") as incoming:
            assert [incoming.next(timeout=10).data for _ in range(2_000)] == expected * 2


async def test_what_a_program_raises_comes_through_and_what_it_gave_before_stays_sent() -> None:
    def events() -> Iterator[int]:
        yield from range(1_000)
        raise LookupError("the file ended early")

    async with holdfast.connect("memory:") as client:
        with pytest.raises(LookupError, match="ended early"):
            await client.queue("q").send_many(events())

        assert await data_of(client, "q", 1_000) == list(range(1_000))


async def test_a_large_event_among_small_ones_is_a_batch_of_its_own(url: str, name: str) -> None:
    large = bytes((1 << 20) - 3_000)
    events = [b"small"] * 500 + [large] + [{"n": 1}, holdfast.Event(data=large, type="big"), "last"]
    async with holdfast.connect(url) as client:
        receipts = await client.queue(name).send_many(events)
        async with client.queue(name).pipeline() as pipeline:
            await pipeline.send(bytes(1_000))
            await pipeline.send(large)

        assert len({receipt.position >> 16 for receipt in receipts}) == 5
        assert await data_of(client, name, 506) == [*events[:502], large, "last", bytes(1_000), large]
        with pytest.raises(TooLarge, match=r"event 1 of send_many.*send_stream") as caught:
            await client.queue(name).send_many(["fits", bytes(1 << 20)])
        assert caught.value.index == 1
