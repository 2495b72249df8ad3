"""Every link of a domain over TLS with certificates of both ends, programs as processes: a capture of each shows nothing (34).

client ─1▶ engine ─2▶ Holdfast ◀2─ listener ─3▶ engine (answers)     listener ─4▶ server ─5▶ egress
                                ◀2─ carrier ─6▶ far side
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.continuity.effects.effect_events import Ask
from holdfast.continuity.effects.far_side import FarSide, NotReached, Unknown
from holdfast.continuity.listener.server.http_caller import HttpCaller
from holdfast.continuity.listener.server.server_connection import CallFailed
from holdfast.continuity.machines.effects import Identity
from holdfast.continuity.request import Content, Headers
from holdfast.node.login import users_file
from holdfast.wire import tls
from tests.certificates import Authority, Pem
from tests.domain_processes import Processes, holdfast, port_in
from tests.recording_proxy import RecordingProxy, recording_proxy
from tests.server_process import ServerProcess, free_port

pytestmark = pytest.mark.slow

SECRET = b"100 shares for Ann"
RULE = '\n[[access]]\nwho = "robot"\ndestination = "**"\nactions = ["send", "receive", "manage", "browse"]\n'
Say = Callable[[bytes, bytes], Awaitable[bytes]]


class Certificates(NamedTuple):
    """Those of all parts, of one authority; and a stranger's of another."""

    authority: Path
    own: Pem
    stranger: Pem
    strange_authority: Path

    @property
    def client(self) -> ssl.SSLContext:
        return tls.client_context(self.authority, *self.own)

    @property
    def server(self) -> ssl.SSLContext:
        return tls.server_context(*self.own, self.authority, is_certificate_required=True)

    def options(self, *names: str) -> list[str]:
        """Options of a command: the authority, the certificate and its key, by these names."""
        files = (self.authority, *self.own)
        return [word for name, file in zip(names, files, strict=True) for word in (name, str(file))]

    @property
    def wrong(self) -> dict[str, ssl.SSLContext]:
        """Contexts of clients that are to be refused, or that refuse the server."""
        return {
            "no certificate": tls.client_context(self.authority),
            "a stranger": tls.client_context(self.authority, *self.stranger),
            "another authority": tls.client_context(self.strange_authority, *self.own),
        }


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    authority, other = Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    own = authority.issue("localhost", "127.0.0.1", "robot.example.com", common_name="robot")
    return Certificates(authority.file, own, other.issue("localhost", common_name="robot"), other.file)


@contextmanager
def secured_holdfast(folder: Path, certificates: Certificates) -> Iterator[ServerProcess]:
    """A server that takes nobody without a certificate."""
    users_file.add(folder / "users.toml", "robot", "", "robot.example.com")
    with (folder / "users.toml").open("a") as file:
        file.write(RULE)
    options = certificates.options("--tls-client-ca", "--tls-certificate", "--tls-key")
    with ServerProcess(folder / "data", "--users", str(folder / "users.toml"), "--require-certificate", *options) as server:
        yield server


