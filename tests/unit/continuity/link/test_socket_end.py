"""One end of a WebSocket on an answer link: order, room, and how it ends."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.continuity.link.frame import Message, SocketClose, SocketMessage
from holdfast.continuity.link.socket_end import (
    MESSAGE_BYTES_MAX,
    MESSAGE_COST,
    REASON_BYTES_MAX,
    WINDOW_BYTES,
    SocketEnd,
    close_of,
)
from tests.waiting import turn_loop


class Ends:
    """Two ends; what each sends is heard by the other at once."""

    def __init__(self) -> None:
        self.near = SocketEnd("n", self._to_far)
        self.far = SocketEnd("n", self._to_near)
        self.sent: list[Message] = []

    def _to_far(self, message: Message) -> bool:
        self.sent.append(message)
        self.far.hear(message)  # type: ignore[arg-type]
        return True

    def _to_near(self, message: Message) -> bool:
        self.near.hear(message)  # type: ignore[arg-type]
        return True


async def test_messages_arrive_in_order_as_text_or_bytes_and_the_close_after_them() -> None:
    ends = Ends()
    said = [(b"one", True), (b"\xff\x00", False), (b"", True)]

    for data, is_text in said:
        assert await ends.near.put(data, is_text)
    ends.near.close(4001, "enough")

    assert [await ends.far.get() for _ in said] == [SocketMessage("n", *each) for each in said]
    assert await ends.far.get() == SocketClose("n", 4001, "enough")
    assert not await ends.far.put(b"late", True)


@pytest.mark.parametrize("size", [0, 1_000, WINDOW_BYTES, MESSAGE_BYTES_MAX])
async def test_no_more_is_sent_than_the_other_side_has_room_for_and_all_of_it_once_it_takes(size: int) -> None:
    ends = Ends()
    count = 3 * WINDOW_BYTES // (size + MESSAGE_COST) + 3

    async def say() -> None:
        for _ in range(count):
            await ends.near.put(b"x" * size, False)

    saying = asyncio.create_task(say())
    await turn_loop(10)
    sent = len(ends.sent)

    assert not saying.done()
    assert (sent - 1) * (size + MESSAGE_COST) < WINDOW_BYTES <= sent * (size + MESSAGE_COST)
    for _ in range(count):
        assert len((await ends.far.get()).data) == size  # type: ignore[union-attr]
    await saying


async def test_a_side_that_sends_more_than_there_is_room_for_is_cut_off() -> None:
    told: list[Message] = []

    def send(message: Message) -> bool:
        told.append(message)
        return True

    end = SocketEnd("n", send)

    for _ in range(2):
        end.hear(SocketMessage("n", b"x" * MESSAGE_BYTES_MAX, False))

    assert [(each.code, each.reason) for each in told if isinstance(each, SocketClose)] == [
        (1011, "more came than there was room for")
    ]


async def test_a_message_that_the_link_does_not_take_ends_it_and_is_not_passed_over() -> None:
    end = SocketEnd("n", lambda message: False)

    assert not await end.put(b"x", True)
    closed = await end.get()
    assert isinstance(closed, SocketClose)
    assert closed.code == 1012


async def test_whoever_waits_for_room_hears_of_the_end() -> None:
    end = SocketEnd("n", lambda message: True)
    await end.put(b"x" * WINDOW_BYTES, False)
    waiting = asyncio.create_task(end.put(b"y", False))
    await turn_loop(3)
    assert not waiting.done()

    end.end(1012, "lost")

    assert not await waiting


@pytest.mark.parametrize(
    ("code", "written"),
    [(1000, 1000), (1005, 1000), (1006, 1011), (1012, 1012), (999, 1011), (3000, 3000), (4999, 4999), (5000, 1011)],
)
def test_a_close_is_one_that_can_be_written(code: int, written: int) -> None:
    close = close_of("n", code, "ä" * 200)

    assert close.code == written
    assert len(close.reason.encode()) <= REASON_BYTES_MAX
    assert close.reason == "ä" * (REASON_BYTES_MAX // 2)
