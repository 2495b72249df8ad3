"""Events, batches, identifiers and positions against what they promise, over generated input."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BatchDamaged, UnknownVersion
from holdfast.event import event as words
from holdfast.event import position
from holdfast.event.batch import Batch, encode, verify
from holdfast.event.event import Event, decode_data, from_microseconds, to_head_and_body
from holdfast.event.identifier import COUNTER_MAX, Counter, Parts, Starts, compose, from_text, take_apart, to_text
from holdfast.event.position import Ranges

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=20)
PROPERTY_NAMES = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,10}", fullmatch=True)
PROPERTY_VALUES = st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | TEXT
PROPERTIES = st.dictionaries(PROPERTY_NAMES, PROPERTY_VALUES, max_size=5)
JSON_DATA = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
EVENTS = st.builds(
    Event,
    data=JSON_DATA,
    type=st.text(min_size=1, max_size=20),
    source=st.none() | st.text(min_size=1, max_size=20),
    id=st.none() | st.text(min_size=1, max_size=20),
    time=TIMES,
    subject=st.none() | TEXT,
    datacontenttype=st.just("application/json"),
    dataschema=st.none() | TEXT,
    properties=st.none() | PROPERTIES,
    priority=st.integers(0, 9),
    group=st.none() | TEXT,
    correlation_id=st.none() | TEXT,
    reply_to=st.none() | TEXT,
)
PARTS = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), min_size=1, max_size=12)


@given(EVENTS)
def test_a1_what_travels_of_an_event_is_what_was_sent(event: Event) -> None:
    head, body = to_head_and_body(event)
    arrived = words.decode_head(words.encode_head(head))

    assert decode_data(body, arrived.datacontenttype) == event.data
    assert from_microseconds(arrived.time_us) == event.time
    assert (arrived.type, arrived.source, arrived.id) == (event.type, event.source, event.id)
    assert (arrived.subject, arrived.dataschema, arrived.group) == (event.subject, event.dataschema, event.group)
    assert (arrived.correlation_id, arrived.reply_to) == (event.correlation_id, event.reply_to)
    assert (arrived.properties or {}) == (event.properties or {})


@given(PARTS, st.text(max_size=20), st.integers(0, (1 << 128) - 100), st.data())
def test_every_slice_of_a_batch_is_a_batch_of_those_events(
    parts: list[tuple[bytes, bytes]], source: str, first_id: int, data: st.DataObject
) -> None:
    heads, bodies = [head for head, _ in parts], [body for _, body in parts]
    batch = Batch(encode(heads, bodies, source=source, first_id=first_id, priority=3))
    first = data.draw(st.integers(0, len(parts) - 1))
    count = data.draw(st.integers(1, len(parts) - first))

    part = Batch(batch.slice(first, count))

    part.check()
    verify(part.data)
    assert (part.count, part.first_id, part.source, part.priority) == (count, first_id + first, source, 3)
    assert [(bytes(part.head(index)), bytes(part.body(index))) for index in range(count)] == parts[first : first + count]


@given(PARTS, st.data())
def test_a_slice_of_a_slice_is_the_slice_that_was_meant(parts: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    batch = Batch(encode([head for head, _ in parts], [body for _, body in parts], source="s", first_id=5))
    outer = data.draw(st.integers(0, len(parts) - 1))
    inner = data.draw(st.integers(0, len(parts) - 1 - outer))

    via = Batch(Batch(batch.slice(outer, len(parts) - outer)).slice(inner, 1))

    assert bytes(via.data) == bytes(batch.slice(outer + inner, 1))


@given(PARTS, st.data())
def test_a_batch_with_any_bytes_changed_is_refused(parts: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """CRC-32C finds every change within 32 bits in a row for certain; longer ones all but one in four billion times."""
    sealed = encode([head for head, _ in parts], [body for _, body in parts], source="source", first_id=1)
    place = data.draw(st.integers(0, len(sealed) - 1))
    changed = bytearray(sealed)
    for index in range(place, min(len(sealed), place + data.draw(st.integers(1, 4)))):
        changed[index] ^= data.draw(st.integers(1, 255))

    with pytest.raises((BatchDamaged, UnknownVersion)):
        Batch(bytes(changed)).check()
    with pytest.raises((BatchDamaged, UnknownVersion)):
        verify(bytes(changed))


@given(st.binary(max_size=200))
def test_bytes_that_were_never_a_batch_are_refused_and_nothing_else_happens(garbage: bytes) -> None:
    for data in (garbage, b"\x01" + garbage):
        with pytest.raises((BatchDamaged, UnknownVersion)):
            Batch(data).check()


@given(st.integers(0, (1 << 128) - 1), st.integers(0, (1 << 128) - 1))
def test_b14_texts_and_bytes_of_identifiers_sort_as_the_identifiers_do(one: int, other: int) -> None:
    assert from_text(to_text(one)) == one
    assert compose(take_apart(one)) == one
    assert (to_text(one) < to_text(other)) == (one < other) == (one.to_bytes(16, "big") < other.to_bytes(16, "big"))


# What a node goes through: its clock jumps anywhere, it takes identifiers, it is opened again from what was durable.
CLOCK = st.integers(0, 1 << 40)
STEPS = st.lists(st.tuples(CLOCK, st.booleans(), st.integers(1, 1 << 31)), min_size=1, max_size=30)


@given(STEPS)
def test_b14_identifiers_are_unique_and_grow_through_restarts_clock_jumps_and_overflows(
    steps: list[tuple[int, bool, int]],
) -> None:
    starts = Starts(site=1, node=2)
    counter = Counter.of(starts, starts.take(0))
    end = 0  # one past the newest identifier

    for now_ms, is_restart, count in steps:
        if is_restart:
            starts = Starts(site=1, node=2, limit=starts.limit)
        if is_restart or counter.left < count:  # overflow of the counter advances the start
            counter = Counter.of(starts, starts.take(now_ms))
        first = counter.take(count)

        assert first >= end
        assert take_apart(first).start_ms < starts.limit
        assert take_apart(first + count - 1) == Parts(take_apart(first).start_ms, 1, 2, take_apart(first).counter + count - 1)
        end = first + count


def test_b14_a_counter_gives_every_identifier_of_its_start_and_not_one_more() -> None:
    counter = Counter(compose(Parts(7, 1, 1, COUNTER_MAX - 99)))

    taken = [counter.take() for _ in range(100)]

    assert taken == list(range(taken[0], taken[0] + 100))
    assert counter.left == 0


@given(st.integers(0, (1 << 47) - 1), st.integers(0, 65_535))
def test_rule_1_a_position_is_its_entry_and_its_index(entry: int, index: int) -> None:
    found = position.of(entry, index)

    assert found == entry * 65_536 + index
    assert (position.entry_of(found), position.index_of(found)) == (entry, index)


RANGES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=15)


@given(RANGES)
def test_gathered_ranges_hold_the_same_positions_ascending_and_apart(ranges: list[tuple[int, int]]) -> None:
    gathered = Ranges.gather(ranges)

    found = list(gathered)
    assert {number for first, last in found for number in range(first, last + 1)} == {
        number for first, last in ranges for number in range(first, last + 1)
    }
    assert all(before[1] + 1 < after[0] for before, after in pairwise(found))
    assert Ranges.from_bytes(gathered.to_bytes()) == gathered


@given(st.binary(max_size=64))
def test_bytes_are_ranges_that_ascend_or_are_refused(data: bytes) -> None:
    try:
        found = list(Ranges.from_bytes(data))
    except ValueError:
        return

    assert all(first <= last for first, last in found)
    assert all(before[1] < after[0] for before, after in pairwise(found))
