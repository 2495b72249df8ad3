"""A node of a cluster is watched over HTTP: its metrics, its status, and whether it is ready (E6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.cluster.liveness import CUT_OFF_MS
from holdfast.http.cluster_watch import LISTED
from holdfast.http.metrics import PREFIX
from tests.nats_server import NatsServer
from tests.running_cluster import MANAGER, clustered
from tests.waiting import until
from tests.watching import Watched, value_in, watched

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


async def _is_led(http: Watched) -> bool:
    return await http.value("holdfast_cluster_is_led", manager=MANAGER) == 1


async def _is_missed(http: Watched) -> bool:
    silent = await http.value("holdfast_cluster_silent_nodes") == 1
    return silent and (await http.value("holdfast_cluster_heartbeats_missed_total", node="a") or 0) >= 3


async def test_a_node_shows_what_it_leads_and_who_is_there_also_after_a_takeover(tmp_path: Path, nats: NatsServer) -> None:
    async with (
        clustered(tmp_path, nats) as cluster,
        watched(cluster.nodes["a"], tmp_path / "a") as primary,
        watched(cluster.nodes["b"], tmp_path / "b") as backup,
        holdfast.connect(cluster.url("b")) as client,
    ):
        await client.queue("orders").send_many(range(10))
        async with client.queue("orders").receive() as incoming:
            await (await incoming.next(timeout=20)).confirm()
            await incoming.settled()
        await until(lambda: _is_led(primary), "heartbeats of the primary were heard")
        await until(lambda: _is_led(backup), "also beside it")
        here, beside = (await primary.ask("/metrics")).body, (await backup.ask("/metrics")).body

        families = {each.name: each for each in text_string_to_metric_families(here) if each.name.startswith(PREFIX)}
        assert {name.removeprefix(PREFIX) for name in families} == {name.removesuffix("_total") for name in LISTED}
        orders = {"destination": "orders", "subscription": ""}
        assert value_in(here, "holdfast_accepted_events_total", **orders) == 10
        assert value_in(here, "holdfast_waiting_events", **orders) == 9
        assert 0 < (value_in(here, "holdfast_end_to_end_seconds_count") or 0) <= 10
        assert value_in(beside, "holdfast_waiting_events", **orders) is None  # added up over nodes, nothing counts twice
        for text in (here, beside):
            assert value_in(text, "holdfast_is_primary") == value_in(text, "holdfast_cluster_is_led", manager=MANAGER) == 1
            assert value_in(text, "holdfast_cluster_nodes") == 2
            assert value_in(text, "holdfast_cluster_is_cut_off") == value_in(text, "holdfast_cluster_silent_nodes") == 0
            assert value_in(text, "holdfast_cluster_epoch", manager=MANAGER) == 1
        led = [value_in(text, "holdfast_cluster_is_primary", manager=MANAGER) for text in (here, beside)]
        assert led == [1, 0]
        assert value_in(here, "holdfast_cluster_takeovers_total", manager=MANAGER) == 1
        assert value_in(beside, "holdfast_links") == 1
        assert (value_in(beside, "holdfast_cluster_append_seconds_count") or 0) > 0

        await cluster.stop("a")
        await until(lambda: cluster.primary() == "b", "b takes over")
        await client.queue("orders").send(10)
        await until(lambda: _is_missed(backup), "the node that left is missed")
        after = (await backup.ask("/metrics")).body
        status = msgspec.json.decode((await backup.ask("/status")).body)

        assert value_in(after, "holdfast_waiting_events", **orders) == 10
        assert value_in(after, "holdfast_cluster_epoch", manager=MANAGER) == 2
        assert value_in(after, "holdfast_cluster_takeovers_total", manager=MANAGER) == 1
        assert 0 < (value_in(after, "holdfast_cluster_takeover_seconds_sum") or 0) < 60
        assert status["silent"] == ["a"]
        assert status["leads"][MANAGER]["waiting"] == 10
        assert status["links"] == 1


@pytest.mark.long  # a node that closes after NATS was paused may need long
async def test_a_node_that_hears_nothing_or_cannot_append_is_not_ready_and_is_again_by_itself(
    tmp_path: Path, nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.http.cluster_watch.UNANSWERED_S_MAX", 1.5)
    async with clustered(tmp_path, nats) as cluster, watched(cluster.nodes["b"], tmp_path / "b") as http:
        assert (await http.ask("/readyz")).body == "ok\n"

        nats.pause()
        try:

            async def is_not_ready() -> bool:
                told = await http.ask("/readyz")
                lines = told.body.splitlines()
                return told.status == 503 and len(lines) == 2 and "does not hear itself" in lines[0] and "appended" in lines[1]

            await until(is_not_ready, f"it says so, {CUT_OFF_MS} ms and 1.5 s later")
            assert (await http.ask("/healthz")).status == 200
        finally:
            nats.resume()

        async def is_ready() -> bool:
            return (await http.ask("/readyz")).status == 200

        await until(is_ready, "it is ready again")
