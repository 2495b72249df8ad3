"""A listener that is killed in a call, again and again, before a real server of Holdfast: exactly that request is in doubt.

The server of the application knows keys, as `in_doubt="resend"` asks of it. It counts how often each key was carried out.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.continuity.domain import Domain
from holdfast.continuity.listener.durable.mark_file import CALLS_AT, FILE_BYTES, MarkFile
from tests.asking_engine import AskingEngine, asking_engine
from tests.raw_http_server import RawHttpServer, raw_http_server
from tests.server_process import ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.faults

TOP = Path(__file__).resolve().parents[2]


class Shop:
    """A server that knows keys: a key that comes again is answered and not carried out again."""

    def __init__(self) -> None:
        self.order: list[bytes] = []
        self.calls: Counter[bytes] = Counter()
        self.hold_at = b""
        self.is_held = asyncio.Event()
        self.go_on = asyncio.Event()

    async def say(self, writer: asyncio.StreamWriter, asked: bytes) -> bool:
        key = next(line.split(b": ")[1] for line in asked.split(b"\r\n") if line.startswith(b"idempotency-key"))
        self.calls[key] += 1
        if key not in self.order:
            self.order.append(key)
        if key == self.hold_at and self.calls[key] == 1:
            self.is_held.set()
            await self.go_on.wait()
        body = b"%d" % (self.order.index(key) + 1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True


class ListenerProcess:
    def __init__(self, url: str, server: RawHttpServer, store: Path) -> None:
        self._command = [
            sys.executable,
            str(TOP / "tests/faults/listener_program.py"),
            url,
            "shop",
            "one",
            server.url,
            str(store),
        ]
        self._log = store.with_suffix(".log").open("ab")
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, cwd=TOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self.kill()
        self._log.close()


@contextmanager
def listener_process(url: str, server: RawHttpServer, store: Path) -> Iterator[ListenerProcess]:
    process = ListenerProcess(url, server, store)
    try:
        yield process
    finally:
        process.stop()


async def answers(engine: AskingEngine, numbers: list[str]) -> list[bytes]:
    await engine.until_current("one")
    for number in numbers:
        engine.ask_again(number)
    return [(await engine.answer(number)).body for number in numbers]


async def test_a_listener_killed_in_a_call_leaves_exactly_that_request_in_doubt_and_resends_it(
    tmp_path: Path,
) -> None:
    shop = Shop()
    with ServerProcess(tmp_path / "data") as holdfast_server:
        async with asking_engine(holdfast_server.url, Domain(name="shop")) as engine, raw_http_server(shop.say) as server:
            with listener_process(holdfast_server.url, server, tmp_path / "store") as process:
                await engine.until_current("one")
                first = [await engine.send(f"/{each}", key=f"k{each}") for each in range(20)]
                await answers(engine, first)
                shop.hold_at = b"k20"
                rest = [await engine.send(f"/{each}", key=f"k{each}") for each in range(20, 40)]
                await shop.is_held.wait()

                process.kill()
                shop.go_on.set()
                process.start()
                found = await answers(engine, rest)

    assert shop.order == [b"k%d" % each for each in range(40)]
    assert found == [b"%d" % (each + 1) for each in range(20, 40)]
    assert {key: count for key, count in shop.calls.items() if count > 1} == {b"k20": 2}


async def test_after_a_restart_of_the_machine_the_requests_whose_records_were_not_synced_are_in_doubt_and_no_others(
    tmp_path: Path,
) -> None:
    shop = Shop()
    keys = [f"k{each}" for each in range(60)]
    with ServerProcess(tmp_path / "data") as holdfast_server:
        async with asking_engine(holdfast_server.url, Domain(name="shop")) as engine, raw_http_server(shop.say) as server:
            with listener_process(holdfast_server.url, server, tmp_path / "store") as process:
                await engine.until_current("one")
                shop.hold_at = keys[-1].encode()
                numbers = [await engine.send(f"/{key}", key=key) for key in keys]
                await shop.is_held.wait()

                process.kill()
                power_is_lost(tmp_path / "store")
                shop.go_on.set()
                process.start()
                bodies = await answers(engine, numbers)

    assert bodies == [b"%d" % (each + 1) for each in range(60)]
    assert shop.order == [key.encode() for key in keys]
    again = [key for key in keys if shop.calls[key.encode()] == 2]
    assert again == keys[-len(again) :]
    assert set(shop.calls.values()) <= {1, 2}


def power_is_lost(store: Path) -> None:
    """What was not synced is gone, and the machine has another boot id: here the store says that it had another."""
    mark = MarkFile.open(store / "mark")
    mark.write(mark.mark._replace(boot=b"another start..."))
    mark._map[CALLS_AT:FILE_BYTES] = bytes(FILE_BYTES - CALLS_AT)
    found = mark.mark
    mark.close()
    for file in store.glob("answers-*"):
        number = int(file.name.partition("-")[2])
        if number > found.file:
            file.unlink()
        elif number == found.file:
            os.truncate(file, found.durable)


async def test_a_listener_killed_again_and_again_calls_in_order_and_no_finished_request_twice(tmp_path: Path) -> None:
    shop = Shop()
    with ServerProcess(tmp_path / "data") as holdfast_server:
        async with asking_engine(holdfast_server.url, Domain(name="shop")) as engine, raw_http_server(shop.say) as server:
            with listener_process(holdfast_server.url, server, tmp_path / "store") as process:
                numbers: list[str] = []
                for turn in range(4):
                    await engine.until_current("one")
                    numbers += [await engine.send("/", key=f"k{len(numbers) + each}") for each in range(100)]
                    await until(lambda turn=turn: len(shop.order) > 100 * turn + 50, "it is in the middle")  # type: ignore[misc]
                    process.kill()
                    await until(lambda: "one" not in engine.states, "the engine noticed")
                    process.start()
                found = await answers(engine, numbers)

    assert shop.order == [b"k%d" % each for each in range(400)]
    assert found == [b"%d" % (each + 1) for each in range(400)]
    assert sum(shop.calls.values()) <= 404  # at most one in doubt for each kill


async def test_a_listener_that_starts_again_answers_without_waiting_for_its_former_session(tmp_path: Path) -> None:
    shop = Shop()
    with ServerProcess(tmp_path / "data", "--session-grace-ms", "600000") as holdfast_server:
        async with asking_engine(holdfast_server.url, Domain(name="shop")) as engine, raw_http_server(shop.say) as server:
            with listener_process(holdfast_server.url, server, tmp_path / "store") as process:
                await engine.answer(await engine.send("/", key="a"))
                process.kill()
                number = await engine.send("/", key="b")
                process.start()
                answer = await engine.answer(number)  # long before the session that was killed is given up

    assert answer.body == b"2"


async def test_holdfast_killed_and_started_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    shop = Shop()
    with ServerProcess(tmp_path / "data") as holdfast_server:
        async with asking_engine(holdfast_server.url, Domain(name="shop")) as engine, raw_http_server(shop.say) as server:
            with listener_process(holdfast_server.url, server, tmp_path / "store"):
                await engine.until_current("one")
                numbers = [await engine.send("/", key=f"k{each}") for each in range(50)]
                holdfast_server.kill()
                holdfast_server.start()
                numbers += [await engine.send("/", key=f"k{each}") for each in range(50, 100)]
                found = await answers(engine, numbers)

    assert found == [b"%d" % (each + 1) for each in range(100)]
    assert set(shop.calls.values()) == {1}
