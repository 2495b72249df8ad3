"""A shelf in any file system of fsspec: a local one, memory, S3, Azure, SFTP, whatever is installed.

An object is written under another name and moved, so that a write that broke off is never taken for an object. On object stores
a move is a copy. What durable means is the file system's affair: `file://` closes files without a sync, and `memory://` ends
with the process. Use a folder where a power cut must not cost an object; a place that lost one fetches it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec

from holdfast.continuity.storage.place.shelf import ObjectGone
from holdfast.errors import BadSetting


class FsspecShelf:
    kind = "fsspec"

    def __init__(self, url: str) -> None:
        try:
            self._files: Any
            self._files, self._root = fsspec.core.url_to_fs(url)
            self._files.makedirs(self._root, exist_ok=True)
        except (ValueError, ImportError) as problem:
            raise BadSetting(f"{url!r} names no file system of fsspec: {problem}", setting="at") from problem
        self._root = self._root.rstrip("/")

    def take(self, key: str, file: Path) -> None:
        target = f"{self._root}/{key}"
        self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._files.put_file(str(file), f"{target}.part")
        self._files.mv(f"{target}.part", target)
        file.unlink()

    def read(self, key: str, begin: int, size: int) -> bytes:
        try:
            found: bytes = self._files.cat_file(f"{self._root}/{key}", start=begin, end=begin + size)
        except FileNotFoundError:
            raise ObjectGone(key) from None
        return found

    def remove(self, key: str) -> None:
        try:
            self._files.rm_file(f"{self._root}/{key}")
        except FileNotFoundError:
            pass

    def close(self) -> None:
        pass
