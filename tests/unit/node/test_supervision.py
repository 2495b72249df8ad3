"""Supervision: whatever a task or a callback raises is one line of the log, and somebody is told who sees to it."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import BadEvent, Closed, Refused
from holdfast.node import supervision
from tests.waiting import turn_loop


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


async def fail(problem: BaseException) -> None:
    raise problem


async def test_what_a_task_raises_is_one_line_with_where_it_came_from_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Exception] = []

    task = supervision.start(fail(OverflowError("int too big\nto convert")), "handing out", told.append)
    await asyncio.wait([task])
    await turn_loop()

    (line,) = said(caplog)
    assert line.startswith("handing out failed, the rest goes on: OverflowError (test_supervision.py:")
    assert line.endswith("): int too big to convert")
    assert [type(problem) for problem in told] == [OverflowError]


@pytest.mark.parametrize("problem", [Closed("the node is closed"), asyncio.CancelledError()], ids=["closed", "cancelled"])
async def test_an_end_in_good_order_is_not_said(problem: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    task = supervision.start(fail(problem), "waiting", lambda _: pytest.fail("nothing failed"))
    await asyncio.wait([task])
    await turn_loop()

    assert said(caplog) == []


async def test_a_task_that_is_cancelled_before_it_began_leaves_nothing_behind() -> None:
    task = supervision.start(fail(ValueError()), "never begun")
    task.cancel()

    await asyncio.wait([task])

    assert task.cancelled()


def test_a_guarded_callback_cannot_raise(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    supervision.guarded(heard.append, "a timer")(7)
    supervision.guarded(lambda: 1 // 0, "a timer")()

    assert heard == [7]
    assert len(said(caplog)) == 1 and "ZeroDivisionError" in said(caplog)[0]


def test_whoever_asked_hears_a_refusal_of_ours_as_it_is_and_a_fault_as_one() -> None:
    refusal = BadEvent("it is not JSON")

    assert supervision.as_refusal(refusal) is refusal
    fault = supervision.as_refusal(KeyError("x" * 10_000))
    assert type(fault) is Refused and "KeyError" in fault.sentence and len(fault.sentence) < 500
