"""What would stop a route for ever does not: events that are too large here, strangers in its topics, many slow topics (A9)."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.relay.line import outcome_watch
from tests.relaying import a_pair, defined, draws, of, relaying, route
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.slow

SMALLER = ("--large-max", "1M")


@pytest.mark.parametrize("mode", ["receipt", "end-to-end"])
async def test_what_is_too_large_here_is_passed_in_parts_or_rejected_upstream_and_stops_nothing(
    tmp_path: Path, mode: str
) -> None:
    with ServerProcess(tmp_path / "head") as head, ServerProcess(tmp_path / "berlin", *SMALLER) as berlin:
        await _pass_large_events(head.url, berlin.url, mode)


async def _pass_large_events(head: str, berlin: str, mode: str) -> None:
    async with holdfast.connect(head) as at_head, holdfast.connect(berlin) as at_berlin:
        await at_head.queue("a").send_stream(b"x" * (3 << 20))
        for number in range(12):
            await at_head.queue("a").send(f"{number:05d}{'y' * 200_000}")

        async with relaying(defined(head, berlin, a=route(queue="a", mode=mode))) as relay:
            await until(lambda: of(relay, "a").get("rejected") == 1, "what is too large for one transaction here is rejected")
            async with at_berlin.queue("a").receive() as incoming:
                found = []
                for _ in range(12):
                    event = await incoming.next(20)
                    found.append(event.data[:5])
                    await event.confirm()

        assert found == [f"{number:05d}" for number in range(12)]
        (dead,) = await at_head.dead.list()
        assert "relay berlin: " in dead.dead[0].reason and "limit" in dead.dead[0].reason


async def test_events_of_strangers_in_the_topics_of_a_relay_stop_nothing(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair:
        for life in range(2):
            async with relaying(defined(pair.head.url, pair.berlin.url, a=route(queue="a"))) as relay:
                await draws(relay, "a")
                await pair.at_berlin.topic("relay.berlin.a.marks").send("hello")
                await pair.at_berlin.topic("relay.berlin.a.marks").send(b"\xc1", type="holdfast.relay.mark")
                await pair.at_berlin.topic("relay.berlin.ask").send("hello")
                forged = "relay:head:victim:relay:head:_temporary.x:y"
                await pair.at_berlin.queue("relay.berlin.replies").send("hello", correlation_id=forged)
                await pair.at_head.queue("a").send(life)
                await until(lambda: of(relay, "a").get("confirmed") == 1, f"it passes: {relay.status()}")

        async def are_dead() -> bool:
            return len(await pair.at_berlin.dead.list()) == 6

        await until(are_dead, "what strangers sent is dead")
        assert "victim" not in [row["name"] for row in await pair.at_head.destinations()]


async def test_a_topic_whose_recipient_is_quick_does_not_wait_for_a_hundred_slow_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome_watch, "WAIT_S", 2.0)
    async with a_pair(tmp_path) as pair:
        await pair.at_berlin.ensure_subscription("t.*", "slow", selector="TRUE")
        await pair.at_berlin.ensure_subscription("quick", "quick")
        alerts = route(topic="**", mode="end-to-end")
        async with relaying(defined(pair.head.url, pair.berlin.url, a=alerts)) as relay:
            await draws(relay, "a")
            for number in range(100):
                await pair.at_head.topic(f"t.{number}").send("waits")
            await pair.at_head.topic("quick").send("x")
            async with pair.at_berlin.topic("quick").subscribe("quick") as incoming:
                await (await incoming.next(20)).confirm()

            await until(lambda: of(relay, "a").get("confirmed") == 1, "upstream is told", patience_s=15)
            assert of(relay, "a")["waiting_here"] == 100
