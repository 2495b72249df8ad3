"""The manifest of a backup: what was copied, in which file of the backup it lies, and how to know that it is unchanged.

    manifest.json     line 1: the manifest      line 2: the checksum of line 1

    segments          of the journal, oldest first; the last is the tail. Each is one life of one segment, up to its last durable
                      byte: number, generation, life, bytes, checksum
    files             of the data folder: the identity, and what else lies there (a users file, a configuration)

It is written last, and whole: a backup without a manifest is none, and one that was interrupted has the manifest of before. Pure:
nothing here touches a disk.
"""

from __future__ import annotations

import crc32c
import msgspec

from holdfast.errors import BackupDamaged, UnknownVersion

MANIFEST_NAME = "manifest.json"
FORMAT = 1


class CopiedSegment(msgspec.Struct, frozen=True):
    """The first `bytes` bytes of one life of a segment."""

    number: int
    generation: int
    life: int
    bytes: int
    checksum: int = 0

    @property
    def key(self) -> tuple[int, int, int, int]:
        """The same key means the same bytes: what is durable in one life of a segment never changes."""
        return self.number, self.generation, self.life, self.bytes

    @property
    def file(self) -> str:
        return f"segment-{self.number:06d}-{self.generation}-{self.life:08x}-{self.bytes}"


class CopiedFile(msgspec.Struct, frozen=True):
    """A small file of the data folder."""

    name: str
    bytes: int
    checksum: int

    @property
    def file(self) -> str:
        return f"file-{self.checksum:08x}-{self.bytes}-{self.name}"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`entry` is the newest entry that was copied, `first` the oldest; `release` and `made_at` are for people."""

    format: int = FORMAT
    release: str
    made_at: str
    journal: str
    incarnation: str
    segment_bytes: int
    first: int
    entry: int
    segments: list[CopiedSegment]
    files: list[CopiedFile]

    @property
    def copies(self) -> list[CopiedSegment | CopiedFile]:
        return [*self.segments, *self.files]

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.copies)

    @property
    def file_names(self) -> set[str]:
        return {each.file for each in self.copies}

    @property
    def segment_count(self) -> int:
        """How many segments a journal needs that holds these: their numbers have no hole."""
        return max((each.number for each in self.segments), default=1)


class _Lead(msgspec.Struct, frozen=True):
    """The part that is the same in every format."""

    format: int


def encode(manifest: Manifest) -> bytes:
    line = msgspec.json.encode(manifest)
    return b"%s\n%08x\n" % (line, crc32c.crc32c(line))


def decode(data: bytes, where: str) -> Manifest:
    """Return the manifest. BackupDamaged when it is not whole, UnknownVersion when a newer release wrote it."""
    line, _, checksum = data.partition(b"\n")
    if checksum != b"%08x\n" % crc32c.crc32c(line):
        raise BackupDamaged(f"{where} does not carry its checksum; use another backup", file=where)
    found = msgspec.json.decode(line, type=_Lead).format
    if found != FORMAT:
        raise UnknownVersion(
            f"{where} has format {found}, this release reads {FORMAT}; use the release that made it, or a newer one",
            version=found,
        )
    return msgspec.json.decode(line, type=Manifest)
