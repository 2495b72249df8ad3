"""Reading a subscription by place, over every place a client can find its events at (D1: what Spark's source is made of)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.client import Client
from holdfast.client.reading.place_reader import Reading, ReadSlice
from holdfast.errors import (
    AlreadyConfirmed,
    BadName,
    BadSetting,
    Closed,
    NoSuchPosition,
    NoSuchSubscription,
    SubscriptionInUse,
)
from holdfast.event.extent import Bounds
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


def numbers(slice: ReadSlice) -> list[int]:
    assert slice.batch.count == slice.events
    return [int(bytes(slice.batch.body(index))) for index in range(slice.events)]


async def read(slices: AsyncIterator[ReadSlice]) -> list[int]:
    return [number async for slice in slices for number in numbers(slice)]


async def all_of(reading: Reading) -> list[int]:
    extent = await reading.extent()
    return await read(reading.slices(extent.start, extent.end))


async def fill(client: Client, topic: str, count: int, batches: int = 1) -> None:
    """So many batches of so many events, numbered through."""
    for batch in range(batches):
        await client.topic(topic).send_many(range(batch * count, (batch + 1) * count))


async def test_what_an_extent_names_is_read_any_number_of_times_and_confirmed_once(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await fill(client, name, 100, 3)
            extent = await reading.extent(events_max=150)

            assert (extent.events, extent.left, extent.start, extent.confirmed) == (150, 150, 0, 0)
            assert await read(reading.slices(extent.start, extent.end)) == list(range(150))
            assert await read(reading.slices(extent.start, extent.end)) == list(range(150))
            assert await reading.confirm_up_to(extent.end) == 150
            assert await reading.confirm_up_to(extent.end) == 0
            assert await all_of(reading) == list(range(150, 300))
            assert (await reading.extent()).confirmed == extent.end


async def test_a_range_that_was_planned_stays_the_same_whatever_is_sent_later(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await fill(client, name, 50)
            extent = await reading.extent()
            await fill(client, name, 50)

            assert await read(reading.slices(extent.start, extent.end)) == list(range(50))
            assert (await reading.extent(extent.end)).events == 50


async def test_nothing_waits_in_a_new_subscription_and_an_extent_of_nothing_ends_where_it_starts(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            extent = await reading.extent(events_max=1, bytes_max=1, pieces=8)

            assert extent[1:] == (0, 0, 0, [], 0, 0, 0, 0)
            assert await read(reading.slices(extent.start, extent.end)) == []
            assert await reading.confirm_up_to(extent.end) == 0


async def test_cuts_divide_an_extent_into_pieces_that_are_read_apart(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await fill(client, name, 100, 4)
            extent = await reading.extent(events_max=350, pieces=7)

            places = [extent.start, *extent.cuts, extent.end]
            pieces = [await read(reading.slices(low, high)) for low, high in itertools.pairwise(places)]
            assert [len(piece) for piece in pieces] == [50] * 7
            assert [number for piece in pieces for number in piece] == list(range(350))


async def test_a_limit_in_bytes_is_kept_and_at_least_one_event_is_given(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            for number in range(20):
                await client.topic(name).send(bytes([number]) * 1_000)
            whole = await reading.extent()
            half = await reading.extent(bytes_max=whole.bytes // 2)
            least = await reading.extent(bytes_max=1)
            both = await reading.extent(bytes_max=whole.bytes // 2, events_max=3)

            assert 20 * 1_000 < whole.bytes < 20 * 1_200
            assert (half.events, least.events, both.events) == (10, 1, 3)
            assert half.bytes <= whole.bytes // 2


async def test_the_bytes_of_many_batches_are_estimated_within_a_tenth(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            async with client.topic(name).pipeline() as pipeline:
                for number in range(1_500):
                    await pipeline.send(bytes(200 + number % 7 * 10), priority=number % 10)  # a batch has one priority
            slices = [slice async for slice in reading.slices(0, (await reading.extent()).end)]
            exact = sum(len(slice.batch.data) for slice in slices)
            extent = await reading.extent()
            limited = await reading.extent(bytes_max=exact // 2)

            assert sum(slice.events for slice in slices) == extent.events == 1_500
            assert abs(extent.bytes - exact) < exact / 10
            assert abs(limited.events - 750) < 100


async def test_a_pattern_is_one_subscription_that_a_topic_created_later_joins(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(f"{name}.*", "lake", match="glob")
        async with reading.owner():
            await client.topic(f"{name}.eu").send_many(range(3))
            first = await reading.extent()
            await client.topic(f"{name}.us").send_many(range(3, 5))
            second = await reading.extent(first.end)

            slices = [slice async for slice in reading.slices(first.start, second.end)]
            assert [(slice.destination, numbers(slice)) for slice in slices] == [
                (f"{name}.eu", [0, 1, 2]),
                (f"{name}.us", [3, 4]),
            ]
            assert all(slice.accepted_us > 1_600_000_000_000_000 for slice in slices)


async def test_a_selector_chooses_among_what_is_read(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await client.topic(name).send_many(holdfast.Event(data=n, properties={"n": n}) for n in range(3_000))
            extent = await reading.extent(events_max=2_000)

            found = await read(reading.slices(extent.start, extent.end, selector="n > 500 AND n < 510 OR n = 1999 OR n = 2000"))

            assert found == [*range(501, 510), 1999]


async def test_batches_larger_than_a_page_and_many_small_ones_are_read_whole(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            bodies = [bytes([number]) * size for number, size in enumerate((900_000, 10, 700_000, 600_000, 20, 1_000_000))]
            await client.topic(name).send_many(bodies)
            extent = await reading.extent()

            slices = [slice async for slice in reading.slices(extent.start, extent.end)]
            assert [bytes(slice.batch.body(i)) for slice in slices for i in range(slice.events)] == bodies


async def test_who_breaks_off_and_who_reads_from_the_middle_of_a_batch_is_given_what_was_asked_for(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await fill(client, name, 100, 3)
            async for slice in reading.slices(0, (await reading.extent()).end):
                assert numbers(slice)[0] == 0
                break
            extent = await reading.extent(start=30, events_max=100)

            assert await read(reading.slices(extent.start, extent.end)) == list(range(30, 130))


async def test_what_others_took_before_is_not_read_and_not_counted(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        async with client.subscribe(name, "lake") as incoming:
            await fill(client, name, 10, 2)
            events = [await incoming.next(timeout=10) for _ in range(20)]
            for number in (3, 4, 9, 10, 15):
                await events[number].confirm()
        reading = client.reading(name, "lake")
        async with reading.owner():
            extent = await reading.extent(events_max=8)

            left = [number for number in range(20) if number not in (3, 4, 9, 10, 15)]
            assert await read(reading.slices(extent.start, extent.end)) == left[:8]
            assert await reading.confirm_up_to(extent.end) == 8
            assert await all_of(reading) == left[8:]


async def test_events_that_expire_are_simply_no_longer_there_and_a_place_before_them_is_still_good(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await client.topic(name).send(1)
            first = await reading.extent()
            await reading.confirm_up_to(first.end)
            await client.topic(name).send(2, ttl_ms=50)
            await client.topic(name).send(3)
            async with asyncio.timeout(10):
                while (await reading.extent(first.end)).events != 1:
                    assert await reading.more(first.end, 0)  # the third waits, whatever becomes of the second

            assert await all_of(reading) == [3]
            assert (await reading.extent(first.end)).start == first.end  # not AlreadyConfirmed: nobody confirmed what expired


async def test_more_waits_until_something_is_placed_and_no_longer_than_it_is_told(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await client.topic(name).send(1)
            extent = await reading.extent()
            assert await reading.more(extent.start, 0) and await reading.more(extent.start, 10)
            assert not await reading.more(extent.end, 0)
            assert not await reading.more(extent.end, 0.05)

            waiting = asyncio.create_task(reading.more(extent.end, 30))
            await client.describe(name)  # asked behind it: the server waits by now
            await client.topic(name).send(2)

            async with asyncio.timeout(5):
                assert await waiting


async def test_a_second_owner_is_refused_while_the_first_lives_and_taken_afterwards(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        first, second = client.reading(name, "lake"), client.reading(name, "lake")
        async with first.owner():
            with pytest.raises(SubscriptionInUse, match="another program that lives; stop that one first"):
                async with second.owner():
                    pytest.fail("a second owner was let in")
            assert (await second.extent()).events == 0  # but anyone may look
        async with second.owner():
            assert await second.confirm_up_to(0) == 0


async def test_only_its_owner_confirms(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await fill(client, name, 3)
            extent = await reading.extent()
            with pytest.raises(Closed, match=r"async with reading\.owner"):
                await client.reading(name, "lake").confirm_up_to(extent.end)
            with pytest.raises(NoSuchPosition, match="past the newest"):
                await reading.confirm_up_to(extent.newest + 1)
        with pytest.raises(Closed):
            await reading.confirm_up_to(extent.end)

        assert await all_of(reading) == [0, 1, 2]


async def test_a_place_before_what_its_owner_confirmed_is_refused(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            await fill(client, name, 10)
            old, new = (await reading.extent(events_max=3)).end, (await reading.extent(events_max=5)).end
            await reading.confirm_up_to(new)

            with pytest.raises(AlreadyConfirmed, match="has lost a newer state") as refused:
                await reading.extent(old)
            assert refused.value.fields == {"place": old, "confirmed": new}
            with pytest.raises(NoSuchPosition, match="another subscription"):
                await reading.extent(1 << 40)


async def test_a_subscription_that_is_made_again_has_another_identity(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            first = (await reading.extent()).identity
        async with reading.owner():
            again = (await reading.extent()).identity
        await client.delete_subscription(name, "lake")
        with pytest.raises(NoSuchSubscription):
            await reading.extent()
        async with reading.owner():
            anew = (await reading.extent()).identity

        assert first == again != anew


async def test_an_owner_uses_a_subscription_as_it_is_and_never_makes_it_anew(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "lake", selector="n > 1")
        await client.topic(name).send_many(holdfast.Event(data=n, properties={"n": n}) for n in range(4))
        async with client.reading(name, "lake").owner():
            assert await all_of(client.reading(name, "lake")) == [2, 3]
        async with client.reading(name, "lake", selector="n > 1").owner():
            assert await all_of(client.reading(name, "lake")) == [2, 3]

        with pytest.raises(SubscriptionInUse, match="is there with the selector 'n > 1', not 'n > 2'"):
            async with client.reading(name, "lake", selector="n > 2").owner():
                pytest.fail("it was made anew")
        await client.create_subscription(name, "pool", shared=True)
        with pytest.raises(SubscriptionInUse, match="shared and durable"):
            async with client.reading(name, "pool").owner():
                pytest.fail("a shared one has many receivers")


async def test_a_queue_is_looked_at_by_place_and_has_no_owner(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue(name).send_many(range(5))
        reading = client.reading(name)

        assert await all_of(reading) == [0, 1, 2, 3, 4]
        with pytest.raises(BadSetting, match="is a queue, from which others take"):
            async with reading.owner():
                pytest.fail("a queue has no owner")


async def test_what_cannot_be_asked_for_is_refused_with_what_to_say_instead(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadName, match="say match='glob'"):
            client.reading("alerts.*", "lake", match="name")
        with pytest.raises(BadSetting, match="name that of"):
            client.reading("alerts.*")
        with pytest.raises(BadSetting, match="not name, glob or regex"):
            client.reading("alerts", "lake", match="like")  # type: ignore[arg-type]
        reading = client.reading(name, "lake")
        async with reading.owner():
            for wrong in ({"events_max": 0}, {"bytes_max": -1}, {"pieces": 0}, {"start": -1}, {"events_max": True}):
                with pytest.raises(BadSetting):
                    await reading.extent(**wrong)
            with pytest.raises(BadSetting, match="is not a place"):
                reading.slices(0, -1)
            with pytest.raises(BadSetting, match="no time to wait"):
                await reading.more(0, -1)
            with pytest.raises(Closed, match="owns its subscription already"):
                reading.owner()


def test_without_a_loop_it_is_the_same(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client:
        reading = client.reading(name, "lake")
        with reading.owner():
            client.topic(name).send_many(range(200))
            extent = reading.extent(events_max=120, pieces=2)

            assert [number for slice in reading.slices(extent.start, extent.end) for number in numbers(slice)] == list(range(120))
            assert reading.confirm_up_to(extent.end) == 120
            assert reading.more(extent.end, 5)
            for slice in reading.slices(extent.end, extent.newest):
                assert numbers(slice)[0] == 120
                break


async def test_the_server_chooses_by_position_and_by_time_of_acceptance_d2(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        reading = client.reading(name, "lake")
        async with reading.owner():
            async with client.topic(name).pipeline() as pipeline:
                for number in range(1_000):
                    await pipeline.send(str(number).encode())
            extent = await reading.extent()
            everything = [each async for each in reading.slices(extent.start, extent.end)]
            positions = [each.first + index for each in everything for index in range(each.events)]
            moment = everything[-1].accepted_us

            async def within(bounds: Bounds, selector: str | None = None) -> list[int]:
                return await read(reading.slices(extent.start, extent.end, selector, bounds))

            assert await within(Bounds(positions[10], positions[990])) == list(range(10, 990))
            assert await within(Bounds(positions[10], positions[990]), "type IS NOT NULL") == list(range(10, 990))
            assert await within(Bounds(end_us=everything[0].accepted_us)) == []
            late = [number for each in everything if each.accepted_us >= moment for number in numbers(each)]
            assert await within(Bounds(start_us=moment)) == late
            assert await within(Bounds(start_us=moment), "type IS NOT NULL") == late
