"""The services in `examples/services/`, as the guide shows them, do what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.blocking
from examples.services import orders, prices, reports
from holdfast.testing import running
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import until
from tests.working import working


async def test_orders_become_mails_and_what_cannot_is_dead_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    mails: list[str] = []
    failures = iter([OSError("mailbox full")])

    def send_mail(text: str) -> None:
        if text.startswith("order A2") and (failure := next(failures, None)):
            raise failure
        mails.append(text)

    monkeypatch.setattr(orders, "send_mail", send_mail)
    async with running(orders.worker) as place:
        sent = ({"id": "A1", "sku": 7, "count": 2}, {"id": "A2", "sku": 8}, {"id": "A3", "sku": 999}, {"id": "A4"})
        for order in sent:
            await place.send("orders", order)
        await place.idle()

        dead = {event.data["id"]: event.dead[0] for event in await place.dead()}

    assert sorted(mails) == ["order A1: please pay 38", "order A2: please pay 250"]
    assert dead["A3"].code == "rejected" and "KeyError: 999" in dead["A3"].reason and dead["A3"].deliveries == 1
    assert "`sku`" in dead["A4"].reason


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", "--journal-size", f"{effort.rounds(short=64, long=1024)}M") as made:
        yield made


async def test_prices_reach_who_wants_them(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices.worker, "url", server.url)
    async with working(prices.worker) as client:
        await asyncio.to_thread(publish, server.url)

        async def is_done() -> bool:
            return len(prices.latest) == 3 and not any(row["waiting"] for row in await client.subscriptions())

        await until(is_done, "all prices were handled")

    assert prices.latest == {"SAP": 181.5, "BMW": 80.0, "IBM": 214.0}
    assert prices.alarms == ["SAP at 181.5, +6.2 %"]


def publish(url: str) -> None:
    with holdfast.blocking.connect(url) as client:
        prices.publish(client, "eu", prices.Price("BMW", 80.0), 0.4)
        prices.publish(client, "us", prices.Price("IBM", 214.0), -7.0)
        prices.publish(client, "eu", prices.Price("SAP", 181.5), 6.2)


async def test_a_report_is_asked_for_and_its_file_arrives_whole(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports.worker, "url", server.url)
    megabytes = effort.rounds(short=5, long=300)
    async with working(reports.worker) as client:
        await client.ensure_subscription("books", "audit")
        saved = await reports.fetch(server.url, reports.Wanted("year.txt", megabytes), tmp_path)
        books = await client.subscriptions("books")

    assert saved.stat().st_size == megabytes * 1_000_000
    assert saved.read_bytes()[:8] == b"year.txt"
    assert [row["waiting"] for row in books] == [1]
