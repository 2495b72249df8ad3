"""Recipients that stall or die and clients that do not keep to the protocol: the others are not disturbed (A4, rule 4)."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.faults]

# More than may be there before login.
CONNECTIONS = effort.rounds(short=3_000, long=10_000)

RECIPIENT = """
import asyncio, sys, holdfast
async def main():
    async with holdfast.connect(sys.argv[1]) as client:
        async with client.queue("orders").receive(credit=100) as incoming:
            for _ in range(10):  # a hundred are handed over; it looks at some of them
                event = await incoming.next(timeout=20)
            if sys.argv[2:]:
                await event.confirm()
                await incoming.settled()
            while (await client.describe("orders"))["in_flight"] < 100 - len(sys.argv[2:]):
                await asyncio.sleep(0.01)
            print("holding", flush=True)
            await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "500") as running:
        yield running


async def round_trip(url: str, queue: str = "others") -> None:
    """What everybody else does meanwhile."""
    async with holdfast.connect(url) as client, client.queue(queue).receive() as incoming:
        await client.queue(queue).send("hello", timeout=10)
        event = await incoming.next(timeout=10)
        assert event.data == "hello"
        await event.confirm()


@contextlib.contextmanager
def recipient_holding_a_hundred(url: str, *confirming: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", RECIPIENT, url, *confirming], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holding\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def test_what_a_recipient_held_when_it_was_killed_is_delivered_to_another(server: ServerProcess) -> None:
    async with holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(range(200))
        with recipient_holding_a_hundred(server.url, "confirming the tenth") as process:
            process.kill()

            async with client.queue("orders").receive() as incoming:
                seen: set[int] = set()
                while len(seen) < 199:
                    event = await incoming.next(timeout=20)
                    seen.add(event.data)
                    assert event.redelivered is (event.data < 100)
                    assert event.deliveries == (event.data in (*range(9), 10))  # what it looked at, and what it may have
                    await event.confirm()
        assert seen == set(range(200)) - {9}


async def test_what_a_killed_program_was_handed_and_its_client_had_not_said_is_marked(server: ServerProcess) -> None:
    async with holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(range(200))
        with recipient_holding_a_hundred(server.url) as process:  # it looked at ten of them, and says so with its next credit
            process.kill()

            async with client.queue("orders").receive() as incoming:
                events = [await incoming.next(timeout=20) for _ in range(200)]
                marked = {event.data for event in events if event.redelivered}
        assert marked == set(range(100))


async def test_a_stopped_recipient_disturbs_nobody_and_goes_on_where_it_was(server: ServerProcess) -> None:
    async with holdfast.connect(server.url) as client:
        await client.queue("orders").send_many(range(200))
        with recipient_holding_a_hundred(server.url) as process:
            process.send_signal(signal.SIGSTOP)

            await client.queue("orders").send_many(range(200, 400), timeout=10)
            async with client.queue("orders").receive() as incoming:
                for expected in range(100, 400):
                    event = await incoming.next(timeout=10)
                    assert event.data == expected
                    await event.confirm()
            await round_trip(server.url)
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(os.urandom(4096), id="garbage"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="another protocol"),
        pytest.param(b"\xff\xff\xff\xff" + b"x" * 100, id="a frame of 4 GiB"),
        pytest.param(b"\x40\x00\x00\x00\x01\x00", id="half a frame"),
        pytest.param(b"\x00\x00\x00\x00", id="an empty frame"),
    ],
)
async def test_what_is_not_the_protocol_costs_only_its_own_link(server: ServerProcess, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as bad:
        bad.sendall(said)

        await round_trip(server.url)

        if said[:2] != b"\x40\x00":  # half a frame may still become a whole one: it is only waited for
            bad.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                while bad.recv(4096):
                    pass
    assert server.memory_mb() < 150


async def test_thousands_of_connections_that_say_nothing_disturb_nobody(server: ServerProcess) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(CONNECTIONS, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(wanted)]
    try:
        for _ in range(5):
            await round_trip(server.url)
        assert server.memory_mb() < 300

        # They are given up on after the greeting's time, and nothing else is.
        deadline = time.monotonic() + 40
        silent[0].settimeout(40)
        while silent[0].recv(4096):
            assert time.monotonic() < deadline
        await round_trip(server.url)
    finally:
        for each in silent:
            each.close()
    assert wanted == CONNECTIONS, f"this machine allows only {wanted} connections"


async def test_a_stalled_recipient_does_not_stop_accepting(server: ServerProcess) -> None:
    """A4, in its plain form: accepting needs no recipient. It says nothing of the rate."""
    async with holdfast.connect(server.url) as client:
        async with client.queue("orders").receive(credit=10) as stalled:
            await client.queue("orders").send_many([b"x" * 1000] * 20_000, timeout=60)
            first = await stalled.next(timeout=10)
            assert first.data == b"x" * 1000
        assert (await client.describe("orders"))["waiting"] == 20_000
