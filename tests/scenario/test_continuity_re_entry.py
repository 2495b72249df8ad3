"""A server that asks its own domain while it answers would wait for itself: it gets 508 (continuity rule 13)."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.errors import ReEntry
from holdfast.continuity.listener.listener import Listener
from holdfast.continuity.machines.effects import traceparent_of
from holdfast.continuity.request import Content
from holdfast.errors import HoldfastError
from tests.asking_engine import asking_engine
from tests.listening import running
from tests.waiting import until

TOLD = Domain(name="shop", tell_server=True)
_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:re-entry-{next(_numbers)}"


async def test_a_server_that_asks_its_own_domain_while_it_answers_is_refused_at_once(url: str, tmp_path: Path) -> None:
    problems: list[HoldfastError] = []

    async def asks_itself(content: Content) -> Answer:
        with pytest.raises(ReEntry) as refused:
            await front.request("POST", "/again", content.headers)
        problems.append(refused.value)
        return Answer(Head(200, [], 0), b"")

    async with (
        asking_engine(url, TOLD),
        running(Listener(url, "shop", "one", call=asks_itself, store=tmp_path / "s")),
        Engine(url, "shop") as front,
    ):
        await front.until_ready(30)
        answer = await front.request("POST", "/")
        of_a_stranger = await front.request("POST", "/", [(b"traceparent", b"00-0123-4567-01")])

    assert [answer.head.status, of_a_stranger.head.status, len(problems)] == [200, 200, 2]


async def test_a_server_that_asks_its_own_domain_through_another_engine_is_refused_and_nothing_is_appended(
    url: str, tmp_path: Path
) -> None:
    problems: list[HoldfastError] = []
    places: list[int] = []

    async def asks_itself(content: Content) -> Answer:
        places.append(listener.events.place)
        with pytest.raises(ReEntry) as refused:
            await other.request("POST", "/again", content.headers)
        problems.append(refused.value)
        places.append(listener.events.place)
        return Answer(Head(200, [], 0), b"")

    listener = Listener(url, "shop", "one", call=asks_itself, store=tmp_path / "s")
    async with asking_engine(url, TOLD), running(listener), Engine(url, "shop") as front, Engine(url, "shop") as other:
        await front.until_ready(30)
        await other.until_ready(30)
        answer = await front.request("POST", "/")
        (trace,) = [(b"traceparent", traceparent_of(str(problems[0].fields["transaction"])).encode())]
        await until(lambda: listener.requests.order.finished == listener.events.place, "the request is finished")
        after = asyncio.create_task(other.request("POST", "/again", [trace]))  # its transaction runs no more: it is taken
        await until(lambda: len(problems) == 2, "the server was called again")
        await after

    assert answer.head.status == 200
    assert places[0] == places[1]
    assert problems[0].fields["transaction"] != problems[1].fields["transaction"]
