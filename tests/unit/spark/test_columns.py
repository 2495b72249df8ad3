"""Events as columns (D1, D2): every column is what the event says, whichever way it was read."""

from __future__ import annotations

import gc
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import BatchDamaged
from holdfast.event.batch import Batch, UnreadBatch, encode
from holdfast.event.event import UNREADABLE_TYPE, Event, Head, LargeBody, encode_head
from holdfast.event.identifier import to_text
from holdfast.spark.columns.columns import BYTES_MAX, to_record_batches
from holdfast.spark.columns.heads import ALIKE_MIN, Heads
from holdfast.spark.columns.id_texts import id_texts
from holdfast.spark.columns.schema import COLUMNS, Layout
from holdfast.spark.columns.shape import Shape
from holdfast.spark.worker_memory import freeze_loaded
from tests.spark_slices import MadeSlice, plain_slice, rows_of, slice_of, slice_of_events

ALL = Layout.of()
NOW_US = 1_700_000_000_000_000


def table(slices: list[MadeSlice], layout: Layout = ALL) -> pa.Table:
    made = pa.Table.from_batches(list(to_record_batches(slices, layout)), layout.arrow)
    made.validate(full=True)
    return made


def test_plain_events_of_many_batches_become_rows_in_order() -> None:
    slices = [plain_slice(20 + entry, entry) for entry in range(1, 12)]

    assert table(slices).to_pylist() == rows_of(slices)


def test_heads_that_are_alike_are_decoded_once_for_all() -> None:
    slices = [plain_slice(50, entry) for entry in range(1, 5)]

    heads = Heads([each.batch for each in slices])

    assert len(heads.kinds) == 1
    assert len(heads.times_us) == 200


def test_heads_of_few_kinds_are_decoded_once_for_each_kind() -> None:
    kinds = [Head(type=type, properties={"region": region}) for type in ("a", "bbb") for region in ("eu", "asia")]
    slices = [
        slice_of([_at(kinds[index % 4], NOW_US + index) for index in range(begin, begin + 40)], [b"x"] * 40, first=begin << 16)
        for begin in (1, 3, 6, 10, 14, 15)
    ]
    slices.insert(2, plain_slice(30))

    assert len(Heads([each.batch for each in slices]).kinds) == 5
    assert table(slices).to_pylist() == rows_of(slices)


def _at(head: Head, time_us: int) -> Head:
    return Head(type=head.type, properties=head.properties, time_us=time_us)


@pytest.mark.parametrize("time_us", [0, 5, -5, 1 << 40, (1 << 63) + 5])
def test_a_head_of_few_kinds_with_an_odd_time_is_read_with_the_others(time_us: int) -> None:
    heads = [Head(type="a" if index % 2 else "bb", time_us=NOW_US + index) for index in range(40)]
    heads[17] = Head(type="a", time_us=time_us)

    found = table([slice_of(heads, [b""] * 40)], Layout.of(("time", "type")))

    expected = [min(head.time_us, 253_402_300_799_999_999) for head in heads]
    assert found.column("time").cast(pa.int64()).to_pylist() == expected
    assert found.column("type").to_pylist() == [head.type for head in heads]


def test_events_with_everything_set_become_rows() -> None:
    events = [
        Event(
            data=b"body %d" % index,
            type=f"type{index % 3}",
            source=None if index % 2 else f"/other/{index}",
            id=None if index % 3 else f"mine-{index}",
            time=datetime(2026, 1, 31, 8, index, tzinfo=UTC),
            subject="straße",
            dataschema="schema",
            properties={"s": "x", "i": index, "f": 1.5, "t": True, "b": False, "n": None},
            group=None if index % 2 else "g",
            correlation_id=str(index),
            reply_to="replies",
            ttl_ms=1000 + index,
        )
        for index in range(20)
    ]
    slices = [slice_of_events(events, priority=7, accepted_us=NOW_US, destination="a"), plain_slice(9), slice_of_events(events)]

    found = table(slices).to_pylist()

    assert found == rows_of(slices)
    assert found[0]["properties"] == [("s", "x"), ("i", "0"), ("f", "1.5"), ("t", "true"), ("b", "false"), ("n", None)]


