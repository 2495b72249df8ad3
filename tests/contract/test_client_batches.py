"""Events in batches, as they came: taken together, confirmed together, decided on one by one where the program wants it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.client.checks import ConfirmMode
from holdfast.client.client import Client
from holdfast.errors import Closed, Refused
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

MODES: list[ConfirmMode] = ["event", "auto", "duplicates-ok", "client"]


async def left(client: Client, queue: str) -> dict[object, int]:
    """What is still there, and how often each was delivered before."""
    async with client.queue(queue).receive() as incoming:
        count = int((await client.describe(queue))["waiting"])
        return {event.data: event.deliveries for event in [await incoming.next(timeout=10) for _ in range(count)]}


@pytest.mark.parametrize("mode", MODES)
async def test_batches_have_every_event_once_in_order_and_are_confirmed_together(url: str, name: str, mode: ConfirmMode) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(3_000))
        async with client.queue(name).receive(confirm=mode) as incoming:
            seen: list[object] = []
            batches = 0
            async for batch in incoming.batches():
                assert [event.data for event in batch] == batch.data
                assert len(batch) == len(batch.data) > 0
                seen += batch.data
                batches += 1
                if mode in ("event", "client"):
                    await batch.confirm()
                if len(seen) == 3_000:
                    break

        assert seen == list(range(3_000))
        assert batches < 1_500
        assert await left(client, name) == {}


@pytest.mark.parametrize("mode", MODES)
async def test_a_batch_of_which_only_the_data_are_looked_at_is_confirmed(url: str, name: str, mode: ConfirmMode) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many([b"%d" % number for number in range(10)])
        async with client.queue(name).receive(confirm=mode, credit=100) as incoming:
            seen: list[bytes] = []
            async for batch in incoming.batches():
                seen += batch.data
                await batch.confirm()
                await batch.confirm()  # again, which changes nothing
                assert batch.is_decided
                assert all(event.is_decided for event in batch)
                if len(seen) == 10:
                    break

        assert seen == [b"%d" % number for number in range(10)]
        assert await left(client, name) == {}


@pytest.mark.parametrize("mode", MODES)
async def test_events_of_a_batch_may_be_decided_on_one_by_one(url: str, name: str, mode: ConfirmMode) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(6))
        async with client.queue(name).receive(confirm=mode, credit=100) as incoming:
            batch = await anext(incoming.batches())
            assert batch.data == list(range(6))
            batch[2].release(delay=3_600)
            batch[4].reject("not this one")
            if mode == "event":
                await batch[0].confirm()
            await batch.confirm()
            with pytest.raises(Refused):
                batch[1].release()
            await incoming.settled(timeout=10)

        described = await client.describe(name)
        assert described["waiting"] == 1  # the released one
        dead = [event for event in await client.dead.list() if event.destination == name]
        assert [event.data for event in dead] == [4]


async def test_a_batch_that_is_not_confirmed_comes_again_counted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(4))
        async with client.queue(name).receive(credit=100) as incoming:
            batch = await anext(incoming.batches())
            await batch[0].confirm()

        assert await left(client, name) == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("mode", ["auto", "duplicates-ok"])
async def test_in_auto_mode_a_batch_whose_handling_raises_comes_again_but_for_what_was_decided(
    url: str, name: str, mode: ConfirmMode
) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(4))

        with pytest.raises(ZeroDivisionError):
            async with client.queue(name).receive(confirm=mode, credit=100) as incoming:
                async for batch in incoming.batches():
                    await batch[1].confirm()
                    1 / 0  # noqa: B018  # the handling that fails

        assert await left(client, name) == {0: 1, 2: 1, 3: 1}


async def test_a_batch_given_back_comes_again(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(4))
        async with client.queue(name).receive(credit=100) as incoming:
            batch = await anext(incoming.batches())
            await batch[3].confirm()
            await batch.release()
            await incoming.settled(timeout=10)

        assert await left(client, name) == {0: 1, 1: 1, 2: 1}


async def test_batches_and_single_events_may_be_mixed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(5))
        async with client.queue(name).receive(credit=100) as incoming:
            first = await incoming.next(timeout=10)
            batch = await anext(incoming.batches())
            await first.confirm()
            await batch.confirm()

        assert [first.data, *batch.data] == list(range(5))
        assert await left(client, name) == {}


async def test_a_batch_of_a_receiver_that_was_closed_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(4))
        async with client.queue(name).receive(credit=100) as incoming:
            batch = await anext(incoming.batches())

        with pytest.raises(Closed):
            await batch.confirm()
        assert await left(client, name) == dict.fromkeys(range(4), 1)


async def test_expired_events_are_in_no_batch(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        queue = client.queue(name)
        await queue.send_many([0, holdfast.Event(data=1, ttl_ms=1), holdfast.Event(data=2, ttl_ms=1), 3])
        async with queue.receive(credit=100) as incoming:
            seen: list[object] = []
            async for batch in incoming.batches():
                seen += batch.data
                await batch.confirm()
                if 3 in seen:
                    break

        assert seen[0] == 0
        assert seen[-1] == 3


# --- without a loop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_batches_without_a_loop_have_every_event_once_in_order(url: str, name: str, mode: ConfirmMode) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(3_000))
        with client.queue(name).receive(confirm=mode) as incoming:
            seen: list[object] = []
            for batch in incoming.batches():
                assert [event.data for event in batch] == batch.data
                seen += batch.data
                if mode in ("event", "client"):
                    batch.confirm()
                if len(seen) == 3_000:
                    break

        assert seen == list(range(3_000))
        assert client.describe(name)["waiting"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_events_of_a_batch_without_a_loop_may_be_decided_on_one_by_one(url: str, name: str, mode: ConfirmMode) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(6))
        with client.queue(name).receive(confirm=mode, credit=100) as incoming:
            batch = next(incoming.batches())
            assert batch.data == list(range(6))
            batch[2].release(delay=3_600)
            batch[4].reject("not this one")
            batch.confirm()
            batch.confirm()
            with pytest.raises(Refused):
                batch[1].release()
            incoming.settled(timeout=10)

        assert client.describe(name)["waiting"] == 1


@pytest.mark.parametrize("mode", ["auto", "duplicates-ok"])
def test_in_auto_mode_without_a_loop_a_batch_whose_handling_raises_comes_again(url: str, name: str, mode: ConfirmMode) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(4))

        with pytest.raises(ZeroDivisionError), client.queue(name).receive(confirm=mode, credit=100) as incoming:
            for batch in incoming.batches():
                batch[1].confirm()
                1 / 0  # noqa: B018  # the handling that fails

        with client.queue(name).receive() as incoming:
            assert sorted((event.data, event.deliveries) for event in (incoming.next(timeout=10) for _ in range(3))) == [
                (0, 1), (2, 1), (3, 1)
            ]  # fmt: skip


def test_batches_without_a_loop_begin_with_what_next_left(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        client.queue(name).send_many(range(8))
        with client.queue(name).receive(credit=100) as incoming:
            seen = [incoming.next(timeout=10).data]
            for batch in incoming.batches():
                seen += batch.data
                batch.confirm()
                if len(seen) == 8:
                    break

        assert seen == list(range(8))
        assert client.describe(name)["waiting"] == 1
