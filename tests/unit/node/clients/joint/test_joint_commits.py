"""Transactions over two message managers, as their client manager drives them and as they are recovered (ADR 25, B11): whole or
not at all, whatever does not answer; and whoever dies, locks are released."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.channel.channel import Purpose
from holdfast.destination import command
from holdfast.destination.command import Command, Settled
from holdfast.errors import Blocked, LinkLost, TransactionAborted
from holdfast.event import position
from holdfast.event.position import Ranges
from holdfast.node.clients.joint.joint_commits import JointCommits
from holdfast.node.clock import SystemClock
from holdfast.node.node import Node
from tests.machines import batch_of
from tests.two_managers import NAMES, hold, is_free, made, two_managers, waiting
from tests.waiting import until


async def sent_to_both(client: holdfast.Client, timeout: float = 30) -> None:
    async with client.transaction(timeout=timeout) as tx:
        await tx.queue("at-m1").send("one")
        await tx.queue("at-m2").send("two")


async def test_a_transaction_over_two_managers_happens_at_both_and_leaves_nothing_in_doubt() -> None:
    async with two_managers() as (node, client):
        await sent_to_both(client)

        assert (waiting(node, "at-m1"), waiting(node, "at-m2")) == (1, 1)
        await until(lambda: is_free(node), "it is complete")


async def test_a_transaction_at_one_manager_is_one_command() -> None:
    async with two_managers() as (node, client):
        held = [hold(node, name, command.Prepare) for name in NAMES]

        async with client.transaction() as tx:
            await tx.queue("at-m2").send("two")

        assert waiting(node, "at-m2") == 1 and not any(each.held for each in held)


async def test_a_manager_that_does_not_answer_aborts_it_everywhere_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with two_managers() as (node, client):
        held = hold(node, "m2", command.Prepare)

        with pytest.raises(
            TransactionAborted, match=r"nothing of this transaction happened, at 'm1' and 'm2'.*'m2' did not answer"
        ):
            await sent_to_both(client)

        await until(lambda: is_free(node), "the locks at the other are released")
        held.let_go()
        await asyncio.wait_for(node.managers["m2"].until_applied(node.managers["m2"].channel.durable + 1), 10)
        assert is_free(node) and waiting(node, "at-m1") + waiting(node, "at-m2") == 0, "a Prepare that comes late locks nothing"
        await sent_to_both(client)
    assert not [each for each in caplog.records if each.levelname == "ERROR"], "its answer is late, too, and nobody waits for it"


async def test_a_manager_without_room_aborts_it_everywhere_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_managers() as (node, client):
        target = node.clients.managers["m2"]
        append = target.channel.append

        def full(data: bytes, purpose: Purpose) -> object:
            if command.kind_of(data) == command.Prepare.KIND:
                raise Blocked("no room for another command; wait until some is free")
            return append(data, purpose)

        monkeypatch.setattr(target.channel, "append", full)
        with pytest.raises(TransactionAborted, match="message manager 'm2' refused it: no room for another command"):
            await sent_to_both(client)

        await until(lambda: is_free(node), "it is aborted at both")
        assert waiting(node, "at-m1") == 0


async def test_a_commit_that_is_decided_is_told_although_a_manager_is_away_and_is_carried_out_there_later() -> None:
    async with two_managers() as (node, client):
        held = hold(node, "m2", command.Final)

        await sent_to_both(client)

        assert (waiting(node, "at-m1"), waiting(node, "at-m2")) == (1, 0)
        held.let_go()
        await until(lambda: is_free(node) and waiting(node, "at-m2") == 1, "the rest is carried out")


async def test_a_client_that_lost_its_link_before_the_answer_asks_again_and_hears_what_was_decided() -> None:
    async with two_managers() as (node, client):
        held = hold(node, "m1", command.Decision)
        committing = asyncio.create_task(sent_to_both(client))
        await until(lambda: held.held, "all are prepared")

        for link in list(node.clients.open):
            link._link.close()
        await until(lambda: node.clients.open, "there is a new link")
        held.let_go()

        await committing
        assert (waiting(node, "at-m1"), waiting(node, "at-m2")) == (1, 1), "once"


def forget_sessions(node: Node) -> None:
    """Give all sessions up, as if their links were lost for too long, and cut the links that there are."""
    for session in list(node.clients.sessions.values()):
        node.clients.forget_session(session)
        node.clients.unclaimed.give_up(node.clients.managers[session.channel], session.id)
    for link in list(node.clients.open):
        link._link.close()


async def test_a_client_whose_sessions_were_forgotten_meanwhile_hears_of_its_commit() -> None:
    async with two_managers() as (node, client):
        held = hold(node, "m1", command.Decision)
        committing = asyncio.create_task(sent_to_both(client))
        await until(lambda: held.held, "all are prepared")
        lane = client._opened().lanes.lane("m2").id  # type: ignore[union-attr]

        forget_sessions(node)
        await until(lambda: lane not in node.managers["m2"].directory.sessions(), "its session is detached")
        held.let_go()

        await committing
        assert (waiting(node, "at-m1"), waiting(node, "at-m2")) == (1, 1), "once"


async def test_a_client_whose_sessions_and_transaction_nobody_knows_any_more_is_not_told_that_nothing_happened() -> None:
    async with two_managers() as (node, client):
        held = [hold(node, name, command.Prepare, limit=1) for name in NAMES]
        committing = asyncio.create_task(sent_to_both(client))
        await until(lambda: all(each.held for each in held), "it is asked")

        node.clients.joint.stop()
        node.clients.joint._running.clear()  # another client manager takes its place
        forget_sessions(node)

        with pytest.raises(LinkLost, match="whether it took effect is not known"):
            await committing
        assert waiting(node, "at-m1") + waiting(node, "at-m2") == 0


async def test_a_commit_without_an_answer_in_time_may_have_happened_and_what_it_confirms_is_held_until_it_is_known() -> None:
    async with two_managers() as (node, client):
        await client.queue("at-m1").send("to be confirmed")
        held = hold(node, "m1", command.Decision)
        async with client.queue("at-m1").receive() as incoming:
            event = await incoming.next(10)
            tx = client.transaction(timeout=0.2)
            await tx.queue("at-m2").send("two")
            await tx.confirm(event)

            with pytest.raises(LinkLost, match="whether it took effect is not known") as caught:
                await tx.commit()

            assert len(caught.value.ids) == 1
            held.let_go()
            await until(lambda: is_free(node) and waiting(node, "at-m2") == 1 and not waiting(node, "at-m1"), "it happened")


async def test_a_transaction_that_confirms_what_another_has_finished_is_aborted_at_both() -> None:
    async with two_managers() as (node, client):
        await client.queue("at-m1").send("taken")
        async with client.queue("at-m1").receive() as incoming:
            event = await incoming.next(10)
            tx = client.transaction()
            await tx.queue("at-m2").send("two")
            await tx.confirm(event)
            await client.purge("at-m1")

            with pytest.raises(TransactionAborted, match=r"'m1' refused it: 1 of the events it confirms .* finished already"):
                await tx.commit()

        assert waiting(node, "at-m2") == 0 and is_free(node)


# --- recovery ------------------------------------------------------------------------------------------------------------

# How far a client manager came before it died: what it appended at each message manager.
STEPS: list[tuple[str, type[Command]]] = [
    ("m1", command.Prepare),
    ("m2", command.Prepare),
    ("m1", command.Decision),
    ("m1", command.Final),
    ("m2", command.Final),
]


async def append(node: Node, manager: str, made: Command, payload: bytes = b"") -> int:
    target = node.managers[manager]
    receipt = await target.channel.append(command.encode(made, payload), Purpose.UPKEEP)
    await asyncio.wait_for(target.until_applied(receipt.entry), 10)
    return receipt.entry


async def prepared_of(node: Node, manager: str) -> command.Prepare:
    """A session at work at a message manager, which has an event to confirm and a part to send; and its Prepare."""
    session = f"s-{manager}"
    await append(node, manager, command.Create("orders", "queue"))
    await append(node, manager, command.Create("invoices", "queue"))
    await append(node, manager, command.Attach(session, 1, "orders"))
    entry = await append(node, manager, command.BatchCommand("orders", "", 0), batch_of(1, 1))
    await append(node, manager, command.Part(session, "7", 1, "invoices"), batch_of(2, 2))
    settled = [Settled("orders", "", Ranges.of((position.of(entry), position.of(entry))).to_bytes())]
    keys = [(f"s-{each}", "7") for each in NAMES]
    return command.Prepare(session, "7", 1, list(NAMES), manager, settled, keys=keys)


async def take(node: Node, steps: int) -> None:
    prepares = {name: await prepared_of(node, name) for name in NAMES}
    for manager, kind in STEPS[:steps]:
        prepare = prepares[manager]
        key, where = (prepare.session, prepare.assembly), list(NAMES)
        if kind is command.Prepare:
            await append(node, manager, prepare)
        elif kind is command.Decision:
            await append(node, manager, command.Decision(*key, where, True, keys=prepare.keys))
        else:
            await append(node, manager, command.Final(*key, where, manager, True))


@pytest.mark.parametrize("steps", range(1, len(STEPS) + 1))
async def test_whatever_step_a_client_manager_dies_after_another_ends_the_transaction_alike_everywhere(steps: int) -> None:
    node = await made()
    try:
        await take(node, steps)
        assert not is_free(node), "it is in doubt"

        await until(lambda: is_free(node), "another client manager has ended it")

        is_commit = steps >= 3
        for name in NAMES:
            directory = node.managers[name].directory
            assert directory.backlog(("invoices", "")).waiting == (2 if is_commit else 0)
            assert directory.backlog(("orders", "")).waiting == (0 if is_commit else 1)
            assert not list(directory.assemblies), "no part is left behind"
    finally:
        await node.close()


async def test_of_many_client_managers_that_hear_of_a_transaction_in_doubt_few_append_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = await made()
    try:
        decisions: list[bytes] = []
        target = node.clients.managers["m1"]
        appended = target.channel.append

        def note(data: bytes, purpose: Purpose) -> object:
            if command.kind_of(data) == command.Decision.KIND:
                decisions.append(data)
            return appended(data, purpose)

        monkeypatch.setattr(target.channel, "append", note)
        node.clients.joint.stop()
        others = [JointCommits(node.clients.managers, node.clients.bus, SystemClock(), f"cm-{number}") for number in range(40)]
        await take(node, 2)
        decisions.clear()

        await until(lambda: is_free(node), "one of them has ended it")
        await until(lambda: not any(each._timers for each in others), "the others have seen that")
        for each in others:
            each.stop()
        assert 1 <= len(decisions) <= 10, "those who woke before they heard that it is ended"
    finally:
        await node.close()
