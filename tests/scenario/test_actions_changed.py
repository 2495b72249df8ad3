"""Rules that change while events wait: nothing is missed, nothing counts twice, and wrong rules change nothing (A10)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.actions import Actions, Alert, Rule
from holdfast.actions.report import report
from holdfast.actions.rules_file import RuleSet, parse
from holdfast.actions.running.arrangement import LATER_MAX, TABLE_TYPE, Arrangement
from holdfast.actions.secrets import Secrets
from holdfast.errors import Damaged
from tests.acting import at_work
from tests.server_process import ServerProcess
from tests.waiting import until, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory:{request.node.name[:60]}"


def of(told: list[Alert], **settings: Any) -> Rule:
    return Rule("rule", **{"topics": ["t"], "actions": [told.append], **settings})


async def _subscriptions(client: holdfast.Client) -> list[str]:
    return [row["name"] for row in await client.subscriptions() if row["name"].startswith("actions.")]


@pytest.mark.parametrize("changed", [{"selector": "n >= 0"}, {"topics": ["t", "u"]}, {"gather": "1ms"}, {"key": "host"}])
async def test_events_that_wait_are_counted_by_the_changed_rule_once(url: str, changed: dict[str, Any]) -> None:
    told: list[Alert] = []
    async with holdfast.connect(url) as client:
        async with at_work(url, of(told, count=6, within="1h")):
            await client.topic("t").send_many(range(2), properties={"n": 1})

            async def counted() -> bool:
                return (await client.subscriptions("t"))[0]["waiting"] == 0

            await until(counted, "two events are counted")
        await client.topic("t").send_many(range(2), properties={"n": 2})  # they wait in the subscription of the old rule

        async with at_work(url, of(told, count=6, within="1h", **changed)):
            await client.topic("t").send_many(range(2), properties={"n": 3})
            await until(lambda: told, "the sixth event is told")
            await client.topic("t").send_many(range(5), properties={"n": 3})

            async def settled() -> bool:
                return sum(row["waiting"] for row in await client.subscriptions() if row["name"].startswith("actions.")) == 0

            await until(settled, "all events are counted")
            assert len([name for name in await _subscriptions(client) if name != "owner"]) == 1

    assert [alert.count for alert in told] == [6]


async def test_a_removed_rule_deletes_its_subscription_and_its_queues_and_its_alerts_are_dead(url: str) -> None:
    async def names(client: holdfast.Client) -> list[str]:
        return [row["name"] for row in await client.destinations() if ".rule." in row["name"] or row["name"].endswith(".rule")]

    def fail(alert: Alert) -> None:
        raise OSError("never")

    kept = Rule("kept", topics=["other"], actions=[fail])
    async with holdfast.connect(url) as client:
        async with at_work(url, kept, Rule("rule", topics=["t"], cooldown="1s", actions=[fail])) as actions:
            await client.topic("t").send("x")

            async def waiting() -> bool:
                return (await client.describe("actions.rules.do.rule.fail"))["waiting"] == 1

            await until(waiting, "the alert waits")
            assert len(await _subscriptions(client)) == 2
            assert sorted(await names(client)) == ["actions.rules.do.rule.fail", "actions.rules.state.rule"]
            assert len(actions.table.rules) == 2
        async with at_work(url, kept) as actions:
            assert len(await _subscriptions(client)) == 1
            assert await names(client) == []
            assert list(actions.table.rules) == ["kept"]
        dead = await client.dead.list()

    assert [(event.dead[0].code, event.properties["rule"]) for event in dead] == [("deleted", "rule")]


async def test_events_of_strangers_in_the_queues_of_rules_stop_nothing(url: str) -> None:
    told: list[Alert] = []
    async with holdfast.connect(url) as client:
        async with at_work(url, of(told, count=2, within="1h")):
            await client.topic("t").send("one")
            for queue in ("rules", "state.rule", "do.rule.append"):
                await client.queue(f"actions.rules.{queue}").send("hello")
        async with at_work(url, of(told, count=2, within="1h")):
            await client.topic("t").send("two")
            await until(lambda: told, "both are counted")

        assert (await report(client, "rules"))["rules"][0]["rule"] == "rule"


async def test_a_record_that_cannot_be_read_is_told_with_its_place(url: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue("actions.rules.rules").send("hello", type=TABLE_TYPE)

        with pytest.raises(Damaged, match=r"actions\.rules\.rules.*position"):
            async with Actions(url, [of([])]):
                pass


async def test_rules_that_the_server_refuses_leave_those_from_before_at_work(url: str, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Alert] = []
    wrong = [of(told), Rule("new", topics=["u"], actions=[told.append]), Rule("wrong", queue="t", actions=[told.append])]
    async with holdfast.connect(url) as client:
        await client.ensure_topic("t")
        async with at_work(url, of(told)) as actions:
            rules = {rule.name: rule.checked for rule in wrong}
            actions.change(RuleSet(rules=rules, secrets=Secrets(), folder=Path()))
            await until(lambda: "refused the new rules" in caplog.text, "the new rules are tried")

            await client.topic("t").send("x")

            await until(lambda: told, "it is told")
            assert list(actions.table.rules) == ["rule"]
            assert len(await _subscriptions(client)) == 1, "what was made for rules that were not taken is deleted"


async def test_what_waits_is_counted_by_the_changed_rule_although_urgent_events_overtake_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Alert] = []
    drain = Arrangement._read_to_the_boundary
    urgent = LATER_MAX + 100
    async with holdfast.connect(url) as client:
        async with at_work(url, of(told)):
            pass
        await client.topic("t").send_many(range(10), properties={"n": 1})

        async def drain_in_a_rush(self: Arrangement, *arguments: Any) -> None:
            await client.topic("t").send_many(range(urgent), properties={"n": 2}, priority=9)
            await drain(self, *arguments)

        monkeypatch.setattr(Arrangement, "_read_to_the_boundary", drain_in_a_rush)
        async with at_work(url, of(told, selector="n > 0")):
            await until(lambda: len(told) >= urgent + 10, "all are told")

    assert sorted(int(alert.example["properties"]["n"]) for alert in told) == [1] * 10 + [2] * urgent


async def test_new_rules_are_taken_while_it_runs(url: str, tmp_path: Path) -> None:
    def rules(selector: str) -> RuleSet:
        text = f"""
            name = "running"
            [rules.any]
            topics = ["t"]
            selector = "{selector}"
            actions = [{{ do = "send", queue = "out", text = "{selector}" }}]
        """
        return parse(text, tmp_path)

    async with (
        holdfast.connect(url) as client,
        client.queue("out").receive() as out,
        Actions(url, rule_set=rules("n = 1")) as actions,
    ):
        working = asyncio.create_task(actions.run())
        for number in range(1, 20):
            await client.topic("t").send(properties={"n": number})
            event = await out.next(30)
            assert event.data == f"n = {number}"
            await event.confirm()
            actions.change(rules(f"n = {number + 1}"))
            await client.topic("t").send(properties={"n": number})  # meant by the old rule, or by none
            wanted = await _selector_of(client, number + 1)
            assert wanted
        actions.stop()
        await working


async def _selector_of(client: holdfast.Client, number: int) -> bool:
    async def found() -> bool:
        rows = [row for row in await client.subscriptions() if row["name"].startswith("actions.")]
        return [row["selector"] for row in rows] == [f"(n = {number})"] and (await report(client, "running"))["is_settled"]

    await until(found, "the new rule has taken the place of the old one")
    return True


async def test_alerts_that_wait_are_done_with_the_new_settings_of_their_action(url: str, tmp_path: Path) -> None:
    def rules(file: str, line: str) -> RuleSet:
        text = f"""
            name = "mended"
            [rules.any]
            topics = ["t"]
            actions = [{{ do = "log", file = "{file}", line = "{line}", backoff = 0.05, backoff_max = 0.1, retries = 100 }}]
        """
        return parse(text, tmp_path)

    async with holdfast.connect(url) as client, Actions(url, rule_set=rules("no/such/folder/x", "{data}")) as actions:
        working = asyncio.create_task(actions.run())
        await client.topic("t").send("one")

        async def tried() -> bool:
            async with client.queue("actions.mended.do.any.log").browse() as events:
                return any([event.deliveries > 1 async for event in events])

        await until(tried, "it cannot be written")
        actions.change(rules("alerts.log", "mended: {data}"))
        await until(lambda: _text(tmp_path / "alerts.log"), "it is written")
        actions.stop()
        await working

    assert _text(tmp_path / "alerts.log") == "mended: one\n"


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("step", ["_make", "_write", "_read_to_the_boundary", "_delete", "_forget", "settled"])
async def test_a_crash_in_the_middle_of_a_change_is_made_good_by_the_next_start(
    url: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Alert] = []
    gone = Rule("gone", topics=["t"], count=5, within="1h", actions=[told.append])
    async with holdfast.connect(url) as client:
        async with at_work(url, of(told, count=4, within="1h"), gone):
            await client.topic("t").send("one", properties={"n": 1})

            async def counted() -> bool:
                return all(row["waiting"] == 0 for row in await client.subscriptions("t"))

            await until(counted, "it is counted")
        await client.topic("t").send("two", properties={"n": 1})

        with monkeypatch.context() as broken:
            _break(broken, step)
            with pytest.raises(_Crash):
                async with Actions(url, [of(told, count=4, within="1h", selector="n = 1")]):
                    pass
        await client.topic("t").send("three", properties={"n": 1})
        async with at_work(url, of(told, count=4, within="1h", selector="n = 1")):
            await client.topic("t").send("four", properties={"n": 1})
            await until(lambda: told, "the fourth is told")
            assert len(await _subscriptions(client)) == 1
    assert [(alert.rule, alert.count) for alert in told] == [("rule", 4)]


class _Crash(Exception):
    """The program ends here."""


def _break(broken: pytest.MonkeyPatch, step: str) -> None:
    """Let the program end when it comes to this step; at `settled`, when the moving table is written already."""
    calls = 0
    name = "_write" if step == "settled" else step
    whole = getattr(Arrangement, name)

    async def crash(self: Arrangement, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if step == "settled" and calls == 1:
            return await whole(self, *arguments)
        raise _Crash

    broken.setattr(Arrangement, name, crash)


RULES = """
name = "file"
[rules.any]
topics = ["t"]
[[rules.any.actions]]
do = "log"
file = "alerts.log"
line = "{data} FORM"
"""


@contextmanager
def program(file: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """`holdfast actions FILE`, ready."""
    command = [sys.executable, "-m", "holdfast", "actions", str(file), "--url", url]
    with (
        (file.parent / "stderr").open("a") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ}) as process,
    ):
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "1 rule of file at work\n", (file.parent / "stderr").read_text()
            yield process
        finally:
            process.terminate()
            assert process.wait(30) == 0, (file.parent / "stderr").read_text()


async def test_a_file_is_read_again_when_it_changes_or_on_sighup_and_refused_as_a_whole_when_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)

    def logged(line: str) -> bool:
        log = tmp_path / "alerts.log"
        return log.exists() and line in log.read_text().splitlines()

    with ServerProcess(tmp_path / "data") as server, program(file, server.url) as process:
        async with holdfast.connect(server.url) as client:
            await client.topic("t").send("one")
            await until(lambda: logged("one FORM"), "the first rules are at work")

            file.write_text(RULES.replace("FORM", "changed") + "\n[rules.wrong]\ntopics = 7\n")
            process.send_signal(signal.SIGHUP)
            await until(lambda: "were not reloaded" in (tmp_path / "stderr").read_text(), "the wrong file is refused")
            await client.topic("t").send("two")
            await until(lambda: logged("two FORM"), "the rules from before are at work")

            file.write_text(RULES.replace("FORM", "changed"))
            await until(lambda: "are at work now" in (tmp_path / "stderr").read_text(), "the file is read when it changes")
            await client.topic("t").send("three")
            await until(lambda: logged("three changed"), "the new rules are at work")

    assert "line 11, column 1: rules.wrong.topics" in (tmp_path / "stderr").read_text()


def test_a_server_runs_rules_beside_itself_starts_them_again_and_takes_them_with_it(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)

    async def child(server: ServerProcess) -> dict[str, Any]:
        async with holdfast.connect(server.url) as client:
            (row,) = (await client.status())["programs"]
            return row

    def running(server: ServerProcess, restarts: int) -> int | None:
        row = asyncio.run(child(server))
        is_so = row["state"] == "running" and row["restarts"] == restarts
        return row["pid"] if is_so and server.log.count("1 rule of file at work") > restarts else None

    with ServerProcess(tmp_path / "data", "--session-grace-ms", "300", "--actions", str(file)) as server:
        wait_until(lambda: running(server, 0), "the rules are at work")
        first = running(server, 0)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: running(server, 1), "they are started again")
        second = running(server, 1)
        assert second is not None and second != first
        assert "actions ended (signal 9); it is started again in 0.5 s" in server.log

        server.kill()
        wait_until(lambda: not Path(f"/proc/{second}").exists() or _is_zombie(second), "they die with the server")

        server.start()
        wait_until(lambda: running(server, 0) if server.log.count("at work") > 2 else None, "they are at work again")
        third = running(server, 0)
        assert server.stop() == 0
        assert not Path(f"/proc/{third}").exists()


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_server_refuses_to_start_with_wrong_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("[rules.x]\ntopics = []\n")

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0",
         "--actions", str(tmp_path / "rules.toml")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "line 1, column 1: rules.x: a rule needs an action" in done.stderr
