"""A far side over HTTP: what is certain after a call, and what is not."""

from __future__ import annotations

import pytest

from holdfast.continuity.effects.effect_events import Ask
from holdfast.continuity.effects.far_side import FarSide, NotReached, Unknown, far_sides
from holdfast.continuity.machines.effects import Identity, trace_of
from holdfast.errors import BadSetting, BadUrl
from tests.raw_http_server import raw_http_server, saying

EFFECT = Identity("t-1", b"\x01" * 16, 1)
ASK = Ask(EFFECT, "one", "trace", "exchange", "POST", "/orders", [(b"x-a", b"b")], b"100")
CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nDate: now\r\nX-Number: 7\r\n\r\nok"


async def test_an_effect_goes_out_with_its_key_and_the_trace_of_its_transaction() -> None:
    async with raw_http_server(saying(CREATED)) as server:
        result = await FarSide("exchange", f"{server.url}/base").carry_out(ASK)

    head = server.requests[0].decode().lower()
    assert head.startswith("post /base/orders http/1.1\r\n")
    assert f"idempotency-key: {EFFECT.key}\r\n" in head
    assert f"traceparent: 00-{trace_of('t-1')}-" in head
    assert head.endswith("\r\n\r\n100")
    assert (result.status, result.body, dict(result.headers)) == (201, b"ok", {b"x-number": b"7"})


async def test_a_connection_that_is_not_taken_certainly_did_nothing() -> None:
    async with raw_http_server(saying(CREATED)) as server:
        url = server.url

    with pytest.raises(NotReached):
        await FarSide("exchange", url).carry_out(ASK)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 201 Created\r\n\r\nok",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"garbage\r\n\r\n",
    ],
    ids=["nothing", "cut", "without an end", "without a last chunk", "no HTTP"],
)
async def test_an_answer_that_is_not_whole_leaves_the_outcome_unknown(said: bytes) -> None:
    async with raw_http_server(saying(said, goes_on=False)) as server:
        with pytest.raises(Unknown):
            await FarSide("exchange", server.url).carry_out(ASK)


async def test_a_look_up_finds_the_result_or_that_it_was_not_done() -> None:
    async with raw_http_server(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nX7")) as server:
        found = await FarSide("exchange", server.url, lookup="/orders/{key}").look_up(EFFECT)
    async with raw_http_server(saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as there:
        missing = await FarSide("exchange", there.url, lookup="/orders/{key}").look_up(EFFECT)
    async with raw_http_server(saying(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")) as ill:
        with pytest.raises(Unknown):
            await FarSide("exchange", ill.url, lookup="/orders/{key}").look_up(EFFECT)

    assert server.requests[0].startswith(f"GET /orders/{EFFECT.key} ".encode())
    assert (getattr(found, "body", None), missing) == (b"X7", "not done")


async def test_without_a_look_up_only_a_far_side_that_knows_keys_may_be_sent_the_same_again() -> None:
    assert await FarSide("exchange", "http://h").look_up(EFFECT) == "cannot tell"
    assert await FarSide("exchange", "http://h", knows_keys=True).look_up(EFFECT) == "not done"


def test_far_sides_are_named_on_a_command_line() -> None:
    (bank, exchange) = far_sides(["bank=https://b/api", "exchange=http://e:7000"], ["exchange=/orders/{key}"], ["bank"])

    assert [(each.name, each.knows_keys) for each in (bank, exchange)] == [("bank", True), ("exchange", False)]
    for urls, lookups in (([], []), (["exchange"], []), (["a=http://a"], ["b=/{key}"])):
        with pytest.raises(BadSetting):
            far_sides(urls, lookups, [])
    with pytest.raises(BadUrl):
        far_sides(["a=ftp://a"], [], [])
    with pytest.raises(BadUrl):
        far_sides(["a=http://a"], ["a=/orders"], [])
