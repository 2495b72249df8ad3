"""`holdfast actions check`, `test` and `status`: what they print, and their exit codes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast as events
from holdfast.actions import Actions
from holdfast.actions.rules_file import load
from tests.scenario.command_line import Holdfast, holdfast, server  # noqa: F401 - fixtures
from tests.server_process import ServerProcess

RULES = """
name = "shop"
[rules.many]
topics = ["orders"]
count = 2
within = "1m"
[[rules.many.actions]]
do = "send"
queue = "told"
text = "{reason}"
[rules.all]
topics = ["orders"]
actions = [{ do = "run", command = ["/bin/false"], retries = 0 }]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "rules.toml").write_text(RULES)
    return tmp_path / "rules.toml"


def test_a_check_says_what_is_there_or_every_mistake(holdfast: Holdfast, rules: Path) -> None:  # noqa: F811
    good = holdfast("actions", "check", str(rules))
    as_json = holdfast("actions", "check", str(rules), "--json")
    rules.write_text(RULES.replace("count = 2", "count = 'two'").replace("topics", "topic"))
    bad = holdfast("actions", "check", str(rules))
    bad_json = holdfast("actions", "check", str(rules), "--json")

    assert (good.code, good.out) == (0, f"{rules}: 2 rules can be used: all, many\n")
    assert as_json.json() == [{"name": "shop", "rules": ["all", "many"]}]
    assert bad.code == bad_json.code == 1
    assert f"{rules}:5:1: rules.many.count: Expected int, got str\n" in bad.out
    assert "did you mean topics?" in bad.out
    assert {row["line"] for row in bad_json.json()} >= {4, 5, 12}
    assert '"error":"bad-rules"' in bad_json.err


def test_a_test_tells_what_would_be_done_and_why(holdfast: Holdfast, rules: Path) -> None:  # noqa: F811
    event = '{"topic": "orders", "data": 1}'

    done = holdfast("actions", "test", str(rules), "--event", event, "--event", event)
    from_stdin = holdfast("actions", "test", str(rules), "--event", "-", "--json", stdin=f"{event}\n{event}\n")
    wrong = holdfast("actions", "test", str(rules), "--event", "{")

    assert done.code == 0
    assert "event 1: rule many counts: 1 of 2 events within 1 min\n" in done.out
    assert "send would send to queue 'told', type 'holdfast.alert': \"2 events within 1 min\"" in done.out
    assert [(row["event"], row["rule"], len(row["alerts"])) for row in from_stdin.json()] == [
        (1, "many", 0), (1, "all", 1), (2, "many", 1), (2, "all", 1),
    ]  # fmt: skip
    assert (wrong.code, "is not JSON" in wrong.err) == (1, True)


def test_the_status_shows_what_runs_waits_and_is_dead(holdfast: Holdfast, server: ServerProcess, rules: Path) -> None:  # noqa: F811
    async def work() -> None:
        async with events.connect(server.url) as client, Actions(server.url, rule_set=load(rules)) as actions:
            working = asyncio.create_task(actions.run())
            await client.topic("orders").send_many([1, 2])
            async with client.queue("told").receive() as incoming:
                await (await incoming.next(30)).confirm()
            while len(await client.dead.list()) < 2:  # each look is a round trip
                pass
            actions.stop()
            await working

    asyncio.run(work())
    rows = holdfast("actions", "status", "--json").json()
    table = holdfast("actions", "status", "shop").out.splitlines()
    missing = holdfast("actions", "status", "nothing")

    (row,) = rows
    assert (row["name"], row["is_running"], row["is_settled"]) == ("shop", False, True)
    shared = [(rule["rule"], rule["shared_with"], rule["events_waiting"]) for rule in row["rules"]]
    assert shared == [("all", 1, 0), ("many", 1, 0)]
    assert row["rules"][0]["actions"] == [{"action": "run", "waiting": 0, "dead": 2}]
    assert table[0].split() == [
        "rules",
        "running",
        "rule",
        "events",
        "waiting",
        "shared",
        "with",
        "action",
        "alerts",
        "waiting",
        "dead",
    ]
    assert table[1].split() == ["shop", "no", "all", "0", "1", "run", "0", "2"]
    assert (missing.code, "there are no rules 'nothing'" in missing.err) == (1, True)
