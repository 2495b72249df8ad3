"""The observer beside a real server that is written to, and after it was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast.node.observer import Observer
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.faults

TURNS = effort.rounds(short=12, long=40)
SIZES = ("--journal-size", "64M", "--reserve", "2M", "--segment-size", "1M")


def positions_in(observer: Observer) -> list[int]:
    if "orders" not in observer.directory.catalog.destinations:
        return []
    reading = observer.reading("orders")
    extent = reading.extent()
    return [each.first + index for each in reading.slices(extent.start, extent.end) for index in range(each.events)]


async def seen_by(observer: Observer, receipted: list[int]) -> None:
    """The server marks what is durable a moment after it says so."""

    def is_seen() -> bool:
        observer.refresh()
        return positions_in(observer) == receipted

    await until(is_seen, f"{len(receipted)} events are seen")


async def test_everything_receipted_is_seen_beside_a_server_that_goes_on_and_after_it_was_killed_d2(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *SIZES) as server:
        receipted: list[int] = []
        async with holdfast.connect(server.url) as client:
            receipted.append((await client.queue("orders").send("first")).position)
            with Observer(tmp_path / "data") as observer:
                for _ in range(effort.rounds(short=10, long=30)):
                    receipts = await client.queue("orders").send_many(["x" * 500] * 40)
                    receipted += [receipt.position for receipt in receipts]
                    await seen_by(observer, receipted)

                server.kill()
                observer.refresh()
                assert positions_in(observer) == receipted

        with Observer(tmp_path / "data") as after:
            assert positions_in(after) == receipted
        server.start()
        async with holdfast.connect(server.url) as client:
            assert (await client.describe("orders"))["waiting"] == len(receipted)


async def test_a_backlog_that_turns_over_is_followed_without_a_wrong_word(tmp_path: Path) -> None:
    """The owner confirms, releases and reuses its segments all the while: each look is a state that the server was in."""
    with ServerProcess(tmp_path / "data", *SIZES) as server:
        async with holdfast.connect(server.url) as client:
            await client.create_queue("orders")
            looks = 0
            with Observer(tmp_path / "data") as observer:
                async with client.queue("orders").receive() as incoming:
                    for _ in range(TURNS):
                        await client.queue("orders").send_many(["x" * 2_000] * 200)
                        for _ in range(200):
                            await (await anext(incoming)).confirm()
                        await incoming.settled()
                        observer.refresh()
                        described = observer.describe("orders")
                        assert described["accepted"] == described["confirmed"] + described["waiting"]
                        assert len(positions_in(observer)) == described["waiting"]
                        looks += 1

            assert looks == TURNS
