"""Answer links and WebSockets over TLS, with certificates of both ends: nobody reads them, and strangers are refused."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import InvalidMessage

from holdfast.continuity.domain import Domain, Route
from holdfast.continuity.link.answer_server import AnswerServer
from holdfast.continuity.listener.server.http_caller import HttpCaller
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.request import Content
from holdfast.continuity.server_certificate import ServerCertificate
from holdfast.wire import tls
from tests.certificates import Authority, Pem
from tests.fronted_engine import Fronted, ask, fronted_engine
from tests.listening import json_answer, listening
from tests.raw_http_server import raw_http_server, saying
from tests.recording_proxy import RecordingProxy, recording_proxy
from tests.server_process import ServerProcess
from tests.waiting import until

_numbers = itertools.count()
SECRET = b'"the balance of Ann"'
SAY = saying(json_answer(SECRET))


@pytest.fixture
def url() -> str:
    return f"memory:tls-{next(_numbers)}"


class Certificates(NamedTuple):
    authority: Authority
    engine: Pem
    listener: Pem

    @property
    def server(self) -> ssl.SSLContext:
        return tls.server_context(self.engine.certificate, self.engine.key, self.authority.file, is_certificate_required=True)

    @property
    def client(self) -> ssl.SSLContext:
        return tls.client_context(self.authority.file, self.listener.certificate, self.listener.key)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    authority = Authority(tmp_path / "authority")
    return Certificates(authority, authority.issue("localhost"), authority.issue("one"))


@asynccontextmanager
async def captured_engine(url: str, context: ssl.SSLContext | None) -> AsyncIterator[tuple[Fronted, RecordingProxy]]:
    """An engine whose answer links go through a proxy."""
    async with (
        recording_proxy() as proxy,
        fronted_engine(url, Domain(name="shop"), advertise=f"localhost:{proxy.port}", tls=context) as front,
    ):
        proxy.target = address_of(front.engine._server)
        yield front, proxy


def address_of(server: AnswerServer) -> tuple[str, int]:
    host, port = server._servers[0].sockets[0].getsockname()[:2]
    return str(host), int(port)


# --- what a capture shows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tls", [True, False])
async def test_a_capture_of_an_answer_link_shows_the_answer_only_without_tls(
    url: str, tmp_path: Path, certificates: Certificates, is_tls: bool
) -> None:
    server_context, client_context = (certificates.server, certificates.client) if is_tls else (None, None)
    async with (
        raw_http_server(SAY) as server,
        captured_engine(url, server_context) as (front, proxy),
        listening(url, server.url, tmp_path / "s", tls=client_context),
    ):
        await front.engine.until_ready(60)
        seen = await ask(front.port, "/")

    assert (seen.status, seen.body) == (200, SECRET)
    assert len(proxy.captured) > 200
    assert (SECRET in proxy.captured) is not is_tls


async def test_a_listener_that_starts_again_knows_that_the_link_of_an_engine_is_tls(
    url: str, tmp_path: Path, certificates: Certificates
) -> None:
    async with raw_http_server(SAY) as server, captured_engine(url, certificates.server) as (front, _):
        for _ in range(2):
            async with listening(url, server.url, tmp_path / "s", tls=certificates.client) as listener:
                await front.engine.until_ready(60)
                assert (await ask(front.port, "/")).body == SECRET
                assert [engine.tls for engine in listener.membership.engines.values()] == [True]
            await until(lambda: not front.engine.is_ready, "the listener is gone")


# --- strangers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["untrusted engine", "unknown listener", "no certificate", "no tls"])
async def test_a_link_with_a_wrong_certificate_is_refused_with_a_sentence(
    url: str, tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    stranger = Authority(tmp_path / "stranger")
    foreign, own, known = stranger.issue("one"), certificates.listener, certificates.authority.file
    contexts: dict[str, Callable[[], ssl.SSLContext | None]] = {
        "untrusted engine": lambda: tls.client_context(stranger.file, own.certificate, own.key),
        "unknown listener": lambda: tls.client_context(known, foreign.certificate, foreign.key),
        "no certificate": lambda: tls.client_context(known),
        "no tls": lambda: None,
    }
    caplog.set_level(logging.WARNING, "holdfast.continuity")
    async with (
        raw_http_server(SAY) as server,
        captured_engine(url, certificates.server) as (front, proxy),
        listening(url, server.url, tmp_path / "s", tls=contexts[kind]()),
    ):
        await until(lambda: "is not linked" in caplog.text, "the listener says why")
        if kind in ("unknown listener", "no certificate"):
            await until(lambda: "a link was refused: its TLS or its certificate" in caplog.text, "the engine says why")
        seen = await ask(front.port, "/")

    assert seen.status == 503
    assert (server.requests, SECRET in proxy.captured) == ([], False)


async def test_a_listener_with_tls_sends_no_answer_to_an_engine_without(
    url: str, tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast.continuity")
    async with (
        raw_http_server(SAY) as server,
        captured_engine(url, None) as (front, proxy),
        listening(url, server.url, tmp_path / "s", tls=certificates.client),
    ):
        await until(lambda: "sends no answer in the clear" in caplog.text, "the listener says why")
        seen = await ask(front.port, "/")

    assert (seen.status, bytes(proxy.captured)) == (503, b"")


# --- servers behind https ------------------------------------------------------------------------------------------------


async def test_a_websocket_passes_over_tls_from_the_client_to_the_server_and_a_capture_does_not_show_it(
    url: str, tmp_path: Path, certificates: Certificates
) -> None:
    domain = Domain(name="shop", routes=(Route("/live", kind="stream"),))
    front_certificate = ServerCertificate(certificates.engine.certificate, certificates.engine.key, certificates.authority.file)
    stranger = tls.client_context(certificates.authority.file)
    said: list[str | bytes] = ["what only the two of them may know", b"\x00" + SECRET]
    async with (
        serve(_echo, "localhost", 0, ssl=certificates.server, compression=None) as server,
        fronted_engine(url, domain, certificate=front_certificate) as front,
        recording_proxy() as proxy,
        listening(url, HttpCaller(f"https://localhost:{_port(server)}", tls=certificates.client), tmp_path / "s"),
    ):
        proxy.target = ("127.0.0.1", front.port)
        await front.engine.until_ready(60)
        live = f"wss://localhost:{proxy.port}/live"
        async with connect(live, ssl=certificates.client, compression=None, proxy=None) as client:
            came = []
            for each in said:
                await client.send(each)
                came.append(await client.recv())
        with pytest.raises((OSError, InvalidMessage)):  # it shows no certificate
            await connect(live, ssl=stranger, proxy=None)

    assert came == said
    assert len(proxy.captured) > 200
    assert all(secret not in proxy.captured for secret in (SECRET, b"only the two of them"))


async def _echo(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


def _port(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


async def test_a_server_is_called_over_https_if_its_certificate_is_known(certificates: Certificates, tmp_path: Path) -> None:
    pem, stranger = certificates.engine, Authority(tmp_path / "stranger")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(json_answer(SECRET))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls.server_context(pem.certificate, pem.key))
    url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    async with server, HttpCaller(url, tls=tls.client_context(certificates.authority.file)) as caller:
        assert (await caller.call(Content("GET", "/", []))).body == SECRET
        async with HttpCaller(url, tls=tls.client_context(stranger.file)) as wrong:
            with pytest.raises(CallFailed, match="certificate verify failed") as failed:
                await wrong.call(Content("GET", "/", []))

    assert failed.value.kind == "refused"


# --- the commands --------------------------------------------------------------------------------------------------------


@contextmanager
def command(*words: str, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A command, once it has printed its line."""
    with (
        log.open("w") as said,
        subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli.main", *words], stdout=subprocess.PIPE, stderr=said, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


@pytest.mark.slow
async def test_the_commands_link_over_tls_with_certificates_of_both_ends(tmp_path: Path, certificates: Certificates) -> None:
    authority, engine, listener = certificates
    with ServerProcess(tmp_path / "data") as holdfast:
        made = [sys.executable, "-m", "holdfast.cli.main", "domain", "create", "shop", "--url", holdfast.url]
        await asyncio.to_thread(subprocess.run, made, check=True, capture_output=True)
        async with raw_http_server(SAY) as server:
            listen = command(
                "listener", "--domain", "shop", "--server", server.url, "--name", "one", "--store", str(tmp_path / "s"),
                "--tls-ca", str(authority.file), "--tls-certificate", str(listener.certificate), "--tls-key", str(listener.key),
                "--url", holdfast.url, log=tmp_path / "listener.log",
            )  # fmt: skip
            take = command(
                "engine", "--domain", "shop", "--listen", "127.0.0.1:0", "--answers", "localhost:0",
                "--tls-certificate", str(engine.certificate), "--tls-key", str(engine.key),
                "--tls-listener-ca", str(authority.file), "--url", holdfast.url, log=tmp_path / "engine.log",
            )  # fmt: skip
            with listen, take as engine_process:
                assert engine_process.stdout is not None
                line = await asyncio.to_thread(engine_process.stdout.readline)
                port = int(line.strip().rpartition(":")[2])
                context = ssl.create_default_context(cafile=authority.file)
                answer = await _asked(port, context)

    assert line.startswith("taking requests on https://")
    assert answer.endswith(SECRET)
    assert "refused" not in (tmp_path / "engine.log").read_text()


async def _asked(port: int, context: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    writer.write(b"GET / HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer
