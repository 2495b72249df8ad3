"""What docs/upgrading.md promises: old folders open, newer ones are refused with both versions named (E8)."""

from __future__ import annotations

import struct
import tarfile
from pathlib import Path
from typing import Any

import crc32c
import pytest

import holdfast
from holdfast.backup.backup import back_up
from holdfast.backup.restore import restore
from holdfast.channel.journal.files.layout import lead_checksum
from holdfast.errors import UnknownVersion
from holdfast.node.identity import restored_again, restored_in
from holdfast.node.observer import Observer
from holdfast.recorder.forwarded_mark import Forwarded, ForwardedMark
from holdfast.wire.conversation import choose_version
from holdfast.wire.frame import MAGIC, VERSIONS, Hello, Welcome
from tests.server_process import SMALL_QUERY

JOURNALS = Path(__file__).parents[1] / "data" / "journals"
FIRST_RELEASE = "0.1.0-4210eb8"
FIRST_DAYS = "0.1.0-a3ae9c6"


def unpacked(name: str, folder: Path) -> Path:
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 and newer has it
    with tarfile.open(JOURNALS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, **options)
    return folder


async def received(client: holdfast.Client, queue: str, count: int) -> list[Any]:
    async with client.queue(queue).receive(timeout=20) as incoming:
        events = [await incoming.next(timeout=10) for _ in range(count)]
        for event in events:
            await event.confirm()
        return [event.data for event in events]


async def kept_for(client: holdfast.Client, topic: str, subscription: str, count: int, selector: str | None = None) -> list[Any]:
    async with client.subscribe(topic, subscription, selector=selector, timeout=20) as incoming:
        return [(await incoming.next(timeout=10)).data for _ in range(count)]


async def check_first_days(client: holdfast.Client) -> None:
    """What every release since the first days wrote."""
    orders = await client.describe("orders")
    assert (orders["kind"], orders["waiting"], orders["redelivery_limit"]) == ("queue", 9, 3)
    assert await received(client, "orders", 9) == [{"number": number} for number in range(2, 11)]
    (dead,) = [each async for each in _dead(client)]
    assert (dead.data, dead.dead[0].destination) == ({"number": 1}, "orders")
    assert "not wanted" in dead.dead[0].reason
    assert await received(client, "last", 1) == ["the last event"]


async def _dead(client: holdfast.Client) -> Any:
    async with client.queue("_DMQ").browse() as events:
        async for event in events:
            yield event


async def test_a_folder_of_the_first_days_opens_with_all_that_waits_its_settings_and_dead_events_e8(tmp_path: Path) -> None:
    folder = unpacked(FIRST_DAYS, tmp_path / "data")

    async with holdfast.connect(f"file:{folder}") as client:
        await check_first_days(client)
        assert await kept_for(client, "news", "archive", 2) == ["first", "second"]
        receipt = await client.queue("orders").send("and it goes on")
        assert receipt.position > 0


async def test_a_folder_of_the_first_release_opens_with_everything_that_it_had_e8(tmp_path: Path) -> None:
    folder = unpacked(FIRST_RELEASE, tmp_path / "data")

    async with holdfast.connect(f"file:{folder}") as client:
        await check_first_days(client)
        assert [each.dead[0].code async for each in _dead(client)] == ["rejected"]
        parcels = await client.describe("parcels")
        assert (parcels["events_max"], parcels["redelivery_delay"], parcels["waiting"]) == (1000, 2.5, 3)
        # The delay of one is over by now; one was rolled back.
        assert await received(client, "parcels", 3) == ["urgent", "late", "committed"]
        assert await kept_for(client, "news", "archive", 4) == ["first", "second", "third", "of a transaction"]
        assert await kept_for(client, "news", "large", 1, "amount > 100") == ["third"]
        assert await kept_for(client, "alerts.*", "all", 1) == ["fire"]
        assert await received(client, "staged", 2) == ["published 1", "published 2"]
        assert not (await client.publish("scope", 1, [])).is_new
        async with client.queue("large").receive(timeout=20) as incoming:
            event = await incoming.next(timeout=10)
            async with event.open_stream() as stream:
                assert await stream.read() == b"L" * 200_000
            await event.confirm()


