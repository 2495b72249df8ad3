"""Events larger than memory, over every place a client can find its events at (B13)."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.assembly.stream_sender import FRAGMENT_BYTES
from holdfast.errors import BadEvent, Closed, NoSuchPosition, Refused, TooLarge
from tests.contract.places import name, server, url
from tests.waiting import turn_loop

__all__ = ["name", "server", "url"]


def content(size: int) -> bytes:
    """Bytes that are the same every time and nowhere the same."""
    return hashlib.shake_128(b"content").digest(size)


LARGE = content(5 * FRAGMENT_BYTES + 4_321)


async def in_pieces(data: bytes, size: int = 50_000) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]
        yield b""


def iterated(data: bytes) -> Iterator[bytes]:
    yield from (data[begin : begin + 300_000] for begin in range(0, len(data), 300_000))


async def read_all(event: holdfast.ReceivedEvent) -> bytes:
    async with event.open_stream() as stream:
        return await stream.read()


@pytest.mark.parametrize("kind", ["path", "bytes", "file", "iterator", "async iterator", "memoryview"])
async def test_what_is_streamed_from_any_source_arrives_as_it_was(url: str, name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "content").write_bytes(LARGE)
    sources: dict[str, Any] = {
        "path": tmp_path / "content", "bytes": LARGE, "file": io.BytesIO(LARGE), "iterator": iterated(LARGE),
        "async iterator": in_pieces(LARGE), "memoryview": memoryview(LARGE),
    }  # fmt: skip
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        receipt = await client.queue(name).send_stream(
            sources[kind], type="picture", datacontenttype="image/png", properties={"width": 7}
        )

        event = await incoming.next(10)

        assert (event.id, event.position) == (receipt.id, receipt.position)
        assert (event.type, event.datacontenttype, event.properties) == ("picture", "image/png", {"width": 7})
        assert (event.is_large, event.size) == (True, len(LARGE))
        assert await read_all(event) == LARGE
        await event.confirm()
        await incoming.settled()
        assert (await client.describe(name))["waiting"] == 0


@pytest.mark.parametrize(
    ("size", "is_large"),
    [
        (0, False),
        (1, False),
        (FRAGMENT_BYTES - 1, False),
        (FRAGMENT_BYTES, True),
        (FRAGMENT_BYTES + 1, True),
        (2 * FRAGMENT_BYTES, True),
    ],
)
async def test_what_fits_one_fragment_travels_as_an_ordinary_event_and_is_read_in_the_same_way(
    url: str, name: str, size: int, is_large: bool
) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_stream(content(size))

        event = await incoming.next(10)

        assert (event.is_large, event.size) == (is_large, size)
        assert await read_all(event) == content(size)


async def test_an_ordinary_event_can_be_read_as_a_stream_too(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("text")
        event = await incoming.next(10)
        assert not event.is_large
        assert await read_all(event) == b"text"


async def test_it_is_read_in_pieces_or_chunks_or_saved_to_a_file(url: str, name: str, tmp_path: Path) -> None:
    sent: list[tuple[int, int | None]] = []
    saved: list[tuple[int, int]] = []
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_stream(LARGE, progress=lambda done, total: sent.append((done, total)))
        event = await incoming.next(10)

        async with event.open_stream() as stream:
            head = await stream.read(10)
            middle = await stream.read(FRAGMENT_BYTES + 5)
            rest = b"".join([chunk async for chunk in stream])
        async with event.open_stream() as stream:
            await stream.save(tmp_path / "saved", progress=lambda done, total: saved.append((done, total)))

    assert head + middle + rest == LARGE
    assert (len(head), len(middle)) == (10, FRAGMENT_BYTES + 5)
    assert (tmp_path / "saved").read_bytes() == LARGE
    assert not [each for each in os.listdir(tmp_path) if each.endswith(".partial")]
    assert sent[-1] == saved[-1] == (len(LARGE), len(LARGE))
    assert len(sent) == len(saved) == 6


async def test_saving_removes_parts_of_the_same_file_that_a_killed_process_left(name: str, tmp_path: Path) -> None:
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    left, of_another = f".saved.{ended.pid}-1.partial", f".other.{ended.pid}-1.partial"
    in_use = f".saved.{os.getppid()}-1.partial"
    for each in (left, of_another, in_use):
        (tmp_path / each).write_bytes(b"part")
    async with holdfast.connect("memory:") as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_stream(LARGE)
        async with (await incoming.next(10)).open_stream() as stream:
            await stream.save(tmp_path / "saved")

    assert sorted(os.listdir(tmp_path)) == sorted([of_another, in_use, "saved"])


async def test_data_of_a_large_event_says_how_to_read_it(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_stream(LARGE)
        event = await incoming.next(10)
        with pytest.raises(TooLarge, match="open_stream"):
            _ = event.data
        with pytest.raises(Closed, match="not open"):
            await event.open_stream().read(1)


async def test_every_subscription_of_a_topic_reads_a_large_event(url: str, name: str) -> None:
    async with (
        holdfast.connect(url) as client,
        client.subscribe(name, name="one") as one,
        client.subscribe(name) as two,
    ):
        await client.topic(name).send_stream(LARGE)

        for incoming in (one, two):
            event = await incoming.next(10)
            assert await read_all(event) == LARGE
            await event.confirm()
            await incoming.settled()
            with pytest.raises(NoSuchPosition, match="finished"):
                await read_all(event)


async def test_a_rejected_large_event_is_read_from_the_dead_events(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        receipt = await client.queue(name).send_stream(LARGE)
        await (await incoming.next(10)).reject("illegible")
        await incoming.settled()

        async with client.queue("_DMQ").receive() as dead:
            while (event := await dead.next(10)).position != receipt.position:
                await event.release(delay=60)
            assert await read_all(event) == LARGE
            await event.confirm()


async def test_large_and_small_events_of_one_transaction_arrive_together_and_in_order(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send("request")
        request = await incoming.next(10)
        async with client.transaction() as tx:
            await tx.queue(name).send("before")
            await tx.queue(name).send_stream(LARGE)
            await tx.queue(name).send("after")
            await tx.confirm(request)

        before, large, after = [await incoming.next(10) for _ in range(3)]

        assert (before.data, after.data) == ("before", "after")
        assert await read_all(large) == LARGE


async def test_a_source_that_fails_leaves_nothing_behind(url: str, name: str) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield LARGE
        raise OSError("the disk is gone")

    async with holdfast.connect(url) as client:
        await client.create_queue(name)
        with pytest.raises(OSError, match="the disk is gone"):
            await client.queue(name).send_stream(failing())
        await client.queue(name).send("next")

        assert (await client.describe(name))["waiting"] == 1


@pytest.mark.parametrize(
    ("make", "reason"),
    [(lambda: 7, "cannot be sent as a stream"), (lambda: io.StringIO("text"), "binary mode"), (lambda: [1], "of bytes")],
)
async def test_what_is_no_source_of_bytes_is_refused(url: str, name: str, make: Callable[[], Any], reason: str) -> None:
    async with holdfast.connect(url) as client:
        with pytest.raises(BadEvent, match=reason):
            await client.queue(name).send_stream(make())


async def test_small_events_of_the_same_session_go_between_the_fragments(url: str, name: str) -> None:
    seen: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        while not seen:
            yield content(FRAGMENT_BYTES)

    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        sending = asyncio.create_task(client.queue(f"{name}-large").send_stream(endless()))
        await client.queue(name).send("small", timeout=10)
        seen.append((await incoming.next(10)).position)
        receipt = await asyncio.wait_for(sending, 10)
        assert receipt.position > seen[0], "it was committed after the small event was received"


async def test_the_blocking_twin_streams_both_ways(url: str, name: str, tmp_path: Path) -> None:
    def program() -> None:
        with holdfast.blocking.connect(url) as client, client.queue(name).receive() as incoming:
            client.queue(name).send_stream(iterated(LARGE), type="large")
            event = incoming.next(10)
            assert (event.is_large, event.type) == (True, "large")
            with event.open_stream() as stream:
                assert b"".join(stream) == LARGE
            with event.open_stream() as stream:
                assert stream.read(5) == LARGE[:5]
                stream.save(tmp_path / "rest")
            assert (tmp_path / "rest").read_bytes() == LARGE[5:]
            with client.transaction() as tx:
                tx.queue(name).send_stream(LARGE)
                tx.confirm(event)
            with incoming.next(10).open_stream() as stream:
                assert stream.read() == LARGE

    await asyncio.to_thread(program)


async def test_a_read_that_is_cancelled_loses_nothing_and_the_next_one_goes_on(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_stream(LARGE)
        event = await incoming.next(10)
        found, turns, cancelled = bytearray(), 0, 0
        async with event.open_stream() as stream:
            while len(found) < len(LARGE):
                reading = asyncio.create_task(stream.read(2 * FRAGMENT_BYTES + 7))
                await turn_loop(turns)  # each time it is cancelled a little later
                cancelled += reading.cancel()
                turns += 1
                (part,) = await asyncio.gather(reading, return_exceptions=True)
                found += part if isinstance(part, bytes) else b""
            assert await stream.read() == b""

        assert found == LARGE
        assert cancelled


async def test_what_is_left_after_a_save_that_was_cancelled_is_not_taken_for_the_whole(
    url: str, name: str, tmp_path: Path
) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        await client.queue(name).send_stream(LARGE)
        event = await incoming.next(10)
        async with event.open_stream() as stream:
            saving = asyncio.create_task(stream.save(tmp_path / "saved", progress=lambda *_: saving.cancel()))
            await asyncio.gather(saving, return_exceptions=True)

            with pytest.raises(Refused, match="open the stream again"):
                await stream.save(tmp_path / "saved")

        assert os.listdir(tmp_path) in ([], ["events"]), "nothing is left of it"
        async with event.open_stream() as stream:
            await stream.save(tmp_path / "saved")
        assert (tmp_path / "saved").read_bytes() == LARGE
