"""A2: a really full file system. What the reserve promises is still accepted, confirmations always are, nothing is lost."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Blocked, DiskFailed
from tests import effort
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.faults]

MIB = 1 << 20
RESERVE = 4 * MIB
SIZES = ("--journal-size", "1G", "--reserve", "4M", "--segment-size", "1M")
BODY = os.urandom(16 << 10)


@pytest.fixture(params=["tmpfs", "ext4"])
def small_file_system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 MiB of its own; skipped only where mounting is not permitted."""
    place = tmp_path / "mounted"
    place.mkdir()
    image = tmp_path / "image"
    if request.param == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(place)]
    else:
        with image.open("wb") as file:
            file.truncate(160 * MIB)
        made = subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], capture_output=True, check=False)
        if made.returncode:
            pytest.skip(f"mkfs.ext4 is not to be had here: {made.stderr.decode()}")
        mount = ["mount", "-o", "loop", str(image), str(place)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def fill(folder: Path) -> Path:
    """Another file takes all the space there is."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (MIB, 4096, 512):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


async def send_until_blocked(client: holdfast.Client, first: int) -> tuple[int, Blocked]:
    """Send numbered events one after the other; how many were accepted, and the refusal."""
    accepted = first
    while True:
        try:
            await client.queue("orders").send(BODY, properties={"number": accepted}, timeout=10)
        except Blocked as blocked:
            return accepted, blocked
        accepted += 1
        assert accepted * len(BODY) < 1 << 30, "it was never blocked"


async def send_patiently(client: holdfast.Client, number: int) -> None:
    """Space is looked for again every few seconds; until then a producer may be blocked once more."""
    async with asyncio.timeout(20):
        while True:
            try:
                await client.queue("orders").send(BODY, properties={"number": number}, timeout=20)
                return
            except Blocked:
                await asyncio.sleep(0.1)


async def receive_all(client: holdfast.Client, expected: range) -> None:
    async with client.queue("orders").receive() as incoming:
        for number in expected:
            event = await incoming.next(timeout=20)
            assert (event.properties["number"], event.data) == (number, BODY)
            await event.confirm()
        await incoming.settled(timeout=20)


async def test_on_a_full_disk_the_reserve_takes_events_then_producers_are_blocked_and_after_space_returns_all_flows(
    small_file_system: Path,
) -> None:
    with ServerProcess(small_file_system / "data", *SIZES) as server:
        async with holdfast.connect(server.url) as client:
            await client.queue("orders").send(BODY, properties={"number": 0})
            filler = await asyncio.to_thread(fill, small_file_system)

            # The growth that was under way is used up first; what the reserve states is accepted on top of it.
            accepted, blocked = await send_until_blocked(client, 1)
            assert accepted * len(BODY) >= RESERVE
            assert client.is_blocked
            assert "safe" in blocked.sentence

            # Confirmations are always taken, although the disk is full and producers are blocked.
            half = accepted // 2
            await receive_all(client, range(half))

            # The event that reports the shortage can be sent again once confirmations have freed space, disk still full.
            await send_patiently(client, accepted)
            again, _ = await send_until_blocked(client, accepted + 1)

            # A crash on the full disk loses nothing either.
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            filler.unlink()
            await receive_all(client, range(half, again))
            for number in range(again, again + 1000):
                await send_patiently(client, number)
            await receive_all(client, range(again, again + 1000))
            assert not client.is_blocked


async def test_when_the_file_size_limit_stops_growth_nothing_accepted_is_lost_and_it_goes_on_when_the_limit_is_lifted(
    tmp_path: Path,
) -> None:
    """RLIMIT_FSIZE below a segment: no new segment can be made, and even old ones can only be written in part."""
    with ServerProcess(tmp_path / "data", *SIZES) as server:
        async with holdfast.connect(server.url) as client:
            await client.queue("orders").send(BODY, properties={"number": 0})
            server.limit(resource.RLIMIT_FSIZE, 512 << 10)

            accepted = 1
            try:
                while accepted * len(BODY) < 1 << 30:
                    await client.queue("orders").send(BODY, properties={"number": accepted}, timeout=10)
                    accepted += 1
            except (Blocked, DiskFailed) as refusal:
                assert refusal.sentence

            server.limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await receive_all(client, range(accepted))
            await client.queue("orders").send(BODY, properties={"number": accepted}, timeout=20)
            await receive_all(client, range(accepted, accepted + 1))


async def test_a_file_size_limit_of_one_segment_changes_nothing(tmp_path: Path) -> None:
    """RLIMIT_FSIZE of one segment: a log that grows one file would end here; segments go on."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))

    with ServerProcess(tmp_path / "data", *SIZES, limits=limited) as server:
        async with holdfast.connect(server.url) as client:
            await client.queue("orders").send_many(
                [holdfast.Event(data=BODY, properties={"number": number}) for number in range(2000)]
            )
            await receive_all(client, range(2000))


async def test_with_memory_capped_a_slow_recipient_lets_a_backlog_far_beyond_it_grow_and_nothing_is_lost(tmp_path: Path) -> None:
    """RLIMIT_AS: a backlog larger than the address space that the server may have beyond what it has idle."""
    cap = 560 * MIB  # an idle server has 290 MiB of it, most of it never touched

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (cap, cap))

    count = effort.rounds(short=320, long=700) * MIB // len(BODY)
    with ServerProcess(tmp_path / "data", "--journal-size", "2G", limits=limited) as server:
        async with holdfast.connect(server.url) as client:
            async with client.queue("orders").receive(credit=10) as slow:
                async with client.queue("orders").pipeline() as pipeline:
                    for number in range(count):
                        await pipeline.send(BODY, properties={"number": number})
                assert server.memory_mb() < 150
                first = await slow.next(timeout=10)
                assert first.properties["number"] == 0
            await receive_all(client, range(count))
