"""A listener whose server fails: what is told, what is in doubt, and how each policy resolves it."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from holdfast.continuity.domain import Domain
from holdfast.continuity.listener.listener import Listener
from tests.asking_engine import asking_engine
from tests.listening import OK, bodies, listening, raw_account, running
from tests.waiting import until

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:doubt-{next(_numbers)}"


async def test_a_call_that_fails_is_told_and_resent_before_the_next_is_called(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, raw_account() as (server, said):
        said.extend([b"", OK])
        async with listening(url, server.url, tmp_path / "s"):
            numbers = [await engine.send("/a", key="k"), await engine.send("/b")]
            answers = await bodies(engine, numbers)
            failed = engine.parts[numbers[0]]["one"][0]

    assert (failed.outcome, answers) == ("failed", [b"ok", b"ok"])
    assert [each.split()[1] for each in server.requests] == [b"/a", b"/a", b"/b"]
    assert all(b"idempotency-key: k\r\n" in each for each in server.requests[:2])


async def test_a_probe_that_says_done_finishes_the_request_without_calling_it_again(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, raw_account(b"running", b"done") as (server, said):
        said.append(b"")
        async with listening(url, server.url, tmp_path / "s", in_doubt="ask", probe="/probe"):
            first, second = await engine.send("/a"), await engine.send("/b")
            await engine.answer(second)

    asked = [each.split()[1] for each in server.requests]
    assert asked == [b"/a", *[f"/probe?transaction={first}".encode()] * 2, b"/b"]
    assert {part.outcome for part in engine.parts[first]["one"]} == {"failed"}


async def test_a_probe_that_does_not_know_the_number_after_the_time_is_over_has_it_called_again(url: str, tmp_path: Path) -> None:
    domain = Domain(name="shop", call_timeout=0.2)
    async with asking_engine(url, domain) as engine, raw_account(b"unknown") as (server, said):
        said.append(b"")
        async with listening(url, server.url, tmp_path / "s", in_doubt="ask", probe="/probe"):
            number = await engine.send("/a")
            await until(lambda: [each.split()[1] for each in server.requests].count(b"/a") == 2, "it is called again")
            await engine.answer(number)

    assert b"/probe" in server.requests[1]


async def test_with_the_policy_rebuild_nothing_follows_and_the_state_says_so(url: str, tmp_path: Path) -> None:
    account = raw_account()
    async with asking_engine(url, Domain(name="shop")) as engine, account as (server, said):
        listener = Listener(url, "shop", "one", call=server.url, store=tmp_path / "s", in_doubt="rebuild")
        async with running(listener):
            await engine.until_current("one")
            said.append(b"")
            await engine.send("/a")
            await engine.send("/b")
            await until(lambda: engine.states["one"].state == "rebuilding", "it says that it must be rebuilt")

            assert [each.split()[1] for each in server.requests] == [b"/a"]
            assert "in doubt" in listener.requests.needs_rebuild


async def test_a_server_that_is_away_is_behind_until_it_is_back_and_has_caught_up(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine:
        async with raw_account() as (server, _):
            port = server.port
        async with listening(url, f"http://127.0.0.1:{port}", tmp_path / "s"):
            await engine.until_current("one")
            numbers = [await engine.send(f"/{each}") for each in range(3)]
            await until(lambda: engine.states["one"].state == "behind", "it says that it is behind")
            back = await asyncio.start_server(_ok, "127.0.0.1", port)
            async with back:
                assert await bodies(engine, numbers) == [b"ok"] * 3
                await engine.until_current("one")


async def _ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(OK.replace(b"200 OK\r\n", b"200 OK\r\nConnection: close\r\n"))
    writer.close()