@asynccontextmanager
async def tls_server(context: ssl.SSLContext, say: Say) -> AsyncIterator[tuple[str, int]]:
    """A server behind https that takes only known certificates; `say` gives the body of each answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                sizes = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await say(head, await reader.readexactly(sum(sizes)))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "localhost", 0, ssl=context, family=2)
    async with server:
        yield server.sockets[0].getsockname()[:2]


class Domain(NamedTuple):
    captures: dict[str, RecordingProxy]
    ports: dict[str, int]  # past the captures
    orders: list[bytes]  # at the far side


@asynccontextmanager
async def secured_domain(folder: Path, certificates: Certificates) -> AsyncIterator[Domain]:
    """A domain with one server, all of whose links are captured."""
    orders: list[bytes] = []

    async def execute(_: bytes, body: bytes) -> bytes:
        orders.append(body)
        return b"confirmed: " + body

    async with AsyncExitStack() as stack:
        links = ("client", "holdfast", "answers", "server", "egress", "far side")
        captures = {link: await stack.enter_async_context(recording_proxy()) for link in links}
        ports = {"answers": free_port(), "egress": free_port()}
        egress = HttpCaller(f"https://localhost:{captures['egress'].port}", tls=certificates.client)

        async def trade(head: bytes, body: bytes) -> bytes:
            traced: Headers = [
                (b"traceparent", line.split(b": ")[1]) for line in head.split(b"\r\n") if line.startswith(b"traceparent")
            ]
            return (await egress.call(Content("POST", "/exchange/orders", traced, body))).body

        server = stack.enter_context(secured_holdfast(folder, certificates))
        far = await stack.enter_async_context(tls_server(certificates.server, execute))
        trader = await stack.enter_async_context(tls_server(certificates.server, trade))
        targets = {"holdfast": server.port, "answers": ports["answers"], "egress": ports["egress"]}
        for link, port in (*targets.items(), ("far side", far[1]), ("server", trader[1])):
            captures[link].target = ("127.0.0.1", port)
            ports[link] = port
        shown = f"ca={certificates.authority}&certificate={certificates.own.certificate}&key={certificates.own.key}"
        url = f"holdfasts://robot@localhost:{captures['holdfast'].port}?{shown}"
        processes = stack.enter_context(Processes(folder, url))
        (folder / "shop.toml").write_text("tell-server = true\n")
        created = holdfast("domain", "create", "shop", "--definition", str(folder / "shop.toml"), "--url", url)
        await asyncio.to_thread(partial(subprocess.run, created, check=True, capture_output=True))
        carrier = ["--far", f"exchange=https://localhost:{captures['far side'].port}", "--knows-keys", "exchange"]
        carrier += certificates.options("--far-ca", "--far-certificate", "--far-key")
        listener = ["--name", "a", "--store", str(folder / "a"), "--server", f"https://localhost:{captures['server'].port}"]
        listener += certificates.options("--server-ca", "--server-certificate", "--server-key")
        listener += certificates.options("--tls-ca", "--tls-certificate", "--tls-key")
        listener += ["--egress", f"127.0.0.1:{ports['egress']}"]
        listener += certificates.options("--egress-client-ca", "--egress-certificate", "--egress-key")
        engine = ["--listen", "127.0.0.1:0", "--answers", f"127.0.0.1:{ports['answers']}"]
        engine += ["--advertise", f"localhost:{captures['answers'].port}", "--tls-client-ca", str(certificates.authority)]
        engine += certificates.options("--tls-listener-ca", "--tls-certificate", "--tls-key")
        for name, options, ready in (
            ("effects", carrier, "carrying effects out"),
            ("listener", listener, "has joined domain"),
            ("engine", engine, "taking requests on https://"),
        ):
            command = holdfast(name, "--domain", "shop", *options)
            said = await asyncio.to_thread(partial(processes.start, name, *command, ready=ready))
        ports["client"] = port_in(said.rpartition("//")[2])
        captures["client"].target = ("127.0.0.1", ports["client"])
        yield Domain(captures, ports, orders)
        await egress.close()


async def _refusals(port: int, contexts: dict[str, ssl.SSLContext]) -> list[str]:
    """Who was answered at a port of ours in spite of a wrong certificate."""
    answered = []
    for name, context in contexts.items():
        async with HttpCaller(f"https://localhost:{port}", tls=context) as caller:
            try:
                await caller.call(Content("POST", "/exchange/orders", [], SECRET), timeout=10)
                answered.append(name)
            except CallFailed:
                pass
    return answered


async def test_an_order_goes_over_every_link_and_no_capture_shows_it_and_wrong_certificates_are_refused(
    tmp_path: Path, certificates: Certificates
) -> None:
    async with secured_domain(tmp_path, certificates) as shop:
        async with HttpCaller(f"https://localhost:{shop.captures['client'].port}", tls=certificates.client) as client:
            answer = await client.call(Content("POST", "/orders", [], SECRET), timeout=60)
        in_time = list(shop.orders)
        answered = {link: await _refusals(shop.ports[link], certificates.wrong) for link in ("client", "server", "egress")}
        plain = [await _plain(shop.ports[link]) for link in ("client", "server", "egress", "answers")]
        far = f"https://localhost:{shop.ports['far side']}"
        ask = Ask(Identity("t", b"d" * 16, 1), "a", "trace", "exchange", "POST", "/orders", [], SECRET)
        carried = [name for name, context in certificates.wrong.items() if await _is_carried(FarSide("x", far, tls=context), ask)]

    assert (answer.head.status, answer.body) == (200, b"confirmed: " + SECRET)
    assert in_time == shop.orders == [SECRET]
    assert {link: SECRET in each.captured for link, each in shop.captures.items()} == dict.fromkeys(shop.captures, False)
    assert min(len(each.captured) for each in shop.captures.values()) > 1_000
    assert answered == {"client": [], "server": [], "egress": []}
    assert [b"200 OK" in each for each in plain] == [False] * 4
    assert carried == []


async def _plain(port: int) -> bytes:
    """What a port says to a client without TLS."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /orders HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\n\r\n")
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def _is_carried(far: FarSide, ask: Ask) -> bool:
    try:
        await far.carry_out(ask)
    except (NotReached, Unknown):
        return False
    finally:
        far.close()
    return True
