"""Reports on request: the reply, a file of any size and a line for the books are there together, or not at all.

    holdfast serve --journal-size 1G
    holdfast work examples.services.reports:worker --url holdfast://localhost
    python -m examples.services.reports holdfast://localhost 300

The last command asks for a report of 300 MB, and saves it in this folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

import holdfast

worker = holdfast.Worker()


class Wanted(msgspec.Struct):
    name: str
    megabytes: int


def lines(wanted: Wanted) -> Iterator[bytes]:
    for _ in range(wanted.megabytes):
        yield wanted.name.encode().ljust(999_999) + b"\n"


@worker.queue("reports", concurrency=2, retries=3, transactional=True)
async def write(wanted: Wanted, tx: holdfast.Transaction) -> dict[str, str]:
    await tx.queue("files").send_stream(lines(wanted), subject=wanted.name, type="report")
    await tx.topic("books").send({"written": wanted.name})
    return {"file": wanted.name}


async def fetch(url: str, wanted: Wanted, folder: Path) -> Path:
    async with holdfast.connect(url) as client:
        await client.queue("reports").request(wanted, timeout=300)
        async with client.queue("files").receive(selector=f"subject = '{wanted.name}'") as files:
            event = await files.next(timeout=60)
            async with event.open_stream() as stream:
                await stream.save(folder / wanted.name)
            await event.confirm()
    return folder / wanted.name


if __name__ == "__main__":
    print(holdfast.run(fetch(sys.argv[1], Wanted("year.txt", int(sys.argv[2])), Path.cwd())))
