"""Events: what can travel, what is refused and how, and that what arrives is what was sent."""

from __future__ import annotations

import dataclasses
import decimal
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from holdfast.errors import BadEvent
from holdfast.event import event as words
from holdfast.event.event import Event, Head, PropertyValue, decode_data, encode_data, from_microseconds, to_head_and_body


@pytest.mark.parametrize(
    ("data", "datacontenttype", "body", "said"),
    [
        (None, None, b"", "application/json"),
        ({"sku": 7}, None, b'{"sku":7}', "application/json"),
        ([1, 2], None, b"[1,2]", "application/json"),
        (7, None, b"7", "application/json"),
        ("text", None, b"text", "text/plain"),
        ("text", "application/json", b'"text"', "application/json"),
        ("text", "application/vnd.order+json; charset=utf-8", b'"text"', "application/vnd.order+json; charset=utf-8"),
        ("<a/>", "application/xml", b"<a/>", "application/xml"),
        (b"\x00\xff", None, b"\x00\xff", "application/octet-stream"),
        (bytearray(b"ab"), None, b"ab", "application/octet-stream"),
        (memoryview(b"ab"), None, b"ab", "application/octet-stream"),
        (b'{"a":1}', "application/json", b'{"a":1}', "application/json"),
    ],
)
def test_data_travels_as_what_it_is(data: Any, datacontenttype: str | None, body: bytes, said: str) -> None:
    assert encode_data(data, datacontenttype) == (body, said)


@pytest.mark.parametrize("data", [{"a": [1, None, True, 2.5]}, "grüße", "", [], 0, b"", b"\x00\xff", None, [{"b": "c"}]])
def test_data_comes_back_as_it_was_sent(data: Any) -> None:
    assert decode_data(*encode_data(data, None)) == data


def test_a_body_that_is_not_what_its_content_type_says_is_handed_out_as_bytes() -> None:
    assert decode_data(b"{broken", "application/json") == b"{broken"
    assert decode_data(b"\xff\xfe", "text/plain") == b"\xff\xfe"


@pytest.mark.parametrize("data", [object(), {1, 2} | {object()}, {"a": object()}])
def test_data_that_cannot_be_encoded_is_refused_with_its_type(data: Any) -> None:
    with pytest.raises(BadEvent, match=type(data).__name__):
        encode_data(data, None)


def test_an_event_says_when_it_was_recognised_who_recognised_it_its_nature_and_its_details() -> None:
    """A1."""
    event = Event(
        data={"amount": 120},
        type="order.placed",
        source="/shop",
        id="o-1",
        time=datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC),
        subject="orders/1",
        dataschema="https://example.org/order.json",
        properties={"amount": 120},
        group="customer-7",
        correlation_id="c-1",
        reply_to="answers",
        ttl_ms=5_000,
    )

    head, body = to_head_and_body(event, now_us=1_000_000)

    assert words.decode_head(words.encode_head(head)) == Head(
        type="order.placed",
        time_us=1_772_366_400_000_250,
        id="o-1",
        source="/shop",
        subject="orders/1",
        datacontenttype="application/json",
        dataschema="https://example.org/order.json",
        properties={"amount": 120},
        group="customer-7",
        correlation_id="c-1",
        reply_to="answers",
        expires_at_ms=6_000,
    )
    assert body == b'{"amount":120}'


def test_an_event_without_a_time_was_recognised_now() -> None:
    head, _ = to_head_and_body(Event(data=1), now_us=123_456_789)

    assert head.time_us == 123_456_789
    assert from_microseconds(head.time_us) == datetime(1970, 1, 1, 0, 2, 3, 456_789, tzinfo=UTC)


