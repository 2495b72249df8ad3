"""The HTTP of one connection. What a stranger can make the server keep is limited: the bytes of a head, and the time it takes.

uvicorn itself waits for a head for ever, and keeps all of it.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 32 << 10
HEAD_S_MAX = 10.0


class LimitedProtocol(HttpToolsProtocol):
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(HEAD_S_MAX, self.transport.close)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        self._await_head()
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._got_head()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._got_head()
        super().on_body(body)

    def _got_head(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._got_head()
        super().connection_lost(exc)
