"""Deliveries count what a program was handed; what its client had only fetched ahead goes back as it was (rule 5)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.node.settings import NodeSettings
from tests.running_server import SETTINGS, RunningServer, running
from tests.waiting import until

EVENTS = 60
LIMIT = 3
KINDS = ("plain", "groups", "shared", "durable", "blocking", "rolled", "large")

# Takes two events of each kind and finishes them, takes a third, says so, and is killed with that one in hand.
WORKER = """
import asyncio, sys, threading, holdfast
import holdfast.blocking

async def finish_two(incoming):
    for _ in range(2):
        await (await incoming.next(timeout=20)).confirm()
    await incoming.settled(timeout=20)
    await incoming.next(timeout=20)

async def receive(client, kind):
    if kind in ("plain", "groups", "large"):
        receiver = client.queue(kind).receive()
    else:
        receiver = client.subscribe("t." + kind, name="sub", shared=kind == "shared")
    async with receiver as incoming:
        await finish_two(incoming)
        ready()
        await asyncio.Event().wait()

async def roll_back(client):
    async with client.session() as session, session.queue("rolled").receive() as incoming:
        transaction = session.transaction()
        await transaction.confirm(await incoming.next(timeout=20))
        await transaction.rollback()
        async with session.transaction() as transaction:
            for _ in range(2):
                await transaction.confirm(await incoming.next(timeout=20))
        transaction = session.transaction()
        await transaction.confirm(await incoming.next(timeout=20))
        ready()
        await asyncio.Event().wait()

def block(url):
    with holdfast.blocking.connect(url) as client, client.queue("blocking").receive() as incoming:
        for _ in range(2):
            incoming.next(timeout=20).confirm()
        incoming.settled(timeout=20)
        incoming.next(timeout=20)
        ready()
        threading.Event().wait()

left = 7
def ready():
    global left
    left -= 1
    if not left:
        print("ready", flush=True)

async def main(url):
    threading.Thread(target=block, args=[url], daemon=True).start()
    async with holdfast.connect(url) as client:
        kinds = ("plain", "groups", "shared", "durable", "large")
        await asyncio.gather(roll_back(client), *(receive(client, kind) for kind in kinds))
asyncio.run(main(sys.argv[1]))
"""


async def _run_until_ready_and_kill(url: str, how: signal.Signals) -> None:
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, url, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    async with asyncio.timeout(30):
        assert await worker.stdout.readline() == b"ready\n"
    worker.send_signal(how)
    await worker.wait()


async def _prepare(client: holdfast.Client) -> None:
    for kind in ("plain", "groups", "blocking", "rolled", "large"):
        await client.create_queue(kind, redelivery_limit=LIMIT)
    for kind in ("shared", "durable"):
        await client.create_topic(f"t.{kind}", redelivery_limit=LIMIT)
        async with client.subscribe(f"t.{kind}", name="sub", shared=kind == "shared"):
            pass
    for number in range(EVENTS):
        await client.queue("groups").send(number, group=f"g{number % 3}")
        for kind in ("plain", "blocking", "rolled"):
            await client.queue(kind).send(number)
        for kind in ("shared", "durable"):
            await client.topic(f"t.{kind}").send(number)
    for number in range(EVENTS // 4):
        await client.queue("large").send_stream(bytes(3 << 20) if number == 3 else bytes([number]))


def _is_forgotten(server: RunningServer, own: int) -> bool:
    return len(server.node.messages.directory.sessions()) == own


@pytest.mark.slow
@pytest.mark.faults
async def test_a_worker_that_is_killed_again_and_again_sends_nothing_to_the_dead_that_no_program_saw(tmp_path: Path) -> None:
    """With the default credit a client fetches everything that waits here."""
    async with running(tmp_path / "data", _roomy()) as server, holdfast.connect(server.url) as client:
        await _prepare(client)
        own = len(server.node.messages.directory.sessions())

        for how in (signal.SIGTERM, signal.SIGKILL) * (LIMIT - 1) + (signal.SIGTERM,):
            await _run_until_ready_and_kill(server.url, how)
            await until(lambda: _is_forgotten(server, own), "the killed worker was given up")

        assert (await client.describe("_DMQ"))["waiting"] == 0
        for kind in KINDS:
            await _check_rest(client, kind)


async def _check_rest(client: holdfast.Client, kind: str) -> None:
    """One event was in the hands of a program when it was killed; those behind it have never been delivered."""
    is_topic = kind in ("shared", "durable")
    receiver = client.subscribe(f"t.{kind}", name="sub", shared=kind == "shared") if is_topic else client.queue(kind).receive()
    total = EVENTS // 4 if kind == "large" else EVENTS
    async with receiver as incoming:
        events = [await incoming.next(timeout=10) for _ in range(total - 2 * (2 * LIMIT - 1))]
        for event in events:
            await event.confirm()
    counts = sorted(event.deliveries for event in events)
    assert counts == [0] * (len(counts) - 1) + [counts[-1]], kind
    assert counts[-1] in (1, 2), kind  # a rolled back one was given back once more
    assert all(event.redelivered for event in events if event.deliveries)


def _roomy() -> NodeSettings:
    return NodeSettings(session_grace_ms=SETTINGS.session_grace_ms, start_grace_ms=SETTINGS.start_grace_ms)


@pytest.mark.slow
@pytest.mark.faults
async def test_receiving_at_the_command_line_counts_what_was_printed_and_not_what_was_fetched(tmp_path: Path) -> None:
    """Whoever reads its output reads no further than the first line: it stands still with everything else fetched."""
    async with running(tmp_path / "data", _roomy()) as server, holdfast.connect(server.url) as client:
        await client.create_queue("q", redelivery_limit=1)
        await client.queue("q").send_many(["x" * 20_000] * 30)
        own = len(server.node.messages.directory.sessions())

        for _ in range(3):
            await asyncio.to_thread(_print_one_and_kill, server.url)
            await until(lambda: _is_forgotten(server, own), "the killed command was given up")

        assert (await client.describe("_DMQ"))["waiting"] <= 1  # the first, which was printed each time
        async with client.queue("q").receive() as incoming:
            counts = [(await incoming.next(timeout=10)).deliveries for _ in range(29)]
        assert sum(counts) <= 1


def _print_one_and_kill(url: str) -> None:
    command = (sys.executable, "-m", "holdfast", "receive", "q", "--no-confirm", "--url", url)
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as printing:
        assert printing.stdout is not None and printing.stdout.read(1)
        printing.kill()
