"""A small HTTP server, as a process: it answers every request with a few bytes, after a delay if it is told one.

    python -m tests.bench.peers.small_server PORT [DELAY_SECONDS]

`GET /count` tells how many other requests it has answered.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import httptools
import uvloop


class Connection(asyncio.Protocol):
    answered = 0
    delay = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_message_complete(self) -> None:
        if self._path == b"/count":
            return self._answer(b"%d" % Connection.answered)
        Connection.answered += 1
        if not self.delay:
            return self._answer(b"it is done")
        asyncio.get_running_loop().call_later(self.delay, self._answer, b"it is done")
        return None

    def _answer(self, body: bytes) -> None:
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


async def main(port: int, delay: float = 0.0) -> None:
    Connection.delay = delay
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), *map(float, sys.argv[2:3])))