def test_a_time_in_another_zone_is_the_same_moment() -> None:
    moment = datetime(2026, 3, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))

    head, _ = to_head_and_body(Event(time=moment))

    assert from_microseconds(head.time_us) == moment


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"priority": 10}, "0..9"),
        ({"priority": -1}, "0..9"),
        ({"ttl_ms": 0}, "time to live"),
        ({"ttl_ms": -5}, "time to live"),
        ({"delay_ms": -1}, "negative"),
        ({"type": ""}, "type is empty"),
        ({"id": ""}, "must not be empty"),
        ({"source": ""}, "must not be empty"),
        ({"time": datetime(2026, 3, 1)}, "time zone"),
        ({"properties": {"two words": 1}}, "'two words'"),
        ({"properties": {"7up": 1}}, "'7up'"),
        ({"properties": {"": 1}}, "identifier"),
        ({"properties": {"line\n": 1}}, "identifier"),
        ({"properties": {7: 1}}, "identifier"),
        ({"properties": {"a": [1]}}, "list"),
        ({"properties": {"a": b"x"}}, "bytes"),
        ({"properties": {"a": 1 << 63}}, "64 bits"),
        ({"properties": {"a": -(1 << 63) - 1}}, "64 bits"),
    ],
)
def test_an_event_that_cannot_travel_is_refused_and_the_sentence_says_why(wrong: dict[str, Any], fact: str) -> None:
    with pytest.raises(BadEvent, match=fact):
        to_head_and_body(Event(**wrong))


def test_the_largest_numbers_and_every_type_of_property_travel() -> None:
    properties: dict[str, PropertyValue] = {
        "a": (1 << 63) - 1,
        "b": -(1 << 63),
        "c": 1.5,
        "d": "text",
        "e": True,
        "f": None,
        "$g_7": 0,
    }

    head, _ = to_head_and_body(Event(properties=properties))

    assert words.decode_head(words.encode_head(head)).properties == properties


def test_a_time_far_from_now_keeps_its_last_microsecond() -> None:
    for year in (1, 2106, 9999):
        moment = datetime(year, 6, 1, 12, 0, 0, 1, tzinfo=UTC)
        assert from_microseconds(to_head_and_body(Event(time=moment))[0].time_us) == moment


def test_the_head_of_a_plain_event_costs_few_bytes() -> None:
    """Heads are most of a small event: defaults are left out and names have one letter."""
    head, _ = to_head_and_body(Event(data=1, type="order.placed"), now_us=1_772_366_400_000_250)

    assert len(words.encode_head(head)) <= 27


class Line(msgspec.Struct):
    price: float


@dataclasses.dataclass
class Order:
    lines: list[Line]


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (math.nan, "$"),
        ({"price": math.nan}, "$.price"),
        ({"price": math.inf, "note": None}, "$.price"),
        ({"a": None, "lines": [{"price": 1.0}, {"price": -math.inf}]}, "$.lines[1].price"),
        ({"two words": (1, math.nan)}, "$['two words'][1]"),
        ({1: {"x": math.nan}}, "$[1].x"),
        (Order([Line(1.0), Line(math.nan)]), "$.lines[1].price"),
        ({"body": b"raw"}, "$.body"),
        ({"body": b"r" * 300}, "$.body"),
        ([1, [bytearray(b"x" * 70_000)]], "$[1][0]"),
        ({"null": "null", "view": memoryview(b"raw")}, "$.view"),
        ({"large": 1.7e308, "none": None, "deep": [[[[math.nan]]]]}, "$.deep[0][0][0][0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_would_arrive_as_something_else_is_refused_with_its_path(data: Any, path: str) -> None:
    with pytest.raises(BadEvent) as refused:
        words.encode_data(data, None)

    assert refused.value.fields["path"] == path
    assert f" at {path}, which JSON cannot hold" in refused.value.sentence


@pytest.mark.parametrize(
    "data",
    [
        {"price": 1.7e308, "note": None, "low": -1.7e308},
        {"text": "null, Ä and ř and \u0105, nan", "none": None},
        [0.1 * number for number in range(1_000)],
        {"sku": 1 << 63, "none": [None]},
        {"when": datetime(2026, 1, 1, tzinfo=UTC), "cost": decimal.Decimal("1.5")},
        [None, {}, [], True, False, 0, -1, ""],
    ],
    ids=lambda data: repr(data)[:30],
)
def test_what_json_can_hold_is_sent_whatever_it_looks_like(data: Any) -> None:
    body, _ = words.encode_data(data, None)

    assert body == msgspec.json.encode(data)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_property_that_is_no_number_is_refused_with_its_name(value: float) -> None:
    with pytest.raises(BadEvent, match="property 'price' is") as refused:
        to_head_and_body(Event(properties={"sku": 7, "price": value}))

    assert refused.value.fields == {"property": "price"}
