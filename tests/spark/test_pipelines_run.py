"""Every pipeline from its command to its end (D4): a real server, real tables, exactly once also when it is run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import holdfast.blocking
from holdfast.cli.main import run
from tests.server_process import ServerProcess
from tests.spark.pipeline_events import at
from tests.spark.streams import waiting

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Command = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def command(spark: SparkSession, server: ServerProcess, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """Run a pipeline to its end; the lines of JSON that it said."""

    def call(name: str, *options: str) -> list[dict[str, Any]]:
        code = run(["pipeline", name, "--url", server.url, "--checkpoint", f"{tmp_path}/{name}", "--json", *options])
        out, err = capfd.readouterr()
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    return call


def send(server: ServerProcess, topic: str, events: list[tuple[datetime, dict[str, Any]]]) -> None:
    with holdfast.blocking.connect(server.url) as client:
        place = client.topic(topic)
        for time, fields in events:
            place.send({}, time=time, **fields)


def read(topic: str, subscription: str = "pipeline") -> list[str]:
    return ["--destinations", topic, "--subscription", subscription, "--once"]


def received(server: ServerProcess, topic: str, subscription: str) -> list[Any]:
    """All that waits in the subscription."""
    count = waiting(server, topic, subscription)
    with holdfast.blocking.connect(server.url) as client, client.subscribe(topic, subscription) as incoming:
        return [incoming.next(timeout=60) for _ in range(count)]


def made(server: ServerProcess, topic: str, *subscriptions: str) -> None:
    with holdfast.blocking.connect(server.url) as client:
        client.create_topic(topic)
        for name in subscriptions:
            client.create_subscription(topic, name)


def forget_last_commit(checkpoint: Path) -> None:
    """As after a kill between what a batch did and its commit: Spark runs the batch again."""
    last = max((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def table(spark: SparkSession, folder: Path) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in spark.read.format("holdfast_lake").load(str(folder)).collect()]


def test_what_was_archived_in_two_runs_is_replayed_once_with_its_ids(
    spark: SparkSession, server: ServerProcess, command: Command, tmp_path: Path
) -> None:
    """D4: archive and replay. Lag and what is confirmed are in the progress (D6)."""
    made(server, "sales", "pipeline")
    made(server, "sales-again", "all")
    lake = tmp_path / "lake"
    sold: list[tuple[datetime, dict[str, Any]]] = [(at(n), {"id": f"sale-{n}", "properties": {"amount": n}}) for n in range(30)]
    send(server, "sales", sold[:20])

    first = command("archive", *read("sales"), "--table", str(lake), "--max-events", "15")
    send(server, "sales", sold[20:])
    second = command("archive", *read("sales"), "--table", str(lake))

    assert sorted(row["id"] for row in table(spark, lake)) == sorted(fields["id"] for _, fields in sold)
    assert (first[-1]["total_rows"], second[-1]["total_rows"]) == (20, 10)
    assert first[0]["lag"] == 20
    assert waiting(server, "sales", "pipeline") == 0

    asked = ["--table", str(lake), "--to", "sales-again", "--selector", "amount >= 5", "--chunk-events", "12"]
    replayed = command("replay", *asked)
    again = command("replay", *asked)

    found = received(server, "sales-again", "all")
    assert [event.id for event in found] == [f"sale-{n}" for n in range(5, 30)]
    assert [event.time for event in found] == [at(n) for n in range(5, 30)]
    assert (replayed[-1]["total_rows"], again[-1]["total_rows"]) == (25, 0)


def test_statistics_of_windows_that_are_over_are_in_the_table(
    spark: SparkSession, server: ServerProcess, command: Command, tmp_path: Path
) -> None:
    made(server, "measured", "pipeline")
    send(server, "measured", [(at(n), {"type": "a" if n % 2 else "b"}) for n in range(10)] + [(at(600), {"type": "a"})])

    command("statistics", *read("measured"), "--by", "time", "--lateness", "1s", "--table", str(tmp_path / "counted"))

    found = table(spark, tmp_path / "counted")
    assert sorted((row["type"], row["events"], row["bytes"]) for row in found) == [("a", 5, 10), ("b", 5, 10)]
    assert all(row["accept_ms_p50"] is not None and row["confirm_ms_max"] > 0 for row in found)


def test_an_alert_is_sent_once_and_then_its_rule_is_quiet(server: ServerProcess, command: Command, tmp_path: Path) -> None:
    made(server, "payments", "pipeline")
    made(server, "raised", "pager")
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nname = "failing"\ntype = "payment.failed"\nselector = "amount > 1"\nwindow = "1m"\nthreshold = 3\n'
        'group_by = ["properties[\'shop\']"]\ncooldown = "5m"\n'
    )
    shop = {"type": "payment.failed", "properties": {"amount": 2, "shop": "north"}}
    send(server, "payments", [(at(60 * minute + n), shop) for minute in (0, 1, 6) for n in range(3)] + [(at(3600), {})])

    alerts = ["alerts", *read("payments"), "--rules", str(rules), "--to", "raised", "--max-events", "6"]
    command(*alerts)
    forget_last_commit(tmp_path / "alerts")
    command(*alerts)

    found = received(server, "raised", "pager")
    assert [(event.type, event.properties["shop"], event.time) for event in found] == [
        ("holdfast.alert", "north", at(60)),
        ("holdfast.alert", "north", at(420)),
    ]
    assert found[0].data["events"] == 3


def test_transactions_in_which_servers_do_not_agree_are_printed(server: ServerProcess, command: Command) -> None:
    made(server, "answers", "pipeline")
    given = [(n, server_name, "x" if (n, server_name) != (3, "b") else "y") for n in range(6) for server_name in "ab"]
    answers = [
        (at(n), {"type": "answer", "properties": {"transaction": n, "server": name, "digest": digest}})
        for n, name, digest in given
        if (n, name) != (5, "a")
    ]
    send(server, "answers", [*answers, (at(3600), {"type": "answer", "properties": {"transaction": 9, "server": "a"}})])

    said = command("divergence", *read("answers"), "--servers", "a,b")

    found = {line["transaction"]: line["problems"] for line in said if "transaction" in line}
    assert found == {"3": ["differs"], "5": ["missing"]}


def test_a_pipeline_on_a_server_that_is_not_there_ends_with_a_sentence(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = ["--url", "holdfast://127.0.0.1:1", "--checkpoint", str(tmp_path / "c"), "--timeout", "1"]

    code = run(["pipeline", "archive", *url, *read("sales"), "--table", str(tmp_path / "t")])

    assert code == 3
    assert "127.0.0.1:1" in capfd.readouterr().err.splitlines()[-1]
