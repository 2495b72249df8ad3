"""Divergence of a domain (26, D4): real engines tell what servers answered otherwise, and the pipeline reads it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast.cli.main import run
from holdfast.continuity.domain import Domain
from holdfast.continuity.request import DISAGREEMENT
from holdfast.spark.pipelines.divergence import divergence
from tests.continuing import Continuing, Teller, continuing
from tests.server_process import ServerProcess
from tests.spark.pipeline_events import at, event, frame, rows
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


async def _served(url: str, folder: Path) -> dict[str, str]:
    """Three servers of a domain, of which one lies, then fails; the transactions in which it did."""
    tellers = Teller(), Teller(), Teller()
    async with continuing(url, Domain(name="shop", error_wait=0.2), folder, *tellers) as shop:
        async with holdfast.connect(url) as client:
            await client.create_subscription(shop.domain.disagreements, "divergence")
        await shop.http.post("/agreed")
        await shop.until_even()
        tellers[1].lie = b" and a lie"
        lied = await shop.http.post("/lied")
        await _until_told(shop, 1)
        await shop.until_even()
        tellers[1].lie, tellers[1].status = b"", 500
        failed = await shop.http.post("/failed")
        await _until_told(shop, 2)
        return {"lied": lied.headers["holdfast-transaction"], "failed": failed.headers["holdfast-transaction"]}


async def _until_told(shop: Continuing, count: int) -> None:
    async def are_told() -> bool:
        async with shop.client.topic(shop.domain.disagreements).browse("divergence") as events:
            return len([each async for each in events]) == count

    await until(are_told, f"{count} disagreements are told")


def test_what_engines_tell_is_read_by_the_pipeline_without_waiting_for_later_events(
    spark: SparkSession, server: ServerProcess, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    transactions = asyncio.run(_served(server.url, tmp_path / "shop"))

    read = ["--destinations", "domain.shop.disagreements", "--subscription", "divergence", "--type", DISAGREEMENT, "--once"]
    code = run(["pipeline", "divergence", "--url", server.url, "--checkpoint", f"{tmp_path}/c", "--json", *read])

    out, err = capfd.readouterr()
    assert code == 0, err
    found = {line["transaction"]: line for line in map(json.loads, out.splitlines()) if "transaction" in line}
    assert found.keys() == set(transactions.values())
    for row in found.values():
        assert (row["domain"], row["problems"], row["dissenting"]) == ("shop", ["differs"], ["two"])
        digests = {each["server"]: each["digest"] for each in row["answers"]}
        assert digests["one"] == digests["three"] == row["agreed"] != digests["two"]


def test_servers_that_are_held_against_or_expected_and_did_not_answer_are_missing(spark: SparkSession) -> None:
    def told(**data: Any) -> dict[str, Any]:
        return event(type=DISAGREEMENT, destination="domain.shop.disagreements", data=json.dumps(data).encode())

    two = {"a": "1", "b": "2"}
    events = [
        told(transaction="t1", digests=two, kinds={"c": "silent"}),
        told(transaction="t2", digests=two, kinds={"b": "wrong"}),
        event(type="answer", properties={"transaction": "t3", "server": "a"}),
        event(type=DISAGREEMENT, data=b"no JSON"),
    ]

    alone = {row["transaction"]: row for row in rows(divergence(frame(spark, events), (), type=DISAGREEMENT))}
    expected = {row["transaction"]: row for row in rows(divergence(frame(spark, events), ("a", "b", "d"), type=DISAGREEMENT))}

    assert {name: (row["problems"], row["missing"]) for name, row in alone.items()} == {
        "t1": (["differs", "missing"], ["c"]),
        "t2": (["differs"], []),
        "?": (["unexpected"], []),
    }
    assert alone["t1"]["first_at"] == at(0)
    assert {name: row["missing"] for name, row in expected.items()} == {"t1": ["d", "c"], "t2": ["d"], "?": ["a", "b", "d"]}
