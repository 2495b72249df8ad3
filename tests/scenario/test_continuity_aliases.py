"""Servers that choose values of their own: aliases, rules of comparison, time and seed. A server that calls its own domain."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.continuity import middleware
from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import AliasRule, ComparisonRules, Domain, Route
from holdfast.continuity.machines.aliases import identity_of, text_token
from holdfast.continuity.request import Content
from tests.fronted_engine import Fronted, ask, fronted_engine, served
from tests.listening import listening
from tests.raw_http_server import raw_http_server
from tests.waiting import until

_numbers = itertools.count()
RULES = (AliasRule("order", json="$.id"), AliasRule("order", header="location", pattern="/orders/(.+)"))
SHOP = Domain(name="shop", aliases=RULES, routes=(Route("/orders/*"), Route("/newest")))


@pytest.fixture
def url() -> str:
    return f"memory:aliases-{next(_numbers)}"


class Shop:
    """A server that numbers its orders from a number of its own."""

    def __init__(self, first: int) -> None:
        self.orders: dict[int, str] = {}
        self.first = first
        self.asked: list[str] = []

    async def say(self, writer: asyncio.StreamWriter, asked: bytes) -> bool:
        method, target = asked.decode().split()[:2]
        self.asked.append(f"{method} {target}")
        if method == "POST":
            number = self.first + len(self.orders)
            self.orders[number] = target
        elif target == "/newest":
            number = self.first + 1_000
        else:
            number = int(target.rpartition("/")[2])
        status = 200 if method == "POST" or target == "/newest" or number in self.orders else 404
        body = json.dumps({"id": number, "order": self.orders.get(number)}).encode()
        told = (
            f"HTTP/1.1 {status} X\r\nLocation: /orders/{number}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        writer.write(told.encode() + b"\r\n\r\n" + body)
        return True


@asynccontextmanager
async def listeners(url: str, tmp_path: Path, front: Fronted, *calls: Any) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for number, call in enumerate(calls):
            await stack.enter_async_context(listening(url, call, tmp_path / str(number), server=f"s{number}"))
        await until(lambda: len(front.engine.servers.current()) == len(calls), "all are current")
        yield
    await until(lambda: not front.engine.servers.current(), "all are gone")


# --- aliases -------------------------------------------------------------------------------------------------------------


async def test_values_that_differ_are_one_token_for_the_client_and_the_own_value_for_each_server_also_after_a_restart(
    url: str, tmp_path: Path
) -> None:
    one, two = Shop(17), Shop(93)
    async with (
        raw_http_server(one.say) as first,
        raw_http_server(two.say) as second,
        fronted_engine(url, SHOP) as front,
    ):
        async with listeners(url, tmp_path, front, first.url, second.url):
            made = [await ask(front.port, "/orders", headers={"Idempotency-Key": "k"}) for _ in range(2)]
            place = made[0].headers["location"]
            seen = await ask(front.port, place, method="PUT")
        async with listeners(url, tmp_path, front, first.url, second.url):
            again = await ask(front.port, place, method="PUT")
            read = await ask(front.port, place, method="GET")
        disagreements = front.engine.figures["disagreements"]

    token = json.loads(made[0].body)["id"]
    assert (token not in (17, 93), place) == (True, f"/orders/{token}")
    assert made[0].body == made[1].body  # the second is the stored one
    assert seen.body == again.body == read.body == json.dumps({"id": token, "order": "/orders"}).replace(" ", "").encode()
    assert one.asked[:3] == ["POST /orders", "PUT /orders/17", "PUT /orders/17"]
    assert two.asked[:3] == ["POST /orders", "PUT /orders/93", "PUT /orders/93"]
    assert disagreements == 0


async def test_a_token_that_no_server_knows_is_refused_and_never_passed_on(url: str, tmp_path: Path) -> None:
    shop = Shop(17)
    token = text_token(identity_of("forged", "order", 1))
    async with (
        raw_http_server(shop.say) as server,
        fronted_engine(url, SHOP) as front,
        listeners(url, tmp_path, front, server.url),
    ):
        refused = [await ask(front.port, f"/orders/{token}", method=method) for method in ("DELETE", "GET")]

    assert [(each.status, token.encode() in each.body) for each in refused] == [(500, True)] * 2
    assert shop.asked == []


async def test_a_server_that_does_not_know_a_token_does_not_win_over_one_that_does(url: str, tmp_path: Path) -> None:
    one, two = Shop(17), Shop(93)
    async with (
        raw_http_server(one.say) as first,
        raw_http_server(two.say) as second,
        fronted_engine(url, SHOP) as front,
        listening(url, first.url, tmp_path / "1", server="one"),
        listening(url, second.url, tmp_path / "2", server="two") as listener,
    ):
        await until(lambda: len(front.engine.servers.current()) == 2, "both are current")
        place = (await ask(front.port, "/orders")).headers["location"]
        await until(lambda: len(one.asked) == len(two.asked) == 1, "both have it")
        assert listener._server._aliases is not None
        listener._server._aliases._by_token.clear()  # it has lost its values
        answers = [await ask(front.port, place, method="PUT") for _ in range(5)]

    assert [answer.status for answer in answers] == [200] * 5
    assert (len(one.asked), two.asked) == (6, ["POST /orders"])


async def test_a_read_that_would_show_a_value_without_a_token_is_declined(url: str, tmp_path: Path) -> None:
    shop = Shop(17)
    async with (
        raw_http_server(shop.say) as server,
        fronted_engine(url, SHOP) as front,
        listeners(url, tmp_path, front, server.url),
    ):
        seen = await ask(front.port, "/newest", method="GET")

    assert (seen.status, b"no answer to a write has shown" in seen.body, b"1017" in seen.body) == (503, True, False)


# --- comparison ----------------------------------------------------------------------------------------------------------


def first_word(answer: Answer) -> bytes:
    return answer.body.split()[0]


def saying(text: bytes) -> Any:
    async def call(_: Content) -> Answer:
        return Answer(Head(200, [], len(text)), text)

    return call


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        (ComparisonRules(), 502),
        (ComparisonRules(function=f"{__name__}:first_word"), 200),
        (ComparisonRules(text=("[0-9]+",)), 200),
    ],
)
async def test_answers_are_compared_by_the_rules_of_the_domain(
    url: str, tmp_path: Path, rules: ComparisonRules, status: int
) -> None:
    domain = Domain(name="shop", answer="agreed", compare=rules)
    async with (
        fronted_engine(url, domain) as front,
        listeners(url, tmp_path, front, saying(b"done 1"), saying(b"done 2")),
    ):
        seen = await ask(front.port, "/")

    assert seen.status == status


# --- time and seed -------------------------------------------------------------------------------------------------------


async def shown(scope: Any, receive: Any, send: Any) -> None:
    """A server that answers with the time and random numbers."""
    body = f"{middleware.now().isoformat()} {middleware.random().random()} {middleware.random().random()}".encode()
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_time_and_random_numbers_are_alike_at_all_servers_with_the_middleware(
    url: str, tmp_path: Path, method: str, is_told: bool
) -> None:
    domain = Domain(name="shop", tell_server=is_told, routes=(Route("/read"),))
    apps = [middleware.AsgiMiddleware(shown) for _ in range(2)]
    async with (
        served(apps[0]) as one,
        served(apps[1]) as two,
        fronted_engine(url, domain) as front,
        listeners(url, tmp_path, front, f"http://127.0.0.1:{one}", f"http://127.0.0.1:{two}"),
    ):
        seen = await ask(front.port, "/read", method=method)
        if not is_told:
            await until(lambda: front.engine.figures["disagreements"] == 1, "they differ")
        await until(lambda: not front.engine.is_running(seen.headers["holdfast-transaction"]), "both are compared")
        disagreements = front.engine.figures["disagreements"]

    assert (seen.status, disagreements) == (200, 0 if is_told else 1)


# --- re-entry ------------------------------------------------------------------------------------------------------------


async def test_a_server_that_calls_its_own_domain_within_a_request_gets_508(url: str, tmp_path: Path) -> None:
    async with fronted_engine(url, Domain(name="shop", tell_server=True)) as front:

        async def call(content: Content) -> Answer:
            number = dict(content.headers)[b"holdfast-transaction"].decode()
            inner = await ask(front.port, "/inner", headers={"Holdfast-Transaction": number})
            body = b"%d" % inner.status
            return Answer(Head(200, [], len(body)), body)

        async with listeners(url, tmp_path, front, call):
            seen = await ask(front.port, "/")

    assert (seen.status, seen.body) == (200, b"508")
