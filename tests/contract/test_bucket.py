"""What every bucket promises, within a process and on NATS; and what only the one on NATS meets: a server that ends."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from holdfast.bus.bucket import Bucket, Entry, MemoryBucket
from holdfast.bus.nats import bucket as nats_bucket
from holdfast.bus.nats.bucket import NatsBucket
from holdfast.bus.nats.connection import NatsConnection
from holdfast.errors import OutcomeUnknown, Unavailable
from tests.nats_server import FORGOTTEN_SOCKETS, NatsServer, forgotten_sockets
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings(FORGOTTEN_SOCKETS)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server, forgotten_sockets():
        yield server


@asynccontextmanager
async def another(server: NatsServer, name: str) -> AsyncIterator[NatsBucket]:
    """A bucket over a connection of its own."""
    connection = await NatsConnection.open([server.url])
    yield await NatsBucket.open(connection, name, 1)
    await connection.close()


class TwoNodes:
    """A bucket as two nodes have it; within a process they are one."""

    def __init__(self, one: Bucket, other: Bucket) -> None:
        self.one = one
        self.other = other


Opened = Callable[[], AbstractAsyncContextManager[TwoNodes]]


@pytest.fixture(params=["memory", "nats"])
def opened(request: pytest.FixtureRequest, nats: NatsServer) -> Opened:
    @asynccontextmanager
    async def in_memory() -> AsyncIterator[TwoNodes]:
        bucket = MemoryBucket()
        yield TwoNodes(bucket, bucket)

    @asynccontextmanager
    async def on_nats() -> AsyncIterator[TwoNodes]:
        name = f"test-{secrets.token_hex(4)}"
        async with another(nats, name) as one, another(nats, name) as other:
            yield TwoNodes(one, other)

    return in_memory if request.param == "memory" else on_nats


async def test_a_key_that_is_not_there_is_none(opened: Opened) -> None:
    async with opened() as nodes:
        assert await nodes.one.get("nothing") is None


@pytest.mark.parametrize("key", ["plain", "with.dots", "with * > and =20", "größe", ""])
async def test_what_is_put_is_read_by_all(opened: Opened, key: str) -> None:
    async with opened() as nodes:
        revision = await nodes.one.put(key, b"value")

        assert revision is not None
        assert await nodes.other.get(key) == Entry(key, b"value", revision)


async def test_the_first_who_creates_a_key_wins(opened: Opened) -> None:
    async with opened() as nodes:
        outcomes = await asyncio.gather(nodes.one.put("key", b"one"), nodes.other.put("key", b"other"))

        (won,) = [each for each in outcomes if each is not None]
        assert await nodes.one.get("key") == Entry("key", b"one" if outcomes[0] == won else b"other", won)


async def test_a_change_after_an_old_revision_changes_nothing(opened: Opened) -> None:
    async with opened() as nodes:
        first = await nodes.one.put("key", b"1")
        assert first is not None
        second = await nodes.other.put("key", b"2", first)
        assert second is not None and second > first

        assert await nodes.one.put("key", b"3", first) is None
        assert await nodes.one.get("key") == Entry("key", b"2", second)


async def test_who_watches_is_told_all_entries_before_it_returns_and_then_each_change(opened: Opened) -> None:
    async with opened() as nodes:
        first = await nodes.one.put("old", b"1")
        assert first is not None
        await nodes.one.put("old", b"2", first)
        told: list[Entry] = []

        stop = await nodes.other.watch(told.append)
        assert [(each.key, each.value) for each in told] == [("old", b"2")]
        await nodes.one.put("new", b"3")
        await until(lambda: len(told) == 2, "the change is told")
        assert (told[1].key, told[1].value) == ("new", b"3")

        stop()
        await nodes.one.put("later", b"4")
        assert await nodes.other.get("later") is not None
        assert len(told) == 2


async def test_one_who_cannot_bear_an_entry_is_told_the_next(nats: NatsServer) -> None:
    name = f"test-{secrets.token_hex(4)}"
    async with another(nats, name) as one, another(nats, name) as other:
        told: list[str] = []

        def hear(entry: Entry) -> None:
            told.append(entry.key)
            raise RuntimeError("a fault")

        stop = await other.watch(hear)
        await one.put("one", b"")
        await one.put("two", b"")
        await until(lambda: told == ["one", "two"], "both are told")
        stop()


async def test_more_entries_than_a_run_has_are_all_told_once_and_in_order(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bucket, "RUN_ENTRIES_MAX", 8)
    async with opened() as nodes:
        count = 2 * nats_bucket.RUN_ENTRIES_MAX + 1
        await asyncio.gather(*(nodes.one.put(f"key-{each}", b"") for each in range(count)))
        told: list[Entry] = []

        stop = await nodes.other.watch(told.append)
        stop()

        assert sorted({each.key for each in told}) == sorted(f"key-{each}" for each in range(count))
        assert [each.revision for each in told] == sorted({each.revision for each in told})


async def test_a_bucket_is_used_again_after_its_server_ended(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        connection = await NatsConnection.open([server.url])
        await NatsBucket.open(connection, "test", 1)
        bucket = NatsBucket(connection, "test", timeout_s=5.0)
        told: list[bytes] = []
        stop = await bucket.watch(lambda entry: told.append(entry.value))
        revision = await bucket.put("key", b"before")
        assert revision is not None
        await until(lambda: told == [b"before"], "it is told")

        hasty = NatsBucket(connection, "test", timeout_s=0.2)
        server.pause()
        with pytest.raises(OutcomeUnknown, match="read it again"):
            await hasty.put("other", b"")
        with pytest.raises(Unavailable):
            await hasty.get("key")
        server.kill()
        server.start()
        await until(lambda: connection.is_connected, "the connection is made again")

        async with another(server, "test") as elsewhere:
            assert await elsewhere.get("key") == Entry("key", b"before", revision)
            assert await elsewhere.put("key", b"after", revision) is not None
        await until(lambda: told[-1] == b"after", "the change is told")
        stop()
        await connection.close()


async def test_opening_without_a_server_is_unavailable(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        connection = await NatsConnection.open([server.url])
    with pytest.raises(Unavailable):
        await NatsBucket.open(connection, "test", 1, timeout_s=0.5)
    await connection.close()
