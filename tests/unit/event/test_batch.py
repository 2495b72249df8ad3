"""Batches: what is sealed comes back, slices are batches of their own, and no damage goes unnoticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.errors import BadEvent, BatchDamaged, UnknownVersion
from holdfast.event import batch as batch_module
from holdfast.event.batch import COUNT_MAX, FIXED_LENGTH, NESTING_MAX, Batch, count_of, encode, ids_run_over, verify
from holdfast.event.event import Head, PropertyValue, encode_head

HEADS = [b"head one", b"", b"head three"]
BODIES = [b"", b"body two", b"body three"]


def sealed(**others: int | bool) -> bytes:
    return encode(HEADS, BODIES, source="/täst", first_id=1 << 100, **others)  # type: ignore[arg-type]


def test_a_batch_gives_back_every_head_and_body() -> None:
    batch = Batch(sealed())

    batch.check()
    verify(sealed())
    assert batch.count == count_of(sealed()) == 3
    assert [bytes(batch.head(index)) for index in range(3)] == HEADS
    assert [bytes(batch.body(index)) for index in range(3)] == BODIES
    assert (batch.source, batch.first_id) == ("/täst", 1 << 100)


def test_the_fixed_head_says_what_plain_traffic_never_looks_at() -> None:
    plain = Batch(sealed())
    rich = Batch(sealed(priority=9, not_before_ms=5, earliest_expiry_ms=6, latest_expiry_ms=7, has_groups=True))

    assert (plain.priority, plain.not_before_ms, plain.has_groups, plain.has_expiry) == (4, 0, False, False)
    assert (rich.priority, rich.not_before_ms, rich.has_groups, rich.has_expiry) == (9, 5, True, True)
    assert (rich.earliest_expiry_ms, rich.latest_expiry_ms) == (6, 7)


def test_a_batch_is_read_where_it_lies() -> None:
    data = bytearray(sealed())
    batch = Batch(memoryview(data))

    data[-5:] = b"THREE"

    assert bytes(batch.body(2)) == b"body THREE"


def test_a_slice_is_a_whole_batch_of_its_own_with_the_ids_its_events_had() -> None:
    part = Batch(Batch(sealed(priority=7, has_groups=True)).slice(1, 2))

    part.check()
    assert (part.count, part.first_id, part.source, part.priority, part.has_groups) == (2, (1 << 100) + 1, "/täst", 7, True)
    assert [bytes(part.head(index)) for index in range(2)] == HEADS[1:]
    assert [bytes(part.body(index)) for index in range(2)] == BODIES[1:]


def test_a_slice_of_everything_is_the_batch_itself() -> None:
    data = sealed()

    assert bytes(Batch(data).slice(0, 3)) == data


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 0), (0, 4), (3, 1), (2, 2)])
def test_a_slice_outside_the_batch_is_an_error_of_the_program(first: int, count: int) -> None:
    with pytest.raises(IndexError):
        Batch(sealed()).slice(first, count)


def test_any_byte_changed_is_noticed() -> None:
    data = sealed(priority=7, latest_expiry_ms=9, earliest_expiry_ms=8)

    for place in range(len(data)):
        for flipped in (data[place] ^ 0x01, data[place] ^ 0x80, data[place] ^ 0xFF):
            changed = data[:place] + bytes([flipped]) + data[place + 1 :]

            if _is_accepted(changed):
                pytest.fail(f"byte {place} of {len(data)} was changed to {flipped:#x} and nobody noticed")


def _is_accepted(data: bytes) -> bool:
    """By either of the two that look: the one that reads, and the one that only verifies."""
    return _passes(lambda: Batch(data).check()) or _passes(lambda: verify(data))


def _passes(look: Callable[[], None]) -> bool:
    try:
        look()
    except (BatchDamaged, UnknownVersion):
        return False
    return True


def test_a_batch_cut_anywhere_is_noticed() -> None:
    data = sealed()

    for cut in [data[:length] for length in range(len(data))] + [data + b"x"]:
        assert not _is_accepted(cut)


def test_a_newer_format_is_not_called_damage() -> None:
    with pytest.raises(UnknownVersion, match="upgrade"):
        Batch(b"\x02" + sealed()[1:])


@pytest.mark.parametrize(("heads", "bodies"), [([], []), ([b"h"], []), ([b"h"], [b"b", b"b"]), ([b""] * (COUNT_MAX + 1),) * 2])
def test_a_batch_that_cannot_be_is_not_made(heads: list[bytes], bodies: list[bytes]) -> None:
    with pytest.raises(ValueError, match="a batch has"):
        encode(heads, bodies, source="s", first_id=1)


def test_the_largest_count_is_possible() -> None:
    batch = Batch(encode([b""] * COUNT_MAX, [b""] * COUNT_MAX, source="s", first_id=1))

    batch.check()
    assert batch.count == COUNT_MAX


def test_an_event_adds_eight_bytes_to_its_head_and_body() -> None:
    events = sum(8 + len(head) + len(body) for head, body in zip(HEADS, BODIES, strict=True))

    assert len(sealed()) == FIXED_LENGTH + len("/täst".encode()) + events


@pytest.mark.parametrize("count", [2, 3])
def test_ids_that_run_over_are_refused_and_the_last_ones_are_not(count: int) -> None:
    last = encode([b"h"] * count, [b"b"] * count, source="s", first_id=(1 << 128) - count)
    over = encode([b"h"] * count, [b"b"] * count, source="s", first_id=(1 << 128) - count + 1)

    verify(last)
    with pytest.raises(BadEvent, match="run past 128 bits"):
        verify(over)
    assert (ids_run_over(last), ids_run_over(over), ids_run_over(memoryview(over))) == (False, True, True)


@pytest.mark.parametrize(
    "said",
    [
        {"priority": 10},
        {"not_before_ms": 1 << 52},
        {"earliest_expiry_ms": 1, "latest_expiry_ms": 1 << 52},
        {"earliest_expiry_ms": 9, "latest_expiry_ms": 8},
        {"earliest_expiry_ms": 9},
        {"latest_expiry_ms": 9},
    ],
    ids=str,
)
def test_what_no_producer_can_mean_is_refused(said: dict[str, int]) -> None:
    with pytest.raises(BadEvent):
        verify(sealed(**said))


def test_a_source_that_is_no_text_is_refused_and_where_it_was_accepted_once_it_hides_nothing() -> None:
    data = encode(HEADS, BODIES, source="abc", first_id=1)
    broken = batch_module.sealed(data[:FIXED_LENGTH], data[FIXED_LENGTH:].replace(b"abc", b"a\xffc"))

    with pytest.raises(BadEvent, match="not UTF-8"):
        verify(broken)
    assert Batch(broken).source == "a\ufffdc"


def test_slices_of_a_batch_whose_ids_run_over_can_be_cut_all_the_same() -> None:
    over = Batch(encode(HEADS, BODIES, source="s", first_id=(1 << 128) - 1))

    part = Batch(over.slice(1, 2))

    part.check()
    assert part.first_id == 0


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\xde\x00\x01\xa1a"])
@pytest.mark.parametrize("events", [1, 3])
def test_a_head_that_not_everybody_could_read_is_refused(opening: bytes, events: int) -> None:
    def with_head(depth: int) -> bytes:
        deep = b"\x82\xa1t\xa1x\xa1z" + opening * depth + b"\xc0"
        return encode([*[b"\x80"] * (events - 1), deep], [b""] * events, source="s", first_id=1)

    verify(with_head(NESTING_MAX - 2))
    for depth in (NESTING_MAX, 900, 50_000):
        with pytest.raises(BadEvent, match=f"nested more than {NESTING_MAX} deep"):
            verify(with_head(depth))


@pytest.mark.parametrize(
    "properties",
    [{"text": "\u4e00\u05d0\u0400" * 2_000}, {f"p{number}": number for number in range(1_000)}, {"a": "x" * 100_000}],
    ids=["not-latin", "many", "long"],
)
def test_a_long_head_that_is_not_nested_is_accepted(properties: dict[str, PropertyValue]) -> None:
    verify(encode([encode_head(Head(properties=properties))], [b""], source="s", first_id=1))
