"""A9: a relay that draws from a queue and is killed goes on at once with what its former process held upstream, however long the
grace of that session is; other recipients of the queue get nothing of it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import pytest

import holdfast
from holdfast.client.client import Client
from tests import effort
from tests.relay_process import RelayProcess
from tests.server_process import ServerProcess
from tests.waiting import until

# Longer than any test: whoever waits for it fails.
GRACE = ("--session-grace-ms", "3600000")
EVENTS = 200
WAITING_MAX = 50
KILLS = effort.rounds(short=3, long=20)


def _definition(upstream: str, local: str) -> str:
    return (
        f'name = "berlin"\nlocal = "{local}"\n[upstreams.head]\nurl = "{upstream}"\n'
        '[routes.orders]\nfrom = "head"\nqueue = "orders"\nto = "here"\nmode = "end-to-end"\n' + f"waiting-max = {WAITING_MAX}\n"
    )


async def _take_all(client: Client, queue: str, found: list[int]) -> None:
    async with client.queue(queue).receive(credit=10) as incoming:
        async for event in incoming:
            found.append(event.data)
            await event.confirm()


async def _waiting(client: Client, queue: str) -> int:
    return next((each["waiting"] for each in await client.destinations() if each["name"] == queue), 0)


@pytest.mark.faults
async def test_a_killed_relay_goes_on_at_once_with_what_it_held_of_a_shared_queue(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        head, berlin = (stack.enter_context(ServerProcess(tmp_path / name, *GRACE)) for name in ("head", "berlin"))
        async with holdfast.connect(head.url) as at_head, holdfast.connect(berlin.url) as at_berlin:
            await at_head.create_queue("orders", redelivery_limit=1)
            for number in range(EVENTS):
                await at_head.queue("orders").send(number)
            relay = stack.enter_context(RelayProcess(tmp_path / "relay.toml", _definition(head.url, berlin.url)))

            async def is_full() -> bool:
                return await _waiting(at_berlin, "here") >= WAITING_MAX

            await until(is_full, "the relay has appended as much as may wait")
            passed: list[int] = []
            others: list[int] = []
            tasks = [asyncio.create_task(_take_all(at_head, "orders", others))]
            for _ in range(KILLS):
                relay.kill()
                relay.start()
                relay.until_started()
            tasks.append(asyncio.create_task(_take_all(at_berlin, "here", passed)))
            await until(lambda: len(passed) + len(others) >= EVENTS, "every event has reached a recipient")

            async def is_told() -> bool:
                return await _waiting(at_head, "orders") == 0

            await until(is_told, "upstream was told of all")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert sorted(passed + others) == list(range(EVENTS)), "nothing is lost, and nothing is there twice"
            assert (await at_head.describe("orders"))["dead"] == 0, "no kill counts as a delivery"
            assert relay.stop() == 0


@pytest.mark.faults
async def test_a_relay_that_stood_still_and_was_replaced_ends_and_doubles_nothing_of_its_queue(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        head, berlin = (stack.enter_context(ServerProcess(tmp_path / name, *GRACE)) for name in ("head", "berlin"))
        async with holdfast.connect(head.url) as at_head, holdfast.connect(berlin.url) as at_berlin:
            for number in range(EVENTS):
                await at_head.queue("orders").send(number)
            still = stack.enter_context(RelayProcess(tmp_path / "still.toml", _definition(head.url, berlin.url)))

            async def is_full() -> bool:
                return await _waiting(at_berlin, "here") >= WAITING_MAX

            await until(is_full, "the relay has appended as much as may wait")
            still.signal(signal.SIGSTOP)
            stack.enter_context(RelayProcess(tmp_path / "next.toml", _definition(head.url, berlin.url)))
            passed: list[int] = []
            taking = asyncio.create_task(_take_all(at_berlin, "here", passed))
            await until(lambda: len(passed) > WAITING_MAX, "the next one goes on")
            still.signal(signal.SIGCONT)
            await until(lambda: still.is_over, "the one that stood still ends")
            assert "another process of this relay has taken over" in still.log

            async def is_told() -> bool:
                return await _waiting(at_head, "orders") == 0

            await until(is_told, "upstream was told of all")
            await until(lambda: len(passed) >= EVENTS, "every event has reached its recipient")
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            assert sorted(passed) == list(range(EVENTS)), "nothing is lost, and nothing is there twice"
