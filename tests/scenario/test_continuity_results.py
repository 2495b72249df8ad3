"""Results of effects live as long as history, and the status says who carries effects out (continuity rule 5)."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.continuity import domain_status
from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import HISTORY, Domain, EffectRule, HistoryLimit
from holdfast.continuity.effects import carrier_turn
from holdfast.continuity.request import Content
from tests.asking_engine import asking_engine
from tests.exchange import OpenExchange, carrying, open_exchange
from tests.listening import listening
from tests.waiting import until

pytestmark = pytest.mark.slow

_numbers = itertools.count()
ORDERS = (EffectRule(name="exchange", path="/buy", header="X-Order"),)


@pytest.fixture
def url() -> str:
    return f"memory:results-{next(_numbers)}"


@pytest.fixture
def exchange() -> Any:
    with open_exchange() as opened:
        yield opened


async def buying(content: Content) -> Answer:
    return Answer(Head(200, [(b"x-order", b'POST /orders {"shares": 7}')], 0), b"")


async def take(snapshot: str) -> None:
    await asyncio.to_thread(Path(snapshot).write_bytes, b"")


async def reset(snapshot: str) -> None:
    pass


async def results_kept(client: holdfast.Client) -> int:
    (history,) = [each for each in await client.subscriptions("domain.shop.results") if each["name"] == HISTORY]
    return history["waiting"]


async def _are_kept(client: holdfast.Client, count: int) -> bool:
    return await results_kept(client) == count


async def test_results_are_forgotten_with_the_history_of_their_requests_and_not_before(
    url: str, tmp_path: Path, exchange: OpenExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier_turn, "MEMBERS_IDLE_SECONDS", 0.5)
    domain = Domain(name="shop", effects=ORDERS, history_max=HistoryLimit(events=40))
    async with (
        asking_engine(url, domain) as engine,
        carrying(url, exchange.url) as carrier,
        listening(url, buying, tmp_path / "s", snapshot=take, reset=reset) as listener,
    ):
        await engine.until_current("one")
        for _ in range(10):
            await engine.answer(await engine.send("/buy"))
        await until(lambda: len(exchange.orders) == 10, "ten are carried out")
        await until(lambda: _are_kept(engine.client, 20), "begun and result of each are kept")
        for _ in range(60):
            await engine.answer(await engine.send("/look"))
            await until(lambda: listener.requests.order.finished == listener.events.place, "it is finished")

        await until(lambda: _is_none_kept(engine.client), "results are given up", poll_s=0.1)
        told = await domain_status.ask(engine.client, "shop")

    assert len(exchange.orders) == 10
    assert [(each["name"], each["results"], each["in_doubt"]) for each in told["carriers"]] == [(carrier.name, 0, 0)]


async def _is_none_kept(client: holdfast.Client) -> bool:
    return await results_kept(client) == 0


async def test_an_effect_that_waited_for_a_carrier_longer_than_history_reaches_back_is_carried_out(
    url: str, tmp_path: Path, exchange: OpenExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier_turn, "MEMBERS_IDLE_SECONDS", 0.5)
    domain = Domain(name="shop", effects=ORDERS, history_max=HistoryLimit(events=20))
    async with asking_engine(url, domain) as engine, listening(url, buying, tmp_path / "s", snapshot=take, reset=reset):
        await engine.until_current("one")
        await engine.answer(await engine.send("/buy"))
        while not await _given_up(engine.client):
            await engine.answer(await engine.send("/look"))

        async with carrying(url, exchange.url):

            async def is_told() -> bool:
                told = await domain_status.ask(engine.client, "shop")
                return bool(told["carriers"][0]["waiting"] == 0)

            await until(lambda: exchange.orders, "it is carried out")
            await until(is_told, "its result is known")

    assert len(exchange.orders) == 1


async def _given_up(client: holdfast.Client) -> bool:
    (history,) = [each for each in await client.subscriptions("domain.shop.requests") if each["name"] == HISTORY]
    return history["confirmed"] > 10


async def test_an_effect_of_which_nobody_can_tell_is_shown_with_its_key_and_what_to_do(url: str, tmp_path: Path) -> None:
    domain = Domain(name="shop", effects=ORDERS)
    with open_exchange() as closed:
        pass
    async with asking_engine(url, domain) as engine, listening(url, buying, tmp_path / "s"):
        number = await engine.send("/buy")
        await engine.answer(number)
        with open_exchange(closed.port) as exchange:
            exchange.exchange.is_open.clear()  # it takes the order, and does not answer
            async with carrying(url, exchange.url, timeout=0.2) as carrier:
                await until(lambda: _attention(engine.client), "the doubt is shown", poll_s=0.1)
                (sentence,) = await _attention(engine.client)
                told = await domain_status.ask(engine.client, "shop")

    assert number in sentence
    assert "domain settle" in sentence
    assert [(each["name"], each["in_doubt"]) for each in told["carriers"]] == [(carrier.name, 1)]


async def _attention(client: holdfast.Client) -> list[str]:
    return [each for each in (await domain_status.ask(client, "shop"))["attention"] if "nobody can tell" in each]
