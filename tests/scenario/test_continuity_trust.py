"""A server that keeps its state is started again: it goes on, is rebuilt, or its state is called unknown (continuity rule 12)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.continuity import domain_status
from holdfast.continuity.domain import Domain
from holdfast.continuity.listener.listener import Listener
from tests.asking_engine import AskingEngine, asking_engine
from tests.listening import OK, json_answer, running
from tests.raw_http_server import RawHttpServer, raw_http_server
from tests.waiting import until

_numbers = itertools.count()
DOMAIN = Domain(name="shop", tell_server=True)


class Ledger:
    """A server that keeps the numbers of what it has done, and tells of them at /probe."""

    def __init__(self, *tells: str) -> None:
        self.done: list[str] = []
        self.starts = 1
        self.tells = tells
        self.writers: list[asyncio.StreamWriter] = []

    async def say(self, writer: asyncio.StreamWriter, asked: bytes) -> bool:
        self.writers.append(writer)
        if asked.startswith(b"GET /probe"):
            number = asked.split()[1].decode().partition("=")[2]
            told = {"start": str(self.starts), "state": "done" if number in self.done else "unknown", "last": self._last}
            writer.write(json_answer(json.dumps({name: told[name] for name in self.tells}).encode()))
        else:
            self.done.append(asked.lower().split(b"holdfast-transaction: ")[1].split(b"\r\n")[0].decode())
            writer.write(OK)
        return True

    @property
    def _last(self) -> str:
        return self.done[-1] if self.done else ""

    def start_again(self, loses: bool = False) -> None:
        """End all connections, as a server does that ends, and be another start."""
        self.starts += 1
        if loses:
            self.done.clear()
        for writer in self.writers:
            writer.close()


@asynccontextmanager
async def serving(ledger: Ledger, folder: Path, **options: Any) -> AsyncIterator[tuple[AskingEngine, Listener, RawHttpServer]]:
    url = f"memory:trust-{next(_numbers)}"
    async with asking_engine(url, DOMAIN) as engine, raw_http_server(ledger.say) as server:
        listener = Listener(url, "shop", "one", call=server.url, store=folder / "s", **options)
        async with running(listener):
            await engine.until_current("one")
            for target in ("/a", "/b", "/c"):
                await engine.answer(await engine.send(target))
            yield engine, listener, server


@pytest.mark.parametrize("tells", [("start", "state"), ("start", "last"), ("state",), ("last",)])
async def test_a_server_that_was_started_again_with_all_its_state_goes_on(tmp_path: Path, tells: tuple[str, ...]) -> None:
    ledger = Ledger(*tells)
    async with serving(ledger, tmp_path, probe="/probe") as (engine, listener, _):
        before = list(ledger.done)
        ledger.start_again()
        number = await engine.send("/d")
        await engine.answer(number)
        unknown = listener.requests.trust.unknown

    assert (ledger.done, unknown) == ([*before, number], "")


@pytest.mark.parametrize("tells", [("start", "state"), ("start", "last"), ("state",), ("last",)])
async def test_a_server_that_was_started_again_without_its_state_is_rebuilt_before_it_is_called(
    tmp_path: Path, tells: tuple[str, ...]
) -> None:
    ledger, resets = Ledger(*tells), []

    async def reset(snapshot: str) -> None:
        resets.append(list(ledger.done))

    async with serving(ledger, tmp_path, probe="/probe", reset=reset) as (engine, _, _):
        before = list(ledger.done)
        ledger.start_again(loses=True)
        number = await engine.send("/d")
        await engine.answer(number)

    assert resets == [[]]  # nothing was called between its start and its reset
    assert ledger.done == [*before, number]


async def test_the_state_of_a_server_that_tells_only_that_it_was_started_again_is_called_unknown(tmp_path: Path) -> None:
    ledger = Ledger("start")
    async with serving(ledger, tmp_path, probe="/probe") as (engine, listener, _):
        await until(lambda: not listener.requests.trust.unknown, "nothing is unknown yet")
        ledger.start_again()
        await engine.answer(await engine.send("/d"))
        told = await domain_status.ask(engine.client, "shop")

    assert "does not tell" in told["servers"][0]["unknown"]
    assert len(ledger.done) == 4


async def test_without_a_probe_a_lost_connection_makes_the_state_unknown_and_it_is_called_on(tmp_path: Path) -> None:
    ledger = Ledger()
    async with serving(ledger, tmp_path) as (engine, listener, server):
        assert not listener.requests.trust.unknown
        port = server.port
        await server.close()
        ledger.start_again()
        number = await engine.send("/d")
        await until(lambda: listener.requests.trust.unknown, "its state is unknown")
        back = await asyncio.start_server(server._serve, "127.0.0.1", port)
        async with back:
            await engine.answer(number)
            told = await domain_status.ask(engine.client, "shop")

    assert "connection was lost" in told["servers"][0]["unknown"]
    assert len(ledger.done) == 4
