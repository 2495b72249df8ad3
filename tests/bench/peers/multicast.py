"""The bare program: it writes each request to a preallocated file, syncs it, sends it to all servers, returns the first answer.

    python -m tests.bench.peers.multicast PORT FILE SERVER_PORT …       an empty FILE: nothing is written

It keeps no order, knows no keys, compares nothing, and loses a request when it dies: the least that any program must do.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import cast

import httptools
import uvloop

FILE_BYTES = 64 << 20


class Server(asyncio.Protocol):
    """A connection to a server, for one connection of a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._body, self._number = b"", b"", 0

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += name + b": " + value + b"\r\n"

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._number += 1
        status = self._parser.get_status_code()
        self._client.answer(self._number, b"HTTP/1.1 %d OK\r\n%s\r\n%s" % (status, self._headers, self._body))
        self._headers, self._body = b"", b""


class Client(asyncio.Protocol):
    servers: tuple[int, ...] = ()
    file = -1
    offset = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._data, self._asked, self._answered = b"", 0, 0
        self._ready = asyncio.ensure_future(self._connect())

    async def _connect(self) -> list[asyncio.Transport]:
        loop = asyncio.get_running_loop()
        return [(await loop.create_connection(lambda: Server(self), "127.0.0.1", port))[0] for port in self.servers]

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        data, self._data, self._asked = self._data, b"", self._asked + 1
        if self.file >= 0:
            os.pwrite(self.file, data, Client.offset)
            os.fdatasync(self.file)
            Client.offset = (Client.offset + len(data)) % (FILE_BYTES - len(data))
        if self._ready.done():
            self._send(data)
        else:
            self._ready.add_done_callback(lambda _: self._send(data))

    def _send(self, data: bytes) -> None:
        for server in self._ready.result():
            server.write(data)

    def answer(self, number: int, data: bytes) -> None:
        if number > self._answered:
            self._answered = number
            self._transport.write(data)


async def main(port: int, file: str, *servers: str) -> None:
    Client.servers = tuple(map(int, servers))
    if file:
        Client.file = os.open(file, os.O_RDWR | os.O_CREAT)
        os.pwrite(Client.file, bytes(FILE_BYTES), 0)
        os.fsync(Client.file)
    server = await asyncio.get_running_loop().create_server(Client, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), *sys.argv[2:]))
