"""CloudEvents in HTTP messages: the three modes and what the binding says of headers, null and missing attributes (A1).

Section numbers are those of the HTTP protocol binding 1.0.2 ("binding") and the JSON event format 1.0.2 ("format").
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.errors import BadEvent
from holdfast.event.cloudevent import to_cloudevent
from holdfast.event.cloudevent_http import from_http, from_http_batch, to_http, to_http_batch
from holdfast.event.event import Event

STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCHED = {"content-type": "application/cloudevents-batch+json"}
ENVELOPE: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/x", "type": "t"}
HEADERS = {f"ce-{name}": value for name, value in ENVELOPE.items()}


def structured(**others: Any) -> Event:
    return from_http(STRUCTURED, json.dumps(ENVELOPE | others).encode())


def binary(body: bytes = b"", **headers: str) -> Event:
    return from_http(HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}, body)


# --- which mode (binding, 3) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("media", ["application/cloudevents+json", "Application/CloudEvents+JSON; charset=UTF-8"])
def test_the_content_type_makes_a_message_structured_whatever_headers_stand_beside_it(media: str) -> None:
    body = json.dumps(ENVELOPE | {"id": "inner", "data": {"a": 1}}).encode()

    found = from_http(HEADERS | {"ce-id": "outer", "Content-Type": media}, body)

    assert (found.id, found.data) == ("inner", {"a": 1})


@pytest.mark.parametrize(
    "media", ["application/cloudevents+avro", "application/cloudevents", "application/cloudevents-batch+xml"]
)
def test_an_unknown_event_format_is_refused_and_named(media: str) -> None:
    with pytest.raises(BadEvent, match="event format"):
        from_http(HEADERS | {"content-type": media}, b"{}")


def test_what_has_neither_headers_nor_the_content_type_is_no_cloudevent() -> None:
    with pytest.raises(BadEvent, match="neither ce- headers"):
        from_http({"content-type": "application/json"}, json.dumps(ENVELOPE).encode())


# --- nothing is invented --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
def test_a_missing_required_attribute_is_refused_and_named(missing: str) -> None:
    with pytest.raises(BadEvent, match=f"has no {missing}"):
        from_http({name: value for name, value in HEADERS.items() if name != f"ce-{missing}"}, b"")
    with pytest.raises(BadEvent, match=f"has no {missing}"):
        structured(**{missing: None})
    with pytest.raises(BadEvent, match=f"has no {missing}"):
        from_http_batch(BATCHED, json.dumps([ENVELOPE, {**ENVELOPE, missing: None}]).encode())


def test_a_time_that_is_missing_stays_missing_both_ways() -> None:
    assert structured().time is None
    assert binary().time is None
    assert "ce-time" not in to_http(binary()).headers
    assert b"time" not in to_http(binary(), "structured").body
    assert to_cloudevent(binary()).get_time() is None


def test_a_null_attribute_is_unset() -> None:
    found = structured(subject=None, time=None, datacontenttype=None, dataschema=None, region=None, data=None, data_base64=None)

    assert found == structured()
    assert found.properties is None


def test_no_content_type_stays_none_both_ways() -> None:
    taken = binary(b"\x00\xff")

    assert (taken.datacontenttype, taken.data) == (None, b"\x00\xff")
    assert "content-type" not in to_http(taken).headers
    assert from_http(*to_http(taken)) == taken
    assert from_http(*to_http(taken, "structured")) == taken
    assert structured(data={"a": 1}).datacontenttype is None
    assert from_http(*to_http(structured(data={"a": 1}), "structured")) == structured(data={"a": 1})


# --- header values (binding, 3.1.3.2) -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ('"Euro %E2%82%AC"', "Euro €"),
        ('"a \\"b\\" \\\\ c"', 'a "b" \\ c'),
        ('half "quoted"', 'half "quoted"'),
        ("%22", '"'),
        ("%2520", "%20"),
        ("100%", "100%"),
    ],
)
def test_quotes_are_undone_first_and_percent_signs_once(header: str, value: str) -> None:
    assert binary(ce_subject=header).subject == value


@pytest.mark.parametrize("value", ["%FF", "%ED%A0%80", "a%C3"])
def test_a_header_that_is_not_utf_8_is_refused_and_named(value: str) -> None:
    with pytest.raises(BadEvent, match="ce-region"):
        binary(ce_region=value)


def test_the_content_type_of_a_binary_message_is_its_content_type_alone() -> None:
    assert binary(b"{}", content_type="application/json").datacontenttype == "application/json"
    with pytest.raises(BadEvent, match="ce-datacontenttype"):
        binary(b"{}", ce_datacontenttype="application/json")


# --- data (format, 3.1) ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("media", ["text/json", "application/json", "application/JSON; charset=utf-8", "application/x+json"])
def test_json_is_json_under_each_of_its_names(media: str) -> None:
    assert binary(b'{"a": 1}', content_type=media).data == {"a": 1}
    assert structured(data={"a": 1}, datacontenttype=media).data == {"a": 1}
    written = json.loads(to_http(structured(data={"a": 1}, datacontenttype=media), "structured").body)
    assert written["data"] == {"a": 1}


@pytest.mark.parametrize("others", [{"data": 1, "data_base64": "AA=="}, {"data_base64": "A A=="}, {"data_base64": 7}])
def test_data_that_is_said_twice_or_is_not_base64_is_refused(others: dict[str, Any]) -> None:
    with pytest.raises(BadEvent, match="data"):
        structured(**others)


@pytest.mark.parametrize("time", ["2026", "20260301T120000Z", "2026-03-01", "2026-03-01T12:00:00", 5])
def test_a_time_that_rfc_3339_does_not_know_is_refused(time: Any) -> None:
    with pytest.raises(BadEvent, match="RFC 3339"):
        structured(time=time)


def test_json_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(BadEvent, match="JSON"):
        from_http(STRUCTURED, b"[" * 100_000)


# --- batched (binding, 3.3) -----------------------------------------------------------------------------------------------


def test_a_batch_goes_out_and_comes_back_in_order() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    events = [
        Event(id="1", source="/x", type="t", data={"a": 1}, datacontenttype="application/json"),
        Event(id="2", source="/x", type="t", data=b"\x00", time=moment, properties={"amount": 120, "region": "süd"}),
        Event(id="3", source="/x", type="t", data="text", datacontenttype="text/plain", priority=9),
    ]

    headers, body = to_http_batch(events)

    assert headers == BATCHED
    assert from_http_batch(headers, body) == events
    assert [one["id"] for one in json.loads(body)] == ["1", "2", "3"]


def test_an_empty_batch_is_a_batch() -> None:
    assert from_http_batch(*to_http_batch([])) == []


def test_one_event_is_read_as_a_batch_of_one() -> None:
    assert from_http_batch(HEADERS, b"x") == [from_http(HEADERS, b"x")]


def test_a_batch_is_not_taken_for_one_event() -> None:
    with pytest.raises(BadEvent, match="from_http_batch"):
        from_http(*to_http_batch([]))


@pytest.mark.parametrize("body", [b"{}", b"7", b"[7]", b"[[]]", b"[{}]", b"", b"[{"])
def test_a_batch_with_something_else_in_it_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(BadEvent):
        from_http_batch(BATCHED, body)
