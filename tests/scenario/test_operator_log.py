"""What an operator should know is in the log as it happens, in a few lines, and in `_LOG` (B16, E5)."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.client.client import Client
from holdfast.errors import AccessDenied, Blocked, TimedOut
from holdfast.node.logs.operator_log import Filling
from holdfast.node.node import Node
from tests.protected_server import ProtectedServer
from tests.running_server import running
from tests.server_process import ServerProcess
from tests.waiting import until


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Node, Client]]:
    """A server in this process, so that its log can be looked at, with a journal of 3 MiB."""
    async with running(folder / "data") as server, holdfast.connect(server.url, timeout=10) as client:
        yield server.node, client


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [message for message in caplog.messages if words in message]


async def test_a_journal_that_fills_up_is_said_at_80_percent_when_short_when_full_and_when_there_is_room_again(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    async with served(tmp_path) as (node, client):
        await client.create_subscription("_LOG", "archive")
        queue = client.queue("orders")
        while node.channel.pressure.used_bytes < 0.82 * node.channel.pressure.ordinary_bytes:
            await queue.send(bytes(20_000))
        await until(lambda: said(caplog, "% full"), "80 % is said")

        with pytest.raises(Blocked):
            while True:
                await queue.try_send(bytes(20_000), timeout=1)
        await until(lambda: said(caplog, "not accepted"), "it is said that nothing more is accepted")

        async with queue.receive(timeout=0.5) as incoming:
            with pytest.raises(TimedOut):
                while True:
                    await (await incoming.next()).confirm()
            await until(lambda: not node.channel.pressure.is_short, "there is room again")
        kept = await logged(client, "archive", "the journal is short of space")

    assert re.match(r"the journal is 8\d % full: 1.\dM of 1.4M are used", said(caplog, "% full")[0])
    assert len(said(caplog, "% full")) == 1
    assert said(caplog, "the journal has room again")
    assert kept[:2] == [said(caplog, "% full")[0], said(caplog, "the journal is short of space")[0]]


async def logged(client: Client, subscription: str, last: str) -> list[str]:
    """What a subscription of `_LOG` has got, up to a record with these words."""
    texts: list[str] = []
    async with client.topic("_LOG").subscribe(subscription, timeout=10) as incoming:
        while not texts or last not in texts[-1]:
            texts.append((await incoming.next()).data)
    return texts


async def test_a_destination_that_fills_up_is_said_at_80_percent_when_it_is_blocked_and_when_it_takes_events_again(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    async with served(tmp_path) as (_, client):
        await client.create_subscription("_LOG", "archive")
        queue = client.queue("orders")
        await client.create_queue("orders", events_max=10)
        for number in range(8):
            await queue.send(number)
        await until(lambda: said(caplog, "'orders'"), "80 % is said")
        for number in range(2):
            await queue.send(number)
        await until(lambda: said(caplog, "blocked"), "it is said that it is blocked")

        async with queue.receive() as incoming:
            for _ in range(10):
                await (await incoming.next()).confirm()
        kept = await logged(client, "archive", "is blocked")

    assert said(caplog, "'orders'") == [
        "'orders' is 80 % full; when it is full, those who send to it are held back",
        "'orders' is blocked: 10 events wait, the high water is 10; those who send to it are held back",
        "'orders' takes events again",
    ]
    assert kept == said(caplog, "'orders'")[:2]


async def test_events_that_die_are_counted_by_destination_and_code_in_a_line_each(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    async with served(tmp_path) as (_, client):
        queue = client.queue("orders")
        await queue.send_many(range(100))
        async with queue.receive() as incoming:
            for _ in range(95):
                await (await incoming.next()).reject("secret words")
                await incoming.settled()
        await client.delete("orders", force=True)

    died = said(caplog, "died")
    assert died[0] == "1 event of 'orders' died (rejected); see _DMQ"
    assert sorted(died[1:]) == [
        "5 events of 'orders' died (deleted); see _DMQ",
        "94 events of 'orders' died (rejected); see _DMQ",
    ]
    assert not said(caplog, "secret words")


async def test_a_user_that_is_refused_again_and_again_is_said_in_a_line_or_two(tmp_path: Path) -> None:
    with ProtectedServer(tmp_path, is_tls=False) as server:
        for _ in range(3):
            async with holdfast.connect(server.bob, timeout=10) as client:
                for _ in range(20):
                    with pytest.raises(AccessDenied):
                        await client.queue("orders.new").send("one")
        assert server.process.stop() == 0
        refusals = [line for line in server.process.log.splitlines() if "may not" in line]

    assert [line.partition("holdfast.access: ")[2] for line in refusals] == [
        "bob may not send 'orders.new'; refused",
        "bob may not send 'orders.new'; refused (and 58 more like it)",
    ]


async def test_start_and_stop_say_version_folder_journal_addresses_tls_and_users_and_are_in_the_log_topic(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with holdfast.connect(server.url) as client:
            await client.create_subscription("_LOG", "archive")
        assert server.stop() == 0
        server.start()
        async with holdfast.connect(server.url) as client:
            kept = await logged(client, "archive", "starts: ")
        lines = server.log.splitlines()

    told = f"holdfast {holdfast.__version__} (holdfast); data in {tmp_path / 'data'}; journal "
    rest = f" of 128M used; listening on 127.0.0.1:{server.port}; TLS off; users off"
    for word in ("starts: ", "stops: "):
        (first, *_) = [line for line in lines if word in line]
        assert f"holdfast.server: {word}{told}" in first
        assert first.endswith(rest)
    assert [text.partition(": ")[0] for text in kept] == ["stops", "starts"]


async def test_a_protected_server_says_so_when_it_starts(tmp_path: Path) -> None:
    with ProtectedServer(tmp_path) as server:
        async with holdfast.connect(server.alice):
            pass

        assert "TLS on; users on" in server.process.log


def test_a_server_does_not_wait_for_a_log_that_nobody_reads(tmp_path: Path) -> None:
    """Its stderr is a pipe without room, from before its first line on."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    command = [sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "x"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "--journal-size", "64M"], stdout=subprocess.PIPE, stderr=writing, text=True) as process:
        os.close(writing)
        try:
            assert process.stdout is not None
            assert select.select((process.stdout,), (), (), 30)[0], "it does not listen"
            port = process.stdout.readline().rpartition(":")[2].strip()
            with holdfast.blocking.connect(f"holdfast://127.0.0.1:{port}") as client:
                client.queue("orders").send("one", timeout=10)

            while len(os.read(reading, 4096)) == 4096:  # somebody reads again
                if not select.select((reading,), (), (), 0)[0]:
                    break
            process.terminate()
            assert process.wait(timeout=30) == 0
            written = os.read(reading, 1 << 16).decode()
        finally:
            process.kill()
            os.close(reading)

    assert written.startswith("(lines of the log that nobody read, and that were dropped: 1)")
    assert " stops: " in written


def test_what_fills_up_is_told_once_until_it_was_clearly_less_full() -> None:
    filling = Filling()

    passed = [filling.passes("orders", percent) for percent in (79, 80, 100, 79, 81, 70, 85, 69, 80)]

    assert passed == [False, True, False, False, False, False, False, False, True]
