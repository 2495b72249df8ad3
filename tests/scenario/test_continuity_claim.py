"""Each server has one listener: a second of another name, before the same server, is refused and told of the first."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from holdfast.continuity.domain import Domain
from holdfast.continuity.errors import ServerTaken
from holdfast.continuity.listener.listener import Listener
from tests.asking_engine import asking_engine
from tests.listening import listening, raw_account

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:claim-{next(_numbers)}"


async def test_a_second_listener_before_a_server_is_refused_and_calls_and_leaves_nothing(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, raw_account() as (server, _):
        same = server.url.replace("127.0.0.1", "localhost")
        async with listening(url, server.url, tmp_path / "one"):
            await engine.until_current("one")
            await engine.answer(await engine.send("/a"))

            with pytest.raises(ServerTaken, match=f"listener 'one' calls {same} already"):
                await Listener(url, "shop", "two", call=same, store=tmp_path / "two").open()

            await engine.answer(await engine.send("/b"))
        assert [each.split()[1] for each in server.requests] == [b"/a", b"/b"]
        assert not (tmp_path / "two").exists()
        assert "server.two" not in [each["name"] for each in await engine.client.subscriptions("domain.shop.requests")]


async def test_a_server_whose_listener_was_stopped_may_get_one_of_another_name(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, raw_account() as (server, _):
        async with listening(url, server.url, tmp_path / "one"):
            await engine.until_current("one")
        async with listening(url, server.url, tmp_path / "two", server="two"):
            await engine.until_current("two")


async def test_of_two_listeners_that_were_started_together_the_one_whose_name_comes_first_stays(url: str, tmp_path: Path) -> None:
    async with asking_engine(url, Domain(name="shop")) as engine, raw_account() as (server, _):
        made = [Listener(url, "shop", name, call=server.url, store=tmp_path / name) for name in ("one", "two")]
        await asyncio.gather(*(each.open() for each in made))  # neither can answer the other yet
        runs = [asyncio.create_task(each.run()) for each in made]
        async with asyncio.timeout(20):
            with pytest.raises(ServerTaken, match="listener 'one'"):
                await runs[1]
        assert not runs[0].done()
        await engine.until_current("one")

        made[0].stop()
        await runs[0]
        for each in made:
            await each.close()
