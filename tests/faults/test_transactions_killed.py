"""B11, B13: SIGKILL of server or client at random moments. Transactions happen whole or not at all, large events arrive unharmed
or not at all, and what nobody committed leaves no space behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdfast
from holdfast.client.receiving.large_event import EventStream
from holdfast.errors import HoldfastError, TimedOut
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import turn_loop, until

SEED = 20_261_115
COUNT = effort.rounds(short=4_000, long=20_000)
COMMITS_BETWEEN = 20
MOVERS = effort.rounds(short=3, long=8)
MIB = 1 << 20
# More than either process may hold.
THROUGH_MIB = effort.rounds(short=160, long=300)
OPTIONS = ("--journal-size", "512M", "--session-grace-ms", "1000")


async def drained(client: holdfast.Client, queue: str) -> Counter[object]:
    found: Counter[object] = Counter()
    async with client.queue(queue).receive() as incoming:
        while True:
            try:
                event = await incoming.next(1.0)
            except TimedOut:
                return found
            found[event.data] += 1
            await event.confirm()


class Moves:
    """Programs that take from one queue and send to two others, in transactions, and count what they were told is committed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.committed = 0
        self.is_over = False

    async def run(self) -> None:
        async with holdfast.connect(self._url, timeout=30) as client:
            while not self.is_over:
                with contextlib.suppress(HoldfastError):  # aborted, or nobody knows: the count at the end decides
                    async with client.queue("in").receive(credit=10) as incoming:
                        while not self.is_over:
                            await self._move(client, await incoming.next(1.0))

    async def _move(self, client: holdfast.Client, event: holdfast.ReceivedEvent) -> None:
        async with client.transaction() as tx:
            await tx.queue("left").send(event.data)
            await tx.queue("right").send(event.data)
            await tx.confirm(event)
        self.committed += 1

    async def reached(self, committed: int) -> None:
        await until(lambda: self.committed >= committed, f"{committed} transactions are committed")


async def check_whole(url: str, count: int) -> int:
    async with holdfast.connect(url, timeout=30) as client:
        waiting, left, right = [await drained(client, queue) for queue in ("in", "left", "right")]
    assert left == right, "a transaction happened in part"
    assert waiting + left == Counter(range(count)), "an event was lost, or moved twice"
    return left.total()


@pytest.mark.slow
@pytest.mark.faults
async def test_transactions_of_a_server_killed_at_random_moments_happen_whole_or_not_at_all(tmp_path: Path) -> None:
    random.seed(effort.seed(SEED))
    with ServerProcess(tmp_path / "data", *OPTIONS) as server:
        async with holdfast.connect(server.url) as client:
            await client.queue("in").send_many(range(COUNT))
        moves = Moves(server.url)
        movers = [asyncio.create_task(moves.run()) for _ in range(3)]
        for _ in range(effort.rounds(short=4, long=20)):
            await moves.reached(moves.committed + COMMITS_BETWEEN)
            await asyncio.sleep(random.uniform(0.0, 0.3))  # the moment is part of what is tried
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await moves.reached(moves.committed + COMMITS_BETWEEN)
        moves.is_over = True
        await asyncio.wait_for(asyncio.gather(*movers), 90)
        moved = await check_whole(server.url, COUNT)

    assert moved >= moves.committed


MOVER = """
import asyncio, sys, holdfast

async def main():
    async with holdfast.connect(sys.argv[1]) as client, client.queue("in").receive(credit=10) as incoming:
        async for event in incoming:
            async with client.transaction() as tx:
                await tx.queue("left").send(event.data)
                await tx.queue("right").send(event.data)
                await tx.confirm(event)
            print("moved", flush=True)

asyncio.run(main())
"""
SENDER = """
import asyncio, sys, holdfast

async def endless():
    while True:
        yield b"x" * 100_000

async def main():
    async with holdfast.connect(sys.argv[1]) as client:
        await client.queue("large").send_stream(endless())

asyncio.run(main())
"""


def started(program: str, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE)


async def applied(client: holdfast.Client, at_least: int) -> None:
    async def is_so() -> bool:
        return bool((await client.status())["applied"] >= at_least)

    await until(is_so, f"{at_least} entries are applied")


async def alone(client: holdfast.Client) -> None:
    async def is_so() -> bool:
        return bool((await client.status())["sessions"] == 1)

    await until(is_so, "all other sessions are given up")


@pytest.mark.slow
@pytest.mark.faults
async def test_transactions_of_a_client_killed_at_random_moments_happen_whole_or_not_at_all(tmp_path: Path) -> None:
    random.seed(effort.seed(SEED))
    with ServerProcess(tmp_path / "data", *OPTIONS) as server:
        async with holdfast.connect(server.url) as client:
            await client.queue("in").send_many(range(COUNT))
        for _ in range(MOVERS):
            mover = started(MOVER, server.url)
            assert mover.stdout is not None
            await asyncio.to_thread(mover.stdout.readline)  # from its first commit on
            await asyncio.sleep(random.uniform(0.0, 0.2))
            mover.kill()
            mover.communicate()

        assert await check_whole(server.url, COUNT) >= MOVERS


