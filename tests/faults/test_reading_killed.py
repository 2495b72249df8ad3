"""Reading by place lives through kills: of its owner, which frees the subscription at once, and of the server, which keeps every
place (D1)."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.client.reading.place_reader import Reading
from holdfast.errors import SubscriptionInUse
from tests.contract.places import CuttingProxy
from tests.server_process import ServerProcess

# So long that whoever waits for it does not pass.
PATIENT = ("--session-grace-ms", "600000")

OWNER = """
import asyncio, sys, holdfast
async def main():
    async with holdfast.connect(sys.argv[1]) as client:
        reading = client.reading("alerts", "lake")
        async with reading.owner():
            await client.topic("alerts").send_many(range(10))
            await reading.confirm_up_to((await reading.extent(events_max=4)).end)
            print("owned", flush=True)
            await asyncio.Event().wait()
asyncio.run(main())
"""


async def read(reading: Reading, start: int | None = None) -> list[int]:
    extent = await reading.extent(start)
    slices = [slice async for slice in reading.slices(extent.start, extent.end)]
    return [int(bytes(slice.batch.body(index))) for slice in slices for index in range(slice.events)]


@pytest.mark.faults
async def test_the_subscription_of_a_killed_owner_is_free_at_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *PATIENT) as server:
        victim = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, server.url, stdout=asyncio.subprocess.PIPE)
        assert victim.stdout is not None and await victim.stdout.readline() == b"owned\n"
        async with holdfast.connect(server.url) as client:
            reading = client.reading("alerts", "lake")
            with pytest.raises(SubscriptionInUse):
                async with reading.owner():
                    pytest.fail("two owners")
            victim.kill()
            await victim.wait()

            async with asyncio.timeout(10), reading.owner():
                assert await read(reading) == list(range(4, 10))


@pytest.mark.faults
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_places_and_identity_outlive_the_server_and_the_owner_goes_on(tmp_path: Path, how: str) -> None:
    with ServerProcess(tmp_path / "data", *PATIENT) as server:
        async with holdfast.connect(server.url) as client:
            reading = client.reading("alerts.*", "lake")
            async with reading.owner():
                for number in range(30):
                    await client.topic(f"alerts.{number % 3}").send(number)
                before = await reading.extent(events_max=20, pieces=4)
                await reading.confirm_up_to(before.cuts[0])
                await asyncio.to_thread(server.kill if how == "killed" else server.stop)
                await asyncio.to_thread(server.start)

                after = await reading.extent(before.cuts[0], events_max=15, pieces=3)
                assert (after.identity, after.end, after.cuts) == (before.identity, before.end, before.cuts[1:])
                async with asyncio.timeout(10):  # the former session is not waited for
                    assert await reading.confirm_up_to(before.end) == 15
                assert await read(reading) == list(range(20, 30))
                await client.topic("alerts.later").send(30)
                assert await read(reading, before.end) == list(range(20, 31))


@pytest.mark.faults
async def test_an_ownership_lost_with_its_link_is_taken_again_unless_somebody_else_was_faster(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *PATIENT) as server:
        async with (
            CuttingProxy(server.port) as proxy,
            holdfast.connect(proxy.url) as client,
            holdfast.connect(server.url) as other,
        ):
            reading = client.reading("alerts", "lake")
            async with reading.owner():
                await client.topic("alerts").send_many(range(10))
                extent = await reading.extent(events_max=5)
                proxy.cut()
                assert await reading.confirm_up_to(extent.end) == 5  # over a new link, and as owner again

                proxy.is_refusing = True
                proxy.cut()
                async with asyncio.timeout(10), other.reading("alerts", "lake").owner():
                    proxy.is_refusing = False
                    with pytest.raises(SubscriptionInUse, match="stop that one first"):
                        await reading.confirm_up_to((await reading.extent()).end)
                async with asyncio.timeout(10):
                    assert await reading.confirm_up_to((await reading.extent()).end) == 5


@pytest.mark.faults
async def test_slices_and_extents_go_on_over_a_new_link(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url) as client:
            reading = client.reading("alerts", "lake")
            async with reading.owner():
                async with client.topic("alerts").pipeline() as pipeline:
                    for number in range(20_000):
                        await pipeline.send(b"%06d" % number + bytes(300))
                extent = await reading.extent()
                found: list[int] = []
                taken = itertools.count(1)
                async for slice in reading.slices(extent.start, extent.end):
                    found += [int(bytes(slice.batch.body(index)[:6])) for index in range(slice.events)]
                    if next(taken) % 30 == 0:
                        proxy.cut()

                assert found == list(range(20_000))
                proxy.cut()
                waiting = asyncio.create_task(reading.more(extent.end, 20))
                proxy.cut()
                await client.topic("alerts").send(b"more")
                assert await waiting
