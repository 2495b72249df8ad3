"""Subscriptions for one receiver, temporary destinations and requests when clients and servers go away and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.destination import command
from holdfast.errors import LinkLost, NoSuchDestination, SubscriptionInUse
from holdfast.wire.frame import Browse, Goodbye, Manage
from tests.contract.places import CuttingProxy
from tests.raw_client import RawClient
from tests.running_server import SETTINGS, RunningServer, running, start
from tests.server_process import ServerProcess


async def until(server: RunningServer, is_so: Callable[[], bool]) -> None:
    """Asked again after whatever the server applies next: nothing else changes what it knows."""
    client = RawClient(server.node)
    await client.greet()
    async with asyncio.timeout(10):
        while not is_so():
            await client.ask(Manage, "status", {})


async def test_a_program_that_starts_again_waits_for_its_own_former_receiver_to_be_given_up(tmp_path: Path) -> None:
    """The link of the first was lost without a goodbye, as when its process is killed."""
    async with (
        running(tmp_path / "data") as server,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url) as killed,
    ):
        incoming = await killed.subscribe("news", "audit").open()
        await killed.topic("news").send(1)
        await incoming.next(timeout=10)
        proxy.is_refusing = True
        proxy.cut()
        await until(server, lambda: any(each.away_since_ms for each in server.node.clients.sessions.values()))

        async with holdfast.connect(server.url) as again, again.subscribe("news", "audit") as taken_over:
            event = await taken_over.next(timeout=10)

            assert (event.data, event.deliveries) == (1, 1)


async def test_a_second_receiver_is_refused_at_once_while_the_first_is_there(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data") as server,
        holdfast.connect(server.url) as first,
        holdfast.connect(server.url) as second,
        first.subscribe("news", "audit"),
    ):
        with pytest.raises(SubscriptionInUse):
            async with asyncio.timeout(5):
                await second.subscribe("news", "audit").open()


async def test_a_receiver_keeps_its_subscription_over_a_restart_of_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client, client.subscribe("news", "audit", selector="n > 0") as incoming:
            server.kill()
            server.start()
            for n in range(3):
                await client.topic("news").send(n, properties={"n": n})

            assert [(await incoming.next(timeout=20)).data for _ in range(2)] == [1, 2]


async def test_a_temporary_queue_outlives_a_restart_together_with_its_client(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            queue = await client.temporary_queue()
            async with queue.receive() as incoming:
                await queue.send(1)
                server.kill()
                server.start()

                assert (await incoming.next(timeout=20)).data == 1


async def test_a_temporary_queue_goes_when_its_session_is_given_up(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as server, holdfast.connect(server.url) as client:
        async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as lost:
            name = (await lost.temporary_queue()).name
            await client.queue(name).send(1)
            proxy.is_refusing = True
            proxy.cut()
            await until(server, lambda: name not in server.node.messages.directory.catalog.destinations)

            with pytest.raises(NoSuchDestination):
                await client.queue(name).send(2)
        assert (await client.describe("_DMQ"))["waiting"] == 0


async def test_a_request_whose_session_was_given_up_hears_it_and_the_next_one_is_answered(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "data") as server,
        holdfast.connect(server.url) as answering,
        CuttingProxy(server.port) as proxy,
        holdfast.connect(proxy.url) as asking,
    ):
        lost = asyncio.create_task(asking.queue("quotes").request(1, timeout=20))
        await until(server, lambda: "quotes" in server.node.messages.directory.catalog.destinations)
        await asking.describe("quotes")  # it has its receipt
        proxy.is_refusing = True
        proxy.cut()
        await until(server, lambda: not any(each.destinations for each in server.node.messages.directory.sessions().values()))
        proxy.is_refusing = False

        with pytest.raises(LinkLost, match="the queue for replies is gone"):
            await lost

        async with answering.queue("quotes").receive() as incoming:
            await (await incoming.next(timeout=10)).confirm()  # the one nobody waits for
            again = asyncio.create_task(asking.queue("quotes").request(2, timeout=20))
            event = await incoming.next(timeout=10)
            await event.reply(event.data * 2)

            assert (await again).data == 4


async def test_a_shared_subscription_that_never_got_its_first_receiver_goes_with_its_primary(tmp_path: Path) -> None:
    server = await start(tmp_path / "data")
    channel = server.node.channel
    await channel.append(command.encode(command.Create("news", "topic")))
    await channel.append(command.encode(command.Subscribe("news", "pool", False, is_shared=True)))
    await server.crash()

    server = await start(tmp_path / "data")
    try:
        assert ("news", "pool") not in server.node.messages.directory.catalog.queues
    finally:
        await server.close()


async def test_a_client_that_breaks_the_rules_of_browsing_loses_its_link(tmp_path: Path) -> None:
    async with running(tmp_path / "data", SETTINGS) as server:
        for message in (Browse(1 << 50, "q", count=0), Browse(1 << 50, "q", cursor=-1), Browse(1 << 50, "q", count=10_000)):
            raw = RawClient(server.node)
            await raw.greet()
            raw.say(message)

            assert (await raw.hear(Goodbye))[0].code == "protocol-error"
