"""The listener's end of an answer link, against an engine's end that speaks the frames and can be rude."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.continuity.answer import Part
from holdfast.continuity.link import answer_link, frame
from holdfast.continuity.link.answer_link import Address, AnswerLink, AnswerLinks
from holdfast.continuity.link.frame import (
    Answered,
    Frames,
    Goodbye,
    Hello,
    Message,
    Read,
    Resume,
    Roll,
    SocketFrame,
    SocketOpen,
    State,
    Stop,
    Welcome,
)
from holdfast.continuity.request import Content
from holdfast.wire import local_socket, tls
from tests.certificates import Authority
from tests.server_process import free_port
from tests.waiting import turn_loop, until

WELCOME = Welcome("e", "s1")
HELLO = Hello(frame.VERSION, "shop", "one", "north", "server", "store-1")


class EngineEnd(asyncio.Protocol):
    """An engine that welcomes everyone, and keeps what it hears. Each connection is one."""

    def __init__(self, ends: list[EngineEnd], welcome: Message | None) -> None:
        self.heard: list[Message] = []
        self._frames = Frames()
        self._welcome = welcome
        self.transport: asyncio.Transport | None = None
        ends.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            self.heard.append(message)
            if isinstance(message, Hello) and self._welcome is not None:
                self.say(self._welcome)

    def say(self, message: Message) -> None:
        assert self.transport is not None
        self.transport.write(frame.encode(message))

    def heard_of(self, kind: type) -> list[Message]:
        return [message for message in self.heard if isinstance(message, kind)]


@asynccontextmanager
async def engine(
    welcome: Message | None = WELCOME, port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[EngineEnd]]]:
    ends: list[EngineEnd] = []
    server = await asyncio.get_running_loop().create_server(lambda: EngineEnd(ends, welcome), "127.0.0.1", port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], ends
    finally:
        server.close()
        for end in ends:
            if end.transport is not None:
                end.transport.abort()


class ListenerEars:
    def __init__(self) -> None:
        self.asked: list[Message] = []

    def state(self, with_members: bool) -> State:
        return State("current", 7, 9, 3, b"members" if with_members else b"")

    def read(self, link: AnswerLink, asked: Read) -> None:
        self.asked.append(asked)
        link.send(Answered(Part(asked.number, 0, 0, b"read")))

    def traced(self, trace: str) -> str:
        return f"of {trace}"

    def resume(self, link: AnswerLink, asked: Resume) -> None:
        self.asked.append(asked)

    def stop_stream(self, number: str) -> None:
        self.asked.append(Stop(number))

    def socket(self, link: AnswerLink, asked: SocketOpen | SocketFrame) -> None:
        self.asked.append(asked)


@asynccontextmanager
async def link_to(port: int, context: ssl.SSLContext | None = None, is_tls: bool = False) -> AsyncIterator[AnswerLink]:
    link = AnswerLink(Address("e", "s1", f"localhost:{port}", is_tls), HELLO, ListenerEars(), context)
    link.open()
    try:
        yield link
    finally:
        await link.close()


async def test_a_listener_introduces_itself_says_its_state_with_the_members_and_sends_answers() -> None:
    async with engine() as (port, ends), link_to(port) as link:
        await until(lambda: link.is_linked, "it is linked")

        assert link.send(Answered(Part("t1", 0, 0, b"body")))
        await until(lambda: ends[0].heard_of(Answered), "the answer came")

    assert ends[0].heard[:3] == [HELLO, State("current", 7, 9, 3, b"members"), Answered(Part("t1", 0, 0, b"body"))]
    assert len(ends) == 1


async def test_the_state_is_said_again_and_again_without_the_members_and_with_them_when_asked() -> None:
    async with engine() as (port, ends), link_to(port) as link:
        await until(lambda: link.is_linked and len(ends[0].heard_of(State)) >= 3, "it beats")
        ends[0].say(Roll())
        await until(lambda: ends[0].heard_of(State).count(State("current", 7, 9, 3, b"members")) == 2, "it tells the members")

    assert ends[0].heard_of(State)[1] == State("current", 7, 9, 3)


async def test_reads_and_resumes_are_handed_to_the_listener() -> None:
    read, resume = Read("r1", Content("GET", "/", []), 5, 3), Resume("t1", 100)
    async with engine() as (port, ends), link_to(port) as link:
        await until(lambda: link.is_linked, "it is linked")
        ends[0].say(read)
        ends[0].say(resume)
        await until(lambda: ends[0].heard_of(Answered), "the read was answered")

        assert link._ears.asked == [read, resume]  # type: ignore[attr-defined]


async def test_a_port_that_another_program_has_taken_gets_no_answers_and_is_never_dialled_again() -> None:
    for other in (Welcome("e", "s2"), Welcome("f", "s1")):
        async with engine(other) as (port, ends), link_to(port) as link:
            await until(lambda link=link: link.is_other, "the other start was noticed")  # type: ignore[misc]
            await until(lambda link=link: link._task.done(), "it dials no more")  # type: ignore[misc]

            assert not link.send(Answered(Part("t1", 0, 0, b"secret")))
            assert [message for end in ends for message in end.heard] == [HELLO]


async def test_an_engine_that_says_goodbye_instead_or_nonsense_gets_no_answers() -> None:
    for said in (Goodbye("no"), Roll()):
        async with engine(said) as (port, ends), link_to(port) as link:
            await until(lambda ends=ends: len(ends) >= 2, "it was dialled again")  # type: ignore[misc]

            assert not link.is_linked
            assert {type(message) for end in ends for message in end.heard} == {Hello}


async def test_a_lost_link_is_made_again_and_what_was_sent_meanwhile_is_dropped() -> None:
    port = free_port()
    async with link_to(port) as link:
        async with engine(port=port) as (_, ends):
            await until(lambda: link.is_linked, "it is linked")
        await until(lambda: not link.is_linked, "the loss was noticed")
        assert not link.send(Answered(Part("t1", 0, 0)))

        async with engine(port=port) as (_, ends):
            await until(lambda: link.is_linked, "it is linked again")
            await until(lambda: ends[0].heard_of(State), "it says its state")

        assert (ends[0].heard_of(Answered), link.dropped) == ([], 1)


async def test_an_engine_that_does_not_read_holds_up_nobody_and_answers_past_the_limit_are_dropped() -> None:
    async with engine() as (port, ends), link_to(port) as link:
        await until(lambda: link.is_linked, "it is linked")
        transport = ends[0].transport
        assert transport is not None
        transport.pause_reading()

        sent = 0
        while link.send(Answered(Part(f"t{sent}", 0, 0, b"x" * (1 << 20)))):
            sent += 1
            assert sent < 1000
            await turn_loop()

        assert link.dropped >= 1
        transport.resume_reading()
        await until(lambda: len(ends[0].heard_of(Answered)) == sent, "what was sent arrives")
        assert link.send(Answered(Part("after", 0, 0)))


async def test_a_link_over_tls_shows_its_certificate_and_refuses_an_engine_that_it_cannot_trust(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    served, own, foreign = authority.issue("localhost"), authority.issue("one"), stranger.issue("one")
    context = tls.server_context(served.certificate, served.key, authority.file, is_certificate_required=True)
    trusted = tls.client_context(authority.file, own.certificate, own.key)
    untrusted = tls.client_context(stranger.file, own.certificate, own.key)
    unknown = tls.client_context(authority.file, foreign.certificate, foreign.key)

    async with engine(context=context) as (port, ends):
        async with link_to(port, trusted, is_tls=True) as link:
            await until(lambda: link.is_linked, "it is linked")
        for wrong in (untrusted, unknown, None):
            before = len(ends)
            async with link_to(port, wrong, is_tls=True) as link:
                await until(lambda before=before, wrong=wrong: wrong is None or len(ends) > before, "it was tried")  # type: ignore[misc]
                await turn_loop(200)
                assert not link.is_linked

    assert [message for end in ends[1:] for message in end.heard] == []


async def test_an_engine_that_registers_a_new_start_is_dialled_there_and_its_former_start_is_left() -> None:
    async with engine() as (first, former), engine(Welcome("e", "s2")) as (second, ends):
        links = AnswerLinks(HELLO, ListenerEars())
        links.register(Address("e", "s1", f"127.0.0.1:{first}"))
        links.register(Address("e", "s1", f"127.0.0.1:{first}"))
        await until(lambda: links.get("e", "s1"), "it is linked")

        links.register(Address("e", "s2", f"127.0.0.1:{second}"))
        await until(lambda: links.get("e", "s2"), "it is linked to the new start")
        await until(lambda: former[0].heard_of(Goodbye), "the former start heard a goodbye")

        assert (links.get("e", "s1"), len(former), len(ends)) == (None, 1, 1)
        await links.close()


def test_the_first_pause_is_far_shorter_than_a_client_waits() -> None:
    assert answer_link.PAUSE_FIRST_S < 0.1 < answer_link.PAUSE_MAX_S


async def test_an_engine_on_this_machine_is_reached_over_its_local_socket_and_by_its_address_if_there_is_none() -> None:
    made = local_socket.listen()
    assert made is not None
    name, listening = made
    local_ends: list[EngineEnd] = []
    near = await asyncio.get_running_loop().create_unix_server(lambda: EngineEnd(local_ends, WELCOME), sock=listening)
    async with engine() as (port, ends):
        link = AnswerLink(Address("e", "s1", f"127.0.0.1:{port}", local=name), HELLO, ListenerEars())
        link.open()
        await until(lambda: link.is_linked, "it is linked")
        assert (len(local_ends), len(ends)) == (1, 0)

        near.close()
        assert local_ends[0].transport is not None
        local_ends[0].transport.abort()
        await until(lambda: link.is_linked and len(ends) == 1, "it is linked by the address")
        assert link.send(Answered(Part("t1", 0, 0, b"body")))
        await until(lambda: ends[0].heard_of(Answered), "the answer came")
        await link.close()


async def test_a_link_that_is_to_be_encrypted_goes_by_the_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    served = authority.issue("localhost")
    server_context = tls.server_context(served.certificate, served.key)
    client_context = tls.client_context(authority.file)
    made = local_socket.listen()
    assert made is not None
    with made[1]:
        async with engine(context=server_context) as (port, ends):
            link = AnswerLink(Address("e", "s1", f"localhost:{port}", True, made[0]), HELLO, ListenerEars(), client_context)
            link.open()
            await until(lambda: link.is_linked, "it is linked")
            await link.close()
    assert len(ends) == 1
