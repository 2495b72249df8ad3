"""Rows as events (D3): what a frame says is what is sent, and what cannot be sent is refused with row and column."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdfast.client.sending.outgoing import EVENT_BYTES_MAX
from holdfast.errors import BadEvent, BadName, Refused, TooLarge
from holdfast.event.batch import Batch, verify
from holdfast.event.event import Head, LargeBody, decode_head
from holdfast.event.identifier import Counter
from holdfast.spark.columns.columns import to_record_batches
from holdfast.spark.columns.schema import PROPERTIES, TIMESTAMP, Layout
from holdfast.spark.sink.row_columns import KNOWN, RowColumns
from holdfast.spark.sink.rows import BATCH_BYTES, Encoded, RowSettings, to_batches
from tests.spark_slices import MadeSlice, plain_slice, rows_of, slice_of

NOW_US = 1_700_000_000_123_456
ORDERS = RowSettings(source="/spark", destination="orders")
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def sent(rows: pa.Table | pa.RecordBatch, settings: RowSettings = ORDERS) -> list[Encoded]:
    return list(to_batches(rows, settings, Counter(1 << 64), NOW_US))


def events(rows: pa.Table | pa.RecordBatch, settings: RowSettings = ORDERS) -> list[tuple[str, Head, bytes, int]]:
    """Destination, head, body and priority of everything that is sent."""
    found = []
    for each in sent(rows, settings):
        verify(each.batch)
        batch = Batch(each.batch)
        assert batch.count == each.events
        found += [
            (each.destination, decode_head(batch.head(i)), bytes(batch.body(i)), batch.priority) for i in range(batch.count)
        ]
    return found


def heads(columns: dict[str, Any], settings: RowSettings = ORDERS) -> list[Head]:
    count = len(next(iter(columns.values())))
    return [head for _, head, _, _ in events(pa.table({"data": [b""] * count, **columns}), settings)]


def test_data_alone_becomes_plain_events_with_ids_that_count_up() -> None:
    (made,) = sent(pa.table({"data": [b"a", b"", None, b"dd"]}))
    batch = Batch(made.batch)

    assert (made.destination, made.kind, made.events) == ("orders", "topic", 4)
    assert (batch.source, batch.first_id, batch.priority, batch.has_groups, batch.has_expiry) == (
        "/spark",
        1 << 64,
        4,
        False,
        False,
    )
    assert [bytes(batch.body(index)) for index in range(4)] == [b"a", b"", b"", b"dd"]
    assert decode_head(batch.head(3)) == Head(time_us=NOW_US, datacontenttype="application/octet-stream")


def test_no_rows_are_no_batches() -> None:
    assert sent(pa.table({"data": pa.array([], pa.binary())})) == []


@pytest.mark.parametrize("name", ["data", "value"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_text_and_bytes_are_sent_as_they_are_under_either_name(name: str, kind: pa.DataType) -> None:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    column = pa.array(["straße", None, "x"] if is_text else ["straße".encode(), None, b"x"], kind)

    found = events(pa.table({name: column}))

    assert [body for _, _, body, _ in found] == ["straße".encode(), b"", b"x"]
    assert {head.datacontenttype for _, head, _, _ in found} == {"text/plain" if is_text else "application/octet-stream"}


def test_structs_arrays_and_maps_are_sent_as_json() -> None:
    struct = {
        "n": 1,
        "d": Decimal("1.50"),
        "t": LATER,
        "day": date(2026, 1, 31),
        "b": b"hi",
        "m": [("k", [("x", 1)])],
        "l": [None],
    }
    kind = pa.struct(
        [
            ("n", pa.int64()), ("d", pa.decimal128(9, 2)), ("t", TIMESTAMP), ("day", pa.date32()), ("b", pa.binary()),
            ("m", pa.map_(pa.string(), pa.map_(pa.string(), pa.int32()))), ("l", pa.list_(pa.struct([("z", pa.int8())]))),
        ]
    )  # fmt: skip

    found = events(pa.table({"data": pa.array([struct, None], kind)}))
    lists = events(pa.table({"data": [[1, 2], []]}))

    assert [body for _, _, body, _ in found] == [
        b'{"n":1,"d":"1.50","t":"2030-01-01T00:00:00Z","day":"2026-01-31","b":"aGk=","m":{"k":{"x":1}},"l":[null]}',
        b"",
    ]
    assert [body for _, _, body, _ in lists] == [b"[1,2]", b"[]"]
    assert {head.datacontenttype for _, head, _, _ in found + lists} == {"application/json"}


def test_rows_go_where_they_say_in_their_order_and_else_where_the_option_says() -> None:
    rows = pa.table(
        {"data": [b"0", b"1", b"2", b"3", b"4"], "destination": ["b", "a", None, "b", "a"], "priority": [4, 4, 4, 9, None]}
    )

    found = [(destination, body, priority) for destination, _, body, priority in events(rows)]

    assert sorted(found) == [("a", b"1", 4), ("a", b"4", 4), ("b", b"0", 4), ("b", b"3", 9), ("orders", b"2", 4)]
    assert [body for destination, body, _ in found if destination == "a"] == [b"1", b"4"]


def test_types_and_times_may_differ_between_plain_events() -> None:
    times = pa.array([LATER, None, datetime(1970, 1, 2, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)], pa.timestamp("ms", "UTC"))
    types = ["a", None, "b", "a"]

    found = heads({"type": types, "time": times})
    only_types = heads({"type": types}, RowSettings(source="s", destination="d", type="usual"))

    assert [(head.type, head.time_us) for head in found] == [
        ("a", 1_893_456_000_000_000), ("event", NOW_US), ("b", 86_400_000_000), ("a", 946_684_800_000_000),
    ]  # fmt: skip
    assert [(head.type, head.time_us) for head in only_types] == [(each, NOW_US) for each in ("a", "usual", "b", "a")]


def test_a_time_before_1970_or_just_after_is_sent_too() -> None:
    moments = [datetime(1960, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]

    assert [head.time_us for head in heads({"time": pa.array(moments, TIMESTAMP)})] == [-315_619_200_000_000, 0, 1_000_000]


def test_everything_else_a_row_says_is_in_its_event() -> None:
    columns = {
        "id": ["mine", None], "source": ["/else", None], "subject": ["s", ""], "datacontenttype": ["text/csv", None],
        "dataschema": ["x", None], "event_group": ["g", None], "correlation_id": ["c", None], "reply_to": ["r", None],
        "properties": pa.array([[("a", "1"), ("b", None)], []], PROPERTIES), "expires_at": pa.array([LATER, None], TIMESTAMP),
    }  # fmt: skip

    first, second = heads(columns)
    (made,) = sent(pa.table({"data": [b"", b""], **columns}))

    assert first == Head(
        time_us=NOW_US, id="mine", source="/else", subject="s", datacontenttype="text/csv", dataschema="x", group="g",
        correlation_id="c", reply_to="r", properties={"a": "1", "b": None}, expires_at_ms=1_893_456_000_000,
    )  # fmt: skip
    assert second == Head(time_us=NOW_US, subject="", datacontenttype="application/octet-stream")
    batch = Batch(made.batch)
    assert batch.has_groups
    assert (batch.earliest_expiry_ms, batch.latest_expiry_ms) == (1_893_456_000_000, 1_893_456_000_000)


@pytest.mark.parametrize(("kind", "values"), [(pa.int64(), [3, None]), (pa.float64(), [0.5, None]), (pa.bool_(), [True, None])])
def test_properties_may_be_numbers_and_booleans(kind: pa.DataType, values: list[Any]) -> None:
    properties = pa.array([[("x", values[0]), ("y", values[1])], None], pa.map_(pa.string(), kind))

    assert [head.properties for head in heads({"properties": properties})] == [{"x": values[0], "y": values[1]}, None]


def test_properties_in_json_come_back_with_their_types() -> None:
    given: list[dict[str, Any] | None] = [{"s": "1", "i": 1, "f": 1.0, "t": True, "n": None, "most": (1 << 63) - 1}, None]
    layout = Layout.of(("data", "properties"), properties="json")
    slices = [slice_of([Head(properties=each, time_us=NOW_US) for each in given], [b""] * 2)]
    read = pa.Table.from_batches(list(to_record_batches(slices, layout)))

    found = [head.properties for _, head, _, _ in events(read)]

    assert read.column("properties").to_pylist()[1] == "{}"
    assert found == given
    assert [type(value) for value in (found[0] or {}).values()] == [str, int, float, bool, type(None), int]


def test_what_the_options_say_holds_for_every_row() -> None:
    settings = RowSettings(
        source="s", destination="d", kind="queue", datacontenttype="application/json", priority=7, ttl_ms=1000, delay_ms=500
    )

    (made,) = sent(pa.table({"data": ["{}", "[]"]}), settings)
    batch = Batch(made.batch)

    now_ms = NOW_US // 1000
    assert (made.kind, batch.priority, batch.not_before_ms) == ("queue", 7, now_ms + 500)
    assert (batch.earliest_expiry_ms, batch.latest_expiry_ms) == (now_ms + 1000, now_ms + 1000)
    assert decode_head(batch.head(0)) == Head(time_us=NOW_US, expires_at_ms=now_ms + 1000)


def test_batches_are_closed_at_their_size_and_a_large_row_is_alone() -> None:
    sizes = [100] * 1000 + [500_000] + [100] * 10

    made = sent(pa.table({"data": [b"x" * size for size in sizes]}))

    counts = [each.events for each in made]
    assert sum(counts) == len(sizes)
    assert all(len(each.batch) <= BATCH_BYTES + 1000 for each in made if each.events > 1)
    assert 1 in counts
    assert [len(Batch(each.batch).body(0)) for each in made if each.events == 1] == [500_000]


def test_a_part_of_a_larger_table_is_sent_and_nothing_of_the_rest() -> None:
    table = pa.table({"data": ["a", "b", "c", "d"], "destination": ["w", "x", "y", "z"]})

    assert [(where, body) for where, _, body, _ in events(table.slice(1, 2))] == [("x", b"b"), ("y", b"c")]
    assert [body for _, _, body, _ in events(pa.concat_tables([table.slice(3, 1), table.slice(0, 1)]))] == [b"d", b"a"]


def test_what_was_read_is_sent_as_it_was() -> None:
    """Columns that only a read event has are passed over; data that did not fit goes back as it came."""
    heads = [Head(type="t", time_us=NOW_US, properties={"a": "1"}, subject="s")] * 2
    read = [plain_slice(10), slice_of(heads, [b"good", b"\xff"], first=1 << 17)]
    table = pa.Table.from_batches(to_record_batches(read, Layout.of(None, "text")))

    made = sent(table, RowSettings(source="/spark"))
    again = [MadeSlice(0, each.events, each.destination, 0, Batch(each.batch)) for each in made]

    ignored = ("position", "accepted_at")
    assert [{**row, **dict.fromkeys(ignored)} for row in rows_of(again)] == [
        {**row, **dict.fromkeys(ignored)} for row in rows_of(read)
    ]


def test_a_large_event_that_was_read_is_not_sent_without_its_data() -> None:
    read = slice_of([Head(time_us=NOW_US), Head(time_us=NOW_US, large=LargeBody(9, 9, b""))], [b"", b""])
    table = pa.Table.from_batches(to_record_batches([read], Layout.of()))

    with pytest.raises(BadEvent, match=r"row 1, column 'data': it is null, and 'size' says 9: a large event"):
        sent(table)
    assert len(events(table.drop_columns("size"))) == 2


def refusal(columns: dict[str, Any], settings: RowSettings = ORDERS) -> Refused:
    with pytest.raises(Refused) as caught:
        list(to_batches(pa.table(columns), settings, Counter(0), NOW_US, first_row=100))
    return caught.value


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"destination": ["a", None]}, "row 101, column 'destination': there is none"),
        ({"destination": pa.array([None, None], pa.string())}, "row 100, column 'destination': there is none"),
        ({}, "row 100, column 'destination': there is none"),
        ({"destination": ["a", "b c"]}, "row 101, column 'destination': destination 'b c' contains ' '"),
        ({"destination": ["a", ""]}, "row 101, column 'destination': the name of a destination is empty"),
        ({"destination": ["a", "_DMQ"]}, "row 101, column 'destination': only Holdfast itself sends"),
        ({"destination": ["a", "_mine"]}, "row 101, column 'destination': destination '_mine'"),
        ({"destination": [1, 2]}, "column 'destination' is int64, and is to be a string; cast it"),
    ],
)
def test_a_destination_that_is_none_is_refused(columns: dict[str, Any], said: str) -> None:
    error = refusal({"data": [b"", b""], **columns}, RowSettings(source="s"))

    assert error.sentence.startswith(said)
    assert isinstance(error, BadEvent | BadName)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"priority": [1, 10]}, "row 101, column 'priority': 10 is outside 0..9"),
        ({"priority": [-1, None]}, "row 100, column 'priority': -1 is outside 0..9"),
        ({"priority": ["1", "2"]}, "column 'priority' is string, and is to be a whole number"),
        ({"type": ["a", ""]}, "row 101, column 'type': it is empty"),
        ({"id": ["", "a"]}, "row 100, column 'id': it is empty"),
        ({"source": ["", "a"]}, "row 100, column 'source': it is empty"),
        ({"subject": [1, 2]}, "column 'subject' is int64, and is to be a string"),
        ({"time": ["a", "b"]}, "column 'time' is string, and is to be a timestamp with a time zone"),
        ({"time": pa.array([0, 0], pa.timestamp("us"))}, "column 'time' is timestamp[us], and is to be"),
        ({"time": pa.array([0, 1 << 62], TIMESTAMP)}, "row 101, column 'time': it is not in the years 1 to 9999"),
        ({"expires_at": pa.array([-1000, None], TIMESTAMP)}, "row 100, column 'expires_at': it is not in the years 1970"),
        ({"properties": ["{}", "b"]}, "row 101, column 'properties': 'b' is not a JSON object"),
        ({"properties": ["{}", "[1]"]}, "row 101, column 'properties': '[1]' is not a JSON object"),
        ({"properties": ['{"a": 1}', '{"a": [1]}']}, "row 101, column 'properties': property 'a' has type list"),
        (
            {"properties": ['{"a": 1}', f'{{"a": {1 << 64}}}']},
            "row 101, column 'properties': property 'a' = 18446744073709551616",
        ),
        ({"properties": [1, 2]}, "column 'properties' is int64, and is to be a map of strings"),
        ({"properties": pa.array([[], [("a b", "")]], PROPERTIES)}, "row 101, column 'properties': property name 'a b'"),
        ({"properties": pa.array([[("a", [1])]] * 2, pa.map_(pa.string(), pa.list_(pa.int8())))}, "column 'properties' is map"),
        (
            {"properties": pa.array([[("a", 1.0)], [("a", math.nan)]], pa.map_(pa.string(), pa.float64()))},
            "row 101, column 'properties': property 'a' is nan",
        ),
        ({"data": [{"price": 1.5}, {"price": math.inf}]}, "row 101, column 'data': data has inf at $.price"),
        (
            {"data": [{"lines": [{"p": None}]}, {"lines": [{"p": math.nan}]}]},
            "row 101, column 'data': data has nan at $.lines[0].p",
        ),
        ({"bad_data": ["x", "y"]}, "column 'bad_data' is string, and is to be binary"),
        ({"value": [b"", b""]}, "there are both 'data' and 'value'"),
        ({"destinaton": ["a", "b"]}, "column 'destinaton' has no place in an event. Did you mean 'destination'?"),
        ({"amount": [1, 2]}, "column 'amount' has no place in an event. There are: data, value, destination"),
    ],
)
def test_a_row_that_cannot_be_an_event_is_refused_with_row_and_column(columns: dict[str, Any], said: str) -> None:
    error = refusal({"data": [b"", b""], **columns})

    assert type(error) is BadEvent
    assert error.sentence.startswith(said)
    assert error.fields["column"] in columns


@pytest.mark.parametrize("data", [[1, 2], [1.5, 2.5], [True, False], [date(2026, 1, 1), None]])
def test_data_that_is_neither_bytes_nor_text_nor_a_document_is_refused(data: list[Any]) -> None:
    assert "is to be binary, a string, or a struct, array or map" in refusal({"data": data}).sentence


def test_types_are_known_to_be_wrong_before_there_is_a_row() -> None:
    with pytest.raises(BadEvent, match="column 'priority' is string, and is to be a whole number; cast it"):
        RowColumns(pa.table({"data": [b""], "priority": ["1"]}).schema.empty_table())


def test_a_column_of_nothing_but_nulls_of_no_type_says_nothing() -> None:
    nothing = {name: pa.nulls(1) for name in KNOWN if name != "value"}

    (made,) = sent(pa.table(nothing))

    assert decode_head(Batch(made.batch).head(0)) == Head(time_us=NOW_US)


def test_rows_without_data_are_refused_and_those_with_two_columns_of_a_name() -> None:
    assert "there is no column 'data' (nor 'value') in type; name what" in refusal({"type": ["a"]}).sentence

    twice = pa.table([pa.array([b""]), pa.array(["a"]), pa.array(["b"])], names=["data", "type", "type"])
    with pytest.raises(BadEvent, match="two columns 'type'"):
        sent(twice)


def test_a_row_over_the_limit_is_refused_with_its_size() -> None:
    error = refusal({"data": [b"", b"x" * EVENT_BYTES_MAX]})

    assert isinstance(error, TooLarge)
    assert error.sentence.startswith(f"row 101 is an event of {error.fields['size']} bytes")
    assert error.fields["size"] > EVENT_BYTES_MAX


def test_every_column_of_a_read_event_may_be_sent() -> None:
    assert set(Layout.of(None, "text").columns) <= set(KNOWN)
