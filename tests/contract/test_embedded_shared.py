"""Several clients of one embedded node, in one loop, in several loops, in threads: who shares it, and who is told why not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import holdfast
import holdfast.blocking
from holdfast.errors import BadSetting, JournalInUse, NotAJournal
from holdfast.node import embedded
from tests.waiting import turn_loop

pytestmark = pytest.mark.slow

KIB = 1 << 10


async def test_a_memory_of_one_name_is_shared_between_the_blocking_client_and_the_other() -> None:
    def block() -> list[str]:
        with holdfast.blocking.connect("memory:both") as client:
            client.queue("there").send("from the thread")
            with client.queue("here").receive(timeout=10) as incoming:
                event = incoming.next()
                event.confirm()
                return [event.data, *sorted(each["name"] for each in client.destinations() if each["name"][0] != "_")]

    async with holdfast.connect("memory:both") as client:
        blocking = asyncio.create_task(asyncio.to_thread(block))
        async with client.queue("there").receive() as incoming:
            event = await incoming.next(10)
            await event.confirm()
        await client.queue("here").send("from the loop")

        assert event.data == "from the thread"
        assert await blocking == ["from the loop", "here", "there"]


def test_a_memory_of_one_name_lives_as_long_as_any_client_uses_it_whatever_became_of_its_first_loop() -> None:
    async def send() -> None:
        async with holdfast.connect("memory:outlives") as client:
            await client.queue("q").send("kept")

    with holdfast.blocking.connect("memory:outlives") as client:
        asyncio.run(send())
        with client.queue("q").receive(timeout=10) as incoming:
            assert incoming.next().data == "kept"
    with holdfast.blocking.connect("memory:outlives") as client:
        assert not [each for each in client.destinations() if each["name"] == "q"]


async def test_a_client_that_blocks_its_loop_does_not_wait_for_itself() -> None:
    async with holdfast.connect("memory:blocked") as client:
        await client.queue("q").send(1)
        # In the loop's own thread: nothing turns here meanwhile.
        with (
            holdfast.blocking.connect("memory:blocked", timeout=10) as blocking,
            blocking.queue("q").receive(timeout=10) as incoming,
        ):
            incoming.next().confirm()


async def test_much_goes_both_ways_between_two_loops_in_order_and_within_bounds() -> None:
    async with holdfast.connect("memory:much") as client:
        sent = [bytes([number % 256]) * (64 * KIB) for number in range(300)]
        sending = asyncio.create_task(client.queue("q").send_many(sent))
        async with client.queue("q").receive() as incoming:
            for expected in sent:
                event = await incoming.next(10)
                assert event.data == expected
                await event.confirm()
            await incoming.settled()
        await sending


def test_a_loop_that_ends_without_closing_its_client_does_not_disturb_the_others() -> None:
    async def leave_open() -> None:
        client = await holdfast.connect("memory:left").open()
        await client.queue("q").send("kept")

    with holdfast.blocking.connect("memory:left") as client:
        asyncio.run(leave_open())
        with client.queue("q").receive(timeout=10) as incoming:
            assert incoming.next().data == "kept"
        assert client.status()["is_primary"]


async def test_clients_of_one_loop_share_a_folder_and_the_last_one_closes_it(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/events"
    (tmp_path / "link").symlink_to(tmp_path)

    async with holdfast.connect(url) as first:
        async with holdfast.connect(f"file:{tmp_path}/link/events") as second:
            await second.queue("q").send("one")
            with pytest.raises(BadSetting, match="other settings"):
                await holdfast.connect(f"{url}?journal_size=64M").open()
        async with first.queue("q").receive() as incoming:
            assert (await incoming.next(10)).data == "one"
    async with holdfast.connect(url) as again, again.queue("q").receive() as incoming:
        assert (await incoming.next(10)).data == "one"


async def test_clients_that_open_a_folder_at_once_and_close_it_at_once_share_it(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/events"

    async def once(number: int) -> None:
        async with holdfast.connect(url) as client:
            await client.queue("q").send(number)

    for _ in range(3):
        await asyncio.gather(*(once(number) for number in range(5)))

    async with holdfast.connect(url) as client:
        assert (await client.describe("q"))["waiting"] == 15


async def test_a_folder_that_cannot_be_opened_is_refused_to_all_who_asked_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    clients = [holdfast.connect(f"file:{tmp_path}/file") for _ in range(3)]

    refusals = await asyncio.gather(*(client.open() for client in clients), return_exceptions=True)

    assert all(isinstance(each, holdfast.HoldfastError) for each in refusals)
    (tmp_path / "file").unlink()
    async with holdfast.connect(f"file:{tmp_path}/file") as client:
        await client.queue("q").send("now it can")


async def test_an_opening_that_is_cancelled_leaves_the_folder_free(tmp_path: Path) -> None:
    for turns in range(6):
        opening = asyncio.create_task(holdfast.connect(f"file:{tmp_path}/events").open())
        await turn_loop(turns)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        if not opening.cancelled():
            await opening.result().close()

    async with holdfast.connect(f"file:{tmp_path}/events") as client:
        await client.queue("q").send("free")


@pytest.mark.parametrize("kind", ["file", "memory"])
async def test_a_closing_that_is_cancelled_leaves_nothing_open(kind: str, tmp_path: Path) -> None:
    url = f"file:{tmp_path}/events" if kind == "file" else "memory:cancelled"
    for turns in range(1, 25, 3):
        client = await holdfast.connect(url).open()
        await client.queue(f"q{turns}").send(turns)
        closing = asyncio.create_task(client.close())
        await turn_loop(turns)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    async with holdfast.connect(url) as client:
        assert len([each for each in await client.destinations() if each["name"][0] == "q"]) == (8 if kind == "file" else 0)
    assert not [key for key in embedded._shared if key[2] == "cancelled" or str(tmp_path) in key[2]]


def test_blocking_clients_of_all_threads_and_loops_share_a_folder_that_a_blocking_client_opened(tmp_path: Path) -> None:
    url, said = f"file:{tmp_path}/events", []

    async def send() -> None:
        async with holdfast.connect(url) as client:
            await client.queue("q").send("from a loop")

    def receive() -> None:
        with holdfast.blocking.connect(url) as client, client.queue("q").receive(timeout=10) as incoming:
            said.append(incoming.next().data)

    with holdfast.blocking.connect(url):
        asyncio.run(send())
        thread = threading.Thread(target=receive)
        thread.start()
        thread.join(20)

    assert said == ["from a loop"]


async def test_a_folder_of_a_programs_own_loop_is_refused_to_another_loop_with_what_to_do(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/events"

    def block() -> None:
        with holdfast.blocking.connect(url):
            pass

    async with holdfast.connect(url) as client:
        with pytest.raises(JournalInUse, match=r"another event loop of this process.+blocking.connect first.+holdfast serve"):
            await asyncio.to_thread(block)
        await client.queue("q").send("undisturbed")
    await asyncio.to_thread(block)


LEFT_OPEN = """
import asyncio, sys
import holdfast

async def leave_open():
    await holdfast.connect(sys.argv[1]).open()

asyncio.run(leave_open())
try:
    holdfast.blocking.connect(sys.argv[1]).open()
except holdfast.errors.JournalInUse as refused:
    print(refused)
"""


def test_a_folder_that_was_left_open_by_a_loop_that_has_ended_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN, f"file:{tmp_path}"], capture_output=True, text=True, timeout=60, check=True
    )

    assert "left open by a client of this process whose event loop has ended; close clients before" in done.stdout


FORKED = """
import os, sys
import holdfast
with holdfast.blocking.connect("memory:forked") as client:
    client.queue("q").send(1)
    child = os.fork()
    if child == 0:
        with holdfast.blocking.connect("memory:forked") as mine:
            os._exit(7 if not [each for each in mine.destinations() if each["name"] == "q"] else 8)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_memories_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == ("7\n", "")


async def test_a_folder_in_a_folder_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotAJournal, match=r"there is no folder '.*mistyped' for the journal 'events'"):
        async with holdfast.connect(f"file:{tmp_path}/mistyped/events"):
            pass

    assert os.listdir(tmp_path) == []
