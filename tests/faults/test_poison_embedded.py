"""An event that kills its program kills the embedded journal too: it is known afterwards, and reaches its limit (rule 5)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests import effort
from tests.server_process import SMALL_QUERY

LIMIT = 1
EVENTS = 30
POISON = 7

# Prints what it has finished with, and dies when it is handed the poison. "ok" is a queue on which all goes well.
PROGRAM = """
import asyncio, os, sys, holdfast
import holdfast.blocking
from holdfast.errors import TimedOut
url, kind, poison = sys.argv[1], sys.argv[2], int(sys.argv[3])

def look(event):
    if event.data == poison:
        os._exit(9)

async def all_goes_well(client):
    async with client.queue("ok").receive() as incoming:
        while True:
            event = await incoming.next(timeout=20)
            await event.confirm()

async def work(client):
    if kind == "shared" or kind == "durable":
        receiver = client.subscribe("t", name="sub", shared=kind == "shared")
    elif kind in ("auto", "client", "duplicates-ok"):
        receiver = client.queue("q").receive(confirm=kind)
    else:
        receiver = client.queue("q").receive()
    async with receiver as incoming:
        while True:
            event = await incoming.next(timeout=1.5)
            look(event)
            if kind not in ("auto", "duplicates-ok"):
                await event.confirm()

async def transact(client):
    async with client.session() as session, session.queue("q").receive() as incoming:
        while True:
            async with session.transaction() as transaction:
                event = await incoming.next(timeout=1.5)
                look(event)
                await transaction.confirm(event)

async def main():
    async with holdfast.connect(url) as client:
        beside = asyncio.create_task(all_goes_well(client))
        try:
            await (transact(client) if kind == "transaction" else work(client))
        except TimedOut:
            beside.cancel()

def block():
    with holdfast.blocking.connect(url) as client, client.queue("q").receive() as incoming:
        try:
            while True:
                event = incoming.next(timeout=1.5)
                look(event)
                event.confirm()
        except TimedOut:
            pass

if kind == "blocking":
    block()
else:
    asyncio.run(main())
"""


async def _prepare(url: str, kind: str) -> None:
    async with holdfast.connect(url) as client:
        await client.queue("ok").send_many(range(500))
        if kind in ("shared", "durable"):
            await client.create_topic("t", redelivery_limit=LIMIT)
            async with client.subscribe("t", name="sub", shared=kind == "shared"):
                pass
            await client.topic("t").send_many(range(EVENTS))
        else:
            await client.create_queue("q", redelivery_limit=LIMIT)
            for number in range(EVENTS):
                await client.queue("q").send(number, group=f"g{number % 2}" if kind == "groups" else None)


async def _crashes_until_it_ends(url: str, kind: str) -> int:
    for crashes in range(LIMIT + 4):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, url, kind, str(POISON), stderr=subprocess.PIPE
        )
        async with asyncio.timeout(40):
            _, said = await program.communicate()
        if program.returncode == 0:
            return crashes
        assert program.returncode == 9, said.decode()
    return LIMIT + 4


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize(
    "kind",
    effort.cases(["event", "shared", "transaction"], long=["groups", "auto", "duplicates-ok", "client", "durable", "blocking"]),
)
async def test_an_event_that_kills_its_program_is_dead_after_limit_plus_two_crashes_and_the_rest_is_processed(
    tmp_path: Path, kind: str
) -> None:
    url = f"file:{tmp_path / 'data'}{SMALL_QUERY}"
    await _prepare(url, kind)

    crashes = await _crashes_until_it_ends(url, kind)

    assert crashes <= LIMIT + 2
    async with holdfast.connect(url) as client:
        assert (await client.describe("_DMQ"))["waiting"] == 1
        async with client.queue("_DMQ").receive() as incoming:
            event = await incoming.next(timeout=10)
            assert (event.data, event.dead[0].deliveries) == (POISON, LIMIT + 1)
        if kind not in ("shared", "durable"):
            assert (await client.describe("q"))["waiting"] == 0
