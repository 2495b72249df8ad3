"""The table of places in a bucket: found from a copy, made by compare and set, and kept through a time without the bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.bus.bucket import Entry, MemoryBucket, OnEntry, Stop
from holdfast.cluster.places import EVERYWHERE
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.node.clustered import places_bucket
from holdfast.node.clustered.places_bucket import PlacesBucket
from tests.waiting import until

MANAGERS = ("m1", "m2")


class LosableBucket(MemoryBucket):
    """A bucket that cannot be reached while it `is_away`, and whose answers are lost while it `is_deaf`. While
    it `is_quiet` nobody hears of changes."""

    is_away = False
    is_deaf = False
    is_quiet = False

    async def watch(self, on_entry: OnEntry) -> Stop:
        return await super().watch(lambda entry: on_entry(entry) if not self.is_quiet else None)

    async def open(self) -> LosableBucket:
        self._check()
        return self

    async def get(self, key: str) -> Entry | None:
        self._check()
        return await super().get(key)

    async def put(self, key: str, value: bytes, after: int = 0) -> int | None:
        self._check()
        revision = await super().put(key, value, after)
        if self.is_deaf:
            raise OutcomeUnknown("the answer was lost")
        return revision

    def _check(self) -> None:
        if self.is_away:
            raise Unavailable("the bucket is away")


@asynccontextmanager
async def opened(bucket: LosableBucket, file: Path) -> AsyncIterator[PlacesBucket]:
    places = await PlacesBucket.open(bucket.open, MANAGERS, [], file)
    try:
        yield places
    finally:
        await places.close()


async def reserved(places: PlacesBucket, name: str, is_created: bool = False) -> str:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    places.reserve(name, told.set_result, told.set_exception, is_created)
    return await told


async def test_all_nodes_find_what_one_has_reserved(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "one") as one, opened(bucket, tmp_path / "two") as two:
        assert [await reserved(one, name) for name in ("a", "b", "c")] == ["m1", "m2", "m1"]

        assert [two.find(name) for name in ("a", "b", "c")] == ["m1", "m2", "m1"]
        assert await reserved(two, "b") == "m2"
        assert two.revision_of("b") == 2
        assert len(bucket.entries) == 3


async def test_names_that_need_no_entry_or_can_have_none_get_none(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "places") as places:
        names = ("glob:a.*", "_ADMIN", "_temporary.m2/x", "no such name")
        assert [await reserved(places, name) for name in names] == [EVERYWHERE, "m1", "m2", "m1"]
        assert not bucket.entries


async def test_two_that_reserve_at_once_get_one_place(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "one") as one, opened(bucket, tmp_path / "two") as two:
        found = await asyncio.gather(*(reserved(each, "a") for each in (one, two, one, two)))
        assert set(found) == {"m1"}


async def test_a_copy_that_is_behind_reads_the_newest_entry_before_it_refuses(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "places") as places:
        bucket.is_quiet = True
        await bucket.put("orders", b'{"manager":"m2"}')
        assert places.find("orders") is None

        learned = asyncio.Event()
        assert places.learn("orders", False, learned.set)
        await learned.wait()

        assert places.find("orders") == "m2"


async def test_who_creates_has_a_revision_that_nobody_had_before(tmp_path: Path) -> None:
    async with opened(LosableBucket(), tmp_path / "places") as places:
        await reserved(places, "orders", is_created=True)
        first = places.revision_of("orders")
        await reserved(places, "orders", is_created=True)
        assert places.revision_of("orders") > first


async def test_a_node_starts_from_its_copy_without_the_bucket_and_follows_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places_bucket, "AGAIN_S", 0.01)
    bucket, file = LosableBucket(), tmp_path / "places"
    async with opened(bucket, file) as places:
        await reserved(places, "orders")
    bucket.is_away = True

    async with opened(bucket, file) as places:
        assert places.find("orders") == "m1"
        assert await reserved(places, "orders") == "m1"
        with pytest.raises(Unavailable):
            await reserved(places, "invoices")

        await MemoryBucket.put(bucket, "invoices", b'{"manager":"m2"}')
        bucket.is_away = False
        await until(lambda: places.find("invoices") == "m2", "the bucket is followed again")
        assert await reserved(places, "refunds") == "m1"


async def test_without_a_bucket_and_without_a_copy_it_does_not_start(tmp_path: Path) -> None:
    bucket = LosableBucket()
    bucket.is_away = True
    with pytest.raises(Unavailable):
        await PlacesBucket.open(bucket.open, MANAGERS, [], tmp_path / "places")


async def test_a_reservation_whose_answer_is_lost_is_found_by_the_next(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "places") as places:
        bucket.is_deaf = True
        with pytest.raises(Unavailable):
            await reserved(places, "orders")
        bucket.is_deaf = False
        assert await reserved(places, "orders") == "m1"
        assert len(bucket.entries) == 1


async def test_a_line_that_a_crash_cut_off_is_read_from_the_bucket(tmp_path: Path) -> None:
    bucket, file = LosableBucket(), tmp_path / "places"
    async with opened(bucket, file) as places:
        for name in ("a", "b"):
            await reserved(places, name)
    file.write_bytes(file.read_bytes()[:-5])

    async with opened(bucket, file) as places:
        assert (places.find("a"), places.find("b")) == ("m1", "m2")
    assert len(file.read_bytes().splitlines()) == 2


async def test_what_a_primary_has_gets_its_place_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "places") as places:
        await reserved(places, "orders")  # at m1
        places.reconcile("m2", ["_DMQ", "orders", "invoices"])

        await until(lambda: places.find("invoices") == "m2", "the place of what is there is made")
        assert set(bucket.entries) == {"orders", "invoices"}
        assert "'orders' is at message manager m2, and its place is at m1" in caplog.text


async def begun(places: PlacesBucket, name: str) -> int:
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    places.begin_delete(name, told.set_result, told.set_exception)
    return await told


async def ended(places: PlacesBucket, name: str, revision: int, is_deleted: bool) -> None:
    noted = asyncio.Event()
    places.end_delete(name, revision, is_deleted, noted.set)
    await noted.wait()


async def test_a_deletion_is_noted_before_and_after_it_and_the_name_keeps_its_place(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "places") as places:
        await reserved(places, "other")
        assert await reserved(places, "orders") == "m2"

        revision = await begun(places, "orders")
        assert b"deleting" in bucket.entries["orders"].value
        await ended(places, "orders", revision, True)

        assert b"gone" in bucket.entries["orders"].value
        assert await begun(places, "orders") == 0  # there is nothing to delete
        assert await reserved(places, "orders") == "m2"
        assert places.revision_of("orders") > revision


async def test_a_deletion_that_is_refused_leaves_the_place_as_it_was(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "places") as places:
        await reserved(places, "orders")
        await ended(places, "orders", await begun(places, "orders"), False)

        assert bucket.entries["orders"].value == b'{"manager":"m1"}'


async def test_a_deletion_that_another_has_overtaken_changes_nothing(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "one") as one, opened(bucket, tmp_path / "two") as two:
        await reserved(one, "orders")
        revision = await begun(one, "orders")
        await reserved(two, "orders")
        used = bucket.entries["orders"]

        await ended(one, "orders", revision, True)

        assert bucket.entries["orders"] == used


async def test_nothing_is_deleted_without_the_bucket(tmp_path: Path) -> None:
    bucket = LosableBucket()
    async with opened(bucket, tmp_path / "places") as places:
        await reserved(places, "orders")
        bucket.is_away = True
        with pytest.raises(Unavailable):
            await begun(places, "orders")
