"""`holdfast pipeline audit` against a real server, a lake table and files of receipts (D4)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast.blocking
from holdfast.cli.main import run
from holdfast.client.receipt import Receipt
from tests.server_process import ServerProcess

DAMAGED = 5


def write_receipts(file: Path, destination: str, receipts: Iterable[Receipt]) -> None:
    with file.open("a") as lines:
        for receipt in receipts:
            lines.write(json.dumps({"destination": destination, "id": receipt.id, "position": receipt.position}) + "\n")


class Setting:
    """A topic with the subscription of an archive; and a table that is written as an archive would, batch by batch."""

    def __init__(self, spark: SparkSession, url: str, topic: str, folder: Path) -> None:
        self.spark, self.url, self.topic = spark, url, topic
        self.table, self.receipts = folder / "table", folder / "receipts.jsonl"
        with holdfast.blocking.connect(url) as client:
            client.create_topic(topic)
            client.create_subscription(topic, "lake")

    def send(self, count: int) -> list[Receipt]:
        with holdfast.blocking.connect(self.url) as client:
            receipts = list(client.topic(self.topic).send_many(range(count)))
        write_receipts(self.receipts, self.topic, receipts)
        return receipts

    def waiting(self) -> DataFrame:
        options = {"url": self.url, "destinations": self.topic, "subscription": "lake"}
        return self.spark.read.format("holdfast").options(**options).load()

    def archive(self, but: Iterable[str] = (), again: Iterable[str] = ()) -> None:
        """Everything that waits into the table, and then confirmed; all but some, and some twice."""
        rows = self.waiting()
        rows.where(~F.col("id").isin(list(but) or [""])).unionByName(
            rows.where(F.col("id").isin(list(again) or [""]))
        ).write.format("holdfast_lake").mode("append").save(str(self.table))
        with holdfast.blocking.connect(self.url) as client:
            reading = client.reading(self.topic, "lake")
            with reading.owner():
                reading.confirm_up_to(reading.extent().newest)

    def audit(self, capsys: pytest.CaptureFixture[str], *options: str, url: str = "") -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        given = ("--url", url or self.url, "--destinations", self.topic, "--subscription", "lake", "--table", str(self.table))
        code = run(["pipeline", "audit", *given, "--json", *options])
        said = capsys.readouterr()
        assert said.out, said.err
        return code, json.loads(said.out)


def test_an_audit_says_that_nothing_is_lost_then_names_what_is_d4(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = Setting(spark, server.url, "audited", tmp_path)
    given = ("--receipts", str(orders.receipts), "--html", str(tmp_path / "audit.html"))
    orders.send(500)
    orders.archive()
    orders.send(40)

    code, whole = orders.audit(capsys, *given)

    assert (code, whole["verdict"]) == (0, "0 lost, 0 duplicated")
    assert {name: whole["totals"][name] for name in ("receipted", "archived", "waiting")} == {
        "receipted": 540, "archived": 500, "waiting": 40,
    }  # fmt: skip
    account = {"destination": "audited", "subscription": "lake", "accepted": 540, "confirmed": 500, "dead": 0, "expired": 0}
    assert whole["account"] == [{**account, "waiting": 40}]
    assert sum(each["events"] for each in whole["timeline"]) == 540

    receipts = orders.send(100)
    orders.archive(but=[receipts[7].id, receipts[8].id], again=[receipts[50].id])
    with orders.receipts.open("a") as lines:
        lines.write('{"destination": "audited", "id": "01')  # its producer was killed while it wrote
    code, broken = orders.audit(capsys, *given)

    assert (code, broken["verdict"]) == (DAMAGED, "2 lost, 1 duplicated")
    lost = broken["lost_ranges"]
    assert [(each["first"], each["last"], each["first_position"]) for each in lost] == [
        (receipts[7].id, receipts[8].id, receipts[7].position)
    ]
    assert [(each["id"], each["reason"]) for each in broken["duplicates"]] == [(receipts[50].id, "archived twice")]
    assert any("could not be read" in remark for remark in broken["remarks"])
    assert receipts[7].id in (tmp_path / "audit.html").read_text()


def test_an_audit_needs_no_server_and_no_receipts_one_by_one_d4(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `holdfast send --json` printed is receipt enough, and the folder of the journal is as good as its server."""
    with ServerProcess(tmp_path / "data", "--journal-size", "64M", "--segment-size", "1M", "--reserve", "2M") as server:
        orders = Setting(spark, server.url, "orders", tmp_path)
        for count in ("1", "30"):
            assert run(["send", "orders", "--topic", "--count", count, "--data", "7", "--json", "--url", server.url]) == 0
        sent = capsys.readouterr().out
        orders.archive()
        assert run(["send", "orders", "--topic", "--count", "5", "--data", "8", "--json", "--url", server.url]) == 0
        sent += capsys.readouterr().out
        server.stop()
    orders.receipts.write_text(sent)

    code, report = orders.audit(capsys, "--receipts", str(orders.receipts), url=f"file:{tmp_path}/data")

    assert (code, report["verdict"]) == (0, "0 lost, 0 duplicated")
    assert report["totals"]["receipted"] == 36
    assert report["totals"]["archived"] == 31
    assert report["totals"]["waiting"] == 5
    assert report["totals"]["strangers"] == 0


def test_what_cannot_be_audited_is_refused_with_what_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refusals = {
        (): "nothing to audit",
        ("--subscription", "lake", "--table", str(tmp_path)): "of which topics",
        ("--receipts", str(tmp_path / "missing.jsonl")): "there is no file",
        ("--table", str(tmp_path), "--html", str(tmp_path / "none" / "page.html")): "there is no folder",
    }

    for options, said in refusals.items():
        assert run(["pipeline", "audit", *options]) == 1
        assert said in capsys.readouterr().err
