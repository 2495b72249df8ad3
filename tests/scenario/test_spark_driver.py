"""What the driver of a stream does with a real server, without Spark (D1): one owner of a subscription, and the last batch."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import blocking
from holdfast.errors import SubscriptionInUse
from holdfast.spark.options import StreamOptions
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source import stream_ownership
from holdfast.spark.source.driver import Driver
from holdfast.spark.source.read_target import ReadTarget
from holdfast.spark.source.stream_ownership import Allowance, Owner
from tests.server_process import ServerProcess
from tests.waiting import until

HOLDING = ReadTarget("alerts", "lake")
ANY = Allowance()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        with blocking.connect(running.url) as client:
            client.create_topic("alerts")
            client.create_subscription("alerts", "lake")
        yield running


async def test_who_has_just_gone_is_waited_for(server: ServerProcess, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first, second = (Owner(ServerAddress(server.url), [HOLDING]) for _ in range(2))
    await first.extents({}, ANY, 1)

    waiting = asyncio.create_task(second.extents({}, ANY, 1))
    await until(lambda: caplog.text.count("; trying again") >= 2, "it is refused again and again")
    assert not waiting.done()
    await first.close()

    assert (await asyncio.wait_for(waiting, 60)).keys() == {"alerts"}
    await second.close()


async def test_who_stays_is_named_after_a_while(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_ownership, "OWNER_PATIENCE_S", 0.5)
    first, second = (Owner(ServerAddress(server.url), [HOLDING]) for _ in range(2))
    await first.extents({}, ANY, 1)

    with pytest.raises(SubscriptionInUse, match="has its subscription for itself: stop whoever uses it"):
        await asyncio.wait_for(second.extents({}, ANY, 1), 10)

    assert (await first.extents({}, ANY, 1)).keys() == {"alerts"}  # who was first is not disturbed
    await first.close()


def test_the_last_batch_is_confirmed_when_it_is_old_enough_although_no_other_follows(server: ServerProcess) -> None:
    seconds = 0.7
    options = {"url": server.url, "destinations": "alerts", "subscription": "lake", "sync": str(seconds)}
    with blocking.connect(server.url) as client:
        client.topic("alerts").send_many(range(5))
        reading = client.reading("alerts", "lake")
        driver = Driver(StreamOptions.of(options))
        try:
            start = driver.beginning()
            driver.stop_at_newest()
            end = driver.latest(start, ANY)
            assert reading.extent().events == 5  # read, and not yet committed

            began = time.monotonic()
            assert driver.latest(end, ANY) == end  # committed, and there is no more

            assert time.monotonic() - began >= 0.9 * seconds
            assert reading.extent().events == 0
        finally:
            driver.close()
