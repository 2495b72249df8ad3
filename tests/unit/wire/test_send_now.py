"""`send_now` of both kinds of link: at once, and never ahead of what was sent before."""

from __future__ import annotations

import asyncio

from holdfast.wire import in_process_link, tcp
from holdfast.wire.frame import MAGIC, VERSIONS, Credit, Frame, Hello, Ping
from holdfast.wire.link import Link
from tests.waiting import turn_loop

PATIENCE_S = 10.0


def hello() -> Frame:
    return Frame(0, Hello(MAGIC, list(VERSIONS), "test"))


def numbered(number: int) -> Frame:
    return Frame(1, Credit(number, 1, 1))


async def test_a_frame_sent_now_within_a_process_is_received_before_the_call_returns() -> None:
    ours, theirs = in_process_link.pair()
    heard: list[Frame] = []
    theirs.received = heard.append

    ours.send_now(Frame(0, Ping()))

    assert heard == [Frame(0, Ping())]


async def test_a_frame_sent_now_within_a_process_does_not_overtake_and_is_not_received_from_within() -> None:
    ours, theirs = in_process_link.pair()
    heard: list[Frame] = []

    def answer_at_once(frame: Frame) -> None:
        if frame == numbered(1):
            ours.send_now(numbered(3))
        heard.append(frame)

    theirs.received = answer_at_once
    ours.send(numbered(1))
    ours.send_now(numbered(2))
    await turn_loop(3)

    assert heard == [numbered(1), numbered(2), numbered(3)]


async def test_what_is_sent_now_on_a_lost_link_is_dropped() -> None:
    ours, theirs = in_process_link.pair()
    heard: list[Frame] = []
    theirs.received = heard.append

    ours.cut()
    ours.send_now(numbered(1))
    await turn_loop()

    assert heard == []


async def test_frames_sent_now_over_tcp_arrive_in_order_among_the_others() -> None:
    heard: list[Frame] = []
    is_done = asyncio.Event()

    def received(frame: Frame) -> None:
        heard.append(Frame(frame.session, frame.message, bytes(frame.body)))
        if len(heard) == 6:
            is_done.set()

    def accept(link: Link) -> None:
        link.received = received
        link.admit()

    listener = await tcp.listen("127.0.0.1", 0, accept)
    link = await tcp.dial(("127.0.0.1", listener.port), PATIENCE_S)
    sent = [hello(), numbered(1), numbered(2), Frame(1, Credit(3, 1, 1), b"body"), Frame(1, Credit(4, 1, 1), bytes(1 << 20))]

    link.send_now(sent[0])
    link.send(sent[1])
    for frame in sent[2:]:
        link.send_now(frame)
    link.send_now(numbered(5))
    await asyncio.wait_for(is_done.wait(), PATIENCE_S)
    link.close()
    await listener.close()

    assert heard == [*sent, numbered(5)]