@pytest.mark.parametrize("odd", [0, 7, ALIKE_MIN, 15])
def test_one_head_unlike_the_others_of_its_length_is_noticed(odd: int) -> None:
    heads = [Head(type="aaaa", time_us=NOW_US + index) for index in range(16)]
    heads[odd] = Head(type="bbbb", time_us=NOW_US)
    slices = [plain_slice(10), slice_of(heads, [b"x"] * 16), plain_slice(10)]

    assert table(slices).to_pylist() == rows_of(slices)


@pytest.mark.parametrize("time_us", [0, 1, 200, 70_000, 5_000_000_000, -1, -62_135_596_800_000_000, 253_402_300_799_999_999])
def test_any_time_that_python_can_show_is_read_however_it_was_written(time_us: int) -> None:
    slices = [slice_of([Head(time_us=time_us)] * count, [b"x"] * count) for count in (1, 20)]

    assert table(slices).to_pylist() == rows_of(slices)


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("time_us", [(1 << 64) - 1, 1 << 62, -(1 << 62)])
def test_a_time_that_nobody_can_show_is_the_nearest_that_can_be_shown(time_us: int, count: int) -> None:
    head = Head(time_us=time_us, expires_at_ms=abs(time_us))

    found = table([slice_of([head] * count, [b"x"] * count)]).to_pylist()

    assert {row["time"].year for row in found} == {9999 if time_us > 0 else 1}
    assert {row["expires_at"].year for row in found} == {9999}


def test_a_type_that_looks_like_a_time_does_not_mislead() -> None:
    """The bytes that come before a time, and its eight bytes, inside a text."""
    looks = "\u00e1m\u03c0abcdefgh"
    alike = [Head(type=looks, time_us=NOW_US + index) for index in range(12)]
    few = [Head(type=looks + str(index % 2) * (index % 3), time_us=NOW_US + index) for index in range(60)]
    slices = [slice_of(alike, [b""] * 12), slice_of(few, [b""] * 60)]

    assert table(slices).to_pylist() == rows_of(slices)


