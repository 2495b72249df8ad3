"""A relay between two servers: what passes, under which name, and when upstream hears of it (A9)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TimedOut
from holdfast.relay import Relay, RelayDefinition, Route, Upstream
from holdfast.relay.errors import TakenOver
from tests.relaying import a_pair, confirm_all, defined, draws, marks_gone, of, relaying, route, upstream_empty, waiting_upstream
from tests.running_server import running
from tests.waiting import until


async def test_events_of_a_topic_reach_the_subscriptions_of_the_branch(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("branch.berlin.**", "pager")
        passing = route(topic="alerts.**", to="branch.berlin.**")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=passing)) as relay:
            await draws(relay, "alerts")
            sent = await pair.at_head.topic("alerts.eu.disk").send("full", type="disk.full", properties={"level": 5})
            async with pair.at_berlin.subscribe("branch.berlin.**", "pager") as incoming:
                event = await incoming.next(10)
                await event.confirm()

            assert (event.data, event.type, event.properties) == ("full", "disk.full", {"level": 5})
            assert (event.destination, event.id) == ("branch.berlin.eu.disk", sent.id)
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)


async def test_a_queue_passes_into_a_queue_of_another_name(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_head.queue("orders").send_many(range(20))

        async with relaying(defined(pair.head.url, pair.berlin.url, orders=route(queue="orders", to="here", mode="end-to-end"))):
            async with pair.at_berlin.queue("here").receive() as incoming:
                for number in range(20):
                    event = await incoming.next(10)
                    assert event.data == number
                    await event.confirm()

            await until(lambda: _is_empty(pair.at_head, "orders"), "upstream has nothing left")
            await marks_gone(pair.at_berlin)


async def _is_empty(client: holdfast.Client, queue: str) -> bool:
    return (await client.describe(queue))["waiting"] == 0


async def test_end_to_end_tells_upstream_when_every_recipient_here_has_confirmed(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for name in ("pager", "audit"):
            await pair.at_berlin.ensure_subscription("alerts", name)

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", mode="end-to-end"))) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send_many(range(5))
            assert await confirm_all(pair.at_berlin, "alerts", "pager", 5) == [0, 1, 2, 3, 4]
            assert await waiting_upstream(pair.at_head) == 5
            await confirm_all(pair.at_berlin, "alerts", "audit", 5)

            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)
            assert of(relay, "alerts")["confirmed"] == 5


async def test_an_event_that_dies_here_is_rejected_upstream_with_its_reason(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", mode="end-to-end"))) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send_many(["bad", "good"])
            async with pair.at_berlin.subscribe("alerts", "pager") as incoming:
                await (await incoming.next(10)).reject("no such account")
                await (await incoming.next(10)).confirm()

            await upstream_empty(pair.at_head)
            async with pair.at_head.queue("_DMQ").browse() as browser:
                dead = [event async for event in browser]
            assert [(event.data, event.dead[0].reason) for event in dead] == [("bad", "no such account")]
            assert (of(relay, "alerts")["rejected"], of(relay, "alerts")["confirmed"]) == (1, 1)


async def test_receipt_tells_upstream_as_soon_as_it_is_durable_here(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts"))) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send_many(range(100))
            await upstream_empty(pair.at_head)

            assert (await pair.at_berlin.subscriptions("alerts"))[0]["waiting"] == 100


async def test_where_nobody_receives_a_route_draws_nothing_and_says_so(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        definition = defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts"))

        async with relaying(definition) as relay, pair.at_berlin.subscribe("alerts") as passing:
            await until(lambda: "nobody receives here" in of(relay, "alerts")["held_back"], "the route says that nobody receives")
            await pair.at_head.topic("alerts").send("kept")
            with pytest.raises(TimedOut):
                await passing.next(0.2)
            assert await waiting_upstream(pair.at_head) == 1

            await pair.at_berlin.ensure_subscription("alerts", "pager")
            assert await confirm_all(pair.at_berlin, "alerts", "pager", 1) == ["kept"]
            await upstream_empty(pair.at_head)


async def test_later_not_durable_and_deleted_subscriptions_do_not_count(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for name in ("pager", "gone"):
            await pair.at_berlin.ensure_subscription("alerts", name)

        async with (
            relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", mode="end-to-end"))) as relay,
            pair.at_berlin.subscribe("alerts") as passing,
        ):
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send("x")
            assert (await passing.next(10)).data == "x"  # and never confirmed
            await pair.at_berlin.ensure_subscription("alerts", "later")
            await confirm_all(pair.at_berlin, "alerts", "pager", 1)
            assert await waiting_upstream(pair.at_head) == 1
            await pair.at_berlin.delete_subscription("alerts", "gone", force=True)

            await upstream_empty(pair.at_head)


async def test_a_backlog_does_not_cross_the_line_again_when_a_relay_starts_again(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        definition = defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", mode="end-to-end"))
        async with relaying(definition) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send_many(range(50))
            await until(lambda: of(relay, "alerts")["appended"] == 50, "the events are here")
        name = next(each["name"] for each in await pair.at_head.subscriptions("alerts"))
        async with pair.at_head.topic("alerts").browse(name) as browser:
            deliveries = [event.deliveries async for event in browser]

        async with relaying(definition) as relay:
            await confirm_all(pair.at_berlin, "alerts", "pager", 50)
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)

            assert (of(relay, "alerts")["received"], of(relay, "alerts")["appended"]) == (0, 0)
        assert deliveries == [0] * 50, "what is kept elsewhere was not delivered to a program"


async def test_batches_pass_unopened_with_their_ids_one_hop_more_and_their_origin(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts"))) as relay:
            await draws(relay, "alerts")
            receipts = await pair.at_head.topic("alerts").send_many(range(10), priority=7)
            async with pair.at_berlin.subscribe("alerts", "pager") as incoming:
                found: list[holdfast.ReceivedEvent] = []
                async for batch in incoming.encoded():
                    assert (batch.hops, batch.origin != 0) == (1, True)
                    found += batch.events
                    if len(found) == 10:
                        break

        assert [event.id for event in found] == [receipt.id for receipt in receipts]
        assert {event.priority for event in found} == {7}


async def test_a_second_process_of_a_relay_takes_over_and_the_first_one_ends_and_says_why(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        definition = defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts"))
        async with Relay(definition) as first:
            running = asyncio.create_task(first.run())
            await draws(first, "alerts")
            async with Relay(definition) as second:
                await draws(second, "alerts")
                with pytest.raises(TakenOver, match="only one may run"):
                    await running
                await pair.at_head.topic("alerts").send("once")
                assert await confirm_all(pair.at_berlin, "alerts", "pager", 1) == ["once"]
                await upstream_empty(pair.at_head)


async def test_a_relay_with_a_journal_of_its_own_process(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        local = f"file:{tmp_path / 'own'}?journal_size=64M&segment_size=4M&reserve=2M"
        async with relaying(defined(pair.head.url, local, orders=route(queue="orders", to="here"))) as relay:
            await pair.at_head.queue("orders").send("x")
            await until(lambda: of(relay, "orders").get("confirmed") == 1, "the event is here")

        async with holdfast.connect(local) as client, client.queue("here").receive() as incoming:
            assert (await incoming.next(10)).data == "x"


async def test_several_upstreams_come_together_in_one_relay(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, running(tmp_path / "paris") as paris, holdfast.connect(paris.url) as at_paris:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        upstreams = {"head": Upstream(pair.head.url), "paris": Upstream(paris.url)}
        routes = {name: Route(upstream=name, topic="alerts", mode="end-to-end") for name in upstreams}

        async with relaying(RelayDefinition("berlin", pair.berlin.url, upstreams, routes)) as relay:
            await draws(relay, "head", "paris")
            await pair.at_head.topic("alerts").send("from head")
            await at_paris.topic("alerts").send("from paris")

            assert sorted(await confirm_all(pair.at_berlin, "alerts", "pager", 2)) == ["from head", "from paris"]
            await upstream_empty(pair.at_head)
            await upstream_empty(at_paris)


async def test_upstream_and_journal_may_be_embedded() -> None:
    async with holdfast.connect("memory:upward") as upward, holdfast.connect("memory:here") as here:
        await here.ensure_subscription("alerts", "pager")
        async with relaying(defined("memory:upward", "memory:here", alerts=route(topic="alerts", mode="end-to-end"))) as relay:
            await draws(relay, "alerts")
            await upward.topic("alerts").send("x")

            assert await confirm_all(here, "alerts", "pager", 1) == ["x"]
            await upstream_empty(upward)


async def test_a_route_that_draws_nothing_still_tells_upstream_what_is_finished_here(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        definition = defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", mode="end-to-end"))

        async with relaying(definition) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send_many(range(3))
            await until(lambda: of(relay, "alerts")["waiting_here"] == 3, "the events are here")
            await pair.at_berlin.delete_subscription("alerts", "pager", force=True)

            await until(lambda: "nobody receives here" in of(relay, "alerts")["held_back"], "the route draws nothing")
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)
