"""D3, rule 10: SIGKILL of a program that stages and publishes, before it has sealed, before and after its publish is answered;
and of the server meanwhile. Whoever comes after it does the same again, under names of its own: everything is there, each once.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.client.client import Client
from tests.faults import staging_program
from tests.faults.staging_program import EVENTS, work
from tests.server_process import ServerProcess


async def killed(server: ServerProcess, number: int, moment: str, is_server: bool) -> None:
    """Run it until that moment; then kill it, or the server, which is started again."""
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-m", staging_program.__name__, server.url, str(number), stdout=asyncio.subprocess.PIPE
    )
    assert victim.stdout is not None
    while await asyncio.wait_for(victim.stdout.readline(), 30) != moment.encode() + b"\n":
        assert not victim.stdout.at_eof()
    if is_server:
        server.kill()
        server.start()
        await asyncio.wait_for(victim.communicate(), 30)
        assert victim.returncode == 0
    else:
        victim.kill()
        await victim.communicate()


@pytest.mark.slow
@pytest.mark.faults
async def test_whoever_is_killed_when_everything_is_published_once_and_whole(tmp_path: Path) -> None:
    """What a program asked just before it was killed may reach the server later than the next who looks: then it counts all the
    same, and whoever asks after it is told so."""
    moments = [("staging", False), ("staging", True), ("asked", False), ("asked", True), ("published", False)]
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "300") as server:
        async with holdfast.connect(server.url, timeout=20) as client:
            await client.create_queue("out")
            for number, (moment, is_server) in enumerate(moments):
                await killed(server, number, moment, is_server)
                seen = len(await events(client))
                assert seen in (number * EVENTS, (number + 1) * EVENTS), f"all or nothing, after {moment}"

                is_new = await work(server.url, number, "successor")

                if (moment, is_server) == ("asked", False):
                    assert not is_new or seen == number * EVENTS
                else:  # one whose server was killed asks again, and is answered
                    is_asked = is_server or moment == "published"
                    assert (is_new, seen) == (not is_asked, (number + is_asked) * EVENTS)
                assert await events(client) == [f"{n} {i}" for n in range(number + 1) for i in order()]


def order() -> list[int]:
    """That of the stages, and within each that of sending."""
    return [*range(0, EVENTS, 2), *range(1, EVENTS, 2)]


async def events(client: Client) -> list[str]:
    async with client.queue("out").browse() as browser:
        return [" ".join(event.data.split()[:2]) async for event in browser]
