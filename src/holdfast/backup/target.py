"""The folder of a backup: its files get their names when they are whole and synced, and the manifest comes last.

    manifest.json                             what counts
    segment-000003-17-5a3c91e0-8388608        one life of one segment, up to so many bytes
    file-8c1f22d0-1024-identity               a file of the data folder
    ….preparing                                one that is being copied; removed by the next backup
    backup.lock                               locked by the backup that writes here

No file is ever changed. So while a backup runs, and after one that was killed, the one before it is whole.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import crc32c

from holdfast.backup.manifest import MANIFEST_NAME, Manifest, decode, encode
from holdfast.errors import BackupDamaged, NotABackup, Unavailable

LOCK_NAME = "backup.lock"
PREPARING_SUFFIX = ".preparing"
_OURS = ("segment-", "file-")
READ_BYTES = 1 << 20

# Called with the bytes that were copied since the last call.
OnCopied = Callable[[int], None]


class Target:
    """An open folder, for one backup at a time. Use `open`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock

    @classmethod
    def open(cls, folder: Path) -> Target:
        """Open the folder, or make it. NotABackup when it holds other things, Unavailable when another backup writes there."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = [name for name in sorted(os.listdir(folder)) if not _is_ours(name)]
        if foreign:
            raise NotABackup(
                f"{folder} holds {foreign[0]!r}, which is no part of a backup; name an empty folder", folder=str(folder)
            )
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Unavailable(f"another backup writes to {folder}; wait until it is done, or name another folder") from None
        return cls(folder, lock)

    def close(self) -> None:
        os.close(self._lock)

    def manifest(self) -> Manifest | None:
        return manifest_in(self.folder)

    def write_manifest(self, manifest: Manifest) -> None:
        """Let this backup count from now on."""
        self._write(MANIFEST_NAME, (encode(manifest),))

    def add(self, name: str, parts: Iterable[bytes], on_copied: OnCopied | None = None) -> int:
        """Write a file, whole and durable before it has its name; return its checksum."""
        return self._write(name, parts, on_copied)

    def _write(self, name: str, parts: Iterable[bytes], on_copied: OnCopied | None = None) -> int:
        draft, checksum = self.folder / (name + PREPARING_SUFFIX), 0
        with open(draft, "wb", opener=private) as file:
            for part in parts:
                file.write(part)
                checksum = crc32c.crc32c(part, checksum)
                if on_copied is not None:
                    on_copied(len(part))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # reading it back reads the disk
        draft.rename(self.folder / name)
        sync_folder(self.folder)
        return checksum

    def tidy(self, manifest: Manifest) -> None:
        """Remove what this manifest does not name: files of former backups, and remains of one that was interrupted."""
        kept = {*manifest.file_names, MANIFEST_NAME, LOCK_NAME}
        for name in os.listdir(self.folder):
            if name not in kept:
                os.unlink(self.folder / name)


def manifest_in(folder: Path) -> Manifest | None:
    """Return the manifest of the backup in this folder; None where there is none."""
    try:
        data = (folder / MANIFEST_NAME).read_bytes()
    except FileNotFoundError:
        return None
    return decode(data, str(folder / MANIFEST_NAME))


def check_files(folder: Path, manifest: Manifest, on_read: OnCopied | None = None) -> None:
    """Read all files of a backup. BackupDamaged when one is not as it was copied."""
    for each in manifest.copies:
        size, checksum = 0, 0
        try:
            for part in parts_of(folder / each.file, each.bytes):
                size, checksum = size + len(part), crc32c.crc32c(part, checksum)
                if on_read is not None:
                    on_read(len(part))
        except FileNotFoundError:
            raise BackupDamaged(f"{each.file} is missing in {folder}; use another backup", file=each.file) from None
        if (size, checksum) != (each.bytes, each.checksum):
            raise BackupDamaged(f"{each.file} in {folder} is not the file that was copied; use another backup", file=each.file)


def parts_of(path: Path, length: int) -> Iterable[bytes]:
    """Read the first bytes of a file, in pieces."""
    with path.open("rb", buffering=0) as file:
        while length and (part := file.read(min(READ_BYTES, length))):
            length -= len(part)
            yield part


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_ours(name: str) -> bool:
    return name.removesuffix(PREPARING_SUFFIX) in (MANIFEST_NAME, LOCK_NAME) or name.startswith(_OURS)


def private(path: str, flags: int) -> int:
    """Open a file that nobody else may read: there may be passwords in it, or what is worth one."""
    return os.open(path, flags, 0o600)
