"""Every kind of shelf does the same: a folder, file systems of fsspec, and a plain HTTP server."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.continuity.errors import PlaceInUse, WrongPlace
from holdfast.continuity.storage.place.catalog import Held, Numbered
from holdfast.continuity.storage.place.place_folder import PlaceFolder
from holdfast.continuity.storage.place.shelf import ObjectGone, Shelf, key_of, open_shelf
from holdfast.errors import BadSetting

KEY = key_of("ab" * 32)


class _Handler(BaseHTTPRequestHandler):
    """A plain server that keeps what is PUT. Whether it knows Range is what is tried."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    knows_range = True

    def _say(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["content-length"]))
        self._say(201)

    def do_GET(self) -> None:
        body = self.objects.get(self.path)
        if body is None:
            return self._say(404)
        if not self.knows_range:
            return self._say(200, body)
        begin, end = (int(each) for each in self.headers["range"].removeprefix("bytes=").split("-"))
        return self._say(206, body[begin : end + 1]) if begin < len(body) else self._say(416)

    def do_DELETE(self) -> None:
        self._say(204 if self.objects.pop(self.path, None) is not None else 404)

    def log_message(self, *told: Any) -> None:
        pass


@pytest.fixture(params=["ranges", "whole"])
def http_url(request: pytest.FixtureRequest) -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"objects": {}, "knows_range": request.param == "ranges"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/base"
        server.shutdown()
        thread.join()


WHERE: dict[str, Callable[[Path], str]] = {
    "folder": lambda folder: str(folder / "shelf"),
    "folder by URL": lambda folder: f"file:{folder}/shelf",
    "fsspec file": lambda folder: f"file://{folder}/shelf",
    "fsspec memory": lambda folder: f"memory://{secrets.token_hex(4)}",
    "memory in short": lambda folder: f"memory:{secrets.token_hex(4)}",
}


def _spooled(folder: Path, body: bytes) -> Path:
    file = folder / secrets.token_hex(4)
    file.write_bytes(body)
    return file


def _keeps_its_word(shelf: Shelf, folder: Path) -> None:
    with pytest.raises(ObjectGone):
        shelf.read(KEY, 0, 10)
    shelf.remove(KEY)  # of what is not there

    file = _spooled(folder, b"0123456789")
    shelf.take(KEY, file)
    assert not file.exists()
    assert [shelf.read(KEY, 0, 100), shelf.read(KEY, 3, 4), shelf.read(KEY, 10, 4)] == [b"0123456789", b"3456", b""]

    shelf.take(KEY, _spooled(folder, b"other"))
    assert shelf.read(KEY, 0, 100) == b"other"

    shelf.remove(KEY)
    with pytest.raises(ObjectGone):
        shelf.read(KEY, 0, 10)
    shelf.close()


@pytest.mark.parametrize("where", WHERE)
def test_a_shelf_takes_objects_whole_reads_stretches_and_removes(where: str, tmp_path: Path) -> None:
    _keeps_its_word(open_shelf(WHERE[where](tmp_path)), tmp_path)


def test_a_shelf_at_a_plain_http_server_does_the_same(http_url: str, tmp_path: Path) -> None:
    _keeps_its_word(open_shelf(http_url), tmp_path)


def test_a_shelf_that_is_out_of_order_says_so_and_not_that_an_object_is_gone(tmp_path: Path) -> None:
    shelf = open_shelf("http://127.0.0.1:1/")
    with pytest.raises(OSError, match="does not answer"):
        shelf.read(KEY, 0, 1)
    with pytest.raises(BadSetting, match="no file system"):
        open_shelf("nonsense://x")


def test_one_process_has_a_place_and_the_folder_of_another_is_refused(tmp_path: Path) -> None:
    folder = PlaceFolder("files", "a", str(tmp_path / "a"), None)
    with pytest.raises(PlaceInUse):
        PlaceFolder("files", "a", str(tmp_path / "a"), None)
    folder.close()

    with pytest.raises(WrongPlace, match="place 'a', not 'b'"):
        PlaceFolder("files", "b", str(tmp_path / "a"), None)
    with pytest.raises(BadSetting, match="--folder"):
        PlaceFolder("files", "b", "memory://x", None)


def test_a_shelf_that_was_emptied_holds_nothing_that_the_catalog_says(tmp_path: Path) -> None:
    first, second = (f"memory://{secrets.token_hex(4)}" for _ in range(2))
    folder = PlaceFolder("files", "a", first, tmp_path)
    folder.objects.catalog.hold([Held("ab" * 32, 1, b"")])
    folder.objects.catalog.apply([Numbered(1, 10, 0, None)], [], 0)
    folder.close()

    folder = PlaceFolder("files", "a", first, tmp_path)
    assert folder.objects.catalog.held("ab" * 32) is not None
    folder.close()

    folder = PlaceFolder("files", "a", second, tmp_path)  # an empty one in its place
    assert folder.objects.catalog.held("ab" * 32) is None
    assert folder.objects.catalog.fact("filling") == 1
    folder.close()

    with pytest.raises(WrongPlace, match="place 'a' of file store 'files'"):
        PlaceFolder("files", "b", first, tmp_path / "b")
