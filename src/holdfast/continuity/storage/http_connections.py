"""Connections to an HTTP server for plain, blocking programs: used again, by any thread, one request at a time each."""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TIMEOUT_SECONDS = 60.0
# A token in an argument is seen by every user of the machine.
TOKEN_VARIABLE = "HOLDFAST_STORE_TOKEN"
IDLE_MAX = 16


def shown_token(token: str = "") -> dict[str, str]:
    """The header that shows a token, or the one in the environment; nothing without."""
    token = token or os.environ.get(TOKEN_VARIABLE, "")
    return {"authorization": f"Bearer {token}"} if token else {}


class HttpConnections:
    def __init__(self, host: str, tls: ssl.SSLContext | None = None) -> None:
        """`host`: HOST or HOST:PORT."""
        self._host = host
        self._tls = tls
        self._idle: list[http.client.HTTPConnection] = []  # its methods are atomic

    @contextmanager
    def asked(self, method: str, target: str, headers: dict[str, str], body: Any = None) -> Iterator[http.client.HTTPResponse]:
        """Ask, and read the answer inside. OSError if none comes. An answer that is left unread costs its connection."""
        connection, answer = self._answer(method, target, headers, body)
        try:
            yield answer
        finally:
            is_read = answer.isclosed() or answer.length == 0
            answer.close()
            if is_read and not answer.will_close and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
            else:
                connection.close()

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: Any
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:  # fmt: skip
        """Ask on a connection that was used before, and on a new one if that was closed meanwhile."""
        while True:
            connection, was_used = self._connection()
            try:
                connection.request(method, target, body, headers)
                return connection, connection.getresponse()
            except (http.client.HTTPException, OSError) as problem:
                connection.close()
                if not was_used:
                    raise OSError(f"{self._host} does not answer: {problem}") from problem
                if hasattr(body, "seek"):
                    body.seek(0)

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        try:
            return self._idle.pop(), True
        except IndexError:
            pass
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, timeout=TIMEOUT_SECONDS, context=self._tls), False
        return http.client.HTTPConnection(self._host, timeout=TIMEOUT_SECONDS), False

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
