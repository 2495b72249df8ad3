"""A relay in `holdfast status` of the servers around it, and what it logs while it catches up."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.relay.report import relays_at
from tests.contract.places import CuttingProxy
from tests.relaying import a_pair, defined, draws, of, relaying, route
from tests.waiting import until


def shown(url: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "status", "--url", url, *options], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_the_status_of_both_servers_shows_a_relay_its_routes_and_what_it_is_linked_to(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("here", "pager")
        alerts_route, unheard_route = route(topic="alerts", to="here", mode="end-to-end"), route(topic="news", to="nowhere")
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=alerts_route, unheard=unheard_route)) as relay:
            await draws(relay, "alerts")
            await pair.at_head.topic("alerts").send_many(range(4))
            await until(lambda: of(relay, "alerts")["waiting_here"] == 4, "four events wait for their recipient")
            await until(lambda: of(relay, "alerts").get("waiting_upstream") == 4, "the lag is known")

            for url in (pair.berlin.url, pair.head.url):
                (told,) = json.loads(await asyncio.to_thread(shown, url, "--json"))["relays"]
                assert (told["relay"], told["is_running"], told["is_linked"]) == ("berlin", True, True)
                assert [(each["upstream"], each["is_linked"]) for each in told["upstreams"]] == [("head", True)]
                alerts, unheard = told["routes"]
                assert (alerts["route"], alerts["mode"], alerts["waiting_upstream"], alerts["waiting_here"]) == (
                    "alerts", "end-to-end", 4, 4
                )  # fmt: skip
                assert (alerts["held_back"], alerts["last_error"]) == ("", "")
                assert "nobody receives here" in unheard["held_back"]
            text = await asyncio.to_thread(shown, pair.head.url)
            assert "berlin runs" in text
            assert "route alerts (end-to-end) passes, 4 wait upstream, 4 wait here" in text


async def test_a_relay_that_does_not_run_is_told_with_what_waits_for_it(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts"))) as relay:
            await draws(relay, "alerts")
        await pair.at_head.topic("alerts").send_many(range(7))

        (at_head,), (at_berlin,) = await relays_at(pair.at_head), await relays_at(pair.at_berlin)

        assert at_head == {"is_running": False, "relay": "berlin", "routes": [{"route": "alerts", "waiting_upstream": 7}]}
        assert (at_berlin["is_running"], at_berlin["routes"]) == (False, [])


async def test_an_upstream_that_is_lost_is_told_and_the_last_error_stays_when_it_is_back(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, CuttingProxy(pair.head.port) as proxy:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        async with relaying(defined(proxy.url, pair.berlin.url, alerts=route(topic="alerts"))) as relay:
            await draws(relay, "alerts")

            def upstream() -> dict[str, Any]:
                found: dict[str, Any] = relay.status()["upstreams"][0]
                return found

            proxy.is_refusing = True
            proxy.cut()
            await until(lambda: not upstream()["is_linked"], "the upstream is told not to be linked")
            (at_berlin,) = await relays_at(pair.at_berlin)
            assert at_berlin["upstreams"][0]["problem"] == "the link was lost"
            proxy.is_refusing = False
            await until(lambda: upstream() == {**upstream(), "is_linked": True, "problem": ""}, "it is linked again")
            await pair.at_head.delete("alerts", force=True)
            await until(lambda: of(relay, "alerts")["last_error"], "the route tells what went wrong")
            await draws(relay, "alerts")
            assert of(relay, "alerts")["last_error_at_ms"] > 0


async def test_a_route_that_is_far_behind_logs_how_it_catches_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast.relay")

    def lines(word: str) -> list[str]:
        return [each.getMessage() for each in caplog.records if f"route alerts {word}" in each.getMessage()]

    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("alerts", "pager")
        slow = route(topic="alerts", rate=50)
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=slow)) as relay:
            await draws(relay, "alerts")
        for _ in range(11):
            await pair.at_head.topic("alerts").send_many(range(1_000))

        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=slow)):
            await until(lambda: lines("catches up"), "the route tells that it catches up")
            assert "events wait upstream" in lines("catches up")[0]
        async with relaying(defined(pair.head.url, pair.berlin.url, alerts=route(topic="alerts"))) as relay:
            await until(lambda: of(relay, "alerts").get("waiting_upstream") == 0, "nothing waits upstream")
