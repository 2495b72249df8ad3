"""Links over TCP and within a process: in order or lost, greeted first, garbage answered with a reason."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from holdfast.errors import ProtocolError, TooLarge, Unavailable, Unreachable
from holdfast.wire import tcp, tcp_link
from holdfast.wire.admission import AdmissionLimits
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import LENGTH, MAGIC, Frame, Goodbye, Hello, Ping, Send
from holdfast.wire.in_process_link import pair
from holdfast.wire.link import Link
from tests.waiting import turn_loop


class Ear:
    """Keeps what a link receives, and how it ended."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.frames: list[Frame] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._heard = asyncio.Event()
        link.received, link.lost = self._received, self.lost.set_result
        link.admit()
        EARS.append(self)

    def _received(self, frame: Frame) -> None:
        self.frames.append(Frame(frame.session, frame.message, bytes(frame.body)))
        self._heard.set()

    async def hear(self, count: int) -> list[Frame]:
        async with asyncio.timeout(10):
            while len(self.frames) < count:
                self._heard.clear()
                await self._heard.wait()
        return self.frames


EARS: list[Ear] = []  # of the test that runs, so that none is left open
HELLO = Frame(0, Hello(MAGIC, [1]))
NO_UTF_8 = b"\x0c\x00\x00\x00\x01\x00\x00\x05\x00\x00\x00\x92\xa2\xff\xfe\x90"
TOO_DEEP = b"\x07\xc4\x00\x00\x01\x00\x00\x00\xc4\x00\x00\xdc\xc3\x00\xa0\x90\xa0\xa0\xa0\xa0" + b"\x91" * (0xC400 - 9)


@asynccontextmanager
async def listening(limits: AdmissionLimits | None = None) -> AsyncIterator[tuple[tcp.Listener, asyncio.Queue[Ear]]]:
    ears: asyncio.Queue[Ear] = asyncio.Queue()
    listener = await tcp.listen("127.0.0.1", 0, lambda link: ears.put_nowait(Ear(link)), limits=limits)
    try:
        yield listener, ears
    finally:
        for ear in EARS:
            ear.link.close()
            await ear.lost
        EARS.clear()
        await listener.close()


async def greeted(listener: tcp.Listener, ears: asyncio.Queue[Ear]) -> tuple[Ear, Ear]:
    near = Ear(await tcp.dial(("127.0.0.1", listener.port), 10))
    near.link.send(HELLO)
    async with asyncio.timeout(10):
        return near, await ears.get()


async def test_a_read_is_of_memory_that_the_process_has() -> None:
    """For what asyncio reads at once by itself the system hands out memory, and takes it back, at every read."""
    async with listening() as (listener, ears):
        near, far = await greeted(listener, ears)
        link, sizes = far.link, []
        assert isinstance(link, tcp_link.TcpLink)
        take = link.data_received

        def data_received(data: bytes) -> None:
            sizes.append(len(data))
            take(data)

        link.data_received = data_received  # type: ignore[method-assign]

        for number in range(20):
            near.link.send(Frame(1, Send(number), bytes(1 << 20)))
        await far.hear(21)

        assert max(sizes) == tcp_link.READ_BYTES_MAX


async def test_frames_that_take_long_leave_everyone_else_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_link, "TURN_S", -1.0)  # every frame takes too long
    async with listening() as (listener, ears):
        near, far = await greeted(listener, ears)
        loop = asyncio.get_running_loop()
        turns: list[int] = []
        heard = far.link.received

        def received(frame: Frame) -> None:
            heard(frame)
            loop.call_soon(turns.append, len(far.frames))  # somebody else's turn comes before the next frame

        far.link.received = received
        for number in range(20):
            near.link.send(Frame(1, Send(number)))
        await far.hear(21)

        assert turns[:19] == list(range(2, 21))
        assert [frame.message for frame in far.frames[1:]] == [Send(number) for number in range(20)]


