"""The egress by itself: attribution of calls that were made again, and what a server in a rebuild gets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import holdfast
from holdfast.client.client import Client
from holdfast.continuity import register
from holdfast.continuity.domain import Domain
from holdfast.continuity.effects.effect_events import Ask, decode_ask
from holdfast.continuity.effects.egress import EffectRefused, Egress
from holdfast.continuity.effects.egress_address import EgressAddress
from holdfast.continuity.machines.effects import traceparent_of
from tests.exchange import carrying, open_exchange
from tests.waiting import until

DOMAIN = Domain(name="shop", tell_server=True)
TRACE = [(b"traceparent", traceparent_of("t").encode())]
_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory:egress-{next(_numbers)}"


class Calls:
    def __init__(self, times: int, is_replaying: bool) -> None:
        self.running = {"t": times}
        self.is_replaying = is_replaying

    def place_of(self, transaction: str) -> int:
        return 7


@asynccontextmanager
async def open_egress(url: str, times: int = 1, is_replaying: bool = False) -> AsyncIterator[tuple[Client, Egress, list[str]]]:
    stopped: list[str] = []
    async with holdfast.connect(url) as client:
        await register.create(client, DOMAIN)
        egress = Egress(client, DOMAIN, "one", Calls(times, is_replaying), stopped.append)
        await egress.open()
        yield client, egress, stopped
        await egress.close()


async def asked(client: Client, count: int) -> list[Ask]:
    async with client.queue(DOMAIN.effects_queue).receive() as incoming:
        return [decode_ask(bytes((await incoming.next(timeout=60)).body)) for _ in range(count)]


@pytest.mark.parametrize(("times", "hows"), [(1, ["trace", "trace"]), (2, ["trace", "turn"])])
async def test_in_a_call_that_was_made_again_a_second_equal_ask_needs_a_second_server(
    url: str, times: int, hows: list[str]
) -> None:
    async with open_egress(url, times) as (client, egress, _):
        waiting = [asyncio.create_task(egress.ask("exchange", "POST", "/orders", TRACE, b"100")) for _ in hows]
        found = await asked(client, 2)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    assert [(ask.identity.number, ask.how) for ask in found] == list(zip((1, 2), hows, strict=True))


async def test_the_servers_own_key_and_trace_are_not_handed_on(url: str) -> None:
    async with open_egress(url) as (client, egress, _):
        headers = [*TRACE, (b"idempotency-key", b"mine"), (b"host", b"egress"), (b"x-a", b"b")]
        waiting = asyncio.create_task(egress.ask("exchange", "POST", "/orders?a=1", headers, b"100"))
        (ask,) = await asked(client, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    assert (ask.far, ask.target, ask.headers, ask.body) == ("exchange", "/orders?a=1", [(b"x-a", b"b")], b"100")


@pytest.mark.parametrize(
    "how", [{"lookup": "/orders/{key}"}, {"knows_keys": True}, {}], ids=["looked up", "with keys", "neither"]
)
async def test_a_server_in_a_rebuild_gets_the_result_of_then_or_its_rebuild_stops_and_nothing_is_carried_out(
    url: str, how: dict[str, Any]
) -> None:
    with open_exchange() as exchange:
        async with open_egress(url, is_replaying=True) as (_, egress, stopped), carrying(url, exchange.url, **how):
            with pytest.raises(EffectRefused, match="has no result, and the far side has none"):
                await egress.ask("exchange", "POST", "/orders", TRACE, b"100")
            await until(lambda: stopped, "the rebuild is stopped")

        assert exchange.orders == []


async def test_a_server_in_a_rebuild_gets_what_the_far_side_still_knows(url: str) -> None:
    with open_exchange() as exchange:
        async with open_egress(url, is_replaying=True) as (client, egress, stopped):
            waiting = asyncio.create_task(egress.ask("exchange", "POST", "/orders", TRACE, b"{}"))
            (ask,) = await asked(client, 1)  # it is given back, and comes to the carrier
            exchange.exchange.take(ask.identity.key, {"shares": 7})
            async with carrying(url, exchange.url, lookup="/orders/{key}"):
                result = await waiting

        assert (result.status, b'"shares": 7' in result.body, stopped) == (200, True, [])
        assert len(exchange.orders) == 1


async def test_a_call_with_a_body_in_an_unknown_coding_is_refused_and_causes_nothing(url: str) -> None:
    async with open_egress(url) as (client, egress, _):
        address = EgressAddress(egress, "127.0.0.1", 0)
        address.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        head = b"POST /exchange/orders HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n"
        writer.write(head + b"traceparent: %s\r\n\r\n1\r\na\r\n0\r\n\r\n" % TRACE[0][1])

        assert (await asyncio.wait_for(reader.readline(), 30)).startswith(b"HTTP/1.1 501 ")
        assert (await client.describe(DOMAIN.effects_queue))["waiting"] == 0
        writer.close()
        await address.close()
