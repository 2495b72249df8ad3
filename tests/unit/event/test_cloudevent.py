"""Events as CloudEvents, through the official package, in both HTTP modes and back (A1)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadEvent
from holdfast.event.cloudevent import from_cloudevent, to_cloudevent
from holdfast.event.cloudevent_http import from_http, from_http_batch, to_http
from holdfast.event.event import Event

Mode = Literal["binary", "structured"]
MODES: list[Mode] = ["binary", "structured"]
STRUCTURED = {"content-type": "application/cloudevents+json"}
MOMENT = datetime(2026, 3, 1, 12, 0, 0, 250, tzinfo=UTC)


def event(**others: Any) -> Event:
    known: dict[str, Any] = {
        "id": "o-1",
        "source": "/shop",
        "type": "order.placed",
        "time": MOMENT,
        "datacontenttype": "application/json",
    }
    return Event(**(known | others))


def through(sent: Event, mode: Mode) -> Event:
    """Out as HTTP, in through the official package, out of it again, and back."""
    message = http.HTTPMessage(*to_http(sent, mode))
    theirs = http.from_http(message, JSONFormat(), CloudEvent)
    again = http.to_binary(theirs, JSONFormat()) if mode == "binary" else http.to_structured(theirs, JSONFormat())
    return from_http(again.headers, again.body)


@pytest.mark.parametrize("mode", MODES)
def test_a1_everything_an_event_can_say_survives_the_official_package(mode: Mode) -> None:
    sent = event(
        data={"amount": 120, "lines": [1, 2]},
        subject="orders/1 & more",
        dataschema="https://example.org/order.json",
        properties={
            "region": 'süd %20"',
            "amount": 120,
            "isUrgent": True,
            "urgent": False,
            "ratio": 0.5,
            "none": None,
            "$x": "y",
        },
        priority=9,
        ttl_ms=60_000,
        delay_ms=5,
        group="customer-7",
        correlation_id="c-1",
        reply_to="answers",
    )

    assert through(sent, mode) == sent


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("data", "datacontenttype"),
    [
        ({"a": 1}, "application/json"),
        ([1, "two", None], "application/json"),
        ("just text", "application/json"),
        (7, "application/json"),
        (None, "application/json"),
        ("grüße", "text/plain"),
        ("<a/>", "text/xml"),
        (b"\x00\xff\xfe", "application/octet-stream"),
        (b"looks like text", "application/octet-stream"),
        ({"a": [True]}, "application/vnd.order+json"),
    ],
)
def test_a1_data_of_every_kind_comes_back_as_it_was(data: Any, datacontenttype: str, mode: Mode) -> None:
    sent = event(data=data, datacontenttype=datacontenttype)

    headers, body = to_http(sent, mode)

    assert from_http(headers, body) == sent


def test_a1_binary_mode_is_headers_and_the_body_as_it_is() -> None:
    headers, body = to_http(event(data=[1, 2], properties={"region": "süd", "urgent": True}))

    assert headers == {
        "ce-specversion": "1.0",
        "ce-id": "o-1",
        "ce-source": "/shop",
        "ce-type": "order.placed",
        "ce-time": "2026-03-01T12:00:00.000250Z",
        "content-type": "application/json",
        "ce-region": "s%C3%BCd",
        "ce-urgent": "true",
        "ce-holdfastproperties": "{%22urgent%22:%20true}",
    }
    assert body == b"[1,2]"


def test_a1_structured_mode_is_one_json_object() -> None:
    headers, body = to_http(event(data={"a": 1}, priority=7, properties={"amount": 120}), "structured")

    assert headers == {"content-type": "application/cloudevents+json"}
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": "o-1",
        "source": "/shop",
        "type": "order.placed",
        "time": "2026-03-01T12:00:00.000250Z",
        "datacontenttype": "application/json",
        "holdfastpriority": 7,
        "amount": 120,
        "holdfastproperties": '{"amount": 120}',
        "data": {"a": 1},
    }


def test_a1_an_event_made_by_the_official_package_is_taken() -> None:
    theirs = CloudEvent({"type": "com.example", "source": "/x", "id": "1", "traceparent": "00-ab", "7up": "yes"}, {"a": 1})

    ours = from_cloudevent(theirs)

    assert (ours.type, ours.source, ours.id, ours.data) == ("com.example", "/x", "1", {"a": 1})
    assert ours.datacontenttype is None
    assert ours.properties == {"traceparent": "00-ab", "$7up": "yes"}
    assert to_cloudevent(ours).get_extension("7up") == "yes"


@pytest.mark.parametrize(
    "name", ["id", "type", "data", "partitionkey", "holdfastproperties", "specversion", "camelCase", "_x", "$y"]
)
@pytest.mark.parametrize("mode", MODES)
def test_a_property_whose_name_cannot_be_an_extension_travels_apart(name: str, mode: Mode) -> None:
    sent = event(properties={name: "value", "plain": "seen"})

    assert to_cloudevent(sent).get_extension("plain") == "seen"
    assert through(sent, mode) == sent


def test_an_extension_that_was_changed_on_the_way_counts() -> None:
    headers, body = to_http(event(properties={"amount": 120}))

    headers["ce-amount"] = "121"

    assert from_http(headers, body).properties == {"amount": "121"}


def test_header_names_are_taken_in_any_case() -> None:
    headers, body = to_http(event(data=1))

    assert from_http({name.title(): value for name, value in headers.items()}, body) == event(data=1)


def test_a_ttl_of_more_than_32_bits_survives() -> None:
    assert through(event(ttl_ms=1 << 40), "structured").ttl_ms == 1 << 40


@pytest.mark.parametrize("missing", ["id", "source"])
def test_an_event_without_id_or_source_cannot_be_a_cloudevent_yet(missing: str) -> None:
    with pytest.raises(BadEvent, match="id and a source"):
        to_cloudevent(event(**{missing: None}))


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (STRUCTURED, b""),
        (STRUCTURED, b"[]"),
        (STRUCTURED, b"7"),
        (STRUCTURED, b"{not json"),
        (STRUCTURED, b"\xff"),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/x"}'),
        (STRUCTURED, b'{"specversion": "0.3", "id": "1", "source": "/x", "type": "t"}'),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "t", "time": "yesterday"}'),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "t", "time": 5}'),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "t", "Upper": "x"}'),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "t", "ext": [1]}'),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "t", "data_base64": "abc"}'),
        ({}, b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "t"}'),
        ({"ce-id": "1"}, b""),
        ({"ce-id": "1", "ce-source": "/x", "ce-type": "t", "ce-specversion": "2.0"}, b""),
        ({"ce-id": "1", "ce-source": "/x", "ce-type": "t", "ce-specversion": "1.0", "ce-time": "?"}, b""),
        ({"ce-id": "1", "ce-source": "/x", "ce-type": "t", "ce-specversion": "1.0", "ce-holdfastpriority": "10"}, b""),
        ({"ce-id": "1", "ce-source": "/x", "ce-type": "t", "ce-specversion": "1.0", "ce-holdfastttlms": "-1"}, b""),
        ({"ce-id": "1", "ce-source": "/x", "ce-type": "t", "ce-specversion": "1.0", "ce-holdfastproperties": "[]"}, b""),
        ({"ce-id": "1", "ce-source": "/x", "ce-type": "t", "ce-specversion": "1.0", "ce-holdfastproperties": "{"}, b""),
    ],
)
def test_what_is_not_a_cloudevent_is_refused(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(BadEvent):
        from_http(headers, body)


PROPERTIES = st.dictionaries(
    st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,8}", fullmatch=True),
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    max_size=5,
)


@given(PROPERTIES, st.sampled_from(MODES))
def test_a1_properties_keep_their_names_types_and_values_in_both_modes(properties: dict[str, Any], mode: Mode) -> None:
    found = from_http(*to_http(event(properties=properties), mode)).properties or {}

    assert found == properties
    assert {name: type(value) for name, value in found.items()} == {name: type(value) for name, value in properties.items()}


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=20), max_size=6), st.binary(max_size=80))
def test_garbage_is_refused_or_taken_and_nothing_else_happens(headers: dict[str, str], body: bytes) -> None:
    for prefix, more in (("", {}), ("", STRUCTURED), ("ce-", {}), ("", {"content-type": "application/cloudevents-batch+json"})):
        try:
            from_http_batch({prefix + name: value for name, value in headers.items()} | more, body)
        except BadEvent:
            pass
