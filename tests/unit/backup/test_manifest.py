"""The manifest of a backup: whole or refused, and never taken for one of another format (E8)."""

from __future__ import annotations

import crc32c
import pytest

from holdfast.backup.manifest import CopiedFile, CopiedSegment, Manifest, decode, encode
from holdfast.errors import BackupDamaged, UnknownVersion

MANIFEST = Manifest(
    release="0.1.0",
    made_at="2026-11-18T00:00:00+00:00",
    journal="7c" * 16,
    incarnation="7c" * 16,
    segment_bytes=8192,
    first=1,
    entry=40,
    segments=[CopiedSegment(5, 17, 0xA, 8192, 1), CopiedSegment(2, 18, 0xB, 600, 2)],
    files=[CopiedFile("identity", 1024, 3)],
)


def test_a_manifest_is_read_as_it_was_written_e8() -> None:
    assert decode(encode(MANIFEST), "manifest.json") == MANIFEST
    assert MANIFEST.bytes == 8192 + 600 + 1024
    assert MANIFEST.segment_count == 5


@pytest.mark.parametrize("place", [0, 20, 100, -2, -9])
def test_a_manifest_with_one_wrong_byte_is_refused_as_damaged_e8(place: int) -> None:
    data = bytearray(encode(MANIFEST))
    data[place] ^= 1

    with pytest.raises(BackupDamaged, match="checksum"):
        decode(bytes(data), "manifest.json")


def test_a_manifest_that_was_cut_is_refused_as_damaged_e8() -> None:
    data = encode(MANIFEST)

    for length in range(len(data)):
        with pytest.raises(BackupDamaged):
            decode(data[:length], "manifest.json")


def test_a_manifest_from_the_future_is_refused_with_both_formats_named_e8() -> None:
    line = b'{"format":9,"news":[1]}'

    with pytest.raises(UnknownVersion, match="format 9, this release reads 1"):
        decode(b"%s\n%08x\n" % (line, crc32c.crc32c(line)), "manifest.json")
