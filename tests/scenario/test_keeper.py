"""Keepers through lost links, killed programs, restarts and restored servers (A9): a backlog does not cross the line again, and
no delivery is counted for events that are kept elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.destination.state.receivers import Session
from holdfast.errors import Detached, Unreachable
from holdfast.event.position import Ranges
from tests.contract.places import CuttingProxy
from tests.restoring import backed_up, start_restored
from tests.running_server import SETTINGS, running, start
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.slow


def at(*positions: int) -> Ranges:
    return Ranges.gather((each, each) for each in positions)


def is_without(sessions: dict[str, Session], session: str) -> bool:
    return session not in sessions


def is_cut_off(client: holdfast.Client) -> bool:
    return not client.is_linked


async def take_into(found: list[ReceivedEvent], incoming: Incoming) -> None:
    async for event in incoming:
        found.append(event)


async def kept(incoming: Incoming, count: int) -> list[int]:
    return [(await incoming.next(timeout=20)).position for _ in range(count)]


async def test_a_line_cut_for_longer_than_every_grace_sends_again_only_what_is_not_kept(tmp_path: Path) -> None:
    marked: list[int] = []
    async with running(tmp_path / "data", SETTINGS) as server, holdfast.connect(server.url) as other:
        await other.create_queue("orders", redelivery_limit=1)
        positions = [(await other.queue("orders").send(number)).position for number in range(6)]
        async with (
            CuttingProxy(server.port) as proxy,
            holdfast.connect(proxy.url) as relay,
            relay.queue("orders").receive(held=lambda: at(*marked)) as incoming,
        ):
            for _ in range(4):
                await kept(incoming, 6 - len(marked))
                marked[:] = positions[:4]
                sessions = server.node.messages.directory.sessions()
                (session,) = (each for each, known in sessions.items() if known.receivers)
                proxy.is_refusing = True
                proxy.cut()
                await until(partial(is_without, sessions, session), "the session is given up")
                proxy.is_refusing = False
                await relay.destinations(timeout=20)
                assert incoming.lost == Ranges()
            assert await kept(incoming, 2) == positions[4:]
            assert incoming.confirm(at(*positions)) == at(*positions)
            await incoming.settled()
        assert (await other.outcomes("orders", at(*positions))).confirmed == at(*positions)


async def test_a_keeper_of_a_queue_goes_on_with_the_session_of_the_process_before_it_and_others_get_nothing_it_kept(
    tmp_path: Path,
) -> None:
    patient = replace(SETTINGS, session_grace_ms=3_600_000)
    async with running(tmp_path / "data", patient) as server, holdfast.connect(server.url) as other:
        await other.create_queue("orders", redelivery_limit=1)
        positions = [(await other.queue("orders").send(number)).position for number in range(6)]
        with contextlib.suppress(Unreachable):  # the dead one is not closed in good order
            async with (
                CuttingProxy(server.port) as proxy,
                holdfast.connect(proxy.url, timeout=0.2) as dead,
                dead.session() as session,
                session.queue("orders").receive(held=()) as incoming,
            ):
                await kept(incoming, 4)
                former = session.id
                proxy.is_refusing = True
                proxy.cut()
                async with (
                    other.queue("orders").receive() as competing,
                    holdfast.connect(server.url) as relay,
                    relay.session(resume=former) as again,
                    again.queue("orders").receive(held=at(*positions[:4])) as resumed,
                ):
                    assert (again.id, resumed.lost) == (former, Ranges())
                    rest: list[ReceivedEvent] = []
                    async with asyncio.TaskGroup() as group:
                        tasks = [group.create_task(take_into(rest, each)) for each in (competing, resumed)]
                        await until(lambda: len(rest) >= 2, "what was not kept has come again")
                        for task in tasks:
                            task.cancel()
                    assert sorted(each.position for each in rest) == positions[4:]
                    assert {each.deliveries for each in rest} == {0}, "nothing of it counts as a delivery"
                    resumed.confirm(at(*positions[:4]))
                    await resumed.settled()
        assert (await other.outcomes("orders", at(*positions[:4]))).confirmed == at(*positions[:4])


async def test_a_session_that_the_server_does_not_know_is_a_new_one(tmp_path: Path) -> None:
    async with running(tmp_path / "data", SETTINGS) as server, holdfast.connect(server.url) as client:
        async with client.session() as session:
            former = session.id
        async with client.session(resume=former) as again:
            assert again.id != former
            await again.queue("orders").send(1)


async def test_a_keeper_that_was_killed_comes_back_holding_what_it_kept_however_often(tmp_path: Path) -> None:
    async with running(tmp_path / "data", SETTINGS) as server, holdfast.connect(server.url) as client:
        await client.create_topic("alerts", redelivery_limit=1)
        await client.create_subscription("alerts", "relay")
        positions = [(await client.topic("alerts").send(number)).position for number in range(3)]
        held: list[int] = []
        for _ in range(5):
            async with CuttingProxy(server.port) as proxy, holdfast.connect(proxy.url, timeout=2) as relay:
                incoming = relay.subscribe("alerts", "relay", take_over=True, held=at(*held))
                await incoming.open()
                assert incoming.held.without(at(*positions[len(held) :])) == at(*held)
                assert await kept(incoming, 3 - len(held)) == positions[len(held) :]
                held = positions[:2]
                proxy.is_refusing = True
                proxy.cut()
                await until(partial(is_cut_off, relay), "the link is gone")
        async with client.subscribe("alerts", "relay", take_over=True) as incoming:
            events = [await incoming.next(timeout=20) for _ in range(3)]
            assert [each.deliveries for each in events] == [0, 0, 0]
            assert all(each.redelivered for each in events)


async def test_what_a_keeper_holds_stays_its_own_while_the_server_is_killed_and_starts_again(tmp_path: Path) -> None:
    server = await start(tmp_path / "data", SETTINGS)
    port = server.port
    async with holdfast.connect(server.url) as relay:
        positions = [(await relay.queue("orders").send(number)).position for number in range(4)]
        async with relay.queue("orders").receive(held=at(*positions[:2])) as incoming:
            assert await kept(incoming, 2) == positions[2:]
            await server.crash()
            server = await start(tmp_path / "data", SETTINGS, port)
            await relay.destinations(timeout=20)
            assert incoming.held == at(*positions) and incoming.lost == Ranges()
            incoming.confirm(at(*positions))
            await incoming.settled()
        assert (await relay.describe("orders"))["waiting"] == 0
    await server.close()


async def test_a_keeper_of_a_server_that_was_restored_ends_and_claims_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as relay:
            position = (await relay.queue("orders").send("kept")).position
            former = relay.incarnation
            incoming = relay.queue("orders").receive(held=lambda: at(position))
            await incoming.open()
            backed_up(server)
            await asyncio.to_thread(start_restored, server)
            with pytest.raises(Detached, match="restored from a backup"):
                await incoming.next(timeout=30)
            assert relay.incarnation != former
            async with relay.queue("orders").receive() as again:
                assert (await again.next(timeout=20)).data == "kept"
