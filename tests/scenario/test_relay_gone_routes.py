"""Routes that are taken out of the file of a relay: told, and forgotten without losing an event unseen."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from holdfast.errors import BadSetting, NotEmpty, Refused
from holdfast.relay import gone_routes
from holdfast.relay.gone_routes import Forgotten
from tests.relaying import Pair, a_pair, defined, draws, of, relaying, route, waiting_upstream
from tests.waiting import until

ALERTS = {"topic": "alerts", "to": "alerts"}
OTHER = {"topic": "other", "to": "other"}


async def _relay_names(pair: Pair) -> list[str]:
    """What is there under the name of the relay, at both servers, but for the topics over which it is asked."""
    subscriptions = [each["name"] for each in await pair.at_head.subscriptions()]
    destinations = [each["name"] for client in (pair.at_head, pair.at_berlin) for each in await client.destinations()]
    return sorted(each for each in subscriptions + destinations if each.startswith("relay.") and not each.endswith(".ask"))


async def _prepare(pair: Pair) -> None:
    for topic in ("alerts", "other"):
        await pair.at_berlin.ensure_subscription(topic, "pager")


async def test_a_route_that_is_gone_is_told_and_forgotten_only_when_that_loses_nothing_or_is_forced(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await _prepare(pair)
        both = defined(pair.head.url, pair.berlin.url, alerts=route(**ALERTS), other=route(**OTHER))
        async with relaying(both) as relay:
            await draws(relay, "alerts", "other")
        await pair.at_head.topic("alerts").send_many(range(3))
        left = defined(pair.head.url, pair.berlin.url, other=route(**OTHER))

        async with relaying(left) as relay:
            await until(lambda: relay.status()["gone_routes"], "the route is told to be gone")
            (gone,) = relay.status()["gone_routes"]
            assert (gone["route"], gone["from"], gone["waiting_upstream"]) == ("alerts", "head", 3)
            with pytest.raises(NotEmpty, match="3 events wait upstream and are not here") as refused:
                await gone_routes.forget(left)
            assert refused.value.fields["waiting"] == 3
            assert await waiting_upstream(pair.at_head) == 3, "a refusal deletes nothing"

            assert await gone_routes.forget(left, "alerts", force=True) == [Forgotten("alerts", 3)]
            assert not [each for each in await _relay_names(pair) if ".alerts." in each]
            assert await gone_routes.forget(left) == []
            await pair.at_head.topic("other").send("passes")
            await until(lambda: of(relay, "other")["appended"] == 1, "the other route goes on")


async def test_what_is_here_already_is_not_counted_as_lost(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await _prepare(pair)
        both = defined(pair.head.url, pair.berlin.url, alerts=route(**ALERTS, mode="end-to-end"), other=route(**OTHER))
        async with relaying(both) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send_many(range(5))
            await until(lambda: of(relay, "alerts")["waiting_here"] == 5, "all five wait for their recipient here")
        assert await waiting_upstream(pair.at_head) == 5

        left = defined(pair.head.url, pair.berlin.url, other=route(**OTHER))
        assert await gone_routes.forget(left) == [Forgotten("alerts", 0)]

        async with pair.at_berlin.subscribe("alerts", "pager") as incoming:
            assert [(await incoming.next(timeout=20)).data for _ in range(5)] == list(range(5))
        assert [each for each in await _relay_names(pair) if ".alerts" in each] == []


async def test_a_route_of_the_file_or_of_a_relay_that_still_runs_it_is_not_forgotten(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await _prepare(pair)
        both = defined(pair.head.url, pair.berlin.url, alerts=route(**ALERTS), other=route(**OTHER))
        left = msgspec.structs.replace(both, routes={"other": both.routes["other"]})
        async with relaying(both) as relay:
            await draws(relay, "alerts", "other")
            before = await _relay_names(pair)
            with pytest.raises(BadSetting, match="'alerts' is in the file"):
                await gone_routes.forget(both, "alerts", force=True)
            with pytest.raises(Refused, match="start it again with the changed file first"):
                await gone_routes.forget(left, "alerts", force=True)
            with pytest.raises(Refused, match="stop it first"):
                await gone_routes.forget(both, everything=True, force=True)
            assert await _relay_names(pair) == before


async def test_a_relay_that_is_taken_out_of_service_leaves_nothing_behind(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await _prepare(pair)
        each = route(topic="alerts", to="here.{recipient}", mode="each", recipients=("till-1", "till-2"))
        await pair.at_berlin.ensure_subscription("here.*", "tills")
        await pair.at_head.ensure_queue("orders")
        whole = defined(
            pair.head.url, pair.berlin.url, alerts=each, other=route(**OTHER), orders=route(queue="orders", to="orders")
        )
        async with relaying(whole) as relay:
            await draws(relay, "alerts.till-1", "alerts.till-2", "other", "orders")

        found = await gone_routes.forget(whole, everything=True)

        assert [each.route for each in found] == ["alerts.till-1", "alerts.till-2", "orders", "other"]
        assert await _relay_names(pair) == []
        names = [each["name"] for client in (pair.at_head, pair.at_berlin) for each in await client.destinations()]
        assert not [each for each in names if each.startswith("relay.")]
