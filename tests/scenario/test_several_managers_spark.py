"""What Spark's source makes of several message managers, without Spark: offsets that name the manager of each place (ADR 22)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import blocking
from holdfast.event.extent import EVERYTHING
from holdfast.spark.options import StreamOptions
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source import offsets
from holdfast.spark.source.batch_input import ServerInput, TargetNames
from holdfast.spark.source.driver import Driver, read_target
from holdfast.spark.source.fetcher import fetched
from holdfast.spark.source.stream_ownership import Allowance
from tests.running_server import PATIENT, running

TWO = replace(PATIENT, managers=("m1", "m2"))


def read_all(url: str, names: str) -> list[int]:
    """Everything that a stream reads in one batch, which is then confirmed; as a driver and its executors do."""
    options = StreamOptions.of({"url": url, "destinations": names, "subscription": "lake"})
    driver = Driver(options)
    try:
        start = driver.beginning()
        end = offsets.read(offsets.written(driver.latest(start, Allowance())))
        found = []
        for each in driver.ranges(start, end):
            target = read_target(options, each.destination)
            for piece in fetched(ServerAddress(url), target, each.start, each.end, incarnation=each.incarnation):
                found += [int(bytes(piece.batch.body(index))) for index in range(piece.events)]
        assert driver.latest(end, Allowance()) == end  # committed, and there is no more
        return found
    finally:
        driver.close()


@pytest.mark.parametrize(
    ("names", "keys"), [("news.*", ["news.*@m1", "news.*@m2"]), ("news.0,news.1", ["news.0@m1", "news.1@m2"])]
)
async def test_a_stream_reads_each_event_once_and_its_offsets_name_the_managers(
    tmp_path: Path, names: str, keys: list[str]
) -> None:
    async with running(tmp_path, TWO) as server:

        def work() -> None:
            with blocking.connect(server.url) as client:
                for name in ["news.0", "news.1"]:
                    client.create_topic(name)
                for name in names.split(","):
                    client.create_subscription(name, "lake")
                for number in range(100):
                    client.topic(f"news.{number % 2}").send(number)
                driver = Driver(StreamOptions.of({"url": server.url, "destinations": names, "subscription": "lake"}))
                try:
                    assert list(offsets.written(driver.beginning())) == keys
                finally:
                    driver.close()

                assert sorted(read_all(server.url, names)) == list(range(100))
                assert sum(each["waiting"] for each in client.subscriptions()) == 0
                client.topic("news.1").send(100)
                assert read_all(server.url, names) == [100]

        await asyncio.to_thread(work)


async def test_a_batch_read_finds_a_pattern_at_every_manager(tmp_path: Path) -> None:
    async with running(tmp_path, TWO) as server:

        def work() -> None:
            with blocking.connect(server.url) as client:
                client.create_subscription("news.*", "lake")
                for number in range(10):
                    client.topic(f"news.{number}").send(number)
            read = ServerInput(ServerAddress(server.url))
            found = read.extents(TargetNames([("news.*", "glob")], "lake"), 1)
            assert [each.channel for each in found] == ["m1", "m2"]
            pieces = [
                piece for each, extent in found.items() for piece in read.slices(each, extent.start, extent.end, None, EVERYTHING)
            ]
            assert sorted(int(bytes(piece.batch.body(0))) for piece in pieces) == list(range(10))

        await asyncio.to_thread(work)


def test_an_offset_of_before_is_of_the_one_channel_that_has_no_name() -> None:
    options = StreamOptions.of({"url": "holdfast://here", "destinations": "orders,alerts.*", "subscription": "lake"})

    assert list(offsets.read({"alerts.*": ["7c1e:48", 196608, [65536]], "orders": ["7c1e:51", 65536]})) == ["alerts.*", "orders"]
    assert read_target(options, "orders").channel == ""
    assert read_target(options, "alerts.*@m2") == ("alerts.*", "lake", "glob", "m2")
