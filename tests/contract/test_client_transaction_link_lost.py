"""Transactions and large events through lost links (B10, B11, B13): each happens once or not at all, and its outcome is told."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
from holdfast.channel.journal.settings import JournalSettings
from holdfast.client.assembly.stream_sender import FRAGMENT_BYTES
from holdfast.client.client import Client
from holdfast.errors import Blocked, HoldfastError, LinkLost, TimedOut, TooLarge, TransactionAborted
from holdfast.event import batch
from tests import effort
from tests.contract.places import CuttingProxy, server
from tests.running_server import PATIENT, SETTINGS, RunningServer, running
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.slow

__all__ = ["server"]

MIB = 1 << 20
# Room for some fragments, not for many.
JOURNAL = JournalSettings(size_bytes=16 * MIB, initial_bytes=4 * MIB, segment_bytes=MIB, reserve_bytes=MIB, upkeep_bytes=2 * MIB)
LARGER = dataclasses.replace(SETTINGS, journal=JOURNAL)


def content(size: int) -> bytes:
    return hashlib.shake_128(b"content").digest(size)


async def drained(client: Client, queue: str) -> Counter[object]:
    async with client.queue(queue).receive() as incoming:
        count = (await client.describe(queue))["waiting"]
        return Counter([(await incoming.next(10)).data for _ in range(count)])


@pytest.mark.parametrize("cut_after", [0.0, 0.001, 0.002, 0.005])
async def test_a_transaction_whose_link_is_cut_anywhere_happens_once(server: ServerProcess, cut_after: float) -> None:
    name = f"cut-{cut_after}".replace(".", "-")
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        sent = 0
        while sent < 6 or (proxy.connections < 2 and sent < 1_000):  # a fast machine is through before the first cut
            asyncio.get_running_loop().call_later(cut_after, proxy.cut)
            async with client.transaction() as tx:
                await tx.queue(name).send(sent)
                await tx.queue(f"{name}-copy").send(sent)
            sent += 1

        assert proxy.connections >= 2
    async with holdfast.connect(server.url) as client:
        for queue in (name, f"{name}-copy"):
            assert await drained(client, queue) == Counter(range(sent))


async def test_what_a_transaction_confirms_stays_locked_through_a_cut_and_is_confirmed_once(server: ServerProcess) -> None:
    name = "confirmed-through-cuts"
    async with (
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url) as client,
        holdfast.connect(server.url) as other,
        client.queue(name).receive(credit=5) as incoming,
    ):
        await client.queue(name).send_many(range(40))
        async with other.queue(name).receive(credit=5) as rival:
            for _ in range(5):
                async with client.transaction() as tx:
                    event = await incoming.next(10)
                    await tx.queue(f"{name}-out").send(event.data)
                    await tx.confirm(event)
                    proxy.cut()
            mine = await drained(other, f"{name}-out")
            assert len(mine) == mine.total() == 5
            await rival.close()
        await incoming.close()
        assert await drained(other, name) + mine == Counter(range(40))


async def test_a_large_event_goes_through_cuts_in_both_directions_unharmed(server: ServerProcess, tmp_path: Path) -> None:
    data = content(effort.rounds(short=20, long=32) * FRAGMENT_BYTES + 77)

    async def source() -> AsyncIterator[bytes]:
        for index in range(0, len(data), 100_000):
            if index % 1_500_000 == 0:
                proxy.cut()
            yield data[index : index + 100_000]

    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        await client.queue("large-through-cuts").send_stream(source())
        assert proxy.connections >= 3
        async with client.queue("large-through-cuts").receive() as incoming:
            event = await incoming.next(10)
            connections, got = proxy.connections, bytearray()
            async with event.open_stream() as stream:
                async for chunk in stream:
                    if len(got) // MIB != (len(got) + len(chunk)) // MIB:
                        proxy.cut()
                    got += chunk
            assert proxy.connections >= connections + 2
            await event.confirm()

    assert bytes(got) == data


async def refusing_until_given_up(proxy: CuttingProxy, running_server: RunningServer) -> None:
    """Long enough without a link for the server to forget the session."""
    proxy.is_refusing = True
    proxy.cut()
    await until(lambda: not running_server.node.clients.sessions, "the session was forgotten")
    await until(lambda: not list(running_server.node.messages.directory.assemblies), "its assemblies were abandoned")
    proxy.is_refusing = False


async def test_a_transaction_of_a_session_that_was_given_up_is_aborted_and_its_space_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as made, CuttingProxy(made.port) as proxy, holdfast.connect(proxy.url) as client:
        tx = client.transaction(timeout=10)
        await tx.queue("orders").send_many(["x" * 1000] * 200)
        directory = made.node.messages.directory
        await until(lambda: list(directory.assemblies), "parts have arrived")

        await refusing_until_given_up(proxy, made)

        with pytest.raises(TransactionAborted, match="forgot the session"):
            await tx.commit()
        assert directory.oldest_needed() > directory.applied - 3
        await client.queue("orders").send("the next")
        assert await drained(client, "orders") == Counter(["the next"])


async def test_a_commit_whose_answer_can_no_longer_be_known_says_so(tmp_path: Path) -> None:
    """OutcomeUnknown is said where it is true, and only there."""
    async with running(tmp_path / "data") as made, CuttingProxy(made.port) as proxy, holdfast.connect(proxy.url) as client:
        await client.create_queue("orders")
        committed = asyncio.Event()
        apply = made.node.messages.directory.apply

        def cut_when_committed(entry: int, data: bytes) -> object:
            effects = apply(entry, data)
            if data[0] == 17:
                proxy.is_refusing = True
                proxy.cut()
                committed.set()
            return effects

        made.node.messages.directory.apply = cut_when_committed  # type: ignore[method-assign,assignment]
        tx = client.transaction(timeout=20)
        await tx.queue("orders").send(1)
        committing = asyncio.create_task(tx.commit())
        await asyncio.wait_for(committed.wait(), 10)
        await refusing_until_given_up(proxy, made)

        with pytest.raises(LinkLost, match="whether it took effect is not known"):
            await committing
        assert await drained(client, "orders") == Counter([1])


async def test_a_commit_asked_again_after_a_cut_has_the_same_outcome(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data", PATIENT) as made,
        CuttingProxy(made.port) as proxy,
        holdfast.connect(proxy.url) as client,
    ):
        await client.create_queue("orders")
        apply = made.node.messages.directory.apply
        commits = 0

        def cut_when_committed(entry: int, data: bytes) -> object:
            nonlocal commits
            effects = apply(entry, data)
            if data[0] == 17:
                commits += 1
                if commits == 1:
                    proxy.cut()
            return effects

        made.node.messages.directory.apply = cut_when_committed  # type: ignore[method-assign,assignment]
        async with client.transaction(timeout=20) as tx:
            await tx.queue("orders").send(1)

        assert commits == 2
        assert await drained(client, "orders") == Counter([1])


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_large_event_over_the_limit_is_refused_before_it_takes_space(tmp_path: Path) -> None:
    settings = dataclasses.replace(LARGER, large_bytes_max=4 * FRAGMENT_BYTES)
    async with running(tmp_path / "data", settings) as made, holdfast.connect(made.url) as client:
        with pytest.raises(TooLarge, match="over the limit"):
            await client.queue("large").send_stream(content(5 * FRAGMENT_BYTES))
        assert made.node.messages.directory.applied < 6, "its size was known: nothing of it was taken"

        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield content(FRAGMENT_BYTES)

        with pytest.raises(TooLarge, match="over the limit"):
            await client.queue("large").send_stream(endless())
        await client.queue("large").send_stream(content(4 * FRAGMENT_BYTES))


async def test_a_session_has_only_so_many_transactions_under_way(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, assemblies_max=2)
    async with running(tmp_path / "data", settings) as made, holdfast.connect(made.url) as client:
        open_ones = [client.transaction() for _ in range(2)]
        for tx in open_ones:
            await tx.queue("orders").send_many(["x" * 1000] * 100)
        await until(lambda: len(list(made.node.messages.directory.assemblies)) == 2, "two are open")
        with pytest.raises(TransactionAborted, match="finish some first"):
            async with client.transaction() as tx:
                await tx.queue("orders").send(1)
        for tx in open_ones:
            await tx.commit()
        async with client.transaction() as tx:
            await tx.queue("orders").send(1)


async def test_a_stream_that_finds_no_room_is_blocked_and_gives_its_space_back(tmp_path: Path) -> None:
    """A2: what is set aside for events is not used up by a body, and all of it is there again afterwards."""
    settings = dataclasses.replace(LARGER, large_bytes_max=64 * MIB)
    async with running(tmp_path / "data", settings) as made, holdfast.connect(made.url) as client:
        await client.queue("orders").send("before")

        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield content(FRAGMENT_BYTES)

        with pytest.raises(Blocked, match="no room for a large event"):
            await client.queue("large").send_stream(endless(), timeout=10)

        await client.queue("orders").send("while space is short")
        await until(lambda: not made.node.channel.pressure.is_short, "space came back")
        for _ in range(3):
            await client.queue("large").send_stream(content(4 * FRAGMENT_BYTES))
            async with client.queue("large").receive() as incoming:
                event = await incoming.next(10)
                async with event.open_stream() as stream:
                    assert await stream.read() == content(4 * FRAGMENT_BYTES)
                await event.confirm()
            await until(lambda: not made.node.channel.pressure.is_short, "space came back")
        assert await drained(client, "orders") == Counter(["before", "while space is short"])


async def test_a_client_that_dies_in_the_middle_of_a_stream_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path / "data", LARGER) as made:
        waiting = asyncio.Event()

        async def stalling() -> AsyncIterator[bytes]:
            yield content(4 * FRAGMENT_BYTES)
            await waiting.wait()

        async with CuttingProxy(made.port) as proxy:
            client = holdfast.connect(proxy.url, timeout=1)
            await client.open()
            sending = asyncio.create_task(client.queue("large").send_stream(stalling()))
            directory = made.node.messages.directory
            await until(lambda: [each.count for each in directory.assemblies] == [4], "fragments have arrived")

            await refusing_until_given_up(proxy, made)

            assert directory.oldest_needed() == directory.applied + 1
            assert directory.backlog(("large", "")).waiting == 0
            waiting.set()
            with pytest.raises(HoldfastError):
                await sending
            await client.close()


async def test_where_a_part_that_was_sent_again_lies_is_not_claimed_to_be_known(server: ServerProcess) -> None:
    """Its receipt names the repetition, and the first one counts."""
    name = "sent-again"
    async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
        await client.create_queue(name)
        proxy.is_deaf = True
        async with client.transaction() as tx:
            await tx.queue(name).send_batch(batch.encode([b"\x80"], [b"1"], source="s", first_id=1))
            async with holdfast.connect(server.url) as other:  # the server has the part: what comes later is behind it
                await other.queue(f"{name}-other").send("later")
            proxy.cut()
            proxy.is_deaf = False
            await client.destinations(timeout=20)
            await tx.queue(name).send("sent once")
        assert [each.first > 0 for each in tx.sent] == [False, True]
    async with holdfast.connect(server.url) as client, client.queue(name).receive() as incoming:
        events = [await incoming.next(10) for _ in range(2)]
        assert events[1].position == tx.sent[1].first
        with pytest.raises(TimedOut):
            await incoming.next(0.1)
