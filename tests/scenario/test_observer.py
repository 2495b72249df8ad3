"""The observer: what lies in a data folder, seen without owning it (D2). Nothing is written, nothing is locked."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import holdfast
from holdfast import Event
from holdfast.channel.journal.files.layout import segment_name
from holdfast.client.client import Client
from holdfast.errors import JournalDamaged, NoSuchDestination, NoSuchPosition, NoSuchSubscription, NotAJournal, WrongKind
from holdfast.event.extent import ReadSlice
from holdfast.node.observer import ObservedReading, Observer
from tests import running_server
from tests.waiting import until

SMALL = "?journal_size=64M&segment_size=1M&reserve=2M"


def events_in(reading: ObservedReading, selector: str | None = None) -> list[str]:
    """The bodies of everything that waits, as text."""
    extent = reading.extent()
    return [body for each in reading.slices(extent.start, extent.end, selector) for body in bodies_of(each)]


def bodies_of(each: ReadSlice) -> list[str]:
    return [str(each.batch.body(index), "utf-8") for index in range(each.events)]


def seen(each: ReadSlice) -> tuple[int, int, str, int, bytes]:
    return each.first, each.events, each.destination, each.accepted_us, bytes(each.batch.data)


def state_of(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def seen_by(observer: Observer, queue: str, texts: list[str]) -> None:
    """The owner marks what is durable a moment after it says so."""

    def is_seen() -> bool:
        observer.refresh()
        return queue in observer.directory.catalog.destinations and events_in(observer.reading(queue)) == texts

    await until(is_seen, f"{texts} wait in {queue}")


async def confirm(client: Client, queue: str, count: int) -> None:
    async with client.queue(queue).receive() as incoming:
        for _ in range(count):
            await (await anext(incoming)).confirm()
        await incoming.settled()


async def test_what_an_embedded_program_left_behind_is_read_without_it(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}/data") as client:
        receipts = [await client.queue("orders").send(f"order {number}") for number in range(5)]
        await confirm(client, "orders", 2)

    with Observer(tmp_path / "data") as observer:
        described = observer.describe("orders")
        extent = observer.reading("orders").extent()
        slices = list(observer.reading("orders").slices(extent.start, extent.end))

    assert {name: described[name] for name in ("waiting", "accepted", "confirmed", "dead")} == {
        "waiting": 3, "accepted": 5, "confirmed": 2, "dead": 0,
    }  # fmt: skip
    assert "orders" in [each["name"] for each in observer.destinations()]
    assert (extent.events, extent.left) == (3, 0)
    assert [each.first for each in slices] == [receipt.position for receipt in receipts[2:]]
    assert [text for each in slices for text in bodies_of(each)] == ["order 2", "order 3", "order 4"]
    assert all(each.destination == "orders" and each.accepted_us for each in slices)


async def test_not_a_byte_is_written_and_no_lock_is_taken(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with holdfast.connect(f"file:{data}{SMALL}") as client:
        await client.queue("orders").send("one")
    before = state_of(data)

    with Observer(data) as observer:
        assert events_in(observer.reading("orders")) == ["one"]
        observer.refresh()
        assert state_of(data) == before
        async with holdfast.connect(f"file:{data}{SMALL}") as client:  # its owner is not kept out
            await client.queue("orders").send("two")

            await seen_by(observer, "orders", ["one", "two"])


async def test_it_sees_the_moment_of_its_last_refresh(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}{SMALL}") as client:
        await client.queue("orders").send("one")
        with Observer(tmp_path) as observer:
            await seen_by(observer, "orders", ["one"])
            await client.queue("orders").send("two")
            await confirm(client, "orders", 1)

            assert events_in(observer.reading("orders")) == ["one"]
            await seen_by(observer, "orders", ["two"])


async def test_extents_and_slices_are_those_that_the_server_gives_d2(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}{SMALL}") as client:
        reading = client.reading("alerts.*", "lake", match="glob")
        async with reading.owner():
            for number in range(40):
                topic = client.topic(f"alerts.{number % 3}")
                await topic.send_many(Event(data=number, properties={"number": number}) for _ in range(number % 4 + 1))
            asked: list[dict[str, int]] = [{}, {"events_max": 17}, {"bytes_max": 900}, {"pieces": 4}, {"events_max": 1}]
            theirs = [await reading.extent(**limits) for limits in asked]
            middle, end = theirs[1].end, theirs[0].end
            slices = [seen(each) async for each in reading.slices(middle, end)]
            chosen = [seen(each) async for each in reading.slices(0, end, "number > 30")]
            await reading.confirm_up_to(middle)

            rest = await reading.extent()
            with Observer(tmp_path) as observer:
                observed = observer.reading("alerts.*", "lake", match="glob")
                await until(lambda: observer.refresh() and observed.extent() == rest, "the observer sees what the server says")

                assert (rest.confirmed, rest.identity) == (middle, theirs[0].identity)
                assert [seen(each) for each in observed.slices(middle, end)] == slices
                assert [seen(each) for each in observed.slices(middle, end, "number > 30")] == chosen
                assert observed.extent(pieces=3) == await reading.extent(pieces=3)
                assert {each.destination for each in observed.slices(middle, end)} == {"alerts.0", "alerts.1", "alerts.2"}


async def test_it_follows_a_journal_that_is_used_again_and_again(tmp_path: Path) -> None:
    """From the newest snapshot, though the first entries were released long ago; also when it was left behind."""
    async with running_server.running(tmp_path) as server, holdfast.connect(server.url) as client:
        with Observer(tmp_path) as early:
            for number in range(60):
                await client.queue("orders").send_many([f"{number}-{index}".ljust(4_000, ".") for index in range(15)])
                await confirm(client, "orders", 15)
            await client.queue("orders").send("the last")

            with Observer(tmp_path) as late:
                for observer in (early, late):
                    await seen_by(observer, "orders", ["the last"])
                    assert observer.describe("orders")["confirmed"] == 900
                assert late.directory.digest() == early.directory.digest() == server.node.messages.directory.digest()


async def test_what_was_carried_forward_meanwhile_is_still_found_rule_9(tmp_path: Path) -> None:
    async with running_server.running(tmp_path) as server, holdfast.connect(server.url) as client:
        await client.queue("old").send("straggler")
        with Observer(tmp_path) as observer:
            reading = observer.reading("old")
            extent = reading.extent()
            for _ in range(80):
                await client.queue("orders").send_many([".".ljust(4_000, ".")] * 15)
                await confirm(client, "orders", 15)
            assert server.node.messages.directory.bodies.carried

            assert [text for each in reading.slices(extent.start, extent.end) for text in bodies_of(each)] == ["straggler"]


async def test_what_was_confirmed_and_released_meanwhile_is_refused_and_not_left_out_in_silence(tmp_path: Path) -> None:
    async with running_server.running(tmp_path) as server, holdfast.connect(server.url) as client:
        await client.queue("old").send("gone")
        await client.queue("orders").send_many([".".ljust(4_000, ".")] * 150)
        with Observer(tmp_path, cache_bytes=0) as observer:
            reading = observer.reading("old")
            extent = reading.extent()
            assert len(events_in(observer.reading("orders"))) == 150  # and what was read before is no longer in memory
            await confirm(client, "old", 1)
            await confirm(client, "orders", 150)
            for _ in range(80):
                await client.queue("orders").send_many([".".ljust(4_000, ".")] * 15)
                await confirm(client, "orders", 15)

            with pytest.raises(NoSuchPosition, match=r"confirmed meanwhile.*ask for the extent anew"):
                list(reading.slices(extent.start, extent.end))

            assert reading.extent().events == 0


async def test_what_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}{SMALL}") as client:
        await client.create_topic("alerts")
    with Observer(tmp_path) as observer:
        with pytest.raises(NoSuchDestination):
            observer.reading("orders")
        with pytest.raises(NoSuchSubscription):
            observer.reading("alerts", "lake")
        with pytest.raises(WrongKind):
            observer.reading("alerts")


def test_a_folder_that_is_missing_or_holds_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("not events")

    with pytest.raises(NotAJournal, match="there is no folder"):
        Observer(tmp_path / "missing")
    with pytest.raises(NotAJournal, match=r"letters\.txt"):
        Observer(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letters.txt"]


async def test_a_damaged_journal_is_named_with_its_place_and_nothing_is_guessed(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}{SMALL}") as client:
        for number in range(20):
            await client.queue("orders").send(f"order number {number}")
    segment = tmp_path / "journal" / segment_name(1)
    data = bytearray(segment.read_bytes())
    data[data.index(b"order number 7")] ^= 1
    segment.write_bytes(data)

    with pytest.raises(JournalDamaged, match=segment.name), Observer(tmp_path) as observer:
        events_in(observer.reading("orders"))
