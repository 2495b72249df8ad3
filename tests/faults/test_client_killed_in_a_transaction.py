"""B11, rule 10: SIGKILL of a client that has stored most of a transaction and not committed it: nothing of it is seen, what it
confirmed comes again, and the space it took is free."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import holdfast
from tests.server_process import ServerProcess
from tests.waiting import until

MIB = 1 << 20
# Together more than the journal has room for.
VICTIMS = 5
LARGE_BYTES = 40 * MIB

VICTIM = """
import asyncio, sys, holdfast

async def main():
    async with holdfast.connect(sys.argv[1]) as client, client.queue("in").receive() as incoming:
        event = await incoming.next(20)
        tx = client.transaction()
        await tx.confirm(event)
        await tx.queue("out").send(event.data)
        await tx.queue("out").send_stream(b"x" * int(sys.argv[2]))
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def is_alone(client: holdfast.Client) -> bool:
    """The server has given up all other sessions."""
    return bool((await client.status())["sessions"] == 1)


@pytest.mark.slow
@pytest.mark.faults
async def test_a_client_killed_before_its_commit_leaves_nothing_of_the_transaction_behind(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--journal-size", "160M", "--session-grace-ms", "300") as server:
        async with holdfast.connect(server.url) as client:
            await client.queue("in").send("moved")
            for _ in range(VICTIMS):
                victim = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", VICTIM, server.url, str(LARGE_BYTES), stdout=asyncio.subprocess.PIPE
                )
                assert victim.stdout is not None
                assert await asyncio.wait_for(victim.stdout.readline(), 60) == b"ready\n"
                victim.kill()
                await victim.wait()
                await until(lambda: is_alone(client), "the session of the victim is given up")

            async with client.queue("in").receive() as incoming:
                assert (await incoming.next(20)).data == "moved"
            assert (await client.describe("out"))["waiting"] == 0
            await client.queue("out").send_stream(b"x" * LARGE_BYTES)
