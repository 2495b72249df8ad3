"""A request that ends every server: it is passed over everywhere, also by servers that come to it later (continuity rule 14)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.continuity import request
from holdfast.continuity.domain import Domain
from holdfast.continuity.listener import listener as listeners
from tests.asking_engine import AskingEngine, asking_engine
from tests.listening import OK, Account, listening
from tests.raw_http_server import RawHttpServer, raw_http_server
from tests.waiting import until

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:poison-{next(_numbers)}"


@asynccontextmanager
async def mortal_server() -> AsyncIterator[RawHttpServer]:
    """A server that dies of `/poison`."""

    async def say(writer: asyncio.StreamWriter, asked: bytes) -> bool:
        if b" /poison " in asked:
            return False
        writer.write(OK)
        return True

    async with raw_http_server(say) as server:
        yield server


def targets(server: RawHttpServer) -> list[str]:
    return [each.split()[1].decode() for each in server.requests]


async def status(engine: AskingEngine, number: str, server: str) -> int:
    part = await engine.answer(number, server)
    assert part.head is not None
    return part.head.status


async def test_a_new_server_never_calls_a_request_that_is_skipped_later_in_the_history(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        asking_engine(url, Domain(name="shop")) as engine,
        mortal_server() as first,
        mortal_server() as second,
        listening(url, first.url, tmp_path / "one"),
    ):
        await engine.until_current("one")
        _, poison, *after = [await engine.send(target) for target in ("/a", "/poison", *["/b"] * 5)]
        assert await status(engine, poison, "one") == 500
        await engine.answer(after[-1])

        monkeypatch.setattr(listeners, "WINDOW", 4)  # it receives the skip after the call
        async with listening(url, second.url, tmp_path / "two", server="two"):
            await engine.until_current("two")
            last = await engine.send("/c")
            assert await status(engine, last, "two") == 200
            assert await status(engine, last, "one") == 200

        assert targets(first) == ["/a", "/poison", "/poison", *["/b"] * 5, "/c"]
        assert targets(second) == ["/a", *["/b"] * 5, "/c"]
        assert await status(engine, poison, "two") == 500


async def test_a_rebuilt_server_does_not_call_again_what_was_skipped(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resets: list[str] = []

    async def reset(snapshot: str) -> None:
        resets.append(snapshot)

    async with (
        asking_engine(url, Domain(name="shop")) as engine,
        mortal_server() as server,
        listening(url, server.url, tmp_path / "one", reset=reset) as listener,
    ):
        await engine.until_current("one")
        numbers = [await engine.send(target) for target in ("/a", "/poison", *["/b"] * 5)]
        await engine.answer(numbers[-1])
        monkeypatch.setattr(listeners, "WINDOW", 4)  # it receives the skip after the call
        listener.requests.want_rebuild("a test says so")
        await until(lambda: resets, "it was reset")
        await engine.until_current("one")
        await engine.answer(await engine.send("/c"))

    assert targets(server) == ["/a", "/poison", "/poison", *["/b"] * 5, "/a", *["/b"] * 5, "/c"]


async def test_an_answer_of_another_server_that_was_given_far_behind_the_request_is_found(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot have the request skipped, and its window is full: only by looking ahead it learns that it is to be rebuilt."""
    monkeypatch.setattr(listeners, "WINDOW", 8)
    async with (
        asking_engine(url, Domain(name="shop")) as engine,
        mortal_server() as server,
        listening(url, server.url, tmp_path / "one") as listener,
        listening(url, Account(), tmp_path / "two", server="two"),
    ):
        await engine.until_current("one", "two")
        topic = engine.client.topic(engine.domain.requests)
        await engine.send("/poison", key="k")
        numbers = [await engine.send("/a") for _ in range(30)]
        await topic.send({"given": "nothing"}, type=request.GIVEN)
        await topic.send({"given": [["other", "two", "00" * 16], ["k", "two", "00" * 16]]}, type=request.GIVEN)
        await engine.answer(numbers[-1], "two")

        await until(lambda: listener.requests.needs_rebuild, "it is to be rebuilt")
        assert "which another has answered" in listener.requests.needs_rebuild


async def test_a_skip_that_stands_far_behind_its_request_is_found(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "WINDOW", 8)
    async with (
        asking_engine(url, Domain(name="shop")) as engine,
        mortal_server() as server,
        listening(url, server.url, tmp_path / "one"),
    ):
        await engine.until_current("one")
        numbers = [await engine.send(target) for target in ("/poison", *["/a"] * 30)]
        assert await status(engine, numbers[0], "one") == 500
        assert await status(engine, numbers[-1], "one") == 200

    assert targets(server) == ["/poison"] * 2 + ["/a"] * 30
