"""B12, rule 10: a transaction is not a way around a destination's high water."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import Blocked, TransactionAborted
from tests.waiting import until

HIGH = 4


async def fill(client: holdfast.Client) -> None:
    """Past what is let in beyond the high water for those who were not told in time."""
    await client.create_queue("small", events_max=HIGH)
    async with client.transaction() as tx:
        await tx.queue("small").send_many(range(2 * HIGH))
    assert (await client.describe("small"))["waiting"] == 2 * HIGH


async def test_a_transaction_to_a_full_queue_is_aborted_whole_with_the_reason() -> None:
    async with holdfast.connect("memory:") as client:
        await fill(client)
        await client.queue("in").send("moved")
        async with client.queue("in").receive() as incoming:
            event = await incoming.next(5)
            with pytest.raises(TransactionAborted, match="'small' is full"):
                async with client.transaction() as tx:
                    await tx.queue("elsewhere").send("moved")
                    await tx.queue("small").send("moved")
                    await tx.confirm(event)

            assert (await incoming.next(5)).data == "moved"
        assert (await client.describe("small"))["waiting"] == 2 * HIGH
        assert (await client.describe("elsewhere"))["waiting"] == 0


async def test_a_large_event_to_a_full_queue_is_blocked_and_goes_once_there_is_room() -> None:
    async with holdfast.connect("memory:") as client:
        await fill(client)
        with pytest.raises(Blocked, match="'small' is full"):
            await client.queue("small").send_stream(b"x" * 600_000)

        async with client.queue("small").receive() as incoming:
            for _ in range(2 * HIGH):
                await (await incoming.next(5)).confirm()
            await incoming.settled()
        await client.queue("small").unblocked()

        await client.queue("small").send_stream(b"x" * 600_000)
        assert (await client.describe("small"))["waiting"] == 1


async def test_a_transaction_that_comes_when_a_queue_is_full_is_aborted_each_time_until_there_is_room() -> None:
    async with holdfast.connect("memory:") as client, client.session() as late:
        await client.create_queue("small", events_max=HIGH)
        for number in range(HIGH):
            await client.queue("small").send(number)

        await until(lambda: client.queue("small").is_blocked, "its senders are told that it is full")

        for _ in range(3):  # it is below what is let in beyond the high water for those who were not told in time
            with pytest.raises(TransactionAborted, match="'small' is full") as aborted:
                async with late.transaction() as tx:
                    await tx.queue("small").send("late")
            assert isinstance(aborted.value.__cause__, Blocked)
        assert (await client.describe("small"))["waiting"] == HIGH

        async with client.queue("small").receive() as incoming:
            for _ in range(HIGH):
                await (await incoming.next(5)).confirm()
            await incoming.settled()
        await late.queue("small").unblocked()
        async with late.transaction() as tx:
            await tx.queue("small").send("late")
        assert (await client.describe("small"))["waiting"] == 1
