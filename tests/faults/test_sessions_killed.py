"""Sessions of every confirm mode live through kills of the server; what a killed client was handed comes again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.client.checks import ConfirmMode
from holdfast.errors import HoldfastError, LinkLost, TimedOut
from tests import effort
from tests.server_process import ServerProcess
from tests.waiting import until

EVENTS = 600
KILLS = effort.rounds(short=2, long=4)
MODES: tuple[ConfirmMode, ...] = ("event", "auto", "duplicates-ok", "client")

# Takes events in a mode, says how many, and is killed in the middle of its work.
VICTIM = """
import asyncio, sys, holdfast
async def main():
    async with holdfast.connect(sys.argv[1]) as client, client.session(confirm=sys.argv[2]) as session:
        async with session.queue("q").receive(credit=100) as incoming:
            for number in range(50):
                event = await incoming.next(timeout=20)
            if sys.argv[2] == "client":
                await event.confirm()
                await incoming.next(timeout=20)
            if sys.argv[2] != "duplicates-ok":
                await incoming.settled(timeout=20)
            print("ready", flush=True)
            await asyncio.Event().wait()
asyncio.run(main())
"""


async def _is_empty(client: holdfast.Client, queue: str) -> bool:
    while True:
        try:
            return bool((await client.describe(queue, timeout=30))["waiting"] == 0)
        except LinkLost:  # the server was killed while it was asked
            continue


async def _drain(client: holdfast.Client, queue: str, mode: ConfirmMode, seen: list[int]) -> None:
    """Take everything, in a session of its own, until nothing is left, and add it to what was seen."""
    async with client.session(confirm=mode) as session, session.queue(queue).receive(credit=50) as incoming:
        event = await incoming.next(timeout=60)
        while True:
            seen.append(event.data)
            if mode == "event" or (mode == "client" and len(seen) % 7 == 0):
                await event.confirm()
            if len(seen) % 20 == 0:
                await asyncio.sleep(0.02)  # so that the kills find it at work
            try:
                event = await incoming.next(timeout=0.5)
            except TimedOut:
                await event.confirm()
                await incoming.settled(timeout=60)
                if await _is_empty(client, queue):
                    return
                event = await incoming.next(timeout=60)


@pytest.mark.slow
@pytest.mark.faults
async def test_sessions_of_every_mode_go_on_through_kills_of_the_server_and_miss_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url, timeout=60) as client:
            for mode in MODES:
                await client.queue(f"q.{mode}").send_many(range(EVENTS))
            seen: dict[ConfirmMode, list[int]] = {mode: [] for mode in MODES}
            draining = [asyncio.create_task(_drain(client, f"q.{mode}", mode, seen[mode])) for mode in MODES]
            for kill in range(1, KILLS + 1):
                share = EVENTS * kill // (KILLS + 1)
                await until(lambda: min(map(len, seen.values())) >= share, "each has taken its share")  # noqa: B023
                server.kill()
                await asyncio.to_thread(server.start)

            async with asyncio.timeout(120):
                await asyncio.gather(*draining)

            for mode in MODES:
                assert set(seen[mode]) == set(range(EVENTS)), mode


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize(("mode", "left"), [("event", 100), ("auto", 51), ("duplicates-ok", 100), ("client", 50)])
async def test_what_a_killed_client_was_handed_and_had_not_confirmed_comes_again(
    tmp_path: Path, mode: ConfirmMode, left: int
) -> None:
    """JMS 6.2.10: after a failure, what was not acknowledged is redelivered; how much that is depends on the mode."""
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "500") as server:
        async with holdfast.connect(server.url) as client:
            await client.queue("q").send_many(range(100))
            victim = await asyncio.create_subprocess_exec(
                sys.executable, "-c", VICTIM, server.url, mode, stdout=asyncio.subprocess.PIPE
            )
            assert victim.stdout is not None
            assert await victim.stdout.readline() == b"ready\n"
            victim.kill()
            await victim.wait()

            async with client.queue("q").receive() as incoming:
                again = [await incoming.next(timeout=20) for _ in range(left)]
                with pytest.raises(HoldfastError):
                    await incoming.next(timeout=0.1)

            assert [event.data for event in again] == list(range(100 - left, 100))
