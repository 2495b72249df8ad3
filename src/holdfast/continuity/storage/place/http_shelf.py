"""A shelf at a plain HTTP server: PUT, GET with Range, DELETE, each on a connection that is used again.

    PUT     2xx: it is stored, as durably as the server means it
    GET     206, or 200 with the whole file from which the stretch is cut; 404: the object is gone
    DELETE  2xx or 404

Another file store's front is such a server, and so is WebDAV, if its folders are there or need not be.
"""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from urllib.parse import quote, urlsplit

from holdfast.continuity.storage.http_connections import HttpConnections
from holdfast.continuity.storage.place.shelf import ObjectGone

# An answer that is not the stretch that was asked for is read up to here.
ANSWER_BYTES_MAX = 64 << 20


class HttpShelf:
    kind = "http"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connections = HttpConnections(parts.netloc, ssl.create_default_context() if parts.scheme == "https" else None)
        self._root = parts.path.rstrip("/")

    def take(self, key: str, file: Path) -> None:
        with file.open("rb") as body:
            status, _ = self._ask("PUT", key, {"Content-Length": str(file.stat().st_size)}, body)
        if not 200 <= status < 300:
            raise OSError(f"the shelf answered {status} to PUT {key}")
        file.unlink()

    def read(self, key: str, begin: int, size: int) -> bytes:
        status, body = self._ask("GET", key, {"Range": f"bytes={begin}-{begin + size - 1}"})
        if status in (404, 410):
            raise ObjectGone(key)
        if status == 416:
            return b""
        if status not in (200, 206):
            raise OSError(f"the shelf answered {status} to GET {key}")
        return body if status == 206 else body[begin : begin + size]

    def remove(self, key: str) -> None:
        status, _ = self._ask("DELETE", key, {})
        if not 200 <= status < 300 and status not in (404, 410):
            raise OSError(f"the shelf answered {status} to DELETE {key}")

    def _ask(self, method: str, key: str, headers: dict[str, str], body: object = None) -> tuple[int, bytes]:
        with self._connections.asked(method, f"{self._root}/{quote(key)}", headers, body) as answer:
            try:
                return answer.status, answer.read(ANSWER_BYTES_MAX)
            except http.client.HTTPException as problem:
                raise OSError(f"the shelf broke off: {problem!r}") from problem

    def close(self) -> None:
        self._connections.close()
