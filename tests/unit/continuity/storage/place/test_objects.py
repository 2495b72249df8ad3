"""The objects of a place: bytes come back as they were, by the stretch, and damage is never given."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.continuity.storage.place.objects import CHUNK, BytesLacking, Objects
from holdfast.continuity.storage.place.place_folder import PlaceFolder
from holdfast.continuity.storage.place.shelf import key_of

BODY = random.Random(7).randbytes(2 * CHUNK + 12_345)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[PlaceFolder]:
    folder = PlaceFolder("files", "a", str(tmp_path / "a"), None)
    yield folder
    folder.close()


async def chunks_of(body: bytes, size: int = 300_000) -> AsyncIterator[bytes]:
    for begin in range(0, len(body), size):
        yield body[begin : begin + size]


async def read(objects: Objects, digest: str, begin: int, end: int) -> bytes:
    return b"".join([chunk async for chunk in objects.read(digest, begin, end)])


async def test_bytes_are_staged_under_their_digest_and_read_back_by_any_stretch(place: PlaceFolder) -> None:
    held = await place.objects.stage(chunks_of(BODY))

    assert (held.digest, held.size, len(held.sums)) == (hashlib.sha256(BODY).hexdigest(), len(BODY), 3 * 16)
    for begin, end in ((0, len(BODY)), (0, 1), (CHUNK - 1, CHUNK + 1), (CHUNK, 2 * CHUNK), (2 * CHUNK, len(BODY)), (5, 5)):
        assert await read(place.objects, held.digest, begin, end) == BODY[begin:end]
    assert list(place.objects.spool_folder.iterdir()) == []


async def test_an_empty_object_is_one(place: PlaceFolder) -> None:
    held = await place.objects.stage(chunks_of(b""))

    assert (held.size, held.sums, await read(place.objects, held.digest, 0, 0)) == (0, b"", b"")


async def test_of_damaged_bytes_only_what_stands_before_them_is_given_and_the_object_is_held_no_more(place: PlaceFolder) -> None:
    held = await place.objects.stage(chunks_of(BODY))
    file = place.path / key_of(held.digest)  # type: ignore[operator]
    data = bytearray(file.read_bytes())
    data[CHUNK + 77] ^= 1
    file.write_bytes(data)

    given = b""
    with pytest.raises(BytesLacking):
        async for chunk in place.objects.read(held.digest, 0, held.size):
            given += chunk

    assert given == BODY[:CHUNK]
    assert place.objects.catalog.held(held.digest) is None


@pytest.mark.parametrize("harm", ["cut", "gone"])
async def test_bytes_that_are_cut_or_gone_are_lacking(place: PlaceFolder, harm: str) -> None:
    held = await place.objects.stage(chunks_of(BODY))
    file = place.path / key_of(held.digest)  # type: ignore[operator]
    file.write_bytes(BODY[:-1]) if harm == "cut" else file.unlink()

    with pytest.raises(BytesLacking):
        await read(place.objects, held.digest, 2 * CHUNK, held.size)


async def test_a_sweep_removes_what_was_loose_for_long_and_nothing_that_a_name_stands_for(place: PlaceFolder) -> None:
    staged = await place.objects.stage(chunks_of(b"staged, and never named"))
    file = place.path / key_of(staged.digest)  # type: ignore[operator]

    assert await place.objects.sweep(loose_seconds=3600) == 0
    assert file.exists()

    assert await place.objects.sweep(loose_seconds=-1) == 1
    assert not file.exists()
    assert place.objects.catalog.counts()["loose"] == 0


async def test_who_breaks_off_leaves_nothing(place: PlaceFolder) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"some"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await place.objects.stage(broken())

    assert list(place.objects.spool_folder.iterdir()) == []
    assert place.objects.catalog.counts()["loose"] == 0