async def test_an_opened_folder_of_the_first_release_is_closed_and_opened_again_e8(tmp_path: Path) -> None:
    folder = unpacked(FIRST_RELEASE, tmp_path / "data")
    async with holdfast.connect(f"file:{folder}") as client:
        await client.queue("orders").send("from the next release")

    async with holdfast.connect(f"file:{folder}") as client:
        assert (await client.describe("orders"))["waiting"] == 10


def test_a_folder_of_the_first_release_is_backed_up_and_restored_e8(tmp_path: Path) -> None:
    folder = unpacked(FIRST_RELEASE, tmp_path / "data")

    back_up(folder, tmp_path / "backup", "a test")
    restore(tmp_path / "backup", tmp_path / "restored")

    with Observer(tmp_path / "restored") as observer:
        assert observer.describe("orders")["waiting"] == 9
    assert restored_in(folder / "identity").times == 0
    assert restored_in(tmp_path / "restored" / "identity").times == 1


# --- from the future ------------------------------------------------------------------------------------------------------


async def test_a_journal_from_the_future_is_refused_with_both_versions_named_and_not_changed_e8(tmp_path: Path) -> None:
    folder = unpacked(FIRST_DAYS, tmp_path / "data")
    segment = folder / "journal" / "segment-000001.hfj"
    data = bytearray(segment.read_bytes())
    data[8:16] = struct.pack("<II", 7, lead_checksum(7))
    segment.write_bytes(data)

    with pytest.raises(UnknownVersion, match="format version 7, this release reads version 1; open it with a newer one"):
        async with holdfast.connect(f"file:{folder}"):
            pass
    assert segment.read_bytes() == data


async def test_an_identity_from_the_future_is_refused_with_both_versions_named_e8(tmp_path: Path) -> None:
    async with holdfast.connect(f"file:{tmp_path}{SMALL_QUERY}"):
        pass
    restored_again(tmp_path / "identity")
    data = bytearray((tmp_path / "identity").read_bytes())
    data[512 + 8 : 512 + 12] = (9).to_bytes(4, "little")
    data[512 + 34 : 512 + 38] = crc32c.crc32c(bytes(data[512 : 512 + 34])).to_bytes(4, "little")
    (tmp_path / "identity").write_bytes(data)

    with pytest.raises(UnknownVersion, match="has format 9, this release reads up to 2; upgrade it"):
        async with holdfast.connect(f"file:{tmp_path}{SMALL_QUERY}"):
            pass


# --- the wire -------------------------------------------------------------------------------------------------------------


def test_the_newest_version_that_both_sides_speak_is_chosen_or_both_are_named_e8() -> None:
    assert choose_version(Hello(MAGIC, [*VERSIONS, 99])) == max(VERSIONS)
    with pytest.raises(UnknownVersion, match=r"99.*1"):
        choose_version(Hello(MAGIC, [99]))


def test_a_greeting_without_an_incarnation_is_that_of_an_older_server_e8() -> None:
    """An older server leaves the field out, and whether it has users; an older client passes both over."""
    import msgspec

    old = msgspec.msgpack.encode([1, "node", 1 << 20, 1000, 4, 5])
    since = ["7c1e+1-00", False, ["m1", "m2"], "", "", "of a release to come"]
    new = msgspec.msgpack.encode([*msgspec.msgpack.decode(old), *since])

    told, heard = msgspec.msgpack.decode(old, type=Welcome), msgspec.msgpack.decode(new, type=Welcome)

    assert (told.incarnation, told.has_users) == ("", True)
    assert (heard.incarnation, heard.has_users) == ("7c1e+1-00", False)


# --- the recorder ---------------------------------------------------------------------------------------------------------


def test_a_forwarded_mark_of_the_first_release_counts_and_tells_no_incarnation_e8(tmp_path: Path) -> None:
    mark = struct.pack("<16sQ", b"j" * 16, 17)
    (tmp_path / "forwarded").write_bytes(mark + struct.pack("<I", crc32c.crc32c(mark)))

    opened = ForwardedMark(tmp_path / "forwarded", b"j" * 16)

    assert opened.read() == Forwarded(17, "")
    opened.write(Forwarded(18, "7c1e+1-00"))
    assert opened.read() == Forwarded(18, "7c1e+1-00")
    opened.close()