@pytest.mark.slow
@pytest.mark.faults
async def test_a_client_killed_in_the_middle_of_a_large_event_leaves_neither_event_nor_space_behind(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--journal-size", "256M", "--session-grace-ms", "500") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_queue("large")
            for _ in range(4):  # together more than the journal has room for
                sender = started(SENDER, server.url)
                before = (await client.status())["applied"]
                try:
                    await applied(client, before + 300)
                finally:
                    sender.kill()
                    sender.communicate()
                await alone(client)
                assert (await client.describe("large"))["waiting"] == 0
            await client.queue("large").send_stream(b"x" * 40 * MIB, timeout=30)


@pytest.mark.faults
async def test_what_begins_while_the_server_dies_begins_once_more_at_the_next(tmp_path: Path) -> None:
    """The server took the link and died before it read anything of the session: no need to trouble the program."""

    async def fall_over(server: ServerProcess) -> None:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

    with ServerProcess(tmp_path / "data", "--session-grace-ms", "20000") as server:
        async with holdfast.connect(server.url, timeout=60) as client:
            os.kill(server.pid, signal.SIGSTOP)
            async with client.transaction() as transaction:
                await transaction.queue("orders").send("both")
                await transaction.queue("orders").send("or none")
                await fall_over(server)

        async with holdfast.connect(server.url, timeout=60) as client:
            os.kill(server.pid, signal.SIGSTOP)
            sending = asyncio.create_task(client.queue("files").send_stream(b"file" * MIB))
            await turn_loop(3)
            await fall_over(server)
            await sending

            assert await drained(client, "orders") == Counter(["both", "or none"])
            async with client.queue("files").receive() as incoming, (await incoming.next()).open_stream() as stream:
                assert await stream.read() == b"file" * MIB


@pytest.mark.slow
@pytest.mark.faults
async def test_a_large_event_sent_and_read_through_kills_of_the_server_arrives_unharmed(tmp_path: Path) -> None:
    random.seed(effort.seed(SEED))
    pieces = [hashlib.shake_128(b"%d" % number).digest(MIB) for number in range(effort.rounds(short=24, long=60))]

    async def slowly() -> AsyncIterator[bytes]:
        for piece in pieces:
            await asyncio.sleep(0.03)  # both ways take several seconds, however fast the machine: time for kills
            yield piece

    async def kill_often(server: ServerProcess, until: asyncio.Task[object]) -> int:
        kills = 0
        while not until.done():
            await asyncio.sleep(random.uniform(0.05, 0.3))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            kills += 1
            await asyncio.wait({until}, timeout=1.0)
        return kills

    async def read(stream: EventStream) -> bytes:
        digest = hashlib.sha256()
        async for piece in stream:
            digest.update(piece)
            await asyncio.sleep(0.03 * len(piece) / MIB)
        return digest.digest()

    with ServerProcess(tmp_path / "data", "--journal-size", "512M", "--session-grace-ms", "20000") as server:
        async with holdfast.connect(server.url, timeout=60) as client:
            sending = asyncio.create_task(client.queue("large").send_stream(slowly()))
            kills = await kill_often(server, sending)
            await sending
            async with client.queue("large").receive() as incoming:
                event = await incoming.next(30)
                async with event.open_stream() as stream:
                    reading = asyncio.create_task(read(stream))
                    kills += await kill_often(server, reading)
                    digest = await reading
                await event.confirm()

    assert kills >= 2, "one on each way"
    assert digest == hashlib.sha256(b"".join(pieces)).digest()


THROUGH = """
import asyncio, sys, holdfast

async def content():
    for number in range(int(sys.argv[2])):
        yield number.to_bytes(4, "big") * (1 << 18)

async def main():
    async with holdfast.connect(sys.argv[1]) as client, client.queue("large").receive() as incoming:
        await client.queue("large").send_stream(content())
        event = await incoming.next(10)
        total = 0
        async with event.open_stream() as stream:
            async for chunk in stream:
                total += len(chunk)
        await event.confirm()
        await incoming.settled()
        assert total == event.size == int(sys.argv[2]) << 20

asyncio.run(main())
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.faults
async def test_a_large_event_goes_through_in_a_bounded_memory_of_server_and_client(tmp_path: Path) -> None:
    """B13: never held in memory anywhere."""
    with ServerProcess(tmp_path / "data", "--journal-size", "1G") as server:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", THROUGH, server.url, str(THROUGH_MIB), stdout=asyncio.subprocess.PIPE
        )  # fmt: skip
        highest = 0.0
        while client.returncode is None:
            highest = max(highest, server.memory_mb())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.wait(), 0.05)
        assert client.stdout is not None
        said = await client.stdout.read()

    assert client.returncode == 0
    assert highest < 150, f"the server held {highest:.0f} MB"
    assert int(said) < 150, f"the client held {said!r} MB"
    print(f"server {highest:.0f} MB, client {int(said)} MB")
