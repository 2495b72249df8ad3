"""Rules at work: two steps, one transaction, retries, dead alerts, time, hops, and blocking actions (A10)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.actions import Actions, Alert, Rule
from holdfast.actions.errors import ActionFailed
from holdfast.actions.report import report
from holdfast.actions.rules_file import parse
from tests.acting import at_work
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory:{request.node.name[:60]}"


class Told:
    """An action that notes what it was told, and fails as often as it is asked to."""

    def __init__(self, failures: int = 0, failure: Callable[[], Exception] = lambda: OSError("the pager is down")) -> None:
        self.alerts: list[Alert] = []
        self.tries: list[Alert] = []
        self._failures, self._failure = failures, failure

    def __call__(self, alert: Alert) -> None:
        self.tries.append(alert)
        if len(self.tries) <= self._failures:
            raise self._failure()
        self.alerts.append(alert)


async def test_two_actions_of_a_rule_fail_apart_and_the_failed_one_is_tried_again_with_the_same_id(url: str) -> None:
    well, ill = Told(), Told(failures=2)
    async with holdfast.connect(url) as client:
        rule = Rule("any", topics=["t"], actions=[well, ill])
        rule.checked = msgspec.structs.replace(
            rule.checked, actions=tuple(msgspec.structs.replace(each, first_s=0.01) for each in rule.checked.actions)
        )
        async with at_work(url, rule):
            await client.topic("t").send("x")
            await until(lambda: ill.alerts, "the failing action succeeds")

    assert len(well.tries) == 1
    assert [each.id for each in ill.tries] == [ill.alerts[0].id] * 3
    assert {each.idempotency_key for each in ill.tries} == {ill.alerts[0].idempotency_key}
    assert [each.is_repeated for each in ill.tries] == [False, True, True]
    assert well.alerts[0].idempotency_key != ill.alerts[0].idempotency_key


async def test_after_the_last_retry_the_alert_is_dead_with_the_error_and_without_secrets(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "tops3cret-token")
    (tmp_path / "password").write_text("anothers3cret\n")
    rules = parse(
        """
        name = "dead"
        [rules.any]
        topics = ["t"]
        [[rules.any.actions]]
        do = "webhook"
        url = "http://user:${file:password}@127.0.0.1:1/hook?token=${env:HOOK_TOKEN}"
        retries = 2
        backoff = 0.01
        [[rules.any.actions]]
        do = "run"
        command = ["/bin/sh", "-c", "echo $0 >&2; exit 3", "${env:HOOK_TOKEN}"]
        retries = 0
        """,
        tmp_path,
    )
    async with holdfast.connect(url) as client:
        async with Actions(url, rule_set=rules) as actions:
            working = asyncio.create_task(actions.run())
            await client.topic("t").send("x")

            async def dead() -> bool:
                return len(await client.dead.list()) == 2

            await until(dead, "both alerts are dead")
            shown = await report(client, "dead")
            actions.stop()
            await working
        events = {event.properties["action"]: event for event in await client.dead.list()}

    deaths = {name: event.dead[0] for name, event in events.items()}
    assert {name: death.code for name, death in deaths.items()} == {"webhook": "failed", "run": "failed"}
    assert "did not answer" in deaths["webhook"].reason
    assert events["webhook"].dead[0].deliveries == 3
    assert "exit code 3: ***" in deaths["run"].reason
    assert {each["action"]: each["dead"] for each in shown["rules"][0]["actions"]} == {"webhook": 1, "run": 1}
    told = caplog.text + "".join(death.reason for death in deaths.values())
    assert "s3cret" not in told
    assert "that was the last try" in told


async def test_events_are_confirmed_in_one_transaction_with_the_state_and_the_alerts(url: str) -> None:
    """At every moment, the count in the state and the events that wait are together the events that were sent."""
    waiting: list[tuple[int, int]] = []
    async with (
        holdfast.connect(url) as client,
        at_work(url, Rule("many", topics=["t"], count=1_000, within="1h", actions=[Told()]), name="n"),
    ):
        (source,) = await client.subscriptions("t")

        async def seen() -> int:
            async with client.queue("actions.n.state.many").browse() as events:
                records = [event.data async for event in events]
            newest: dict[str, Any] = max(records, key=lambda record: record["version"], default={})
            return len(newest.get("keys", {}).get("", []))

        for place in range(20):
            await client.topic("t").send(place)

        async def all_counted() -> bool:
            left = (await client.subscriptions("t"))[0]["waiting"]  # first: what is gone from here later is in the state
            waiting.append((await seen(), left))
            return waiting[-1] == (20, 0)

        await until(all_counted, "all events are counted")
        assert source["name"].startswith("actions.n.")
    assert all(count + left >= 20 for count, left in waiting)


async def test_an_hour_of_window_holds_no_events(url: str) -> None:
    async with (
        holdfast.connect(url) as client,
        at_work(url, Rule("many", topics=["t"], count=100, within="1h", actions=[Told()])),
    ):
        await client.topic("t").send_many(range(50))

        async def none() -> bool:
            return (await client.subscriptions("t"))[0]["waiting"] == 0

        await until(none, "nothing waits although nothing was told yet")


async def test_an_absence_is_judged_only_when_everything_before_it_was_read(tmp_path: Path) -> None:
    """The program is away while a second passes; the events of that second wait, and nobody is told absent who was there."""
    told = Told()
    rule = Rule("beat", topics=["beat"], key="host", absent="2s", expect=["a", "b"], gather="1ms", actions=[told])
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            async with at_work(server.url, rule):
                pass
            began = time.monotonic()
            while time.monotonic() - began < 3:  # longer than the absence, and than the program would have waited
                await client.topic("beat").send(properties={"host": "a"})
                await asyncio.sleep(0.1)
            async with at_work(server.url, rule):
                await until(lambda: told.alerts, "b is told absent")
                first = list(told.alerts)
                await until(lambda: any("a" in alert.keys for alert in told.alerts), "a is told absent later")

    assert [alert.keys for alert in first] == [["b"]]
    assert len({alert.id for alert in told.alerts}) == len(told.alerts) == 2


async def test_an_action_that_blocks_costs_no_heartbeats_and_holds_up_no_other(tmp_path: Path) -> None:
    began, go_on = threading.Event(), threading.Event()
    quick = Told()

    def block(alert: Alert) -> None:
        began.set()
        go_on.wait(60)

    with ServerProcess(tmp_path / "data", "--session-grace-ms", "300") as server:
        async with holdfast.connect(server.url) as client, at_work(server.url, Rule("any", topics=["t"], actions=[block, quick])):
            await client.topic("t").send("one")
            await until(began.is_set, "the action is at work")
            for place in range(30):
                await client.topic("t").send(place)
            await until(lambda: len(quick.alerts) == 31, "the other action has done all")
            status = await client.status()
            go_on.set()
    assert status["sessions"] > 0
    assert len({alert.id for alert in quick.tries}) == 31


async def test_send_places_one_event_and_a_rule_that_feeds_itself_ends_at_the_hop_limit(url: str) -> None:
    rules = parse(
        """
        name = "loop"
        [rules.loop]
        topics = ["loop.*"]
        hops_max = 3
        [[rules.loop.actions]]
        do = "send"
        topic = "loop.again"
        text = "{type} again"
        """,
        Path(),
    )
    async with holdfast.connect(url) as client:
        async with client.subscribe("loop.*") as incoming, Actions(url, rule_set=rules) as actions:
            working = asyncio.create_task(actions.run())
            await client.topic("loop.begin").send("x", type="first")

            async def dead() -> bool:
                return len(await client.dead.list()) == 1

            await until(dead, "the loop ends")
            actions.stop()
            await working
            hops = [(await incoming.next(5)).properties.get("holdfast_hops") for _ in range(4)]
            with pytest.raises(holdfast.errors.TimedOut):
                await incoming.next(0)
        (event,) = await client.dead.list()

    assert hops == [None, 1, 2, 3]
    assert event.dead[0].code == "rejected"
    assert "hops_max = 3" in event.dead[0].reason


async def test_rules_of_equal_topics_and_selector_share_a_subscription(url: str) -> None:
    told = Told()
    rules = [
        Rule("a", topics=["t"], selector="n > 1", actions=[told]),
        Rule("b", topics=["t"], selector="n > 1", count=2, within="1m", actions=[told]),
        Rule("c", topics=["t"], selector="n > 5", actions=[told]),
    ]
    async with holdfast.connect(url) as client, at_work(url, *rules):
        for number in range(4):
            await client.topic("t").send(number, properties={"n": number})
        await until(lambda: len(told.alerts) == 3, "two rules have told")
        subscriptions = await client.subscriptions("t")

    assert sorted(alert.rule for alert in told.alerts) == ["a", "a", "b"]
    assert sorted((each["selector"], each["accepted"]) for each in subscriptions) == [("(n > 1)", 2), ("(n > 5)", 0)]


async def test_a_rule_reads_a_queue_and_confirms_what_it_has_told(url: str) -> None:
    told = Told()
    async with (
        holdfast.connect(url) as client,
        at_work(url, Rule("jobs", queue="jobs", type="job.*", key="subject", actions=[told])),
    ):
        await client.queue("jobs").send("x", type="job.failed", subject="backup")
        await client.queue("jobs").send("x", type="other")
        await until(lambda: told.alerts, "it is told")

        async def left() -> bool:
            return (await client.describe("jobs"))["waiting"] == 1

        await until(left, "the event of another type is left to others")

    assert told.alerts[0].keys == ["backup"]


async def test_a_second_program_of_the_same_rules_is_refused(url: str) -> None:
    rule = Rule("any", topics=["t"], actions=[Told()])
    async with holdfast.connect(url), at_work(url, rule):
        with pytest.raises(holdfast.errors.SubscriptionInUse):
            async with Actions(url, [rule], timeout=0.5):
                pass


async def test_the_rules_go_on_when_the_server_was_killed_and_comes_back(tmp_path: Path) -> None:
    told = Told()
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "300") as server:
        async with at_work(server.url, Rule("many", topics=["t"], count=4, within="1h", actions=[told]), timeout=5):
            async with holdfast.connect(server.url) as client:
                await client.topic("t").send_many(range(2))
            server.kill()
            server.start()
            async with holdfast.connect(server.url) as client:
                await client.topic("t").send_many(range(2))
                await until(lambda: told.alerts, "the fourth event is told")

    assert [alert.count for alert in told.alerts] == [4]


async def test_a_failure_that_never_passes_is_refused_at_once(url: str) -> None:
    def refuse(alert: Alert) -> None:
        from holdfast.actions.errors import ActionRefused

        raise ActionRefused("not this one")

    async with holdfast.connect(url) as client:
        async with at_work(url, Rule("any", topics=["t"], actions=[refuse])):
            await client.topic("t").send("x")

            async def dead() -> bool:
                return len(await client.dead.list()) == 1

            await until(dead, "it is dead")
        (event,) = await client.dead.list()
    assert event.dead[0].deliveries <= 1
    assert "not this one" in event.dead[0].reason
    assert isinstance(ActionFailed("x"), holdfast.Unavailable)
