"""Notes: small JSON values beside a checkpoint, on this machine's disk or on a file system of others (S3, HDFS, …).

A note is there as a whole or not at all, and on a local disk it is synced when `write` returns: what was published under a note
can rely on it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

# Folder of the checkpoint that is ours; Spark's are called offsets, commits, state, sources and metadata.
FOLDER = "holdfast"
SUFFIX = ".json"


class Notes(Protocol):
    def names(self) -> list[str]:
        """The notes there are, sorted."""

    def read(self, name: str) -> Any:
        """The note of this name; None if there is none."""

    def write(self, name: str, value: Any) -> None: ...

    def remove(self, name: str) -> None: ...


def notes_in(checkpoint: str, part: str = "") -> Notes:
    """The notes of a checkpoint, given as a path or a URL."""
    scheme, colon, _ = checkpoint.partition("://")
    if not colon or scheme == "file":
        return _LocalNotes(Path(checkpoint.removeprefix("file://")) / FOLDER / part)
    return _RemoteNotes(f"{scheme.replace('s3a', 's3')}{checkpoint[len(scheme) :].rstrip('/')}/{FOLDER}/{part}".rstrip("/"))


class _LocalNotes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob(f"*{SUFFIX}"))

    def read(self, name: str) -> Any:
        try:
            return msgspec.json.decode((self._folder / f"{name}{SUFFIX}").read_bytes())
        except FileNotFoundError:
            return None

    def write(self, name: str, value: Any) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f"{name}.unfinished"
        with unfinished.open("wb") as file:
            file.write(msgspec.json.encode(value))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._folder / f"{name}{SUFFIX}")
        self._sync_folder()

    def remove(self, name: str) -> None:
        (self._folder / f"{name}{SUFFIX}").unlink(missing_ok=True)

    def _sync_folder(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _RemoteNotes:
    def __init__(self, url: str) -> None:
        self._disk, self._folder = _opened(url)

    def names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        found = self._disk.get_file_info(FileSelector(self._folder, allow_not_found=True))
        return sorted(info.base_name.removesuffix(SUFFIX) for info in found if info.base_name.endswith(SUFFIX))

    def read(self, name: str) -> Any:
        try:
            with self._disk.open_input_stream(f"{self._folder}/{name}{SUFFIX}") as file:
                return msgspec.json.decode(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, value: Any) -> None:
        self._disk.create_dir(self._folder)
        unfinished = f"{self._folder}/{name}.unfinished"
        with self._disk.open_output_stream(unfinished) as file:
            file.write(msgspec.json.encode(value))
        self._disk.move(unfinished, f"{self._folder}/{name}{SUFFIX}")

    def remove(self, name: str) -> None:
        self._disk.delete_file(f"{self._folder}/{name}{SUFFIX}")


def _opened(url: str) -> tuple[FileSystem, str]:
    import pyarrow
    from pyarrow.fs import FileSystem

    try:
        disk, folder = FileSystem.from_uri(url)
    except (OSError, pyarrow.ArrowException) as problem:
        raise BadSetting(f"the checkpoint {url} cannot be opened: {problem}", setting="checkpoint") from None
    return disk, folder
