"""A file as an event: it is sent in fragments, never held in memory as a whole, and compared at the end.

    python examples/file_transfer.py [FILE] [URL]

No recipient sees the event before all of it is durable. A recipient reads it as a stream. Its length and digest are checked, so
that the saved file is the file that was sent.
"""

import asyncio
import hashlib
import random
import sys
import tempfile
from pathlib import Path

import holdfast

MEGABYTE = 1 << 20


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def some_file(folder: Path) -> Path:
    made = folder / "holiday.mov"
    with made.open("wb") as file:
        for _ in range(20):
            file.write(random.randbytes(MEGABYTE))
    return made


async def transfer(client: holdfast.Client, path: Path, folder: Path) -> Path:
    receipt = await client.queue("files").send_stream(path, type="file", subject=path.name)
    print(f"{path.name}: durable at position {receipt.position}")
    async with client.queue("files").receive() as incoming:
        event = await incoming.next(timeout=30)
        print(f"received {event.size // MEGABYTE} MB")
        arrived = folder / f"arrived-{event.subject}"
        async with event.open_stream() as stream:
            await stream.save(arrived)
        await event.confirm()
    return arrived


async def main(path: Path | None, url: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sent = path if path is not None else await asyncio.to_thread(some_file, folder)
        async with holdfast.connect(url or f"file:{folder / 'events'}", name="file_transfer") as client:
            arrived = await transfer(client, sent, folder)
        before, after = await asyncio.to_thread(digest_of, sent), await asyncio.to_thread(digest_of, arrived)
        print("the same file" if before == after else "NOT the same file")


holdfast.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None, sys.argv[2] if len(sys.argv) > 2 else ""))
