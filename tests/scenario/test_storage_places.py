"""The places of a file store (C11): a lost one is not noticed, a stale one answers nothing and is brought up to date."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
from holdfast.continuity.domain import LagLimit
from holdfast.continuity.errors import FileDiffers, NoSuchFile, NotTaken
from holdfast.continuity.storage import definition as register
from holdfast.continuity.storage import store_status
from holdfast.continuity.storage.machines import freshness
from holdfast.continuity.storage.place import storage_place
from holdfast.continuity.storage.place.objects import CHUNK
from holdfast.continuity.storage.place.shelf import key_of
from holdfast.continuity.storage.place_link import PlaceLinks
from holdfast.continuity.storage.serving import serve_place
from holdfast.errors import BadSetting, SubscriptionInUse
from tests.storing import Storing, read, storing
from tests.waiting import until

pytestmark = pytest.mark.slow

LARGE = secrets.token_bytes(3 * CHUNK + 5)


async def chunks_of(body: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for begin in range(0, len(body), size):
        yield body[begin : begin + size]


async def test_small_and_large_files_are_at_all_places_and_are_read_moved_and_deleted(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", "c") as files:
        store = files.store
        assert (await store.put("x/small", b"small")).kind == "created"
        assert (await store.put("large", chunks_of(LARGE))).kind == "created"
        assert (await store.put("x/small", b"other")).kind == "replaced"
        assert (await read(store, "x/small"), await read(store, "large")) == (b"other", LARGE)

        await store.move("large", "y/large")
        await store.delete("x/small")
        last = await store.put("end", b"")

        await files.until_equal()
        for name, place in files.places.items():
            assert place.catalog.number >= last.number
            assert await files.bytes_at(name) == {"y/large": LARGE, "end": b""}
        with pytest.raises(NoSuchFile):
            await store.find("large")


async def test_a_folder_a_file_system_of_fsspec_and_another_store_over_http_are_places_of_one_store(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    async with storing(tmp_path / "inner", "x", places_min=1) as inner, storing(tmp_path, "a") as files:
        await files.begin("memory", f"memory://{secrets.token_hex(4)}", folder=tmp_path / "memory")
        await files.begin("http", f"http://{inner.front}/outer", folder=tmp_path / "http")
        await files.until_current("a", "http", "memory")

        await files.store.put("small", b"small")
        await files.store.put("large", chunks_of(LARGE))
        await files.until_equal()

        wanted = {"small": b"small", "large": LARGE}
        for name in ("a", "memory", "http"):
            assert await files.bytes_at(name) == wanted
        assert {entry.size for _, entry in await inner.store.page("outer/objects/")} == {len(LARGE), len(b"small")}
        await files.end("a")
        await files.until_current("http", "memory")
        assert await read(files.store, "large") == LARGE


async def test_conditions_are_judged_in_the_order_of_writes_one_of_many_wins(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files:
        tries = [files.store.put("lock", b"%d" % each, if_none_match=("*",)) for each in range(8)]

        done = await asyncio.gather(*tries, return_exceptions=True)

        kinds = [type(each) for each in done if isinstance(each, Exception)]
        assert kinds == [FileDiffers] * 7
        entry = await files.store.find("lock")
        with pytest.raises(FileDiffers):
            await files.store.delete("lock", if_match=("0" * 64,))
        await files.store.delete("lock", if_match=(entry.digest,))


async def test_a_place_that_was_away_is_brought_up_to_date_in_order(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", "c") as files:
        await files.store.put("x", b"1")
        await files.end("c")
        for each in range(20):
            await files.store.put("x", b"%d" % each)
            await files.store.put(f"n/{each}", chunks_of(LARGE[each:]) if not each % 10 else b"small")
        await files.store.delete("n/3")

        await files.begin("c")
        await files.until_current("a", "b", "c")
        await files.until_equal()

        assert await files.bytes_at("c") == await files.bytes_at("a")


async def test_a_place_that_has_not_the_bytes_of_a_write_fetches_them_before_it_applies_it(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", "c") as files:
        await files.end("c")
        await files.store.put("large", chunks_of(LARGE))

        place = await files.begin("c")
        await until(lambda: place.catalog.find("large") is not None, "the write is applied")

        assert place.catalog.lacking(1) == []
        assert await files.bytes_at("c") == {"large": LARGE}


async def test_a_stale_disk_answers_nothing_and_copies_from_a_current_place(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", "c") as files:
        await files.store.put("kept", LARGE)
        await files.store.put("x", b"old")
        await files.end("c")
        shutil.copytree(tmp_path / "c", tmp_path / "image")
        await files.begin("c")
        await files.until_current("a", "b", "c")
        await files.store.put("x", b"new")
        await files.store.put("y", LARGE[7:])
        await files.store.delete("kept")
        await files.until_equal()
        await files.end("c")
        shutil.rmtree(tmp_path / "c")
        (tmp_path / "image").rename(tmp_path / "c")  # the disk of yesterday

        place = await files.begin("c")
        seen = []

        async def becomes_current() -> bool:
            told = [await _answer(place.address, "/entry/x"), await _answer(place.address, "/list")]
            if place.state != "current":
                seen.extend(told)
            return place.state == "current"

        await until(becomes_current, "it has copied")
        await files.until_equal()

        assert {503} == set(seen)
        assert await files.bytes_at("c") == await files.bytes_at("a") == {"x": b"new", "y": LARGE[7:]}


async def _answer(address: str, target: str) -> int:
    links = PlaceLinks()
    status, _ = await links.json(address, target)
    links.close()
    return status


async def test_a_place_with_an_empty_disk_and_a_new_place_are_filled_while_writes_go_on(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files:
        for each in range(30):
            await files.store.put(f"n/{each}", b"%d" % each)
        await files.store.put("large", LARGE)
        is_over = asyncio.Event()
        writing = asyncio.create_task(_write_until(files, is_over))

        await files.end("b")
        shutil.rmtree(tmp_path / "b")
        await files.begin("b")  # would be waiting for a place, if a were not there
        await files.begin("new", f"memory://{secrets.token_hex(4)}", folder=tmp_path / "new")
        await files.until_current("a", "b", "new")

        is_over.set()
        assert await writing > 0
        await files.until_equal()
        for name in ("b", "new"):
            assert await files.bytes_at(name) == await files.bytes_at("a")


async def _write_until(files: Storing, is_over: asyncio.Event) -> int:
    done = 0
    while not is_over.is_set():
        try:
            await files.store.put(f"w/{done % 10}", b"%d" % done)
            done += 1
        except NotTaken:  # one place is current: writes wait for the second
            await asyncio.sleep(0.01)
    return done


async def test_a_place_without_a_current_one_to_copy_from_waits_and_says_so(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files:
        await files.store.put("x", b"1")
        await files.until_equal()
        await files.end("a")
        await files.end("b")
        shutil.rmtree(tmp_path / "b")

        place = await files.begin("b")
        await until(lambda: place.state == "waiting", "it waits")
        assert await _answer(place.address, "/entry/x") == 503

        await files.begin("a")
        await until(lambda: place.state == "current", "it has copied")
        assert await files.bytes_at("b") == {"x": b"1"}


async def test_with_fewer_current_places_than_needed_writes_are_refused_and_reads_go_on(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b") as files:
        await files.store.put("x", b"1")
        await files.end("b")
        await files.until_current("a")

        for write in (files.store.put("x", b"2"), files.store.put("y", LARGE), files.store.delete("x")):
            with pytest.raises(NotTaken, match="1 of 2 places"):
                await write
        assert await read(files.store, "x") == b"1"


async def test_with_one_place_needed_one_is_enough(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", places_min=1) as files:
        await files.end("b")
        await files.until_current("a")

        await files.store.put("x", LARGE)

        assert await read(files.store, "x") == LARGE


@pytest.mark.parametrize("body", [b"a small one", LARGE], ids=["small", "large"])
async def test_damaged_bytes_are_never_given_another_place_answers_and_they_are_repaired(tmp_path: Path, body: bytes) -> None:
    async with storing(tmp_path, "a", "b") as files:
        outcome = await files.store.put("x", body)
        await files.until_equal()
        damaged = tmp_path / "a" / key_of(outcome.digest)
        harmed = bytearray(body)
        harmed[-1] ^= 1
        damaged.write_bytes(harmed)

        for _ in range(10):
            assert await read(files.store, "x") == body

        await until(lambda: damaged.exists() and damaged.read_bytes() == body, "it is repaired")


async def test_staged_bytes_without_a_write_are_removed_and_named_ones_stay(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", loose_seconds=0.5) as files:
        kept = await files.store.put("kept", LARGE)
        digest, _ = await files.store._stage(b"orphan", chunks_of(LARGE))  # a front that dies before it writes
        places = list(files.places.values())
        assert all(place.catalog.held(digest) for place in places)

        await until(lambda: not any(place.catalog.held(digest) for place in places), "they are removed")

        assert not any((tmp_path / each / key_of(digest)).exists() for each in "ab")
        assert all(place.catalog.held(kept.digest) for place in places)


async def test_the_marks_of_a_place_do_not_pile_up_and_the_greatest_is_always_there(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", places_min=1) as files, holdfast.connect(files.url) as client:
        queue = files.store.definition.mark("a")

        async def told() -> tuple[int, int]:
            number = await register.mark_told(client, files.store.definition, "a")
            return number or 0, int((await client.describe(queue))["waiting"])

        for each in range(10):
            number = (await files.store.put("x", b"%d" % each)).number

            async def is_marked(number: int = number) -> bool:
                return (await told())[0] >= number

            await until(is_marked, "it is marked")

        assert (await told())[1] <= 3
        await files.end("a")
        assert (await told())[0] == number


async def test_a_place_that_is_dropped_holds_nothing_back_and_copies_when_it_comes_again(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", "c") as files:
        await files.end("c")
        async with holdfast.connect(files.url) as client:
            assert await register.drop_place(client, files.store.definition, "c")
            assert await register.places(client, files.store.definition) == ["a", "b"]
        await files.store.put("x", b"1")

        await files.begin("c")
        await files.until_current("a", "b", "c")

        assert await files.bytes_at("c") == {"x": b"1"}


async def test_writes_wait_for_a_place_that_is_slower_than_they_come_and_do_not_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "FRESH_SECONDS", 0.5)
    monkeypatch.setattr(storage_place, "CONTACT_SECONDS", 0.1)
    async with storing(tmp_path, "a", "b") as files:
        go_on = threading.Event()
        held = asyncio.create_task(files.places["b"].objects.write(go_on.wait))  # its disk does not answer
        await files.store.put("1", b"1")
        await files.until_current("a")

        waiting = asyncio.create_task(files.store.put("2", b"2"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.3)
        go_on.set()

        assert (await waiting).kind == "created"
        await held
        await files.until_current("a", "b")


FEW = LagLimit(events=5, bytes=0, seconds=0)


async def test_a_place_that_is_away_and_lags_too_far_is_dropped_and_copies_when_it_comes_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with storing(tmp_path, "a", "b", "c", lag_max=FEW) as files, holdfast.connect(files.url) as client:
        await files.end("c")
        for number in range(5):
            await files.store.put(f"{number}", b"1")
        await files.store.put("last", b"1")
        await until(lambda: _state_of(client, "c", "dropped"), "c is dropped")

        told = "place c of files is dropped: it is 6 events behind"
        await until(lambda: sum(told in each.getMessage() for each in caplog.records) == 1, "it is told once")
        await files.begin("c")
        await files.until_current("a", "b", "c")
        await files.until_equal()
        assert len(await files.bytes_at("c")) == 6


async def test_a_place_is_not_dropped_while_too_few_others_are_current(tmp_path: Path) -> None:
    async with storing(tmp_path, "a", "b", "c", lag_max=FEW) as files, holdfast.connect(files.url) as client:
        for name in ("b", "c"):
            await files.end(name)
        await files.until_current("a")
        for _ in range(10):
            await client.topic(files.store.definition.writes).send("counted, and nothing else")
        a = files.places["a"]
        for _ in range(3):  # it has looked, and has done what it does then
            a._known = 0
            await until(lambda: a._known > 0, "a looks again")
        assert await _state_of(client, "c", "silent")

        await files.begin("b")
        await until(lambda: _state_of(client, "c", "dropped"), "c is dropped, with two others current")


async def _state_of(client: holdfast.Client, place: str, state: str) -> bool:
    told = await store_status.ask(client, "files")
    return any((each["place"], each["state"]) == (place, state) for each in told["places"])


async def test_a_place_whose_name_another_process_takes_ends_and_says_so(tmp_path: Path) -> None:
    """Two of them would take the subscription from each other for ever, and each would miss writes."""
    async with storing(tmp_path, "a", "b") as files:
        former = files.places["a"]
        async with serve_place(files.url, "files", "a", str(tmp_path / "other")):
            with pytest.raises(SubscriptionInUse, match="another place 'a' was started"):
                await asyncio.wait_for(former.failed(), 30)


async def test_a_folder_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadSetting, match=r"cannot use the folder .* \(Not a directory\)"):
        async with serve_place("memory:", "files", "b", str(tmp_path / "file" / "b")):
            pass
