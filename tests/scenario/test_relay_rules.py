"""The rules of a route: selector, properties, priority, time to live, rate, window, sampling, and what keeps loops away."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

import holdfast
from holdfast.relay import RelayDefinition, Route, Upstream
from tests.relaying import a_pair, confirm_all, defined, draws, marks_gone, of, relaying, route, upstream_empty, waiting_upstream
from tests.running_server import running
from tests.waiting import until


async def test_a_selector_is_judged_by_the_upstream_server(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", selector="level > 3"))) as relay:
            await draws(relay, "alerts")
            for level in (1, 5, 2, 9):
                await pair.at_head.topic("alerts").send(level, properties={"level": level})

            assert await confirm_all(pair.at_berlin, "alerts", "pager", 2) == [5, 9]
            await upstream_empty(pair.at_head)
            assert of(relay, "alerts")["received"] == 2


async def test_properties_are_added_and_priority_and_time_to_live_changed(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        rules = route(topic="alerts", add={"site": "berlin"}, priority=9, ttl="1h")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=rules)) as relay:
            await draws(relay, "alerts")
            sent = await pair.at_head.topic("alerts").send("x", properties={"level": 3}, subject="disk")
            async with pair.at_berlin.subscribe("alerts", "pager", selector=None) as incoming:
                event = await incoming.next(10)

        assert event.properties == {"level": 3, "site": "berlin"}
        assert (event.priority, event.id, event.subject, event.data) == (9, sent.id, "disk", "x")
        left_ms = event.expires_at_ms - event.time.timestamp() * 1000
        assert 3_500_000 < left_ms < 3_700_000


async def test_events_that_sampling_leaves_out_are_confirmed_and_counted(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("metrics", "lake")

        async with relaying(defined(pair.head.url, pair.berlin.url, metrics=route(topic="metrics", sample=0.25))) as relay:
            await draws(relay, "metrics")
            await pair.at_head.topic("metrics").send_many(range(400))
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)

            told = of(relay, "metrics")
            assert told["appended"] + told["sampled"] == 400
            assert 40 < told["appended"] < 180
            found = await confirm_all(pair.at_berlin, "metrics", "lake", told["appended"])
            assert found == sorted(found)


async def test_outside_of_its_window_a_route_draws_nothing_and_says_until_when(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        later = datetime.now() + timedelta(hours=3)
        window = f"{later:%H:00}-{later + timedelta(hours=1):%H:00}".replace("-00:00", "-24:00")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", window=window))) as relay:
            await until(lambda: "the window is closed until" in of(relay, "alerts")["held_back"], "the route says so")
            await pair.at_head.topic("alerts").send("x")

            assert await waiting_upstream(pair.at_head) == 1
            assert of(relay, "alerts")["received"] == 0


async def test_a_rate_holds_a_route_back_and_no_other(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for topic in ("slow", "quick"):
            await pair.at_berlin.ensure_subscription(topic, "pager")
        slow, quick = route(topic="slow", rate=5), route(topic="quick")

        async with relaying(defined(pair.head.url, pair.berlin.url, slow=slow, quick=quick)) as relay:
            await draws(relay, "slow", "quick")
            for number in range(60):
                await pair.at_head.topic("slow").send(number)
            await pair.at_head.topic("quick").send_many(range(1000))
            await until(lambda: of(relay, "quick")["confirmed"] == 1000, "the quick route is done")

            assert of(relay, "slow")["appended"] < 60
            await until(lambda: "rate of 5 " in of(relay, "slow")["held_back"], "the slow route says what holds it back")


async def test_a_full_destination_holds_its_route_back_and_no_other(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.create_queue("small", events_max=5)
        await pair.at_berlin.queue("small").send_many(["before"] * 5)
        slow, quick = route(queue="a", to="small"), route(queue="b", to="large")
        await pair.at_head.queue("a").send_many(range(40))
        await pair.at_head.queue("b").send_many(range(500))

        async with relaying(defined(pair.head.url, pair.berlin.url, slow=slow, quick=quick)) as relay:
            await until(lambda: of(relay, "quick").get("confirmed") == 500, "the quick route is done")
            await until(
                lambda: of(relay, "slow")["held_back"].startswith("full here"), "the slow route says that it is full here"
            )
            assert (await pair.at_head.describe("a"))["waiting"] == 40, "upstream keeps them"
            async with pair.at_berlin.queue("small").receive() as incoming:
                found = []
                for _ in range(45):
                    event = await incoming.next(20)
                    found.append(event.data)
                    await event.confirm()

            assert found == ["before"] * 5 + list(range(40))
            await until(lambda: of(relay, "slow")["confirmed"] == 40, "all has passed")


async def test_two_relays_that_face_each_other_pass_each_event_once_and_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for client in (pair.at_head, pair.at_berlin):
            await client.create_topic("alerts", events_max=200)
            await client.ensure_subscription("alerts", "people")
        there = defined(pair.head.url, pair.berlin.url, name="berlin", alerts=route(topic="alerts", mode="end-to-end"))
        back = defined(pair.berlin.url, pair.head.url, name="head", alerts=route(topic="alerts", mode="end-to-end"))

        async with relaying(there) as one, relaying(back) as other:
            await asyncio.gather(draws(one, "alerts"), draws(other, "alerts"))
            await asyncio.gather(
                pair.at_head.topic("alerts").send_many([f"head {number}" for number in range(100)]),
                pair.at_berlin.topic("alerts").send_many([f"berlin {number}" for number in range(100)]),
            )
            found = await asyncio.gather(
                confirm_all(pair.at_head, "alerts", "people", 200), confirm_all(pair.at_berlin, "alerts", "people", 200)
            )
            await upstream_empty(pair.at_head, "berlin")
            await upstream_empty(pair.at_berlin, "head")

            assert sorted(found[0]) == sorted(found[1]) == sorted(f"{at} {n}" for at in ("head", "berlin") for n in range(100))
            assert of(one, "alerts")["received"] == of(other, "alerts")["received"] == 100


async def test_two_relays_that_face_each_other_with_all_topics_pass_nothing_of_each_other(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for client in (pair.at_head, pair.at_berlin):
            await client.ensure_subscription("alerts", "people")
        there = defined(pair.head.url, pair.berlin.url, name="berlin", all=route(topic="**"))
        back = defined(pair.berlin.url, pair.head.url, name="head", all=route(topic="**"))

        async with relaying(there) as one, relaying(back) as other:
            await asyncio.gather(draws(one, "all"), draws(other, "all"))
            await pair.at_head.topic("alerts").send("from head")
            await pair.at_berlin.topic("alerts").send("from berlin")
            found = await asyncio.gather(
                confirm_all(pair.at_head, "alerts", "people", 2), confirm_all(pair.at_berlin, "alerts", "people", 2)
            )
            await pair.at_head.topic("relay.berlin.ask").send({})
            await until(lambda: all(of(each, "all")["looped"] for each in (one, other)), "topics of relays are left out")

            assert sorted(found[0]) == sorted(found[1]) == ["from berlin", "from head"]
            assert of(one, "all")["appended"] == of(other, "all")["appended"] == 1, "a mark would make a mark, for ever"


async def test_a_relay_that_only_faces_another_one_has_no_recipient(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_head.ensure_subscription("alerts", "people")
        there = defined(pair.head.url, pair.berlin.url, name="berlin", alerts=route(topic="alerts", mode="end-to-end"))
        back = defined(pair.berlin.url, pair.head.url, name="head", alerts=route(topic="alerts", mode="end-to-end"))

        async with relaying(back) as other, relaying(there) as one:
            await draws(other, "alerts")
            await until(
                lambda: "nobody receives here" in of(one, "alerts")["held_back"], "the subscription of the other counts not"
            )


async def test_a_ring_of_relays_ends_where_events_began(tmp_path: Path) -> None:
    async with (
        running(tmp_path / "a") as a,
        running(tmp_path / "b") as b,
        running(tmp_path / "c") as c,
        holdfast.connect(a.url) as at_a,
    ):
        ring = {"b": (a.url, b.url), "c": (b.url, c.url), "a": (c.url, a.url)}
        for url in (a.url, b.url, c.url):
            async with holdfast.connect(url) as client:
                await client.ensure_subscription("alerts", "people")
        definitions = [
            RelayDefinition(name, local, {"head": Upstream(upstream)}, {"alerts": Route(upstream="head", topic="alerts")})
            for name, (upstream, local) in ring.items()
        ]
        async with relaying(definitions[0]) as one, relaying(definitions[1]) as two, relaying(definitions[2]) as three:
            await asyncio.gather(*(draws(each, "alerts") for each in (one, two, three)))
            await at_a.topic("alerts").send_many(range(10))
            await until(lambda: of(two, "alerts")["confirmed"] == 10, "the events went round")
            await upstream_empty(at_a, "b")

            assert (await at_a.subscriptions("alerts"))[0]["accepted"] == 10
            assert of(three, "alerts")["received"] == 0


async def test_an_event_that_has_passed_too_many_relays_goes_no_further(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        await pair.at_head.ensure_subscription("alerts", "way")
        first = defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts"))

        async with running(tmp_path / "last") as last, holdfast.connect(last.url) as at_last:
            await at_last.ensure_subscription("alerts", "pager")
            limited = msgspec.structs.replace(route(topic="alerts"), hops_max=1)
            second = defined(pair.berlin.url, last.url, name="last", alerts=limited)
            async with relaying(first) as one, relaying(second) as two:
                await asyncio.gather(draws(one, "alerts"), draws(two, "alerts"))
                await pair.at_head.topic("alerts").send("x")
                await until(lambda: of(two, "alerts")["looped"] == 1, "the second relay counts it")
                await upstream_empty(pair.at_berlin, "last")

                assert (await at_last.subscriptions("alerts"))[0]["waiting"] == 0
