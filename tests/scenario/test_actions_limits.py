"""Rules at their limits: many keys, many starts, actions that hang, events that are large or strange (A10)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import deltalake
import pytest

import holdfast
from holdfast.actions import Actions, Alert, Rule
from holdfast.actions.rules_file import parse
from holdfast.actions.running import finishing
from holdfast.actions.running.source_reader import SourceReader
from holdfast.client.transaction import Transaction
from tests.acting import at_work
from tests.server_process import ServerProcess
from tests.waiting import until


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory:{request.node.name[:60]}"


async def _counted(client: holdfast.Client, topic: str = "t") -> bool:
    return all(row["waiting"] == 0 for row in await client.subscriptions(topic))


async def test_a_state_of_many_keys_survives_a_restart(tmp_path: Path) -> None:
    told: list[Alert] = []
    rule = Rule("twice", topics=["t"], key="host", count=2, within="1h", keys_max=20_000, actions=[told.append])
    hosts = [f"host-{number}-{'x' * 50}" for number in range(8_000)]
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            async with at_work(server.url, rule):
                await client.topic("t").send_many([holdfast.Event(properties={"host": host}) for host in hosts])
                await until(lambda: _counted(client), "all are counted")
            async with at_work(server.url, rule):
                for host in (hosts[0], hosts[4_000], hosts[-1], "another"):
                    await client.topic("t").send(properties={"host": host})
                await until(lambda: len(told) == 3, "the second event of three hosts is told")

    assert [alert.key for alert in told] == [hosts[0], hosts[4_000], hosts[-1]]


async def test_a_state_is_not_taken_for_a_poisoned_event_however_often_the_program_starts(url: str) -> None:
    told: list[Alert] = []
    rule = Rule("many", topics=["t"], count=3, within="1h", actions=[told.append])
    async with holdfast.connect(url) as client:
        async with at_work(url, rule):
            await client.topic("t").send_many(range(2))
            await until(lambda: _counted(client), "both are counted")
        for _ in range(25):
            async with at_work(url, rule):
                pass
        async with client.queue("actions.rules.state.many").browse() as events:
            deliveries = [event.deliveries async for event in events]
        status = await client.status()
        async with at_work(url, rule):
            await client.topic("t").send("third")
            await until(lambda: told, "the third is told")

    assert max(deliveries) < 12
    assert status["redelivered_often"] == []


async def test_a_program_stops_although_an_action_hangs_and_the_alert_is_done_by_the_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finishing, "GRACE_S", 0.1)
    began, go_on = threading.Event(), threading.Event()
    tried: list[Alert] = []

    def act(alert: Alert) -> None:
        tried.append(alert)
        began.set()
        go_on.wait(60)

    async with holdfast.connect(url) as client:
        async with at_work(url, Rule("any", topics=["t"], actions=[act])):
            await client.topic("t").send("x")
            await until(began.is_set, "the action hangs")
        assert len(tried) == 1
        go_on.set()
        async with at_work(url, Rule("any", topics=["t"], actions=[act])):
            await until(lambda: len(tried) == 2, "it is done again")
    assert tried[0].id == tried[1].id
    assert tried[1].is_repeated


async def test_events_that_are_large_binary_or_odd_are_counted_like_others(url: str) -> None:
    told: list[Alert] = []
    async with (
        holdfast.connect(url) as client,
        at_work(url, Rule("any", topics=["**"], key="data.host", summary="{type} {data.host|no host}", actions=[told.append])),
    ):
        await client.topic("t").send_stream(b"x" * 3_000_000, type="large")
        await client.topic("u.v").send(b"\x00\xff", type="binary")
        await client.topic("w/x").send({"host": ["a", 1]}, type="list")
        await client.topic("w/x").send(None, type="nothing", properties={"holdfast_hops": "many"})
        await until(lambda: len(told) == 4, "all are told")

    assert [alert.summary for alert in told] == ["large no host", "binary no host", "list a, 1", "nothing no host"]


async def test_an_event_for_a_full_queue_is_sent_once_there_is_room(url: str) -> None:
    rules = parse(
        """
        name = "full"
        [rules.any]
        topics = ["t"]
        [[rules.any.actions]]
        do = "send"
        queue = "small"
        text = "{data}"
        backoff = 0.05
        """,
        Path(),
    )
    async with holdfast.connect(url) as client:
        await client.create_queue("small", events_max=1)
        await client.queue("small").send("first")
        async with Actions(url, rule_set=rules, timeout=0.5) as actions:
            working = asyncio.create_task(actions.run())
            await client.topic("t").send("second")

            async def tried() -> bool:
                async with client.queue("actions.full.do.any.send").browse() as events:
                    return any([event.deliveries > 0 async for event in events])

            await until(tried, "it was tried, and not taken")
            async with client.queue("small").receive() as incoming:
                for expected in ("first", "second"):
                    event = await incoming.next(30)
                    assert event.data == expected
                    await event.confirm()
                with pytest.raises(holdfast.errors.TimedOut):
                    await incoming.next(0.2)
            actions.stop()
            await working


async def test_alerts_that_were_gathered_are_done_before_a_program_stops(url: str, tmp_path: Path) -> None:
    rules = parse("name = 'lake'\n[rules.any]\ntopics = ['t']\nactions = [{ do = 'table', path = 'x', every = '1h' }]", tmp_path)
    async with holdfast.connect(url) as client:
        async with Actions(url, rule_set=rules) as actions:
            working = asyncio.create_task(actions.run())
            await client.topic("t").send_many(range(3))

            async def in_hand() -> bool:
                return (await client.describe("actions.lake.do.any.table"))["in_flight"] == 3

            await until(in_hand, "the alerts are gathered")
            await until(lambda: _counted(client), "all are counted")
            actions.stop()
            await working
        left = (await client.describe("actions.lake.do.any.table"))["waiting"]

    assert left + deltalake.DeltaTable(tmp_path / "x").to_pyarrow_table().num_rows == 3
    assert left < 3


class _Crash(Exception):
    """The program ends here."""


@pytest.mark.parametrize("step", ["_counted", "_put_state", "_put_alerts", "commit", "after"])
async def test_a_program_that_ends_at_any_step_of_a_transaction_has_counted_all_of_it_or_nothing(
    url: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Alert] = []
    rules = [
        Rule("many", topics=["t"], count=3, within="1h", actions=[told.append]),
        Rule("each", topics=["t"], actions=[told.append]),
    ]
    async with holdfast.connect(url) as client:
        with monkeypatch.context() as broken:
            _break(broken, step)
            async with Actions(url, rules) as actions:
                await client.topic("t").send_many(range(2))
                with pytest.raises(_Crash):
                    await actions.run()
        async with at_work(url, *rules):
            await client.topic("t").send("third")
            await until(lambda: len(told) >= 4, "three events and their count are told")
            await until(lambda: _counted(client), "nothing is left")

    assert sorted((alert.rule, alert.count) for alert in told) == [("each", 1)] * 3 + [("many", 3)]
    assert len({alert.id for alert in told}) == 4


def _break(broken: pytest.MonkeyPatch, step: str) -> None:
    """Let the reader end when it comes to this step."""
    owner, name = (SourceReader, step) if step.startswith("_") else (SourceReader, "process")
    whole_commit, whole_process = Transaction.commit, SourceReader.process

    async def crash(*arguments: Any) -> None:
        if step == "commit":
            broken.setattr(Transaction, "commit", end)
            try:
                await whole_process(*arguments)
            finally:
                broken.setattr(Transaction, "commit", whole_commit)
        elif step == "after":
            await whole_process(*arguments)
        raise _Crash

    async def end(*arguments: Any) -> None:
        raise _Crash

    def end_now(*arguments: Any) -> None:
        raise _Crash

    broken.setattr(owner, name, end_now if step == "_counted" else crash)


async def test_rules_on_queues_and_on_the_log_gather_and_wait_for_absences(tmp_path: Path) -> None:
    told: list[Alert] = []
    rules = [
        Rule("beat", queue="beats", key="host", absent="1s", actions=[told.append]),
        Rule(
            "log",
            topics=["_LOG"],
            selector="logger = 'holdfast.flow'",
            gather="2s",
            summary="{count} lines",
            actions=[told.append],
        ),
    ]
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            for name in "abc":
                await client.create_queue(f"small-{name}", events_max=1)
            await client.queue("beats").send("x", properties={"host": "a"})
            async with at_work(server.url, *rules):
                pass
            for host in "ab":
                await client.queue("beats").send("x", properties={"host": host})
            async with at_work(server.url, *rules):
                for name in "abc":
                    await client.queue(f"small-{name}").send("x")
                await until(lambda: sorted(alert.rule for alert in told) == ["beat", "beat", "log"], "all is told")

    beats = sorted((alert.key, alert.reason) for alert in told if alert.rule == "beat")
    assert beats == [("a", "no event for 1 s"), ("b", "no event for 1 s")]
    assert [alert.count >= 3 for alert in told if alert.rule == "log"] == [True]


async def test_a_pattern_of_all_topics_does_not_count_ticks(url: str) -> None:
    told: list[Alert] = []
    rules = [
        Rule("all", topics=["**"], actions=[told.append]),
        Rule("timed", topics=["**"], key="host", absent="50ms", actions=[told.append]),
    ]
    async with holdfast.connect(url) as client, at_work(url, *rules):
        await client.topic("t").send(properties={"host": "a"})
        await until(lambda: len(told) == 2, "the event is told, and then its absence")
        await client.topic("t").send(properties={"host": "a"})
        await until(lambda: len(told) == 4, "and once more")

    assert sorted((alert.rule, alert.key) for alert in told) == [("all", ""), ("all", ""), ("timed", "a"), ("timed", "a")]
