"""Connecting where nobody answers, or somebody else does: said soon, with host and port, and with what was heard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.client import client as client_module
from holdfast.client.connection import connection as connection_module
from holdfast.errors import ProtocolError, Unreachable
from tests.running_server import start
from tests.server_process import free_port


@asynccontextmanager
async def stranger(says: bytes, *, is_closing: bool = False) -> AsyncIterator[int]:
    """A server of something else: what it says to whoever connects and says something."""
    done = asyncio.Event()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(says)
        if not is_closing:
            await done.wait()
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        done.set()
        server.close()


def test_where_nobody_answers_that_is_said_after_three_seconds_with_host_and_port() -> None:
    port, began = free_port(), time.monotonic()

    with pytest.raises(Unreachable, match=rf"within 3 s: cannot connect to 127.0.0.1:{port}: Connection refused"):
        holdfast.blocking.connect(f"holdfast://127.0.0.1:{port}").open()

    assert time.monotonic() - began > 2.9


async def test_a_timeout_that_is_given_is_for_the_first_answer_too() -> None:
    port = free_port()

    with pytest.raises(Unreachable, match=rf"within 0.2 s: cannot connect to 127.0.0.1:{port}"):
        await holdfast.connect(f"holdfast://127.0.0.1:{port}", timeout=0.2).open()


async def test_who_takes_the_connection_and_stays_silent_is_named() -> None:
    async with stranger(b"") as port:
        with pytest.raises(Unreachable, match=rf"127.0.0.1:{port} took the connection and did not answer within 0.3 s"):
            await holdfast.connect(f"holdfast://127.0.0.1:{port}", timeout=0.3).open()


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it answers as an HTTP server does"),
        (b"-ERR unknown command\r\n", "it answers as Redis does"),
        (b'INFO {"server_id": "x"}\r\n', "it answers as a NATS server does"),
        (b"AMQP\x00\x00\x09\x01", "it answers as an AMQP broker does"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it answers as an SSH server does"),
        (b"Hello, who is there?\r\n", "it said b'Hello, who is there"),
    ],
)
async def test_who_answers_as_something_else_is_named_at_once(says: bytes, words: str) -> None:
    async with stranger(says) as port, asyncio.timeout(60):
        with pytest.raises(ProtocolError, match=rf"127.0.0.1:{port} is not a Holdfast server: {words}.+host and port") as caught:
            await holdfast.connect(f"holdfast://127.0.0.1:{port}", timeout=600).open()

    assert caught.value.family == "refused"


async def test_a_server_of_tls_that_ends_the_connection_with_an_alert_is_named() -> None:
    async with stranger(b"\x15\x03\x01\x00\x02\x02\x46", is_closing=True) as port:
        with pytest.raises(ProtocolError, match=r"speaks TLS \(then write holdfasts://\)"):
            await holdfast.connect(f"holdfast://127.0.0.1:{port}").open()


async def test_of_several_hosts_each_has_its_turn_before_the_time_is_up(tmp_path: Path) -> None:
    async with stranger(b"") as silent:
        server = await start(tmp_path)
        try:
            async with holdfast.connect(f"holdfast://127.0.0.1:{free_port()},127.0.0.1:{server.port}") as client:
                assert (await client.status())["is_primary"]
        finally:
            await server.close()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{silent}"):
            await holdfast.connect(f"holdfast://127.0.0.1:{silent},127.0.0.1:{free_port()}", timeout=0.5).open()


async def test_a_server_that_checks_a_password_has_the_whole_timeout_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_S", 0.1)
    monkeypatch.setattr(client_module, "TIMEOUT_S", 0.6)
    assert connection_module.ANSWER_S == 3.0

    async with stranger(b"") as port:
        with pytest.raises(Unreachable, match=r"within 0\.1 s"):
            await holdfast.connect(f"holdfast://127.0.0.1:{port}").open()
        began = time.monotonic()
        with pytest.raises(Unreachable):
            await holdfast.connect(f"holdfast://ada:secret@127.0.0.1:{port}").open()
        assert time.monotonic() - began > 0.55
