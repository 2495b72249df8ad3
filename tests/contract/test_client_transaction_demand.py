"""Transactions that demand a receiver, and that know where their events will be, over every place."""

from __future__ import annotations

import pytest

import holdfast
import holdfast.blocking
from holdfast.errors import Closed, Refused, TransactionAborted
from tests.contract.places import name, server, url

__all__ = ["name", "server", "url"]


async def test_a_commit_counts_while_the_receiver_that_it_demands_is_attached(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(name, "marks") as marks:
        async with client.transaction() as tx:
            tx.demand(marks)
            await tx.queue(f"{name}-out").send("counts")

        assert (await client.describe(f"{name}-out"))["waiting"] == 1


async def test_a_commit_of_a_program_that_was_replaced_changes_nothing(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as former, client.session() as later:
        marks = await former.subscribe(name, "marks").open()
        tx = former.transaction()
        tx.demand(marks)
        await tx.queue(f"{name}-out").send("too late")
        await client.ensure_queue(f"{name}-out")

        async with later.subscribe(name, "marks", take_over=True):
            with pytest.raises(TransactionAborted):
                await tx.commit()

        assert (await client.describe(f"{name}-out"))["waiting"] == 0


async def test_a_rollback_gives_back_nothing_of_a_receiver_that_was_only_demanded(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.subscribe(name, "marks") as marks:
        await client.topic(name).send("held")
        held = await marks.next(10)

        tx = client.transaction()
        tx.demand(marks)
        await tx.queue(f"{name}-out").send("never")
        await tx.rollback()
        await held.confirm()
        await marks.settled()

        assert (await client.subscriptions(name))[0]["waiting"] == 0


async def test_a_receiver_of_another_session_cannot_be_demanded(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.session() as other, client.subscribe(name, "marks") as marks:
        with pytest.raises(Refused, match="another session"):
            other.transaction().demand(marks)


def test_a_commit_without_a_loop_counts_while_the_receiver_that_it_demands_is_attached(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client, client.subscribe(name, "marks") as marks:
        with client.transaction() as tx:
            tx.demand(marks)
            tx.queue(f"{name}-out").send("counts")

        assert client.describe(f"{name}-out")["waiting"] == 1


def test_a_commit_without_a_loop_of_a_program_that_was_replaced_changes_nothing(url: str, name: str) -> None:
    with holdfast.blocking.connect(url) as client, client.session() as former, client.session() as later:
        client.ensure_queue(f"{name}-out")
        marks = former.subscribe(name, "marks").open()

        with pytest.raises(TransactionAborted), former.transaction() as tx:
            tx.demand(marks)
            tx.queue(f"{name}-out").send("too late")
            later.subscribe(name, "marks", take_over=True).open()

        assert client.describe(f"{name}-out")["waiting"] == 0


def test_a_receiver_that_is_not_open_or_of_another_session_cannot_be_demanded_without_a_loop(url: str, name: str) -> None:
    with (
        holdfast.blocking.connect(url) as client,
        client.session() as other,
        client.subscribe(name, "marks") as marks,
        other.transaction() as tx,
    ):
        with pytest.raises(Refused, match="another session"):
            tx.demand(marks)
        with pytest.raises(Closed, match="is not open"):
            tx.demand(client.subscribe(name, "others"))


async def test_a_transaction_knows_before_its_commit_where_its_events_will_be(url: str, name: str) -> None:
    async with holdfast.connect(url) as client, client.queue(name).receive() as incoming:
        async with client.transaction() as tx:
            await tx.queue(name).send_many(range(3))
            await tx.queue(f"{name}-other").send("x")
            await tx.queue(name).send_stream(b"y" * 300_000)
            sent = await tx.stored()
            await tx.queue(f"{name}-marks").send([list(each) for each in sent])

        found = [(await incoming.next(10)).position for _ in range(4)]
        first, large, other = sent
        assert [(each.destination, each.events) for each in sent] == [(name, 3), (name, 1), (f"{name}-other", 1)]
        assert found == [first.first, first.first + 1, first.first + 2, large.first]
        async with client.queue(f"{name}-other").receive() as others:
            assert (await others.next(10)).position == other.first
