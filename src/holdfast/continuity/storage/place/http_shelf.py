"""A shelf at a plain HTTP server: PUT, GET with Range, DELETE, each on a connection of its thread that is used again.

    PUT     2xx: it is stored, as durably as the server means it
    GET     206, or 200 with the whole file from which the stretch is cut; 404: the object is gone
    DELETE  2xx or 404

Another file store's front is such a server, and so is WebDAV, if its folders are there or need not be.
"""

from __future__ import annotations

import http.client
import threading
from pathlib import Path
from urllib.parse import quote, urlsplit

from holdfast.continuity.storage.place.shelf import ObjectGone

TIMEOUT_SECONDS = 30.0
# An answer that is not the stretch that was asked for is read up to here.
ANSWER_BYTES_MAX = 64 << 20


class HttpShelf:
    kind = "http"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port
        self._root = parts.path.rstrip("/")
        self._local = threading.local()

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
        """Ask once, and a second time if a connection that was used before is closed meanwhile."""
        for is_last in (False, True):
            connection, was_used = self._connection()
            try:
                connection.request(method, f"{self._root}/{quote(key)}", body, headers)  # type: ignore[arg-type]
                answer = connection.getresponse()
                found = answer.status, answer.read(ANSWER_BYTES_MAX)
                if not answer.isclosed():
                    self._forget()
                return found
            except (http.client.HTTPException, OSError) as problem:
                self._forget()
                if is_last or not was_used:
                    raise OSError(f"the shelf at {self._host} does not answer: {problem}") from problem
                if hasattr(body, "seek"):
                    body.seek(0)
        raise AssertionError("the last try returns or raises")

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        found: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if found is not None:
            return found, True
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        made = self._local.connection = kind(self._host, self._port, timeout=TIMEOUT_SECONDS)
        return made, False

    def _forget(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def close(self) -> None:
        self._forget()
