"""Events larger than memory that are read by place, over every place a client can find its events at (B13)."""

from __future__ import annotations

import hashlib

import pytest

import holdfast
from holdfast import blocking
from holdfast.client.reading.place_reader import Reading, ReadSlice
from holdfast.errors import BadSetting, NoSuchPosition
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]

# Some fragments, the last of them not full.
LARGE = hashlib.shake_128(b"large").digest(1_000_003)


async def read(reading: Reading) -> list[ReadSlice]:
    extent = await reading.extent()
    return [slice async for slice in reading.slices(extent.start, extent.end)]


async def test_its_data_is_read_any_number_of_times_until_it_is_confirmed(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "history")
        await client.topic(name).send("small")
        await client.topic(name).send_stream(LARGE)
        reading = client.reading(name, "history")
        async with reading.owner():
            small, large = await read(reading)
            for _ in range(2):
                async with reading.open_stream(large) as stream:
                    chunks = [chunk async for chunk in stream]
                assert b"".join(chunks) == LARGE
                assert len(chunks) > 1, "it comes in pieces"
            async with reading.open_stream(small) as stream:
                assert await stream.read() == b"small"

            await reading.confirm_up_to((await reading.extent()).end)

            with pytest.raises(NoSuchPosition):
                async with reading.open_stream(large) as stream:
                    await stream.read()


async def test_nobody_needs_to_own_the_subscription_and_a_wildcard_is_read_too(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_subscription(f"{name}.*", "history")
        await client.topic(f"{name}.eu").send_stream(LARGE, properties={"n": 1})
        reading = client.reading(f"{name}.*", "history")
        (slice,) = await read(reading)

        async with reading.open_stream(slice) as stream:
            assert stream.size == len(LARGE)
            assert await stream.read() == LARGE
        with pytest.raises(BadSetting, match="index"):
            reading.open_stream(slice, 1)


async def test_a_copied_subscription_reads_it_when_the_other_has_confirmed_it(url: str, name: str) -> None:
    async with holdfast.connect(url) as client:
        await client.create_topic(name)
        await client.create_subscription(name, "first")
        await client.topic(name).send_stream(LARGE)
        await client.create_subscription(name, "second", like="first")
        async with client.subscribe(name, "first") as incoming:
            await (await incoming.next(timeout=10)).confirm()
        reading = client.reading(name, "second")
        (slice,) = await read(reading)

        async with reading.open_stream(slice) as stream:
            assert await stream.read() == LARGE


def test_a_program_without_a_loop_reads_it_too(url: str, name: str) -> None:
    with blocking.connect(url) as client:
        client.create_topic(name)
        client.create_subscription(name, "history")
        client.topic(name).send_stream(LARGE)
        reading = client.reading(name, "history")
        extent = reading.extent()
        (slice,) = reading.slices(extent.start, extent.end)

        with reading.open_stream(slice) as stream:
            assert b"".join(stream) == LARGE
