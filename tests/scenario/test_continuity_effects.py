"""Effects: several servers ask, the far side sees one, and every server gets the same result. Real HTTP, in one process."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import Domain, EffectRule
from holdfast.continuity.effects.carrier import EffectCarrier
from holdfast.continuity.effects.far_side import FarSide
from holdfast.continuity.effects.settlement import settle
from holdfast.continuity.errors import NotInDoubt
from holdfast.continuity.listener.listener import Listener
from holdfast.continuity.machines.effects import Result
from holdfast.continuity.request import Content
from tests.asking_engine import AskingEngine, asking_engine
from tests.exchange import OpenExchange, carrying, open_exchange
from tests.listening import running
from tests.waiting import until

pytestmark = pytest.mark.slow

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:effects-{next(_numbers)}"


class Trader:
    """A server in process that executes orders at its egress."""

    def __init__(self) -> None:
        self.far = FarSide("egress", "http://127.0.0.1:1")
        self.traces = True
        self.asks = 1
        self.body = b'{"shares": 100}'
        self.results: list[Result] = []

    async def __call__(self, content: Content) -> Answer:
        traced = [each for each in content.headers if each[0] == b"traceparent" and self.traces]
        said = []
        for _ in range(self.asks):
            result = await self.far._in_thread("POST", "/exchange/orders", traced, self.body)
            self.results.append(result)
            said.append(result.body.decode())
        body = json.dumps(said).encode()
        return Answer(Head(200 if self.results[-1].status < 400 else 502, [], len(body)), body)


@asynccontextmanager
async def trading(
    url: str, domain: Domain, folder: Path, traders: dict[str, Trader], **roles: str
) -> AsyncIterator[tuple[AskingEngine, dict[str, Listener]]]:
    """An engine, and a listener with an egress before each trader."""
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(asking_engine(url, domain))
        listeners = {}
        for name, trader in traders.items():
            role: Any = roles.get(name, "server")
            listener = Listener(
                url, domain.name, name, call=trader, store=folder / name, role=role, egress=("127.0.0.1", 0), in_doubt="ask"
            )
            listeners[name] = await stack.enter_async_context(running(listener))
            trader.far = FarSide("egress", f"http://127.0.0.1:{listener._server.egress_port}")
            stack.callback(trader.far.close)
        await engine.until_current(*traders)
        yield engine, listeners


TOLD = Domain(name="shop", tell_server=True)
BY_TURN = Domain(name="shop")


async def answers(engine: AskingEngine, number: str, *servers: str) -> list[list[str]]:
    return [json.loads((await engine.answer(number, server)).body) for server in servers]


def confirmation(body: str) -> str:
    return str(json.loads(body)["confirmation"])


@pytest.fixture
def exchange() -> Any:
    with open_exchange() as opened:
        yield opened


# --- once ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [TOLD, BY_TURN], ids=["by trace", "by turn"])
async def test_an_effect_that_two_servers_ask_for_is_carried_out_once_and_both_get_its_result(
    url: str, tmp_path: Path, exchange: OpenExchange, domain: Domain
) -> None:
    traders = {"one": Trader(), "two": Trader()}
    async with trading(url, domain, tmp_path, traders) as (engine, _), carrying(url, exchange.url):
        numbers = [await engine.send(f"/{each}") for each in range(5)]
        said = [await answers(engine, number, "one", "two") for number in numbers]

    assert len(exchange.orders) == 5
    assert all(one == two for one, two in said)
    assert [key.split(".")[0] for key in exchange.keys] == numbers
    assert [confirmation(one[0]) for one, _ in said] == [each["confirmation"] for each in exchange.orders]


async def test_equal_asks_of_one_request_are_so_many_effects(url: str, tmp_path: Path, exchange: OpenExchange) -> None:
    traders = {"one": Trader(), "two": Trader()}
    for trader in traders.values():
        trader.asks = 3
    async with trading(url, TOLD, tmp_path, traders) as (engine, _), carrying(url, exchange.url):
        one, two = await answers(engine, await engine.send("/"), "one", "two")

    assert one == two
    assert [key.rsplit(".")[-1] for key in exchange.keys] == ["1", "2", "3"]


async def test_an_effect_by_rule_on_the_answer_is_carried_out_once(url: str, tmp_path: Path, exchange: OpenExchange) -> None:
    async def mailing(content: Content) -> Answer:
        return Answer(Head(200, [(b"x-order", b'POST /orders {"shares": 7}')], 0), b"")

    domain = Domain(name="shop", effects=(EffectRule(name="exchange", path="/buy", header="X-Order"),))
    async with asking_engine(url, domain) as engine, AsyncExitStack() as stack:
        for name in ("one", "two"):
            listener = Listener(url, "shop", name, call=mailing, store=tmp_path / name)
            await stack.enter_async_context(running(listener))
        await engine.until_current("one", "two")
        async with carrying(url, exchange.url):
            numbers = [await engine.send(target) for target in ("/buy", "/look", "/buy")]
            for number in numbers:
                await answers_of_nothing(engine, number)
            await until(lambda: len(exchange.orders) == 2, "both are carried out")

    carried = [(key.split(".")[0], each["shares"]) for key, each in zip(exchange.keys, exchange.orders, strict=True)]
    assert sorted(carried) == [(numbers[0], 7), (numbers[2], 7)]  # effects of different requests have no order


async def answers_of_nothing(engine: AskingEngine, number: str) -> None:
    for server in ("one", "two"):
        assert (await engine.answer(number, server)).body == b""


# --- who may cause one ---------------------------------------------------------------------------------------------------


async def test_a_call_outside_any_request_is_refused_and_says_so(url: str, tmp_path: Path, exchange: OpenExchange) -> None:
    trader = Trader()
    async with trading(url, BY_TURN, tmp_path, {"one": trader}), carrying(url, exchange.url):
        result = await trader.far._in_thread("POST", "/exchange/orders", [], b"{}")

    assert (result.status, exchange.orders) == (409, [])
    assert b"belongs to no request" in result.body


async def test_without_a_trace_and_without_the_order_of_the_domain_a_call_is_refused(
    url: str, tmp_path: Path, exchange: OpenExchange
) -> None:
    trader = Trader()
    domain = Domain(name="shop", order="session")
    async with trading(url, domain, tmp_path, {"one": trader}) as (engine, _), carrying(url, exchange.url):
        await engine.answer(await engine.send("/", session="a"))

    assert ([result.status for result in trader.results], exchange.orders) == ([409], [])


async def test_a_far_side_that_the_carrier_does_not_know_is_refused(url: str, tmp_path: Path, exchange: OpenExchange) -> None:
    trader = Trader()
    async with trading(url, TOLD, tmp_path, {"one": trader}) as (engine, _), carrying(url, exchange.url) as carrier:
        del carrier._fars["exchange"]
        await engine.answer(await engine.send("/"))

    assert trader.results[0].status == 503
    assert b"--far exchange=URL" in trader.results[0].body


async def test_by_turn_an_effect_that_only_one_of_two_current_servers_asks_for_is_refused(
    url: str, tmp_path: Path, exchange: OpenExchange
) -> None:
    traders = {"one": Trader(), "two": Trader()}
    traders["two"].body = b'{"shares": 1}'
    async with trading(url, BY_TURN, tmp_path, traders) as (engine, _), carrying(url, exchange.url, ask_wait=1):
        number = await engine.send("/")
        await answers_with(engine, number, 502)

    assert exchange.orders == []
    assert b"no second current server" in traders["one"].results[0].body


async def answers_with(engine: AskingEngine, number: str, status: int) -> None:
    for server in ("one", "two"):
        head = (await engine.answer(number, server)).head
        assert head is not None
        assert head.status == status


async def test_by_turn_one_server_is_enough_while_only_one_is_current(url: str, tmp_path: Path, exchange: OpenExchange) -> None:
    async with trading(url, BY_TURN, tmp_path, {"one": Trader()}) as (engine, _), carrying(url, exchange.url):
        await engine.answer(await engine.send("/"))

    assert len(exchange.orders) == 1


async def test_a_shadow_gets_the_result_and_is_refused_one_of_its_own(url: str, tmp_path: Path, exchange: OpenExchange) -> None:
    traders = {"one": Trader(), "two": Trader()}
    async with (
        trading(url, TOLD, tmp_path, traders, two="shadow") as (engine, _),
        carrying(url, exchange.url, ask_wait=1),
    ):
        same = await answers(engine, await engine.send("/"), "one", "two")
        traders["two"].body = b'{"shares": 1}'
        await engine.answer(await engine.send("/"), "two")

    assert same[0] == same[1]
    assert traders["two"].results[-1].status == 503
    assert [each["shares"] for each in exchange.orders] == [100, 100]


# --- far sides that fail -------------------------------------------------------------------------------------------------


async def test_a_far_side_that_takes_no_connection_is_tried_again(url: str, tmp_path: Path) -> None:
    with open_exchange() as closed:
        port = closed.port
    async with trading(url, TOLD, tmp_path, {"one": Trader()}) as (engine, _), carrying(url, f"http://127.0.0.1:{port}"):
        number = await engine.send("/")
        with open_exchange(port) as exchange:
            (said,) = await answers(engine, number, "one")
            orders = exchange.orders

    assert [confirmation(said[0])] == [each["confirmation"] for each in orders]


async def test_a_far_side_that_stays_away_is_given_up_and_may_be_asked_again(url: str, tmp_path: Path) -> None:
    with open_exchange() as closed:
        port = closed.port
    trader = Trader()
    async with trading(url, TOLD, tmp_path, {"one": trader}) as (engine, _):
        async with carrying(url, f"http://127.0.0.1:{port}", ask_wait=0.5):
            await engine.answer(await engine.send("/"))
        async with engine.client.topic("domain.shop.results").browse("history") as browser:
            kept = [event async for event in browser]

    assert trader.results[0].status == 503
    assert b"it was not carried out" in trader.results[0].body
    assert len(kept) == 2  # begun, and not done


@pytest.mark.parametrize(
    ("how", "orders", "status"),
    [({"lookup": "/orders/{key}"}, 1, 200), ({"knows_keys": True}, 2, 201), ({}, 1, 503)],
    ids=["looked up", "sent again with its key", "refused"],
)
async def test_an_effect_whose_answer_is_lost(
    url: str, tmp_path: Path, exchange: OpenExchange, how: dict[str, Any], orders: int, status: int
) -> None:
    """This exchange does not know keys: where a far side is wrongly said to, it sees the order twice."""
    trader = Trader()
    async with trading(url, TOLD, tmp_path, {"one": trader}) as (engine, _):
        exchange.exchange.is_open.clear()
        async with carrying(url, exchange.url, timeout=0.5, **how):
            number = await engine.send("/")
            await until(lambda: len(exchange.orders) == orders, "the order is there")
            if orders > 1:
                exchange.exchange.is_open.set()
            await engine.answer(number)

    assert len(exchange.orders) == orders
    assert len(set(exchange.keys)) == 1
    assert trader.results[0].status == status


# --- the carrier ---------------------------------------------------------------------------------------------------------


async def test_a_second_carrier_waits_for_its_turn(url: str, tmp_path: Path, exchange: OpenExchange) -> None:
    async with (
        trading(url, TOLD, tmp_path, {"one": Trader()}) as (engine, _),
        carrying(url, exchange.url) as first,
        carrier_beside(url, exchange.url) as second,
    ):
        await engine.answer(await engine.send("/"))
        assert first.has_turn.is_set()
        assert not second.has_turn.is_set()
        first.stop()
        await second.has_turn.wait()
        await engine.answer(await engine.send("/"))

    assert len(exchange.orders) == 2


@asynccontextmanager
async def carrier_beside(url: str, far: str) -> AsyncIterator[Any]:
    async with EffectCarrier(url, "shop", [FarSide("exchange", far)]) as carrier:
        task = asyncio.create_task(carrier.run())
        yield carrier
        carrier.stop()
        await task


async def test_a_carrier_that_starts_reads_the_results_and_gives_them_to_a_server_that_asks_later(
    url: str, tmp_path: Path, exchange: OpenExchange
) -> None:
    async with trading(url, TOLD, tmp_path, {"one": Trader()}) as (engine, _):
        async with carrying(url, exchange.url):
            number = await engine.send("/")
            (one,) = await answers(engine, number, "one")
        late = Trader()
        listener = Listener(url, "shop", "late", call=late, store=tmp_path / "late", egress=("127.0.0.1", 0))
        async with carrying(url, exchange.url), listener:
            late.far = FarSide("egress", f"http://127.0.0.1:{listener._server.egress_port}")
            task = asyncio.create_task(listener.run())
            (two,) = await answers(engine, number, "late")
            listener.stop()
            await task
            late.far.close()

    assert one == two
    assert len(exchange.orders) == 1


# --- an operator, and re-entry -------------------------------------------------------------------------------------------


async def test_an_effect_of_which_nobody_can_tell_is_settled_by_an_operator_and_then_given(
    url: str, tmp_path: Path, exchange: OpenExchange
) -> None:
    trader = Trader()
    async with trading(url, TOLD, tmp_path, {"one": trader}) as (engine, _):
        exchange.exchange.is_open.clear()
        async with carrying(url, exchange.url, timeout=0.5):
            number = await engine.send("/")
            await engine.answer(number)
            (key,) = exchange.keys
            with pytest.raises(NotInDoubt):
                await settle(engine.client, "shop", f"{number}.{'00' * 16}.1", None)

            await settle(engine.client, "shop", key, Result(201, [], b'{"confirmation": "by hand"}'))

            late = Trader()
            listener = Listener(url, "shop", "late", call=late, store=tmp_path / "late", egress=("127.0.0.1", 0))
            async with running(listener):
                late.far = FarSide("egress", f"http://127.0.0.1:{listener._server.egress_port}")
                (said,) = await answers(engine, number, "late")
                late.far.close()
            with pytest.raises(NotInDoubt):
                await settle(engine.client, "shop", key, None)

    assert trader.results[0].status == 503
    assert b"nobody can tell" in trader.results[0].body
    assert confirmation(said[0]) == "by hand"
    assert len(exchange.orders) == 1