@pytest.mark.parametrize(
    "head",
    [b"\xc1 no head", b"", b"\x81\xa1t\xa2\xff\xff", b"\x82\xa1t\xa1x\xa1m\xcf\0\0", b"\x81\xa1z" + b"\x91" * 50_000 + b"\xc0"],
)
def test_a_head_that_cannot_be_read_does_not_hide_the_others(head: bytes) -> None:
    heads = [encode_head(Head(type="good", time_us=NOW_US))] * 5
    heads[2] = head
    batch = Batch(encode(heads, [b"a", b"b", b"c", b"d", b"e"], source="s", first_id=1))

    found = table([MadeSlice(65_536, 5, "orders", 0, batch)]).to_pylist()

    assert [row["type"] for row in found] == ["good", "good", UNREADABLE_TYPE, "good", "good"]
    assert [row["data"] for row in found] == [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize(
    "values",
    [
        ["x", "", None], [1, -(1 << 63), None], [True, False, None], [1.5, 1e20, float("inf")], [None, None, None],
        [1, True, "1"], [1, 1.0, None], [(1 << 64) - 1, 1, None],
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("names", [["a", "b"], ["a"], []])
def test_properties_are_written_the_same_whatever_else_stands_under_their_name(values: list[Any], names: list[str]) -> None:
    """Names that all events have, and names that only some have, are read in different ways."""
    maps = [{"n": value, **dict.fromkeys(names[: index % 3], value)} for index, value in enumerate(values * 3)]
    same = [{"n": value, **dict.fromkeys(names, value)} for value in values * 3]
    slices = [slice_of([Head(properties=each) for each in given], [b""] * 9) for given in (maps, same)]

    assert table(slices[:1]).to_pylist() == rows_of(slices[:1])
    assert table(slices[1:]).to_pylist() == rows_of(slices[1:])


def test_the_data_of_a_large_event_is_null_and_its_size_is_known() -> None:
    large = Head(time_us=NOW_US, large=LargeBody(1 << 40, 1 << 17, b"\xa1m\xcf" * 8))
    slices = [slice_of([large, Head(time_us=NOW_US), Head(time_us=NOW_US)], [b"", b"", b"small"])]

    for format, empty, small in (("binary", b"", b"small"), ("text", "", "small")):
        found = table(slices, Layout.of(("size", "data"), format)).to_pylist()  # type: ignore[arg-type]

        assert found == [{"size": 1 << 40, "data": None}, {"size": 0, "data": empty}, {"size": 5, "data": small}]


def test_text_that_is_not_utf_8_goes_to_bad_data_alone() -> None:
    bodies = [b"good", b"\xff\xfe", "straße".encode(), b"", "€".encode()[:2]]
    large = Head(large=LargeBody(9, 9, b""))
    made = slice_of([*[Head(time_us=NOW_US)] * 5, large], [*bodies, b""])

    found = table([made], Layout.of(("data", "bad_data", "size"), "text")).to_pylist()

    assert [row["data"] for row in found] == ["good", None, "straße", "", None, None]
    assert [row["bad_data"] for row in found] == [None, b"\xff\xfe", None, None, "€".encode()[:2], None]
    assert [row["size"] for row in found] == [4, 2, 7, 0, 2, 9]


@pytest.mark.parametrize("name", [*COLUMNS])
def test_a_column_is_the_same_whether_it_is_asked_for_alone_or_with_all_others(name: str) -> None:
    slices = [plain_slice(20), slice_of_events([Event(data="x", properties={"a": 1}, subject="s")] * 3)]
    everything = Layout.of(None, "text")

    alone = table(slices, Layout.of((name,), "text"))

    assert alone.column_names == [name]
    assert alone.column(0).to_pylist() == table(slices, everything).column(name).to_pylist()


def test_columns_come_in_the_order_in_which_they_were_asked_for() -> None:
    assert table([plain_slice(3)], Layout.of(("size", "destination"))).column_names == ["size", "destination"]


def test_record_batches_have_about_as_many_rows_as_wanted_whatever_the_slices() -> None:
    small = [made.num_rows for made in to_record_batches([plain_slice(30, entry) for entry in range(1, 101)], ALL, rows=1000)]
    large = [made.num_rows for made in to_record_batches([plain_slice(60_000, 1, size=4)], ALL)]

    assert small == [1020, 1020, 960]
    assert large == [10_000] * 6


def test_a_record_batch_ends_where_it_holds_some_megabytes() -> None:
    slices = [plain_slice(1, entry, size=1 << 20) for entry in range(1, 20)]

    sizes = [made.num_rows for made in to_record_batches(slices, ALL)]

    assert sum(sizes) == 19
    assert max(sizes) == BYTES_MAX >> 20


@pytest.mark.parametrize("count", [2, 30])
def test_lengths_of_bodies_that_do_not_add_up_are_damage_and_never_read(count: int) -> None:
    """Nothing has looked at them before, and Arrow believes them."""
    damaged = bytearray(plain_slice(count, size=8).batch.data)
    at = damaged.find((8).to_bytes(4, "little") * count)
    damaged[at : at + 4] = (1 << 31).to_bytes(4, "little")

    with pytest.raises(BatchDamaged):
        table([MadeSlice(65_536, count, "orders", 0, UnreadBatch(bytes(damaged)))], Layout.of(("data",)))


def test_nothing_gives_nothing() -> None:
    assert list(to_record_batches([], ALL)) == []


@pytest.mark.parametrize("first", [0, (1 << 20) - 3, (1 << 64) - 2, (1 << 100) + (1 << 40) - 7, (1 << 128) - 12])
def test_b14_texts_of_ids_that_count_up_are_those_of_each_id(first: int) -> None:
    found = id_texts([(first, 10), (5, 2)])

    found.validate(full=True)
    assert found.to_pylist() == [to_text(first + index) for index in range(10)] + [to_text(5), to_text(6)]


def test_what_a_worker_has_loaded_after_its_first_task_is_not_searched_for_garbage_again() -> None:
    freeze_loaded.cache_clear()
    try:
        before = gc.get_freeze_count()
        assert sum(made.num_rows for made in Shape(ALL, None).batches([plain_slice(50)])) == 50

        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_the_columns_of_most_events_are_made_without_pandas() -> None:
    """Importing it takes a worker of Spark a second, and what it loads is searched for garbage after every task."""
    program = (
        "import sys\n"
        "from holdfast.event.event import Event\n"
        "from holdfast.spark.columns.columns import to_record_batches\n"
        "from holdfast.spark.columns.schema import Layout\n"
        "from tests.spark_slices import plain_slice, slice_of_events\n"
        "some = [Event(data=kind, type=kind, properties={'kind': kind}) for kind in ('a', 'b') * 40]\n"
        "slices = [plain_slice(50, 1), slice_of_events(some)]\n"
        "assert sum(made.num_rows for made in to_record_batches(slices, Layout.of())) == 130\n"
        "sys.exit('pandas' in sys.modules)\n"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
