"""The turns of a session: its next request is sent after the receipt of the one before (continuity rule 16)."""

from __future__ import annotations

import asyncio

from holdfast.continuity.engine.transactions.sessions import Sessions
from tests.waiting import turn_loop


async def test_a_task_waits_for_the_receipt_of_a_request_that_no_task_waits_for() -> None:
    sessions = Sessions()
    receipt: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    sessions.get("ann").sending = receipt
    may_send = [sessions.get("ann").may_send]
    sent: list[str] = []

    async def send() -> None:
        async with sessions.turn("ann"):
            sent.append("next")

    task = asyncio.create_task(send())
    await turn_loop()
    assert sent == []
    receipt.set_exception(RuntimeError("it was refused"))
    await task

    may_send.append(sessions.get("ann").may_send)
    assert sent == ["next"] and may_send == [False, True]
    assert isinstance(receipt.exception(), RuntimeError)


async def test_nothing_is_sent_at_once_while_a_task_of_the_session_sends() -> None:
    sessions = Sessions()
    async with sessions.turn("ann"):
        assert not sessions.get("ann").may_send
        assert sessions.get("bob").may_send
    assert sessions.get("ann").may_send


async def test_requests_without_a_session_wait_for_nobody() -> None:
    sessions = Sessions()
    async with sessions.turn(""), sessions.turn(""):
        pass
    assert len(sessions) == 0
