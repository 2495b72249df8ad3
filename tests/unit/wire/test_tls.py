"""Links over TLS: the same links, on either loop; whoever is not to be talked to is told why (E7)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from holdfast.errors import BadSetting, LoginFailed, ProtocolError, Unreachable, Untrusted
from holdfast.wire import tcp, tls
from holdfast.wire.admission import AdmissionLimits
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import MAGIC, Frame, Goodbye, Hello, Message, Ping, Send
from holdfast.wire.link import Link
from tests.certificates import Authority, Pem
from tests.waiting import turn_loop

HELLO = Frame(0, Hello(MAGIC, [1]))
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pem(authority: Authority) -> Pem:
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture
def server_tls(pem: Pem) -> ssl.SSLContext:
    return tls.server_context(*pem)


@pytest.fixture
def client_tls(authority: Authority) -> ssl.SSLContext:
    return tls.client_context(authority.file)


class Ear:
    """Keeps what a link receives, and how it ended."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        link.received, link.lost = self._received, self.lost.set_result
        link.admit()

    def _received(self, frame: Frame) -> None:
        self.frames.put_nowait(Frame(frame.session, frame.message, bytes(frame.body)))

    async def hear(self, count: int) -> list[Frame]:
        async with asyncio.timeout(10):
            return [await self.frames.get() for _ in range(count)]

    async def close(self) -> None:
        self.link.close()
        async with asyncio.timeout(10):
            await self.lost


@asynccontextmanager
async def listening(context: ssl.SSLContext | None, **options: Any) -> AsyncIterator[tuple[tcp.Listener, asyncio.Queue[Ear]]]:
    ears: asyncio.Queue[Ear] = asyncio.Queue()
    listener = await tcp.listen("127.0.0.1", 0, lambda link: ears.put_nowait(Ear(link)), tls=context, **options)
    try:
        yield listener, ears
    finally:
        await listener.close()


async def greeted(listener: tcp.Listener, ears: asyncio.Queue[Ear], context: ssl.SSLContext) -> tuple[Ear, Ear]:
    near = Ear(await tcp.dial(("127.0.0.1", listener.port), 10, context))
    near.link.send(HELLO)
    async with asyncio.timeout(10):
        return near, await ears.get()


