"""A shelf: where the bytes of a place are. Objects are put whole under their digest, read by the stretch, and removed.

    FolderShelf      a folder: fdatasync, rename, fsync of the folder
    FsspecShelf      any file system of fsspec, by URL; durable as far as closing a file is, there
    HttpShelf        a plain HTTP server that takes PUT, GET with Range, and DELETE

Everything here blocks: a place calls it in threads. Bytes arrive in a local file (the spool), because their digest is known
only at their end; `take` puts that file on the shelf. The object IDENTITY says whose shelf it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from holdfast.errors import BadSetting

IDENTITY = "holdfast-place"


class ObjectGone(Exception):
    """The shelf does not hold the object."""


class Shelf(Protocol):
    """What a place needs of its shelf. All methods raise OSError if the shelf is out of order."""

    kind: str

    def take(self, key: str, file: Path) -> None:
        """Put the bytes of a local file under a key, whole or not at all, durable on return. The file is gone then."""
        ...

    def read(self, key: str, begin: int, size: int) -> bytes:
        """Some bytes of an object, fewer at its end. ObjectGone if it is not there."""
        ...

    def remove(self, key: str) -> None:
        """Remove an object, if it is there."""
        ...

    def close(self) -> None: ...


def key_of(digest: str) -> str:
    """Where an object stands: in one of 256 parts, so that no folder is too full."""
    return f"objects/{digest[:2]}/{digest}"


class FolderShelf:
    kind = "folder"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def take(self, key: str, file: Path) -> None:
        target = self._folder / key
        if not target.parent.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(target.parent.parent)
            sync_folder(self._folder)
        with file.open("rb+") as opened:
            os.fdatasync(opened.fileno())
        file.replace(target)
        sync_folder(target.parent)

    def read(self, key: str, begin: int, size: int) -> bytes:
        try:
            with (self._folder / key).open("rb") as file:
                return os.pread(file.fileno(), size, begin)
        except FileNotFoundError:
            raise ObjectGone(key) from None

    def remove(self, key: str) -> None:
        (self._folder / key).unlink(missing_ok=True)

    def close(self) -> None:
        pass


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def folder_of(at: str) -> Path | None:
    """The folder that a place is in: a path, or `file:` and a path. None for a URL, `file://…` included."""
    return None if "://" in at or at.startswith("memory:") else Path(at.removeprefix("file:")).expanduser()


def open_shelf(at: str) -> Shelf:
    """The shelf at a folder, an http:// or https:// URL, or a URL of fsspec (`s3://…`, `memory://…`, `file://…`)."""
    folder = folder_of(at)
    if folder is not None:
        return FolderShelf(folder)
    scheme = urlsplit(at).scheme
    if scheme in ("http", "https"):
        from holdfast.continuity.storage.place.http_shelf import HttpShelf

        return HttpShelf(at)
    try:
        from holdfast.continuity.storage.place.fsspec_shelf import FsspecShelf
    except ImportError as problem:
        raise BadSetting(f"a place at {at} needs fsspec: pip install 'holdfast[storage]'", setting="at") from problem
    return FsspecShelf(at if "://" in at else at.replace(":", "://", 1))
