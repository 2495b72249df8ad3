"""An outbox: no more is in flight than its window allows, nothing is lost with a link, and whoever came first goes first."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.link.outbox import Outbox
from tests.waiting import turn_loop


async def entering(outbox: Outbox[int, str], key: int, size: int, seconds: float = 10) -> None:
    await outbox.room(size, asyncio.get_running_loop().time() + seconds)
    outbox.sent(key, f"item {key}", size)


def test_no_more_is_in_flight_than_the_window_and_its_bytes_allow() -> None:
    outbox: Outbox[int, str] = Outbox(window=3, bytes_max=100)
    assert outbox.has_room(1_000), "one alone may be larger"

    outbox.sent(1, "a", 40)
    assert outbox.has_room(60) and not outbox.has_room(61)
    outbox.sent(2, "b", 60)
    assert outbox.has_room() and not outbox.has_room(1)
    outbox.sent(3, "c")
    assert not outbox.has_room()

    assert outbox.answered(2) == "b"
    assert outbox.has_room(60) and not outbox.has_room(61)


def test_an_answer_to_what_is_not_in_flight_changes_nothing() -> None:
    outbox: Outbox[int, str] = Outbox(window=1, bytes_max=10)
    outbox.sent(1, "a", 10)

    assert outbox.answered(2) is None

    assert outbox.in_flight == {1: "a"}
    assert not outbox.has_room()


def test_what_is_taken_back_goes_first_in_its_order_and_its_bytes_count_no_more() -> None:
    outbox: Outbox[int, str] = Outbox(window=2, bytes_max=10)
    outbox.waiting.extend("cd")
    outbox.sent(7, "a", 5)
    outbox.sent(8, "b", 5)

    outbox.go_first(outbox.take_back())

    assert list(outbox.waiting) == ["a", "b", "c", "d"]
    assert outbox.has_room(10) and not outbox.in_flight
    outbox.sent(9, "a", 4)
    assert outbox.has_room(6) and not outbox.has_room(7)


async def test_whoever_waits_hears_of_an_answer_and_of_the_end() -> None:
    outbox: Outbox[int, str] = Outbox(window=1)
    outbox.sent(1, "a")
    outbox.waiting.append("b")
    waiting = asyncio.create_task(outbox.changed.wait())
    await turn_loop()

    outbox.answered(1)
    await waiting

    waiting = asyncio.create_task(outbox.changed.wait())
    await turn_loop()
    outbox.clear()
    await waiting
    assert not (outbox.in_flight or outbox.waiting)


async def test_what_is_larger_than_the_window_goes_alone_and_whoever_came_first_goes_first() -> None:
    outbox: Outbox[int, str] = Outbox(window=3, bytes_max=100)
    gone = []
    await entering(outbox, 0, 200)

    async def go(key: int, size: int) -> None:
        await entering(outbox, key, size)
        gone.append(key)

    waiting = [asyncio.create_task(go(key, size)) for key, size in ((1, 100), (2, 1), (3, 2))]
    await turn_loop()
    assert gone == []

    outbox.answered(0)
    await waiting[0]
    assert gone == [1], "small ones do not overtake it"

    outbox.answered(1)
    await asyncio.gather(*waiting)
    assert gone == [1, 2, 3]


async def test_one_that_is_withdrawn_or_runs_out_of_time_leaves_its_turn_to_the_next() -> None:
    outbox: Outbox[int, str] = Outbox(window=2)
    for key in (1, 2):
        await entering(outbox, key, 1)
    with pytest.raises(TimeoutError):
        await entering(outbox, 3, 1, 0.01)
    cancelled, served = [asyncio.create_task(entering(outbox, key, 1)) for key in (4, 5)]
    await turn_loop()

    outbox.answered(1)  # the turn of the first, which is cancelled before it hears of it
    cancelled.cancel()

    await served
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert list(outbox.in_flight) == [2, 5]
