"""A file store as a file system of fsspec: for pandas, pyarrow, Dask and whatever else takes one.

    fsspec.open("holdfast+store://127.0.0.1:8090/reports/may.csv")
    pandas.read_parquet("holdfast+store://127.0.0.1:8090/table.parquet")

It speaks HTTP with a front. A file is seen when it is closed, whole, or not at all. A file that is overwritten while it is read
fails the next read; bytes of two files are never mixed. Folders need not be made. Each program reads what it has written, through
any front, because it sends `Holdfast-Write` back.
"""

from __future__ import annotations

import http.client
import io
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from holdfast.continuity.storage.http_connections import HttpConnections, shown_token

NUMBER = "holdfast-write"
# A file that is written stays in memory up to here, then in a temporary file, until it is closed and sent.
MEMORY_BYTES = 1 << 20
COPIED_BYTES = 1 << 20


class StoreFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """`host`: HOST:PORT of a front. `tls`: an SSL context, or True for the system's authorities. `token`: shown to the front;
    without it that in HOLDFAST_STORE_TOKEN, if there is one."""

    protocol = "holdfast+store"
    root_marker = ""

    def __init__(self, host: str, tls: ssl.SSLContext | bool = False, token: str = "", **options: Any) -> None:
        super().__init__(host=host, tls=tls, token=token, **options)
        self.host = host
        self._shown = shown_token(token)
        self._connections = HttpConnections(host, ssl.create_default_context() if tls is True else tls or None)
        self._number = 0

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """The name of a file: without protocol, front, and slashes around it."""
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        if path.startswith(f"{cls.protocol}://"):
            path = path.removeprefix(f"{cls.protocol}://").partition("/")[2]
        return path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"host": urlsplit(path).netloc}

    def unstrip_protocol(self, name: str) -> str:
        return f"{self.protocol}://{self.host}/{self._strip_protocol(name)}"

    # --- asking the front -----------------------------------------------------------------------------------------------

    @contextmanager
    def _asked(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: Any = None
    ) -> Iterator[http.client.HTTPResponse]:  # fmt: skip
        """Ask the front; errors of HTTP are those of files."""
        told = {NUMBER: str(self._number), **self._shown, **(headers or {})}
        with self._connections.asked(method, target, told, body) as answer:
            self._number = max(self._number, int(answer.headers.get(NUMBER) or 0))
            self._raise_for(answer, target)
            yield answer
            answer.read()

    @staticmethod
    def _raise_for(answer: http.client.HTTPResponse, target: str) -> None:
        if answer.status < 400:
            return
        reason = answer.read(4096).decode(errors="replace").strip()
        if answer.status == 404:
            raise FileNotFoundError(target)
        if answer.status == 412:
            raise FileExistsError(f"{target}: {reason}")
        if answer.status == 416:
            raise ValueError(f"{target}: {reason}")
        if answer.status in (401, 403):
            raise PermissionError(f"{target}: {reason}")
        raise OSError(f"{target}: the front answered {answer.status}: {reason}")

    def _target(self, path: str) -> str:
        return "/" + quote(self._strip_protocol(path))

    # --- looking --------------------------------------------------------------------------------------------------------

    def _page(self, folder: str, **query: Any) -> Any:
        with self._asked("GET", f"/?{urlencode({'prefix': folder, **query})}") as answer:
            return msgspec.json.decode(answer.read())

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """The files and folders in a folder; a file itself."""
        path = self._strip_protocol(path)
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = self._page(f"{path}/" if path else "", after=after)
            found += [_described(each) for each in page["files"]]
            found += [{"name": each.rstrip("/"), "size": 0, "type": "directory"} for each in page["folders"]]
            after = page["next"]
        if not found and path:
            found = [self.info(path)]
        found.sort(key=lambda each: each["name"])
        return found if detail else [each["name"] for each in found]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        name = self._strip_protocol(path)
        if not name:
            return {"name": "", "size": 0, "type": "directory"}
        try:
            with self._asked("HEAD", self._target(name)) as answer:
                return {
                    "name": name, "size": int(answer.headers["content-length"]), "type": "file",
                    "digest": answer.headers["etag"].strip('"'), "etag": answer.headers["etag"],
                    "mtime": parsedate_to_datetime(answer.headers["last-modified"]).timestamp(),
                }  # fmt: skip
        except FileNotFoundError:
            page = self._page(f"{name}/", limit=1)
            if page["files"] or page["folders"]:
                return {"name": name, "size": 0, "type": "directory"}
            raise

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def ukey(self, path: str) -> str:
        return str(self.info(path)["digest"])

    # --- reading --------------------------------------------------------------------------------------------------------

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        headers: dict[str, str] = {}
        if start is not None or end is not None:
            begin, stop, _ = slice(start, end).indices(self.info(path)["size"])
            if begin >= stop:
                return b""
            headers["range"] = f"bytes={begin}-{stop - 1}"
        return self.stretch(path, headers)

    def stretch(self, path: str, headers: dict[str, str]) -> bytes:
        with self._asked("GET", self._target(path), headers) as answer:
            return answer.read()

    def get_file(self, rpath: str, lpath: Any, callback: Any = None, outfile: Any = None, **options: Any) -> None:
        """Fetch a file, in bounded memory."""
        if self.isdir(rpath):
            return super().get_file(rpath, lpath, **options)  # type: ignore[no-any-return]
        with self._asked("GET", self._target(rpath)) as answer, open(lpath, "wb") if outfile is None else outfile as file:
            _copy(answer.read, file)
        return None

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        if mode == "rb":
            return _Reader(self, path, mode, block_size or "default", **options)
        if mode in ("wb", "xb"):
            return _Writer(self, path, is_exclusive=mode == "xb")
        raise NotImplementedError(f"a file is opened with rb, wb or xb, not {mode!r}")

    # --- writing --------------------------------------------------------------------------------------------------------

    def put_content(self, path: str, content: BinaryIO, size: int, *, is_exclusive: bool = False) -> None:
        """Send a file whole."""
        headers = {"content-length": str(size)} | ({"if-none-match": "*"} if is_exclusive else {})
        with self._asked("PUT", self._target(path), headers, content):
            self.dircache.clear()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self.put_content(path, io.BytesIO(value), len(value), is_exclusive=mode == "create")

    def put_file(self, lpath: Any, rpath: str, callback: Any = None, mode: str = "overwrite", **options: Any) -> None:
        with open(lpath, "rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            self.put_content(rpath, file, size, is_exclusive=mode == "create")

    def rm_file(self, path: str) -> None:
        with self._asked("DELETE", self._target(path)):
            pass

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files; with `recursive`, those below a folder too."""
        for each in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if self.isfile(each):
                self.rm_file(each)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """Move a file, in one step; or all files of a folder, one after the other."""
        if self.isfile(path1):
            with self._asked("MOVE", self._target(path1), {"destination": self._target(path2)}):
                return
        begin, end = self._strip_protocol(path1), self._strip_protocol(path2)
        for each in self.find(path1):
            self.mv(each, end + each[len(begin) :])

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        with self._open(path1) as source, self._open(path2, "wb") as target:
            _copy(source.read, target)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Folders are there when a file is."""

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Folders are there when a file is."""

    def rmdir(self, path: str) -> None:
        """A folder goes with its last file."""


class _Reader(AbstractBufferedFile):  # type: ignore[misc]
    """A file of one moment: if it is overwritten while it is read, that is told as an error, never mixed."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        headers = {"range": f"bytes={start}-{end - 1}", "if-match": self.details["etag"]}
        return self.fs.stretch(self.path, headers) if end > start else b""


class _Writer(tempfile.SpooledTemporaryFile[bytes]):
    """A file that is sent when it is closed. Leaving a `with` by an exception sends nothing."""

    def __init__(self, files: StoreFileSystem, path: str, *, is_exclusive: bool) -> None:
        super().__init__(MEMORY_BYTES, "w+b")
        self._files, self._path, self._is_exclusive = files, path, is_exclusive

    def close(self) -> None:
        if self.closed:
            return
        try:
            size = self.seek(0, io.SEEK_END)
            self.seek(0)
            self._files.put_content(self._path, self, size, is_exclusive=self._is_exclusive)  # type: ignore[arg-type]
        finally:
            super().close()

    def discard(self) -> None:
        super().close()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def _described(file: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": file["name"], "size": file["size"], "type": "file", "digest": file["digest"], "etag": f'"{file["digest"]}"',
        "mtime": file["modified_us"] / 1e6,
    }  # fmt: skip


def _copy(read: Callable[[int], bytes], file: Any) -> None:
    while chunk := read(COPIED_BYTES):
        file.write(chunk)
