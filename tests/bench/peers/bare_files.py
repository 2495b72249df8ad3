"""The bare program for files: it writes each one to a folder, synced, before it answers, and reads it when it is asked.

    python -m tests.bench.peers.bare_files PORT FOLDER

One copy, no order, no conditions, no digests: the least that a program must do that keeps files and speaks HTTP.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import cast

import httptools
import uvloop


class Connection(asyncio.Protocol):
    folder = Path()
    folder_number = -1
    count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._body = b"", list[bytes]()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        file, body = self.folder / self._path.strip(b"/").replace(b"/", b"-").decode(), b"".join(self._body)
        self._body.clear()
        if self._parser.get_method() == b"PUT":
            self._write(file, body)
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            found = file.read_bytes()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(found))
            self._transport.write(found)

    def _write(self, file: Path, body: bytes) -> None:
        Connection.count += 1
        part = self.folder / f"part-{Connection.count}"
        number = os.open(part, os.O_WRONLY | os.O_CREAT)
        try:
            os.write(number, body)
            os.fdatasync(number)
        finally:
            os.close(number)
        part.rename(file)
        os.fsync(self.folder_number)


async def main(port: int, folder: str) -> None:
    Connection.folder = Path(folder)
    Connection.folder_number = os.open(folder, os.O_RDONLY)
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2]))
