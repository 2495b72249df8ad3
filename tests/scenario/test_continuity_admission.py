"""Events are admitted in the order of the topic, whether they are taken at once, or wait for a large one or for the window."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from holdfast.continuity import request
from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import Domain
from holdfast.continuity.listener import listener as listeners
from holdfast.continuity.request import Content
from tests.asking_engine import AskingEngine, asking_engine
from tests.listening import Account, bodies, listening
from tests.waiting import until

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:admission-{next(_numbers)}"


async def send_large(engine: AskingEngine, target: str) -> str:
    asked = request.Request(
        transaction=f"large{target}", domain="shop", session="", sequence=1, key=f"k{target}", digest=b"d" * 16, engine="e",
        start="s1", content=Content("POST", target, [], b"x" * 1_500_000),
    )  # fmt: skip
    await engine.client.topic("domain.shop.requests").send_stream(asked.content.body, **request.fields_of_large(asked))
    return asked.transaction


async def test_small_requests_behind_a_large_one_are_called_after_it(url: str, tmp_path: Path) -> None:
    called: list[tuple[str, int]] = []

    async def call(content: Content) -> Answer:
        called.append((content.target, len(content.body)))
        return Answer(Head(200, [], 0))

    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, call, tmp_path / "s"):
        await engine.until_current("one")
        numbers = []
        for round in range(5):
            numbers += [await engine.send(f"/{round}a"), await send_large(engine, f"/{round}b"), await engine.send(f"/{round}c")]
        await bodies(engine, numbers)

    assert called == [(f"/{round}{which}", size) for round in range(5) for which, size in (("a", 0), ("b", 1_500_000), ("c", 0))]


async def test_requests_past_the_window_are_called_in_order_when_there_is_room(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "CALLS", 8)  # so many may be unfinished, twice over
    account = Account()
    account.go_on.clear()
    async with asking_engine(url, Domain(name="shop")) as engine, listening(url, account, tmp_path / "s") as listener:
        await engine.until_current("one")
        numbers = [await engine.send(f"/{each}") for each in range(40)]
        await until(lambda: listener.requests.order.is_full, "the window is full")
        account.go_on.set()
        await bodies(engine, numbers)

    assert account.targets == [f"/{each}" for each in range(40)]