def run_on(loop: str, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(work)


@pytest.mark.parametrize("loop", LOOPS)
def test_frames_small_and_large_arrive_in_order_in_both_directions_and_before_the_end(
    loop: str, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def work() -> None:
        async with listening(server_tls) as (listener, ears):
            near, far = await greeted(listener, ears, client_tls)
            sent = [Frame(1, Send(number), bytes([number % 251]) * (number * 99_991 % 1_000_000)) for number in range(40)]

            for frame in sent:
                near.link.send(frame)
                far.link.send(frame)
            assert (await far.hear(41))[1:] == sent
            far.link.send(Frame(0, Goodbye()))
            far.link.close()

            assert (await near.hear(41))[:40] == sent
            async with asyncio.timeout(10):
                assert await near.lost is None
                await far.lost

    run_on(loop, work())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_link_nobody_reads_from_is_congested_until_it_is_read(
    loop: str, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def work() -> None:
        async with listening(server_tls) as (listener, ears):
            near, far = await greeted(listener, ears, client_tls)
            near.link._transport.pause_reading()  # type: ignore[attr-defined]
            while not far.link.is_congested:
                far.link.send(Frame(1, Send(1), bytes(1 << 20)))
                await turn_loop()
            waiting = far.link.bytes_waiting

            near.link._transport.resume_reading()  # type: ignore[attr-defined]
            async with asyncio.timeout(10):
                await far.link.drained()

            assert waiting > 1 << 20
            await near.close()

    run_on(loop, work())


@pytest.mark.parametrize("size", [1, 7, 1_000])
async def test_records_may_be_cut_anywhere(size: int, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    """What a client sends, handed to the server's filter in pieces: TLS without a network."""
    client, server = tls.TlsFilter(client_tls, "localhost"), tls.TlsFilter(server_tls)
    to_server, to_client, plain = client.begin(), b"", b""

    def feed(end: tls.TlsFilter, data: bytes) -> bytes:
        return b"".join(end.decrypt(data[place : place + size]) for place in range(0, len(data), size))

    while not (client.is_ready and server.is_ready):
        feed(server, to_server)
        to_client = server.waiting()
        feed(client, to_client)
        to_server = client.waiting()
    plain += feed(server, to_server + client.encrypt(b"x" * 50_000) + client.end())

    assert plain == b"x" * 50_000


async def test_what_comes_with_the_end_of_the_handshake_is_not_lost(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    client, server = tls.TlsFilter(client_tls, "localhost"), tls.TlsFilter(server_tls)
    server.decrypt(client.begin())
    client.decrypt(server.waiting())

    plain = server.decrypt(client.waiting() + client.encrypt(b"at once"))

    assert plain == b"at once"


async def test_only_new_versions_of_tls_are_spoken(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with listening(server_tls) as (listener, ears):
        near, far = await greeted(listener, ears, client_tls)
        version = near.link._tls._tls.version()  # type: ignore[attr-defined]
        await near.close()
        await far.lost

    assert version == "TLSv1.3"
    assert server_tls.minimum_version == client_tls.minimum_version == ssl.TLSVersion.TLSv1_2


# --- who is not to be talked to ------------------------------------------------------------------------------------------


async def refusal_of(pem: Pem, context: ssl.SSLContext, host: str = "127.0.0.1") -> Exception:
    async with listening(tls.server_context(*pem)) as (listener, ears):
        with pytest.raises(Untrusted) as refusal:
            await tcp.dial((host, listener.port), 10, context)
        assert ears.empty()
        return refusal.value


async def test_a_server_of_an_unknown_authority_is_not_trusted(pem: Pem, tmp_path: Path) -> None:
    refusal = await refusal_of(pem, tls.client_context(Authority(tmp_path / "other").file))

    assert "?ca=FILE" in str(refusal)


async def test_a_server_whose_certificate_has_another_name_is_not_trusted(
    authority: Authority, client_tls: ssl.SSLContext
) -> None:
    refusal = await refusal_of(authority.issue("elsewhere.example.com"), client_tls, "localhost")

    assert "localhost" in str(refusal)


async def test_a_server_whose_certificate_has_expired_is_not_trusted(authority: Authority, client_tls: ssl.SSLContext) -> None:
    refusal = await refusal_of(authority.issue_expired("127.0.0.1"), client_tls)

    assert "expired" in str(refusal)


async def said_to(port: int, data: bytes) -> list[Message]:
    """What a listener says in the clear to these bytes before it ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    async with asyncio.timeout(10):
        said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return [frame.message for frame in FrameDecoder().feed(said)]


async def test_a_client_without_tls_is_told_in_words_that_this_port_speaks_it(server_tls: ssl.SSLContext) -> None:
    async with listening(server_tls) as (listener, ears):
        plain = Ear(await tcp.dial(("127.0.0.1", listener.port), 10))
        plain.link.send(HELLO)

        (frame,) = await plain.hear(1)

        assert isinstance(frame.message, Goodbye)
        assert "holdfasts://" in frame.message.sentence
        assert ears.empty()
        await plain.close()


async def test_a_client_with_tls_on_a_port_without_is_told_so(client_tls: ssl.SSLContext) -> None:
    async with listening(None) as (listener, ears):
        with pytest.raises(ProtocolError, match="holdfast:// instead"):
            await tcp.dial(("127.0.0.1", listener.port), 10, client_tls)
        (said,) = await said_to(listener.port, b"\x16\x03\x01\x02\x00")

        assert isinstance(said, Goodbye)
        assert "does not speak TLS" in said.sentence
        assert ears.empty()


async def test_a_handshake_that_does_not_end_is_dropped(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with listening(server_tls, limits=AdmissionLimits(hello_timeout_s=0.05)) as (listener, ears):
        for beginning in (b"", b"\x16", tls.TlsFilter(client_tls, "localhost").begin()[:100]):
            assert await said_to(listener.port, beginning) == []

        assert ears.empty()


async def test_handshakes_that_do_not_end_push_each_other_out_and_disturb_nobody(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with listening(server_tls, limits=AdmissionLimits(links_max=5)) as (listener, ears):
        hanging = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(25)]
        for each in hanging:
            each.send(b"\x16\x03\x01")

        near, far = await greeted(listener, ears, client_tls)
        far.link.send(Frame(0, Ping()))

        assert [type(frame.message) for frame in await near.hear(1)] == [Ping]
        await near.close()
        for each in hanging:
            each.close()


async def test_a_server_that_never_answers_the_handshake_is_unreachable(client_tls: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unreachable, match="no answer"):
        await tcp.dial(silent.getsockname(), 0.1, client_tls)


async def test_a_server_that_ends_the_handshake_is_unreachable(client_tls: ssl.SSLContext) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        with pytest.raises(Unreachable, match="cannot connect"):
            await tcp.dial(server.sockets[0].getsockname(), 10, client_tls)


async def test_garbage_within_tls_ends_the_connection(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with listening(server_tls) as (listener, ears):
        near, far = await greeted(listener, ears, client_tls)

        near.link._transport.write(b"\x17\x03\x03\x00\x20" + bytes(32))  # type: ignore[attr-defined]

        async with asyncio.timeout(10):
            assert isinstance(await far.lost, ProtocolError)
            await near.lost


# --- certificates of clients ---------------------------------------------------------------------------------------------


async def test_the_names_in_a_clients_certificate_are_known_once_it_has_proved_them(authority: Authority, pem: Pem) -> None:
    client = authority.issue("robot.example.com", "robot@example.com", common_name="robot")
    context = tls.server_context(*pem, authority.file)
    async with listening(context) as (listener, ears):
        near, far = await greeted(listener, ears, tls.client_context(authority.file, *client))
        with_none, without = await greeted(listener, ears, tls.client_context(authority.file))

        assert set(far.link.certificate_names) == {"robot", "robot.example.com", "robot@example.com"}
        assert without.link.certificate_names == ()
        await near.close()
        await with_none.close()


@pytest.mark.parametrize("has_other", [True, False])
async def test_a_client_without_the_certificate_that_is_required_is_told_so(
    has_other: bool, authority: Authority, pem: Pem, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other").issue("robot.example.com") if has_other else None
    context = tls.server_context(*pem, authority.file, is_certificate_required=True)
    async with listening(context) as (listener, ears):
        near = Ear(await tcp.dial(("127.0.0.1", listener.port), 10, tls.client_context(authority.file, *(other or ()))))
        near.link.send(HELLO)

        async with asyncio.timeout(10):
            problem = await near.lost

        assert isinstance(problem, LoginFailed)
        assert "?certificate=FILE" in str(problem)
        assert ears.empty()


# --- files ---------------------------------------------------------------------------------------------------------------


def test_files_that_cannot_be_used_are_refused_with_their_names(authority: Authority, pem: Pem, tmp_path: Path) -> None:
    other = authority.issue("other.example.com")
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")

    for certificate, key in ((pem.certificate, other.key), (rubbish, pem.key), (pem.certificate, tmp_path / "no.key")):
        with pytest.raises(BadSetting, match=f"certificate {certificate} and key {key}"):
            tls.server_context(certificate, key)
    for ca in (rubbish, tmp_path / "no.pem"):
        with pytest.raises(BadSetting, match=f"authority {ca}"):
            tls.client_context(ca)


def test_a_key_with_a_passphrase_is_refused_instead_of_asking_for_it(pem: Pem, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    encryption = serialization.BestAvailableEncryption(b"passphrase")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))

    with pytest.raises(BadSetting, match="without a passphrase"):
        tls.server_context(pem.certificate, locked)
