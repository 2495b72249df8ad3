"""A server that creates no queues and topics by itself (`--no-create-on-use`): what was not created is refused, with how to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.errors import BadUrl, NoSuchDestination, TimedOut, TransactionAborted, Unavailable
from holdfast.node.clients.destination_checks import check_destination
from holdfast.node.node import Node
from tests.running_server import SETTINGS, running, start
from tests.server_process import ServerProcess

STRICT = replace(SETTINGS, is_create_on_first_use=False)


async def test_what_was_not_created_is_refused_with_how_to_create_it_and_nothing_is_made(tmp_path: Path) -> None:
    async with running(tmp_path, STRICT) as server, holdfast.connect(server.url) as client:
        before = len(await client.destinations())
        with pytest.raises(NoSuchDestination, match=r"holdfast destination create orders`.+create_queue\(.orders.\)"):
            await client.queue("orders").send(1)
        with pytest.raises(NoSuchDestination, match=r"holdfast destination create prices --topic`.+create_topic"):
            await client.topic("prices").send(1)
        with pytest.raises(NoSuchDestination, match="create_queue"):
            async with client.queue("orders").receive():
                pass
        with pytest.raises(NoSuchDestination, match="create_topic"):
            async with client.subscribe("prices"):
                pass
        with pytest.raises(NoSuchDestination):
            await client.create_subscription("prices", "audit")
        with pytest.raises(TransactionAborted, match="create_queue"):
            async with client.transaction() as transaction:
                await transaction.queue("orders").send(1)
        stage = client.stage("nightly")
        await stage.send("orders", 1)
        with pytest.raises(NoSuchDestination, match="create_queue"):
            await stage.seal()

        assert len(await client.destinations()) == before


async def test_what_was_created_is_used_and_wildcards_replies_and_temporary_queues_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, STRICT) as server, holdfast.connect(server.url, timeout=10) as client:
        await client.create_queue("orders")
        async with client.subscribe("prices.*") as all_prices:  # a pattern names no topic
            with pytest.raises(TimedOut):
                await all_prices.next(0)
            await client.create_topic("prices.a")
            await client.topic("prices.a").send("later")
            assert (await all_prices.next(10)).data == "later"
        await client.queue("orders").send("one")
        async with client.queue("orders").receive() as incoming:
            assert (await incoming.next(10)).data == "one"
        own = await client.temporary_queue()
        await own.send("mine")
        answer = await client.queue("_ADMIN").request({}, type="holdfast.admin.status", timeout=10)
        assert answer.data["value"]["is_primary"]


async def test_while_the_journal_is_being_read_what_may_be_there_is_put_off_and_not_refused(tmp_path: Path) -> None:
    server = await start(tmp_path, STRICT)
    async with holdfast.connect(server.url) as client:
        await client.create_queue("known")
    await server.crash()
    node = await Node.open(tmp_path, STRICT)
    try:
        with pytest.raises(Unavailable, match="still reads its journal"):
            check_destination(node.clients.managers[""], "known", "queue")
    finally:
        await node.close()


async def test_an_embedded_node_is_told_by_its_url(tmp_path: Path) -> None:
    for url in (f"file:{tmp_path}/events?create_on_use=no", "memory:?create_on_use=no", "memory:strict?create_on_use=no"):
        async with holdfast.connect(url) as client:
            with pytest.raises(NoSuchDestination):
                await client.queue("orders").send(1)
            await client.create_queue("orders")
            await client.queue("orders").send(1)
    with pytest.raises(BadUrl, match="create_on_use is yes or no"):
        holdfast.connect("memory:?create_on_use=maybe")


def test_a_server_is_told_by_an_option(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", "--no-create-on-use") as server,
        holdfast.blocking.connect(server.url) as client,
        pytest.raises(NoSuchDestination, match="creates none on first use"),
    ):
        client.queue("orders").send(1)


async def test_a_queue_of_a_first_use_with_a_name_like_topics_is_pointed_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as server, holdfast.connect(server.url) as client:
        await client.ensure_subscription("prices.*", "audit")
        await client.topic("alarms.fire").send("hot")

        await client.queue("prices.eur").send({"amount": 7})  # nobody reads it
        async with client.queue("alarms.flood").receive(), client.queue("orders.in").receive():  # nobody fills it
            told = {row["destination"]: row["like"] for row in (await client.status())["perhaps_topics"]}
            assert told == {"prices.eur": "prices.*", "alarms.flood": "alarms.fire"}

            await client.queue("alarms.flood").send("both sides use it")
            async with client.queue("prices.eur").receive():
                assert (await client.status())["perhaps_topics"] == []

    (line,) = [text for text in caplog.messages if "queue 'prices.eur' came into being on first use" in text]
    assert "('prices.*')" in line and "client.topic('prices.eur')" in line
    assert not any("queue 'orders.in' came into being" in text for text in caplog.messages)


async def test_a_queue_that_was_created_on_purpose_is_not_pointed_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as server, holdfast.connect(server.url) as client:
        await client.ensure_subscription("prices.*", "audit")
        await client.ensure_queue("prices.eur", redelivery_limit=5)

        await client.queue("prices.eur").send({"amount": 7})

        assert (await client.status())["perhaps_topics"] == []
    assert not any("came into being on first use" in text for text in caplog.messages)
