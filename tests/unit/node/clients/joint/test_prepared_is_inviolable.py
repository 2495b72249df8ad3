"""Rule 1 of the cluster, with clients: from Prepare to Final what a transaction confirms stays its own, whatever becomes of its
session, of the event and of the destination meanwhile (ADR 25)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import holdfast
from holdfast.channel.channel import Purpose
from holdfast.destination import command
from holdfast.errors import LinkLost, TimedOut, TransactionAborted
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings
from tests.client_of import sibling_of
from tests.two_managers import NAMES, HeldAppends, hold, is_free, two_managers, waiting
from tests.waiting import until

TTL_MS = 400


class Doubt:
    """A transaction of a client that confirms an event at m1 and sends to m2, held back before it is decided."""

    def __init__(self, node: Node, client: holdfast.Client, is_commit: bool, held: HeldAppends) -> None:
        self.node = node
        self.client = client
        self._is_commit = is_commit
        self._held = held
        self.committing = asyncio.create_task(self._commit())

    async def _commit(self) -> str:
        async with self.client.queue("at-m1").receive() as incoming:
            event = await incoming.next(10)
            tx = self.client.transaction()
            await tx.queue("at-m2").send("two")
            await tx.confirm(event)
            try:
                await tx.commit()
            except (TransactionAborted, LinkLost) as problem:
                return problem.code
            return ""

    async def begin(self) -> None:
        locks = self.node.managers["m1"].directory.backlog(("at-m1", ""))
        await until(lambda: self._held.held and locks.locks is not None, "its event is locked")

    async def end(self) -> None:
        """Let it be decided. For an abort, another client manager was first."""
        manager = self.node.managers["m1"]
        if not self._is_commit:
            (found,) = manager.directory.transactions.in_doubt()
            abort = command.Decision(found.session, found.assembly, list(found.participants), False, keys=list(found.keys))
            await manager.channel.append(command.encode(abort), Purpose.UPKEEP)
        self._held.let_go()
        await until(lambda: is_free(self.node), "it is ended")

    def check_done(self) -> None:
        assert waiting(self.node, "at-m2") == self._is_commit


@asynccontextmanager
async def doubt(is_commit: bool, settings: NodeSettings | None = None, **fields: int) -> AsyncIterator[Doubt]:
    async with two_managers(settings=settings) as (node, client):
        await client.queue("at-m1").send("to be confirmed", **fields)  # type: ignore[arg-type]
        made = Doubt(node, client, is_commit, hold(node, "m1", command.Decision))
        await made.begin()
        yield made
        await asyncio.wait_for(asyncio.gather(made.committing, return_exceptions=True), 30)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_an_event_that_expires_under_the_lock_is_confirmed_by_a_commit_and_dead_after_an_abort(is_commit: bool) -> None:
    async with doubt(is_commit, ttl_ms=TTL_MS) as made:
        queue, clock = made.node.managers["m1"].directory.backlog(("at-m1", "")), made.node._clock
        over_ms = clock.now_ms() + TTL_MS
        await until(lambda: clock.now_ms() > over_ms, "its time is over")
        assert queue.waiting == 1, "and it stays"
        await made.end()

        await until(lambda: queue.waiting == 0, "nothing waits for ever")
        dead = [row["events"] for row in (await made.client.status())["dead"]]
        assert dead == ([] if is_commit else [1])
        made.check_done()


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_destination_that_is_deleted_under_the_lock_goes_after_the_final(is_commit: bool) -> None:
    async with doubt(is_commit) as made, sibling_of(made.client) as operator:
        deleting = asyncio.create_task(operator.delete("at-m1", force=True))
        transactions = made.node.managers["m1"].directory.transactions
        await until(lambda: transactions.waiting, "the deletion waits")
        assert "at-m1" in made.node.managers["m1"].directory.catalog.destinations

        await made.end()

        assert await deleting
        assert "at-m1" not in made.node.managers["m1"].directory.catalog.destinations
        made.check_done()


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_session_that_is_given_up_under_the_lock_takes_nothing_back_and_nobody_else_is_handed_the_event(
    is_commit: bool,
) -> None:
    async with doubt(is_commit) as made, sibling_of(made.client) as other:
        node, lane = made.node, made.client._opened().lanes.lane("m1")  # type: ignore[union-attr]
        manager = node.managers["m1"]
        node.clients.unclaimed.give_up(node.clients.managers["m1"], lane.id)
        await until(lambda: lane.id not in manager.directory.sessions(), "its session is detached")
        async with other.queue("at-m1").receive() as incoming:
            with pytest.raises(TimedOut):
                await incoming.next(0.2)

            await made.end()

            if is_commit:
                with pytest.raises(TimedOut):
                    await incoming.next(0.2)
            else:
                assert (await incoming.next(10)).data == "to be confirmed"
        made.check_done()


async def test_what_is_prepared_is_not_abandoned_however_long_nothing_comes() -> None:
    async with doubt(True, NodeSettings(managers=NAMES, assembly_idle_ms=1_000)) as made:
        manager, clock = made.node.managers["m2"], made.node._clock
        assert list(manager.directory.assemblies), "a part is held"
        durable, over_ms = manager.channel.durable, clock.steady_ms() + 5_000
        await until(lambda: clock.steady_ms() > over_ms, "it was idle for long")

        assert manager.channel.durable == durable, "nothing is written again and again"
        await made.end()
        made.check_done()
