"""`send_many` against sending one by one: whatever the mixture, recipients get the same events, field by field."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.client.sending.encoded_run import EncodedRun
from holdfast.client.sending.event_encoder import EventEncoder
from holdfast.client.sending.outgoing import FIELDS, EventFields, Outgoing, prepare
from holdfast.errors import BadEvent, TooLarge
from holdfast.event.event import Event, Head, decode_head

NOW_MS = 1_700_000_000_000


class Size(IntEnum):
    SMALL = 1


def made_of(given: dict[str, Any]) -> Event:
    return Event(**given)


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS = (
    st.integers(-300, 300) | INT64 | st.floats() | st.sampled_from([127, 255, 0xC4, 0xC5C6, -0.0, 1 << 70, Size.SMALL, True])
)
TEXTS = st.text(max_size=8) | st.sampled_from(["null", "řeka", "łąka", "\ud800", "x" * 70_000])
LEAVES = st.none() | NUMBERS | TEXTS | st.binary(max_size=4) | st.just(bytearray(b"ab"))
KEYS = st.text(max_size=4) | st.sampled_from([1, 1.5, b"k", math.nan, ("no", "key")])
DATA = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["n", "amount", "größe", "two words", "1st", "x" * 80])
PROPERTIES = st.dictionaries(NAMES, NUMBERS | TEXTS | st.none() | st.just([1]), max_size=2)
SHORT = st.sampled_from(["a", "b", ""])
FEW: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["order", "price", "", 7]),
    "source": st.none() | SHORT | st.just(3),
    "subject": st.none() | SHORT | st.just([]),
    "datacontenttype": st.sampled_from([None, "application/json", "text/plain", "application/vnd.x+json", "image/png"]),
    "dataschema": st.none() | SHORT,
    "properties": st.none() | PROPERTIES | st.just([]),
    "priority": st.sampled_from([4, 4, 4, 7, 4.0, True, 11, "4"]),
    "ttl_ms": st.sampled_from([None, None, 60_000, 0]),
    "delay_ms": st.sampled_from([0, 0, 0, 1_000, -1]),
    "group": st.none() | SHORT,
    "correlation_id": st.none() | SHORT,
    "reply_to": st.none() | SHORT,
    "time": st.none()
    | st.datetimes(datetime(1960, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
    | st.sampled_from([datetime(2026, 1, 1), datetime(1970, 1, 1, 1, tzinfo=UTC)])
    | st.just(1),
}
EVENTS = st.fixed_dictionaries({"data": DATA}, optional={**FEW, "id": st.sampled_from([None, "one", "two", "", 5])}).map(made_of)
GOOD_DATA = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
) | st.binary(max_size=8) | st.just("x" * 70_000)  # fmt: skip
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["order", "price"]),
    "subject": st.sampled_from([None, "a", "b"]),
    "properties": st.none() | st.dictionaries(st.sampled_from(["n", "amount"]), INT64 | st.booleans() | st.floats(-9, 9)),
    "priority": st.sampled_from([4, 4, 4, 7]),
    "ttl_ms": st.sampled_from([None, None, 600_000]),
    "delay_ms": st.sampled_from([0, 0, 0, 1]),
    "group": st.sampled_from([None, None, "g"]),
    "correlation_id": st.sampled_from([None, "c"]),
    "reply_to": st.sampled_from([None, "answers"]),
    "time": st.none() | st.datetimes(datetime(1960, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
}
GOOD_EVENTS = st.fixed_dictionaries({"data": GOOD_DATA}, optional=GOOD).map(made_of)

MIXTURES = st.lists(DATA | EVENTS, max_size=12) | st.lists(GOOD_DATA | GOOD_EVENTS, max_size=30)
GOOD_FIELDS: st.SearchStrategy[Any] = st.just({}) | st.fixed_dictionaries({}, optional=GOOD)
FIELDS_FOR_ALL: st.SearchStrategy[Any] = GOOD_FIELDS | st.fixed_dictionaries({}, optional=FEW)


def encoded(events: list[Any], fields: EventFields) -> tuple[list[Outgoing], BadEvent | TooLarge | None]:
    """What the encoder makes of the events, each by itself, and the error it ends with."""
    made: list[Outgoing] = []
    try:
        for portion in EventEncoder(fields, lambda: NOW_MS).portions(events):
            made += each_of(portion) if isinstance(portion, EncodedRun) else [portion]
    except (BadEvent, TooLarge) as problem:
        return made, problem
    return made, None


def each_of(run: EncodedRun) -> list[Outgoing]:
    heads = [decode_head(head) for head in run.heads]
    expiries = [head.expires_at_ms for head in heads if head.expires_at_ms]
    assert (run.earliest_expiry_ms, run.latest_expiry_ms) == (min(expiries, default=0), max(expiries, default=0))
    assert run.has_groups or not any(head.group is not None for head in heads)
    assert {index: head.id for index, head in enumerate(heads) if head.id is not None} == run.ids
    assert run.size >= sum(map(len, run.heads)) + sum(map(len, run.bodies))
    return [
        Outgoing(head, body, run.priority, 0, fields.expires_at_ms, fields.group is not None, fields.id)
        for head, fields, body in zip(run.heads, heads, run.bodies, strict=True)
    ]


def without_time(event: Outgoing) -> tuple[Head, Any]:
    """All of an event but the time at which it was encoded."""
    head = decode_head(event.head)
    head.time_us = 0
    return head, event[1:]


@pytest.mark.slow
@settings(max_examples=400)
@given(MIXTURES, FIELDS_FOR_ALL)
def test_many_are_encoded_as_each_of_them_would_be(events: list[Any], fields: EventFields) -> None:
    expected: list[Outgoing] = []
    problem: BadEvent | TooLarge | None = None
    try:
        for event in events:
            expected.append(prepare(event, fields, lambda: NOW_MS))
    except (BadEvent, TooLarge) as raised:
        problem = raised

    made, error = encoded(events, fields)

    if error is not None and error.index is None:  # the fields are wrong, whatever the data: told before any event is taken
        assert made == []
        assert not events or problem is not None
        return
    assert [without_time(event) for event in made] == [without_time(event) for event in expected]
    # The same bytes, too: equal heads stay alike for who compares them, as Spark's source does.
    assert [len(event.head) for event in made] == [len(event.head) for event in expected]
    times = [event.time if isinstance(event, Event) else None for event in events[: len(made)]]
    for event, other, time in zip(made, expected, times, strict=True):
        if fields.get("time", time) is not None:
            assert event.head == other.head
    if problem is None:
        assert error is None
    else:
        assert (type(error), error and error.index) == (type(problem), len(expected))
        assert error is not None and error.sentence.endswith(problem.sentence)


async def received(client: holdfast.Client, queue: str, receipts: list[holdfast.Receipt]) -> list[dict[str, Any]]:
    """The events in the order of their receipts, each with the type of every property."""
    found: dict[int, dict[str, Any]] = {}
    async with client.queue(queue).receive() as incoming:
        while len(found) < len(receipts):
            event = await incoming.next(timeout=30)
            fields = {name: getattr(event, name) for name in FIELDS if name not in ("id", "time", "ttl_ms", "delay_ms")}
            types = {name: type(value) for name, value in (event.properties or {}).items()}
            found[event.position] = {**fields, "data": event.data, "types": types, "id": event.id, "time": event.time}
            await event.confirm()
    assert [found[receipt.position]["id"] for receipt in receipts] == [receipt.id for receipt in receipts]
    return [found[receipt.position] for receipt in receipts]


@settings(max_examples=25)
@given(st.lists(GOOD_DATA | GOOD_EVENTS, max_size=20), GOOD_FIELDS)
def test_recipients_get_the_same_events_however_they_were_sent(events: list[Any], fields: Any) -> None:
    asyncio.run(send_both_ways(events, fields))


async def send_both_ways(events: list[Any], fields: Any) -> None:
    async with holdfast.connect("memory:") as client:
        many = list(await client.queue("many").send_many(events, **fields))
        singly = [await client.queue("singly").send(event, **fields) for event in events]

        got, expected = await received(client, "many", many), await received(client, "singly", singly)

        for event, other, sent in zip(got, expected, events, strict=True):
            has_time = fields.get("time", getattr(sent, "time", None)) is not None
            left_out = {"id"} if has_time else {"id", "time"}
            assert {name: event[name] for name in event if name not in left_out} == {
                name: other[name] for name in other if name not in left_out
            }
