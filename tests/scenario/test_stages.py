"""Stages on a real server (D3, rules 8 and 10): through lost links, given-up sessions and restarts; forgotten ones; too many of
them; and whose they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.client.assembly.stage import Staged
from holdfast.client.client import Client
from holdfast.errors import AccessDenied, Blocked, Closed, LinkLost, NotPublished, Unreachable
from holdfast.event import batch
from holdfast.event.event import BINARY, Head, encode_head
from holdfast.node.clients import assembly_requests
from holdfast.node.messages import assembly_timeout
from tests.contract.places import CuttingProxy
from tests.protected_server import ProtectedServer
from tests.running_server import PATIENT, SETTINGS, RunningServer, running, start
from tests.waiting import until

pytestmark = pytest.mark.slow

IDLE_MS = 300
HEAD = encode_head(Head(time_us=1, datacontenttype=BINARY))
PAD = bytes(9_000)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly_timeout, "CHECK_MS", 50)


async def staged(client: Client, name: str, *data: object, queue: str = "orders", timeout: float | None = None) -> Staged:
    stage = client.stage(name, timeout=timeout)
    for each in data:
        await stage.send(queue, each)
    return await stage.seal()


async def taken(client: Client, queue: str = "orders") -> list[object]:
    count = (await client.describe(queue))["waiting"]
    found = []
    async with client.queue(queue).receive() as incoming:
        for _ in range(count):
            event = await incoming.next(10)
            found.append(event.data)
            await event.confirm()
    return found


def open_stages(server: RunningServer) -> int:
    return server.node.messages.directory.assemblies.staged.stages


# --- time ------------------------------------------------------------------------------------------------------------


async def test_a_stage_in_which_nothing_comes_is_given_up_and_its_space_is_free(tmp_path: Path) -> None:
    settings = replace(SETTINGS, stage_idle_ms=IDLE_MS)
    async with running(tmp_path / "data", settings) as server, holdfast.connect(server.url) as client:
        made = await staged(client, "forgotten", 1)
        await until(lambda: open_stages(server) == 1, "it has arrived")

        await until(lambda: open_stages(server) == 0, "it is given up")

        directory = server.node.messages.directory
        assert directory.oldest_needed() == directory.applied + 1
        with pytest.raises(NotPublished, match="nothing came for too long"):
            await client.publish("q", 0, [made])


async def test_even_while_space_is_short_a_stage_has_its_minute_which_a_transaction_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly_timeout, "SHORT_MS", 100)
    monkeypatch.setattr(assembly_timeout, "STAGE_SHORT_MS", 1_500)
    async with running(tmp_path / "data") as server, holdfast.connect(server.url, timeout=20) as client:
        await staged(client, "kept", 1)
        transaction = client.transaction()
        await transaction.queue("orders").send_many([bytes(900)] * 100)
        await until(lambda: len(list(server.node.messages.directory.assemblies)) == 2, "both have arrived")
        await fill(client)

        await until(lambda: len(list(server.node.messages.directory.assemblies)) == 1, "the transaction is given up")
        assert open_stages(server) == 1
        with pytest.raises(Blocked, match="no room to stage"):
            await staged(client, "late", 1, timeout=0.3)
        await until(lambda: open_stages(server) == 0, "the stage is, too")
        await transaction.rollback()


async def fill(client: Client) -> None:
    """Until the server draws on its reserve."""
    async with asyncio.timeout(20):
        while not client.is_blocked:
            await client.queue("traffic").send_many([bytes(2_000)] * 20)


# --- links, sessions, restarts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut_after", [0.0, 0.003])
async def test_what_is_staged_and_published_through_cut_links_is_there_once(tmp_path: Path, cut_after: float) -> None:
    async with (
        running(tmp_path / "data", PATIENT) as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=20) as client,
    ):
        for number in range(2):
            asyncio.get_running_loop().call_later(cut_after, proxy.cut)
            stage = client.stage(f"attempt-{number}")
            for index in range(20):
                made = batch.encode([HEAD], [b"%d-%d" % (number, index)], source="test", first_id=number << 32 | index)
                await stage.send_batch("orders", "queue", made, 1)
            asyncio.get_running_loop().call_later(2 * cut_after, proxy.cut)
            sealed = await stage.seal()
            last = asyncio.get_running_loop().call_later(cut_after, proxy.cut)
            await client.publish("q", number, [sealed])

        await until(lambda: asyncio.get_running_loop().time() > last.when(), "the last cut is over")
        assert proxy.connections >= 2
        assert await taken(client) == [b"%d-%d" % (number, index) for number in range(2) for index in range(20)]


async def test_a_publish_whose_answer_was_lost_with_the_link_is_not_called_unsent(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data", PATIENT) as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=20) as client,
    ):
        made = await staged(client, "attempt", 1)
        proxy.is_refusing = True
        asyncio.get_running_loop().call_soon(proxy.cut)
        with pytest.raises(LinkLost, match="may have been done"):
            await client.publish("q", 0, [made], timeout=0.5)
        with pytest.raises(Unreachable, match="nothing was sent"):
            await client.publish("q", 0, [made], timeout=0.2)
        proxy.is_refusing = False

        await client.publish("q", 0, [made])
        assert await taken(client) == [1]


async def test_a_stage_goes_on_after_its_session_was_given_up(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data") as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=20) as client,
    ):
        stage = client.stage("long")
        await stage.send("orders", 1, priority=1)
        await stage.send("orders", 2, priority=2)  # the first is a part now
        await until(lambda: open_stages(server) == 1, "a part is here")
        proxy.is_refusing = True
        proxy.cut()
        await until(lambda: not server.node.clients.sessions, "the session is given up")
        proxy.is_refusing = False

        sealed = await stage.seal()

        assert (sealed.parts, sealed.events) == (2, 2)
        assert await client.publish("q", 0, [sealed]) == (True, 2, 0)


async def test_a_stage_into_which_sending_was_interrupted_cannot_be_sealed(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data") as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url, timeout=20) as client,
    ):
        proxy.is_refusing = True
        proxy.cut()
        stage = client.stage("interrupted")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                while True:
                    await stage.send("orders", PAD)  # until too much is under way
        proxy.is_refusing = False

        with pytest.raises(Closed, match="not whole; drop it"):
            await stage.seal()


async def test_stages_and_scopes_are_there_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    server = await start(tmp_path / "data")
    async with holdfast.connect(server.url, timeout=20) as client:
        first = await staged(client, "first", 1, 2)
        second = await staged(client, "second", 3)
        await client.publish("q", 6, [await staged(client, "zero", 0)])
    port = server.port
    await server.close()
    server = await start(tmp_path / "data", port=port)
    async with holdfast.connect(server.url, timeout=20) as client:
        assert await client.publish("q", 6, []) == (False, 0, 6)
        assert await client.publish("q", 7, [first]) == (True, 2, 7)
    await server.crash()
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        assert await client.publish("q", 7, []) == (False, 0, 7)
        assert await client.publish("q", 8, [second]) == (True, 1, 8)
        assert await taken(client) == [0, 1, 2, 3]


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_a_destination_at_its_high_water_holds_a_stage_back_until_there_is_room(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        await client.create_queue("small", events_max=4)
        await client.publish("q", 0, [await staged(client, "first", *range(8), queue="small")])
        with pytest.raises(Blocked, match="'small' is full"):
            await staged(client, "refused", 9, queue="small", timeout=0.3)
        await staged(client, "elsewhere", 9)

        waiting = asyncio.create_task(staged(client, "second", 9, queue="small", timeout=20))
        assert await taken(client, "small") == list(range(8))

        assert await client.publish("q", 1, [await waiting]) == (True, 1, 1)


async def test_all_stages_together_take_no_more_than_their_share_and_go_on_when_some_are_dropped(tmp_path: Path) -> None:
    settings = replace(SETTINGS, large_bytes_max=100_000)
    async with running(tmp_path / "data", settings) as server, holdfast.connect(server.url, timeout=20) as client:
        first = await staged(client, "first", *[PAD] * 10)
        with pytest.raises(Blocked, match="bytes are staged"):
            await staged(client, "second", *[PAD] * 3, timeout=0.3)

        waiting = asyncio.create_task(staged(client, "third", *[PAD] * 10))
        await client.drop_stages([first.name, "second"])

        assert await client.publish("q", 0, [await waiting]) == (True, 10, 0)


async def test_there_are_only_so_many_stages_and_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly_requests, "STAGES_MAX", 2)
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        made = [await staged(client, f"{each}", each) for each in range(2)]
        with pytest.raises(Blocked, match="2 stages already"):
            await staged(client, "third", 3, timeout=0.3)
        monkeypatch.setattr(assembly_requests, "STAGED_PARTS_MAX", 1)
        with pytest.raises(Blocked, match="1 parts are staged"):
            await staged(client, "fourth", 4, timeout=0.3)

        assert await client.publish("q", 0, made) == (True, 2, 0)


# --- whose they are --------------------------------------------------------------------------------------------------


async def test_only_the_user_that_staged_publishes_and_drops_and_only_what_it_may_send(tmp_path: Path) -> None:
    with ProtectedServer(tmp_path) as server:
        async with holdfast.connect(server.alice) as alice, holdfast.connect(server.bob) as bob:
            made = await staged(alice, "s", 1, queue="orders.new")
            with pytest.raises(AccessDenied, match="may not send 'bills'"):
                await staged(alice, "denied", 1, queue="bills")
            with pytest.raises(AccessDenied, match="user 'bob' may not send"):
                await staged(bob, "s", 1, queue="orders.new")

            with pytest.raises(NotPublished, match="'s' is not here"):
                await bob.publish("q", 5, [made])
            assert await bob.publish("q", 9, []) == (True, 0, 9), "a scope of the same name is another's"
            await bob.drop_stages(["s"])

            assert await alice.publish("q", 0, [made]) == (True, 1, 0)
