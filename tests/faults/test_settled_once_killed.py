"""Servers are killed, recipients stopped and cut off, for less or more than the grace: an event is settled by one recipient."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.errors import AlreadyFinished, Detached, LinkLost, TimedOut
from holdfast.simulation.checkers.account import Account
from tests import effort
from tests.contract.places import CuttingProxy
from tests.running_server import SETTINGS, running, start
from tests.server_process import ServerProcess
from tests.waiting import until


async def taken(incoming: Incoming, count: int) -> list[ReceivedEvent]:
    return [await incoming.next(timeout=10) for _ in range(count)]


async def settled_by(client: Client, count: int) -> list[int]:
    """What a second recipient gets, and settles."""
    async with client.queue("q").receive() as incoming:
        events = [await incoming.next(timeout=60) for _ in range(count)]
        for event in events:
            await event.confirm()
        await incoming.settled()
    return [event.data for event in events]


@asynccontextmanager
async def away_through_a_kill(server: ServerProcess) -> AsyncIterator[tuple[Client, list[ReceivedEvent], Incoming, CuttingProxy]]:
    """A recipient that holds ten events, three of them in its program, and is cut off while the server is killed and started."""
    async with CuttingProxy(server.port) as proxy, holdfast.connect(server.url) as other, holdfast.connect(proxy.url) as client:
        for number in range(10):
            await other.queue("q").send(number, group="g" if number % 2 else None)
        async with client.queue("q").receive() as incoming:
            first = await taken(incoming, 3)
            await until(lambda: len(incoming._receiver.held) == 10, "all ten are held")
            proxy.is_refusing = True
            server.kill()
            await asyncio.to_thread(server.start)
            yield other, first, incoming, proxy


@pytest.mark.slow
@pytest.mark.faults
async def test_a_receiver_that_may_still_come_back_after_a_kill_of_the_server_keeps_what_it_holds(tmp_path: Path) -> None:
    """The grace of a session is the same after a lost link and after a start."""
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "120000") as server:
        async with away_through_a_kill(server) as (other, first, incoming, proxy):
            async with other.queue("q").receive() as beside:
                with pytest.raises(TimedOut):  # a grace is two minutes; what is not kept would come at once
                    await beside.next(timeout=1)
            proxy.is_refusing = False

            events = first + await taken(incoming, 7)
            for event in events:
                await event.confirm()
            await incoming.settled()

            assert sorted(event.data for event in events) == list(range(10))
            assert (await other.describe("q"))["waiting"] == 0


@pytest.mark.slow
@pytest.mark.faults
async def test_a_receiver_that_is_away_for_longer_than_that_hears_it_and_has_settled_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "500") as server:
        async with away_through_a_kill(server) as (other, first, incoming, proxy):
            others = await settled_by(other, 10)
            proxy.is_refusing = False
            await incoming._receiver.session.connection.session.until_ready(asyncio.get_running_loop().time() + 60)

            with pytest.raises(TimedOut):
                await incoming.next(timeout=0)
            await first[0].confirm()
            with pytest.raises(Detached):
                await incoming.settled()
            assert sorted(others) == list(range(10))


# What a program does that is stopped in the middle of its work, and goes on when everything is over.
STOPPED = """
import asyncio, sys, holdfast
async def main():
    async with holdfast.connect(sys.argv[1]) as client, client.queue("q").receive() as incoming:
        event = await incoming.next(timeout=10)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await event.confirm()
        try:
            await incoming.settled(timeout=20)
            print("settled", flush=True)
        except holdfast.errors.HoldfastError as problem:
            print(problem.code, flush=True)
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.faults
async def test_a_program_that_was_stopped_until_its_events_went_to_another_has_settled_nothing(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, heartbeat_ms=100)
    async with running(tmp_path / "data", settings) as server, holdfast.connect(server.url) as client:
        await client.queue("q").send_many(range(10))
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STOPPED, server.url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert program.stdin is not None and program.stdout is not None
        assert await asyncio.wait_for(program.stdout.readline(), 20) == b"ready\n"
        program.send_signal(signal.SIGSTOP)
        assert sorted(await settled_by(client, 10)) == list(range(10))

        program.send_signal(signal.SIGCONT)
        program.stdin.write(b"go on\n")
        assert await asyncio.wait_for(program.stdout.readline(), 20) in (b"detached\n", b"link-lost\n")
        await program.wait()


async def work(url: str, recipient: str, account: Account, is_over: asyncio.Event) -> None:
    """Confirm a few, and wait until that is settled, again and again; what was refused, or is not known, is not settled."""
    async with holdfast.connect(url, timeout=60) as client, client.queue("q").receive(credit=20) as incoming:
        while not is_over.is_set():
            taken: dict[int, int] = {}
            try:
                for _ in range(random.randint(1, 8)):
                    event = await incoming.next(timeout=0.1)
                    account.delivered("q", recipient, "producer", event.data)
                    taken[event.position] = event.data
                    await event.confirm()
            except TimedOut:
                pass
            try:
                await incoming.settled(timeout=60)
            except AlreadyFinished as problem:
                for first, last in problem.fields["positions"]:
                    for position in range(first, last + 1):
                        taken.pop(position, None)
            except (Detached, LinkLost):
                taken.clear()
            for number in taken.values():
                account.settled("q", "producer", number)


@pytest.mark.slow
@pytest.mark.faults
async def test_receivers_that_come_and_go_through_crashes_never_settle_an_event_twice(tmp_path: Path) -> None:
    """Away for less or more than the grace, of a link and of a start, at random moments."""
    random.seed(effort.seed(10))
    account, is_over, count = Account("q"), asyncio.Event(), effort.rounds(short=600, long=1_500)
    server = await start(tmp_path / "data")
    port = server.port
    async with CuttingProxy(port) as one, CuttingProxy(port) as two, CuttingProxy(port) as three:
        proxies = (one, two, three)
        workers = [asyncio.create_task(work(each.url, f"recipient {each.port}", account, is_over)) for each in proxies]
        async with holdfast.connect(server.url, timeout=60) as client:
            for number in range(1, count + 1):
                account.sent("producer", number)
            sending = asyncio.create_task(client.queue("q").send_many(range(1, count + 1), timeout=60))
            for _ in range(effort.rounds(short=4, long=10)):
                away = random.choice(proxies)
                away.is_refusing = True
                away.cut()
                if random.random() < 0.5:
                    await server.crash()
                    server = await start(tmp_path / "data", port=port)
                await asyncio.sleep(random.uniform(0.05, 0.5))  # the graces are 0.3 s
                away.is_refusing = False
            await sending
            for number in range(1, count + 1):
                account.accepted("producer", number)
            backlog = server.node.messages.directory.backlog(("q", ""))
            await until(lambda: not (account.missing() or backlog.waiting), "everything is finished")
        is_over.set()
        await asyncio.gather(*workers)
    await server.close()

    verdict = account.verdict()
    assert not (verdict.lost or verdict.settled_twice or verdict.delivered_after_settled or verdict.invented), str(verdict)


def test_the_account_of_a_run_names_what_was_settled_twice() -> None:
    account = Account("q")
    for _ in range(2):
        account.settled("q", "producer", 7)

    assert account.verdict().settled_twice == [("q", ("producer", 7))]
    assert not account.verdict().is_kept
