"""Events as columns and columns as events (D1 to D3), against the slow way of one event at a time, over generated input."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.event.batch import Batch, verify
from holdfast.event.event import Head, LargeBody
from holdfast.event.identifier import Counter
from holdfast.spark.columns.columns import to_record_batches
from holdfast.spark.columns.schema import COLUMNS, Layout
from holdfast.spark.sink.rows import RowSettings, to_batches
from tests.spark_slices import MadeSlice, rows_of, slice_of

pytestmark = pytest.mark.slow

MOMENTS_US = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
TEXT = st.text(max_size=8)
NAMES = st.sampled_from(["a", "b_1", "$x", "long_name"])
VALUES = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | TEXT
HEADS = st.builds(
    Head,
    type=st.sampled_from(["event", "order.placed", "\u00e1m\u03c0abcdefgh", "straße"]),
    time_us=MOMENTS_US | st.integers(1_700_000_000_000_000, 1_700_000_001_000_000),
    id=st.none() | st.text(min_size=1, max_size=8),
    source=st.none() | st.text(min_size=1, max_size=8),
    subject=st.none() | TEXT,
    datacontenttype=st.sampled_from(["application/json", "text/plain"]),
    dataschema=st.none() | TEXT,
    properties=st.none() | st.dictionaries(NAMES, VALUES, max_size=4),
    group=st.none() | TEXT,
    correlation_id=st.none() | TEXT,
    reply_to=st.none() | TEXT,
    expires_at_ms=st.just(0) | st.integers(1, 253_402_300_799_999),
)
LARGE = st.none() | st.builds(LargeBody, st.integers(0, 1 << 50), st.integers(1, 1 << 18), st.binary(max_size=32))


@st.composite
def alike_heads(draw: st.DrawFn) -> list[Head]:
    """Heads that differ in their time, as those of most batches; now and then one of them is another."""
    like = draw(HEADS)
    times = draw(st.lists(st.integers(1_700_000_000_000_000, 1_700_000_001_000_000), min_size=1, max_size=30))
    made = [_with(like, time_us=time_us) for time_us in times]
    if draw(st.integers(0, 3)) == 0:
        made[draw(st.integers(0, len(made) - 1))] = draw(HEADS)
    return made


def _with(head: Head, **changed: Any) -> Head:
    return Head(**{name: getattr(head, name) for name in Head.__struct_fields__} | changed)


@st.composite
def made_slices(draw: st.DrawFn, with_large: bool = True) -> MadeSlice:
    heads = draw(alike_heads() | st.lists(HEADS, min_size=1, max_size=12))
    bodies = draw(st.lists(st.binary(max_size=12), min_size=len(heads), max_size=len(heads)))
    if with_large and (large := draw(LARGE)) is not None:
        heads[0], bodies[0] = _with(heads[0], large=large), b""
    return slice_of(
        heads,
        bodies,
        first=draw(st.integers(1, 1 << 40)) << 16,
        first_id=draw(st.integers(0, (1 << 128) - 100) | st.just((1 << 60) - 5)),
        destination=draw(st.sampled_from(["orders", "alerts.eu"])),
        accepted_us=draw(st.just(0) | st.integers(1, 1 << 50)),
        source=draw(TEXT),
        priority=draw(st.integers(0, 9)),
    )


@given(st.lists(made_slices(), max_size=6), st.integers(1, 50))
def test_columns_are_what_each_event_says(slices: list[MadeSlice], rows: int) -> None:
    layout = Layout.of()

    found = pa.Table.from_batches(list(to_record_batches(slices, layout, rows)), layout.arrow)

    found.validate(full=True)
    assert found.to_pylist() == rows_of(slices)


@given(st.lists(made_slices(), min_size=1, max_size=3), st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True))
def test_columns_that_are_asked_for_are_those_of_all(slices: list[MadeSlice], names: list[str]) -> None:
    everything = pa.Table.from_batches(to_record_batches(slices, Layout.of(None, "text")))

    some = pa.Table.from_batches(to_record_batches(slices, Layout.of(tuple(names), "text")))

    some.validate(full=True)
    assert some.equals(everything.select(names))


def _as_sent(row: dict[str, Any]) -> dict[str, Any]:
    """What of a read event stays when it is sent again: ids and sources are then named, times of expiry whole milliseconds."""
    return {name: value for name, value in row.items() if name not in ("position", "accepted_at")}


@given(st.lists(made_slices(with_large=False), min_size=1, max_size=4), st.integers(100, 5000))
def test_what_was_read_and_is_sent_again_is_the_same_events(slices: list[MadeSlice], batch_bytes: int) -> None:
    table = pa.Table.from_batches(to_record_batches(slices, Layout.of()))
    named = [row for row in rows_of(slices) if row["source"]]
    table = table.filter(pa.compute.not_equal(table["source"], ""))

    made = list(to_batches(table, RowSettings(source="/x", batch_bytes=batch_bytes), Counter(7), 1_800_000_000_000_000))
    again = [MadeSlice(0, each.events, each.destination, 0, Batch(each.batch)) for each in made]

    for each in made:
        verify(each.batch)
    for destination in ("orders", "alerts.eu"):
        for priority in range(10):
            lane = {"destination": destination, "priority": priority}
            assert [_as_sent(row) for row in rows_of(again) if lane.items() <= row.items()] == [
                _as_sent(row) for row in named if lane.items() <= row.items()
            ]


MOMENTS = st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=10), st.none() | st.sampled_from(["a", "b"]), MOMENTS), min_size=1),
    st.booleans(),
)
def test_plain_rows_are_the_events_that_they_would_be_one_by_one(rows: list[tuple[Any, Any, Any]], has_times: bool) -> None:
    """Heads that are put together from parts are those that an encoder writes."""
    columns = {"data": pa.array([row[0] for row in rows], pa.binary()), "type": pa.array([row[1] for row in rows], pa.string())}
    if has_times:
        columns["time"] = pa.array([row[2] for row in rows], pa.timestamp("us", "UTC"))
    now = datetime(2026, 1, 31, tzinfo=UTC)

    made = list(to_batches(pa.table(columns), RowSettings(source="s", destination="d"), Counter(0), round(now.timestamp() * 1e6)))
    found = rows_of([MadeSlice(0, each.events, each.destination, 0, Batch(each.batch)) for each in made])

    assert [(row["data"], row["type"], row["time"]) for row in found] == [
        (data or b"", type or "event", (time if has_times else None) or now) for data, type, time in rows
    ]
