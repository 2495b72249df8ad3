"""A session that the server suspends goes on by itself: nothing is lost, doubled or out of order, and the program sees no error.

So it is for a client whose message manager gets another primary, which does not know what receivers hold.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.running_server import PATIENT, running
from tests.waiting import turn_loop, until

SENT = 400


async def test_what_is_sent_and_received_meanwhile_arrives_once_and_in_order(tmp_path: Path) -> None:
    dice = random.Random(effort.seed(20_261_119))
    async with (
        running(tmp_path / "data", PATIENT) as server,
        holdfast.connect(server.url) as producer,
        holdfast.connect(server.url) as recipient,
    ):
        seen: list[int] = []

        async def receive() -> None:
            async with recipient.queue("orders").receive() as incoming:
                async for event in incoming:
                    seen.append(event.data)
                    await event.confirm()
                    if len(seen) == SENT:
                        return

        receiving = asyncio.create_task(receive())
        for number in range(SENT):
            await producer.queue("orders").send(number)
            if dice.random() < 0.1:
                await turn_loop(dice.randrange(5))
                server.node.clients.suspend_sessions("")
        await asyncio.wait_for(receiving, 60)

        assert seen == list(range(SENT))
        assert (await producer.describe("orders"))["waiting"] == 0  # the receiver is closed: its verdicts are applied
        assert server.node.clients.open_links == 2  # no link was lost for it


async def test_what_a_receiver_holds_stays_its_own(tmp_path: Path) -> None:
    async with running(tmp_path / "data", PATIENT) as server, holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(["held", "next"])
        async with client.queue("orders").receive() as incoming:
            held = await incoming.next(timeout=10)
            server.node.clients.suspend_sessions("")
            following = await incoming.next(timeout=10)
            await held.confirm()
            await following.confirm()

            assert (held.data, following.data) == ("held", "next")
            assert not held.redelivered and not following.redelivered

        assert (await client.describe("orders"))["waiting"] == 0  # the receiver is closed: its verdicts are applied


async def test_a_transaction_that_has_begun_is_committed_whole(tmp_path: Path) -> None:
    async with running(tmp_path / "data", PATIENT) as server, holdfast.connect(server.url) as client:
        async with client.transaction() as tx:
            await tx.queue("orders").send("one")
            server.node.clients.suspend_sessions("")
            await tx.queue("orders").send("two")

        async with client.queue("orders").browse() as events:
            assert [event.data async for event in events] == ["one", "two"]


async def test_sessions_beside_the_clients_own_and_passing_ones_go_on(tmp_path: Path) -> None:
    async with running(tmp_path / "data", PATIENT) as server, holdfast.connect(server.url) as client:
        async with client.session() as session:
            await session.queue("orders").send(1)
            for _ in range(3):
                server.node.clients.suspend_sessions("")
            await session.queue("orders").send(2)
            await client.queue("orders").send(3)

        assert (await client.describe("orders"))["waiting"] == 3


@pytest.mark.parametrize("rounds", [1, 20])
async def test_a_question_under_way_is_answered_or_asked_again(tmp_path: Path, rounds: int) -> None:
    async with running(tmp_path / "data", PATIENT) as server, holdfast.connect(server.url) as client:
        await client.queue("orders").send(1)
        asked = [asyncio.create_task(client.describe("orders")) for _ in range(rounds)]
        await turn_loop()
        server.node.clients.suspend_sessions("")
        answers = await asyncio.gather(*asked, return_exceptions=True)

        assert {type(answer) for answer in answers} <= {dict, holdfast.errors.LinkLost}
        await until(lambda: server.node.clients.links, "the session is resumed")
        assert (await client.describe("orders"))["waiting"] == 1