async def test_frames_small_and_large_arrive_in_order_in_both_directions() -> None:
    async with listening() as (listener, ears):
        near, far = await greeted(listener, ears)
        sent = [Frame(1, Send(number), bytes([number % 251]) * (number * 997 % 200_000)) for number in range(60)]

        for frame in sent:
            near.link.send(frame)
            far.link.send(frame)

        assert (await far.hear(61))[1:] == sent
        assert await near.hear(60) == sent
        near.link.close()
        assert await far.lost is None


async def test_what_was_sent_before_close_arrives() -> None:
    async with listening() as (listener, ears):
        near, far = await greeted(listener, ears)
        near.link.send(Frame(1, Send(1), bytes(3_000_000 // 3)))
        near.link.send(Frame(0, Goodbye()))
        near.link.close()
        near.link.send(Frame(0, Ping()))

        frames = await far.hear(3)

        assert [type(frame.message) for frame in frames] == [Hello, Send, Goodbye]
        assert await far.lost is None
        assert len(far.frames) == 3


async def test_a_link_nobody_reads_from_is_congested_until_it_is_read() -> None:
    async with listening() as (listener, ears):
        near, far = await greeted(listener, ears)
        transport = near.link._transport  # type: ignore[attr-defined]
        transport.pause_reading()
        while not far.link.is_congested:
            far.link.send(Frame(1, Send(1), bytes(1 << 20)))
            await turn_loop()
        assert far.link.bytes_waiting > tcp_link.DRAINED_BYTES

        transport.resume_reading()
        async with asyncio.timeout(10):
            await far.link.drained()

        assert not far.link.is_congested


async def answer_to(port: int, data: bytes) -> tuple[list[Frame], bool]:
    """What a listener says to these bytes, and whether it then ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    async with asyncio.timeout(10):
        said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return list(FrameDecoder().feed(said)), reader.at_eof()


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x05\x00\x00\x00\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00", NO_UTF_8, TOO_DEEP]
)
async def test_garbage_is_answered_with_a_goodbye_that_says_why(garbage: bytes) -> None:
    async with listening() as (listener, ears):
        frames, is_ended = await answer_to(listener.port, garbage)

        assert is_ended
        assert isinstance(frames[0].message, Goodbye)
        assert frames[0].message.code in ("protocol-error", "too-large")
        assert ears.empty()


async def test_a_link_is_nobody_until_it_says_hello() -> None:
    async with listening(AdmissionLimits(hello_timeout_s=0.05)) as (listener, ears):
        frames, is_ended = await answer_to(listener.port, b"")

        assert is_ended
        assert isinstance(frames[0].message, Goodbye)
        assert "no Hello within 0.05 s" in frames[0].message.sentence
        assert ears.empty()


async def test_another_frame_than_hello_is_no_greeting() -> None:
    async with listening() as (listener, ears):
        near = Ear(await tcp.dial(("127.0.0.1", listener.port), 10))
        near.link.send(Frame(0, Ping()))

        (frame,) = await near.hear(1)

        assert isinstance(frame.message, Goodbye)
        assert frame.message.code == ProtocolError.code
        assert ears.empty()


async def test_more_silent_connections_than_allowed_push_out_the_oldest_and_disturb_nobody() -> None:
    async with listening(AdmissionLimits(links_max=5)) as (listener, ears):
        silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(25)]

        near, far = await greeted(listener, ears)
        far.link.send(Frame(0, Ping()))

        assert [type(frame.message) for frame in await near.hear(1)] == [Ping]
        for reader, _ in silent[:20]:
            async with asyncio.timeout(10):
                assert b"have not logged in" in await reader.read()
        for _, writer in silent:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def greeted_and_not_admitted(limits: AdmissionLimits) -> AsyncIterator[tuple[Ear, asyncio.Future[Exception | None]]]:
    """A link whose login is being judged, and how it ends at the listener's side."""
    lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def judge(link: Link) -> None:
        link.received, link.lost = lambda frame: None, lost.set_result

    listener = await tcp.listen("127.0.0.1", 0, judge, limits=limits)
    near = Ear(await tcp.dial(("127.0.0.1", listener.port), 10))
    near.link.send(HELLO)
    try:
        yield near, lost
    finally:
        near.link.close()
        await listener.close()


async def test_a_login_that_is_not_decided_in_time_ends_with_a_goodbye() -> None:
    async with greeted_and_not_admitted(AdmissionLimits(login_timeout_s=0.05)) as (near, lost):
        (goodbye,) = await near.hear(1)

        assert isinstance(goodbye.message, Goodbye)
        assert goodbye.message.code == Unavailable.code
        assert isinstance(await lost, Unavailable)


async def test_before_login_a_frame_may_be_as_long_as_a_hello_needs_and_no_longer() -> None:
    async with greeted_and_not_admitted(AdmissionLimits()) as (near, lost):
        near.link.send(Frame(1, Send(1), bytes(65_536)))

        (goodbye,) = await near.hear(1)

        assert isinstance(goodbye.message, Goodbye)
        assert "65,536 bytes at once before login" in goodbye.message.sentence
        assert isinstance(await lost, TooLarge)


async def test_links_that_hold_too_much_before_login_push_out_the_one_that_has_held_it_longest() -> None:
    async with listening(AdmissionLimits(held_bytes_max=200_000)) as (listener, ears):
        half = LENGTH.pack(60_000) + bytes(50_000)
        holding = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(8)]
        for _, writer in holding:
            writer.write(half)

        near, far = await greeted(listener, ears)
        far.link.send(Frame(0, Ping()))

        assert [type(frame.message) for frame in await near.hear(1)] == [Ping]
        for reader, _ in holding[:5]:
            async with asyncio.timeout(10):
                assert b"hold more than 200,000 bytes" in await reader.read()
        for _, writer in holding:
            writer.close()
            await writer.wait_closed()


async def test_a_connection_that_breaks_within_a_frame_is_lost_with_an_error() -> None:
    async with listening() as (listener, ears):
        near, far = await greeted(listener, ears)
        near.link._transport.write(b"\x10\x00\x00\x00half")  # type: ignore[attr-defined]
        near.link.close()

        assert isinstance(await far.lost, ConnectionResetError)


async def test_dialling_where_nobody_listens_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(Unreachable, match="is the server running"):
            await tcp.dial(unused.getsockname(), 5)


@pytest.fixture(autouse=True)
def nobody_listens_on() -> Iterator[None]:
    yield
    EARS.clear()


async def test_in_process_frames_arrive_in_order_but_never_within_send() -> None:
    ours, theirs = pair()
    ear, _ = Ear(theirs), Ear(ours)
    sent = [Frame(1, Send(number), b"x") for number in range(5)]

    for frame in sent:
        ours.send(frame)

    assert ear.frames == []
    assert await ear.hear(5) == sent


async def test_in_process_what_was_sent_before_close_arrives_and_both_ends_hear_of_the_end() -> None:
    ours, theirs = pair()
    near, far = Ear(ours), Ear(theirs)
    ours.send(Frame(0, Goodbye()))

    ours.close()

    assert await far.lost is None
    assert await near.lost is None
    assert [type(frame.message) for frame in far.frames] == [Goodbye]


async def test_in_process_a_cut_loses_what_is_under_way_and_both_ends_hear_why() -> None:
    ours, theirs = pair()
    near, far = Ear(ours), Ear(theirs)
    ours.send(Frame(0, Ping()))

    ours.cut()

    assert isinstance(await far.lost, ConnectionResetError)
    assert isinstance(await near.lost, ConnectionResetError)
    assert far.frames == []


async def test_in_process_a_link_is_congested_until_the_next_turn() -> None:
    ours, theirs = pair()
    Ear(theirs)
    ours.send(Frame(1, Send(1), bytes(5 << 20)))
    was_congested = ours.is_congested

    await ours.drained()

    assert (was_congested, ours.is_congested, ours.bytes_waiting) == (True, False, 0)
