"""A relay whose surroundings change: its routes, its line, its upstream, its recipients."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.node.node import Node
from holdfast.relay import Relay
from holdfast.relay.errors import Restored
from tests.contract.places import CuttingProxy
from tests.relaying import a_pair, confirm_all, defined, draws, marks_gone, of, relaying, route, upstream_empty, waiting_upstream
from tests.restoring import backed_up, start_restored
from tests.running_server import running
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", ["receipt", "end-to-end"])
async def test_a_route_that_changes_keeps_what_waits_and_passes_nothing_twice(tmp_path: Path, mode: str) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("here.**", "pager")
        before = route(topic="alerts.*", to="here.*", selector="level > 3", mode=mode)
        after = route(topic="alerts.*", to="here.*", selector="level > 6", mode=mode)
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=before)) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts.eu").send(4, properties={"level": 4})
            await until(lambda: of(relay, "alerts")["appended"] == 1, "the first event is here")
        for level in (5, 7, 2):
            await pair.at_head.topic("alerts.eu").send(level, properties={"level": level})

        receiving = asyncio.create_task(confirm_all(pair.at_berlin, "here.**", "pager", 5))
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=after)) as relay:
            await draws(relay, "alerts")
            for level in (5, 8, 9):
                await pair.at_head.topic("alerts.eu").send(level * 10, properties={"level": level})

            assert await receiving == [4, 5, 7, 80, 90]
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)
            names = [each["name"] for each in await pair.at_head.subscriptions() if each["name"].startswith("relay.")]
            assert len(names) == 1, "the former subscription is deleted"


async def test_other_rules_of_a_route_change_nothing_upstream(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for topic in ("here", "there"):
            await pair.at_berlin.ensure_subscription(topic, "pager")
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", to="here"))) as relay:
            await draws(relay, "alerts")
        await pair.at_head.topic("alerts").send("waited")

        changed = route(topic="alerts", to="there", add={"site": "berlin"}, mode="end-to-end")
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=changed)):
            assert await confirm_all(pair.at_berlin, "there", "pager", 1) == ["waited"]
            await upstream_empty(pair.at_head)


@pytest.mark.parametrize("mode", ["receipt", "end-to-end"])
async def test_a_line_that_is_cut_for_longer_than_every_grace_costs_and_doubles_nothing(tmp_path: Path, mode: str) -> None:
    async with a_pair(tmp_path) as pair, CuttingProxy(pair.head.port) as upstream, CuttingProxy(pair.berlin.port) as local:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        definition = defined(upstream.url, local.url, alerts=route(topic="alerts", mode=mode))
        receiving = asyncio.create_task(confirm_all(pair.at_berlin, "alerts", "pager", 600))

        async with relaying(definition) as relay:
            await draws(relay, "alerts")
            for turn, line in enumerate((upstream, local, upstream)):
                sending = asyncio.create_task(pair.at_head.topic("alerts").send_many(range(turn * 200, turn * 200 + 200)))
                await until(partial(_has_received, relay, turn * 200), "events come")
                line.is_refusing = True
                line.cut()
                node, own = (pair.head.node, 1) if line is upstream else (pair.berlin.node, 2)
                given_up = partial(_has_given_up, node, own)
                await until(given_up, "the server has given up the sessions of the relay")
                line.is_refusing = False
                await sending

            assert await receiving == list(range(600))
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)
            assert (await pair.at_berlin.subscriptions("alerts"))[0]["accepted"] == 600


def _has_received(relay: Relay, more_than: int) -> bool:
    return int(of(relay, "alerts")["received"]) > more_than


def _has_given_up(node: Node, own: int) -> bool:
    """The server has no session left but those of the test itself."""
    return len(node.clients.sessions) <= own


async def test_an_upstream_that_was_restored_from_an_older_backup_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "head") as head:
        async with running(tmp_path / "berlin") as berlin, holdfast.connect(berlin.url) as at_berlin:
            await at_berlin.ensure_subscription("alerts", "pager")
            definition = defined(head.url, berlin.url, alerts=route(topic="alerts"))
            async with relaying(definition) as relay, holdfast.connect(head.url) as at_head:
                await draws(relay, "alerts")
                await at_head.topic("alerts").send("before")
                await upstream_empty(at_head)
                backed_up(head)
                await at_head.topic("alerts").send("lost there, kept here")
                await upstream_empty(at_head)
            start_restored(head)

            async with relaying(definition) as relay:
                await until(lambda: "restored from an older backup" in of(relay, "alerts").get("held_back", ""), "it is refused")
                async with holdfast.connect(head.url) as at_head:
                    await at_head.topic("alerts").send("after")
                    assert await waiting_upstream(at_head) == 1

            accepted = defined(head.url, berlin.url, alerts=route(topic="alerts"))
            accepted.upstreams["head"] = type(accepted.upstreams["head"])(head.url, restored="accept")
            async with relaying(accepted):
                found = await confirm_all(at_berlin, "alerts", "pager", 3)
                assert found == ["before", "lost there, kept here", "after"]


async def test_each_recipient_has_a_subscription_upstream_that_comes_and_goes_with_it(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for name in ("pager", "audit"):
            await pair.at_berlin.ensure_subscription(f"to.{name}", name)
        each = route(topic="alerts", to="to.{recipient}", mode="each", recipients=("pager", "audit"))

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=each)) as relay:
            await draws(relay, "alerts.pager", "alerts.audit")
            await pair.at_head.topic("alerts").send("x")
            assert await confirm_all(pair.at_berlin, "to.pager", "pager", 1) == ["x"]
            await until(lambda: of(relay, "alerts.pager")["confirmed"] == 1, "upstream hears of one recipient")
            assert await waiting_upstream(pair.at_head) == 1, "the other has not confirmed"
            assert await _subscriptions(pair.at_head) == ["alerts.audit", "alerts.pager"]

        fewer = route(topic="alerts", to="to.{recipient}", mode="each", recipients=("pager",))
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=fewer)) as relay:
            await draws(relay, "alerts.pager")
            assert await _subscriptions(pair.at_head) == ["alerts.pager"]


async def _subscriptions(client: holdfast.Client) -> list[str]:
    names = [each["name"] for each in await client.subscriptions() if each["name"].startswith("relay.berlin.")]
    return sorted(name.removeprefix("relay.berlin.").rpartition(".")[0] for name in names)


async def test_requests_pass_a_chain_of_relays_and_their_replies_come_back(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, running(tmp_path / "shop") as shop, holdfast.connect(shop.url) as at_shop:
        await at_shop.ensure_queue("prices")
        first = defined(pair.head.url, pair.berlin.url, name="berlin", prices=route(queue="prices", to="prices"))
        second = defined(pair.berlin.url, shop.url, name="shop", prices=route(queue="prices", to="prices"))

        async with relaying(first), relaying(second), at_shop.queue("prices").receive() as incoming:

            async def answer() -> None:
                async for event in incoming:
                    await event.reply({"price": event.data * 2}, properties={"by": "shop"})
                    await event.confirm()

            answering = asyncio.create_task(answer())
            asked = await asyncio.gather(*(pair.at_head.queue("prices").request(number, timeout=20) for number in range(5)))
            answering.cancel()

            assert [reply.data["price"] for reply in asked] == [0, 2, 4, 6, 8]
            assert asked[0].properties == {"by": "shop"}


async def test_a_reply_that_nobody_waits_for_any_more_is_confirmed_and_counted(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        definition = defined(pair.head.url, pair.berlin.url, prices=route(queue="prices", to="prices"))
        async with relaying(definition) as relay:
            async with holdfast.connect(pair.head.url) as asker:
                temporary = await asker.temporary_queue()
                await asker.queue("prices").send(1, reply_to=temporary.name, correlation_id="late")
            async with pair.at_berlin.queue("prices").receive() as incoming:
                event = await incoming.next(20)
                await event.reply("too late")
                await event.confirm()

            await until(lambda: relay.status()["replies_unheard"] == 1, "the relay counts it")
            await until(lambda: _is_empty(pair.at_berlin, "relay.berlin.replies"), "the reply is confirmed")


async def _is_empty(client: holdfast.Client, queue: str) -> bool:
    return (await client.describe(queue))["waiting"] == 0


async def test_addresses_that_are_not_temporary_stay_as_they_are(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, relaying(defined(pair.head.url, pair.berlin.url, a=route(queue="a", to="a"))):
        await pair.at_head.queue("a").send(1, reply_to="answers", correlation_id="17")
        async with pair.at_berlin.queue("a").receive() as incoming:
            event = await incoming.next(20)

        assert (event.reply_to, event.correlation_id) == ("answers", "17")


async def test_an_upstream_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "head") as head:
        head.kill()
        async with running(tmp_path / "berlin") as berlin, holdfast.connect(berlin.url) as at_berlin:
            await at_berlin.ensure_subscription("alerts", "pager")
            async with relaying(defined(head.url, berlin.url, alerts=route(topic="alerts"))) as relay:
                await until(lambda: of(relay, "alerts")["held_back"] not in ("", "connecting"), "the route says why it waits")
                head.start()
                await draws(relay, "alerts")


async def test_a_local_journal_that_cannot_be_reached_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError):
        await Relay(defined("memory:x", "holdfast://127.0.0.1:1", a=route(queue="a"))).open()


def test_errors_of_the_relay_are_of_the_family_that_nobody_repeats() -> None:
    assert Restored.family == "refused"


async def test_a_route_by_regular_expression_passes_what_matches_and_keeps_what_waits_when_it_changes(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts.*", "pager")
        before, after = route(regex=r"alerts\.(eu|us)"), route(regex=r"alerts\.(us|asia)")
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=before)) as relay:
            await draws(relay, "alerts")
            for where in ("eu", "asia"):
                await pair.at_head.topic(f"alerts.{where}").send(f"first {where}")
            assert await confirm_all(pair.at_berlin, "alerts.*", "pager", 1) == ["first eu"]
            await upstream_empty(pair.at_head)
        for where in ("eu", "us", "asia"):
            await pair.at_head.topic(f"alerts.{where}").send(f"waits {where}")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=after)) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts.asia").send("last")

            assert await confirm_all(pair.at_berlin, "alerts.*", "pager", 3) == ["waits eu", "waits us", "last"]
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)
