"""A relay between two servers: what passes, under which name, and when upstream hears of it (A9)."""

from __future__ import annotations

from pathlib import Path

from tests.relaying import a_pair, defined, marks_gone, of, relaying, route, upstream_empty
from tests.waiting import until


async def test_events_of_a_topic_reach_the_subscriptions_of_the_branch(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("branch.berlin.**", "pager")
        passing = route(topic="alerts.**", to="branch.berlin.**")

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=passing)) as relay:
            await until(lambda: of(relay, "alerts")["held_back"] == "", "the route draws")
            sent = await pair.at_head.topic("alerts.eu.disk").send("full", type="disk.full", properties={"level": 5})
            async with pair.at_berlin.subscribe("branch.berlin.**", "pager") as incoming:
                event = await incoming.next(10)
                await event.confirm()
                await incoming.settled()

            assert (event.data, event.type, event.properties) == ("full", "disk.full", {"level": 5})
            assert (event.destination, event.id) == ("branch.berlin.eu.disk", sent.id)
            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)


async def test_end_to_end_tells_upstream_when_every_recipient_here_has_confirmed(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for name in ("pager", "audit"):
            await pair.at_berlin.ensure_subscription("alerts", name)

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts", mode="end-to-end"))) as relay:
            await until(lambda: of(relay, "alerts")["held_back"] == "", "the route draws")
            await pair.at_head.topic("alerts").send_many(range(5))
            for name, left in (("pager", 5), ("audit", 0)):
                async with pair.at_berlin.subscribe("alerts", name) as incoming:
                    for number in range(5):
                        event = await incoming.next(10)
                        assert event.data == number
                        await event.confirm()
                found = [each for each in await pair.at_head.subscriptions("alerts") if each["name"].startswith("relay.")]
                if left:
                    assert [each["waiting"] for each in found] == [left]

            await upstream_empty(pair.at_head)
            await marks_gone(pair.at_berlin)
            assert of(relay, "alerts")["confirmed"] == 5
