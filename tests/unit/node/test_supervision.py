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


async def test_work_that_takes_its_cancellation_for_anothers_is_left_behind_and_the_log_says_where_it_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go, cancelled = asyncio.Event(), asyncio.Event()

    async def deaf() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                cancelled.set()

    async def stop() -> None:
        await deaf()

    await supervision.bounded(0.01, stop(), "stopping a node")
    await cancelled.wait()
    let_go.set()

    [line] = said(caplog)
    assert line.startswith("stopping a node did not end within 0.01 s, and is left behind; it waits at test_supervision.py:")
    assert line.count("test_supervision.py:") == 2 and "locks.py:" in line


async def test_work_that_ends_in_time_is_waited_for_and_its_problem_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    async def end() -> None:
        await turn_loop()
        heard.append(7)

    await supervision.bounded(60, end(), "ending")
    with pytest.raises(ValueError, match="not so"):
        await supervision.bounded(60, fail(ValueError("not so")), "failing")

    assert heard == [7] and said(caplog) == []


async def test_who_is_cancelled_while_it_waits_cancels_what_it_waits_for() -> None:
    is_running, is_cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        is_running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled.set()
            raise

    waiting = asyncio.create_task(supervision.bounded(60, work(), "working"))
    await is_running.wait()
    waiting.cancel()

    await is_cancelled.wait()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


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
