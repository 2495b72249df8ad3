"""Transactions in doubt can be looked at, also while a message manager does not answer; and so can what became of one."""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast
from holdfast.destination import command
from holdfast.node.node import Node
from tests.two_managers import hold, is_free, two_managers
from tests.waiting import until


async def in_doubt(node: Node, client: holdfast.Client) -> Any:
    """A transaction that sends to m2 and confirms at m1 waits for its decision: its commit, and what holds that back."""
    await client.queue("at-m1").send("to be confirmed")
    held = hold(node, "m1", command.Decision)

    async def commit() -> None:
        async with client.queue("at-m1").receive() as incoming:
            event = await incoming.next(10)
            async with client.transaction() as tx:
                await tx.queue("at-m2").send("two")
                await tx.confirm(event)

    committing = asyncio.create_task(commit())
    await until(lambda: held.held, "all are prepared")
    return committing, held


async def test_a_transaction_in_doubt_is_listed_with_what_it_locks_and_is_in_the_status() -> None:
    async with two_managers() as (node, client):
        committing, held = await in_doubt(node, client)

        told = await client.transactions()
        (found,) = told["transactions"]
        status = await client.status()

        assert (found["participants"], found["decision"], told["did_not_answer"]) == (["m1", "m2"], "", [])
        rows = [(each["manager"], each["state"], each["locked"], each["destinations"]) for each in found["managers"]]
        assert rows == [("m1", "prepared", 1, ["at-m1"]), ("m2", "prepared", 0, ["at-m2"])]
        assert (status["transactions_in_doubt"], status["events_locked"]) == (2, 1)
        assert [row["transactions_in_doubt"] for row in status["managers"]] == [1, 1]
        assert (await client.transactions(found["id"]))["transactions"] == told["transactions"]
        held.let_go()
        await committing
        await until(lambda: is_free(node), "it is complete")
        (ended,) = (await client.transactions(found["id"]))["transactions"]
        assert (ended["decision"], ended["managers"][0]["state"]) == ("commit", "committed")
        assert (await client.transactions())["transactions"] == []
        assert (await client.transactions("nobody:1"))["transactions"] == []


async def test_a_message_manager_that_does_not_answer_is_named_and_the_others_tell() -> None:
    async with two_managers() as (node, client):
        committing, held = await in_doubt(node, client)
        node.managers["m2"]._stop_listening()  # it hears nothing of client managers any more

        told = await client.transactions()

        assert told["did_not_answer"] == ["m2"]
        assert [[each["manager"] for each in found["managers"]] for found in told["transactions"]] == [["m1"]]
        held.let_go()
        await committing
