"""Records and the index, by the byte."""

from __future__ import annotations

import random

import pytest

from holdfast.channel.journal.files.layout import (
    HEADER_BYTES,
    DurableMark,
    Header,
    SnapshotPlace,
    decode_header,
    decode_mark,
    encode_header,
    encode_mark,
)
from holdfast.channel.journal.files.record import COMMAND, HEAD_BYTES, RELEASED, Note, Passage, encode, padded, scan, skim, strays
from holdfast.channel.journal.files.segment import POINT_SPACING_BYTES, Index

LIFE, SEED = 0xA1B2C3D4, 0x12345678


def written(
    payloads: list[bytes], *, at: int = HEADER_BYTES, group: int = HEADER_BYTES, life: int = LIFE, seed: int = SEED
) -> bytes:
    data = b""
    for entry, payload in enumerate(payloads, 1):
        data += b"".join(encode(COMMAND, payload, entry, at=at + len(data), group=HEADER_BYTES, life=life, seed=seed))
    return data


def scanned(data: bytes, *, at: int = HEADER_BYTES, entry: int = 1) -> Passage:
    return scan(data, at, life=LIFE, seed=SEED, entry=entry)


def test_a_header_and_a_mark_come_back_as_they_were_written() -> None:
    header = Header(b"i" * 16, 7, 99, 1 << 23, 12, 11, 6, 8_000_000, 1 << 40, 3, SnapshotPlace(55, 4, 600, 9, 5, 700))
    mark = DurableMark(b"i" * 16, 12, 5000, 1 << 41)

    assert decode_header(encode_header(header)) == header
    assert len(encode_header(header)) == HEADER_BYTES
    assert decode_mark(encode_mark(mark)) == mark


def test_records_of_every_length_come_back_and_begin_at_multiples_of_eight() -> None:
    payloads = [bytes([length]) * length for length in range(40)]

    passage = scanned(written(payloads))

    assert [bytes(command) for command in passage.commands(1, 40)] == payloads
    assert passage.end == HEADER_BYTES + sum(padded(len(payload)) for payload in payloads)
    assert padded(0) == HEAD_BYTES
    assert all(padded(length) % 8 == 0 for length in range(40))


@pytest.mark.parametrize("change", [{"life": LIFE + 1}, {"seed": SEED + 1}, {"at": HEADER_BYTES + 8}], ids=str)
def test_a_record_of_another_life_or_at_another_place_is_none(change: dict[str, int]) -> None:
    assert len(scanned(written([b"stale"], **change))) == 0


def test_a_record_with_a_number_that_is_not_the_next_is_none() -> None:
    assert len(scanned(written([b"one"]), entry=2)) == 0


def test_a_scan_ends_before_the_first_wrong_record_and_strays_finds_those_behind_it() -> None:
    data = bytearray(written([b"a" * 50, b"b" * 50, b"c" * 50, b"d" * 50]))
    size = padded(50)
    data[size + HEAD_BYTES] ^= 1

    passage = scanned(bytes(data))
    found = list(strays(bytes(data[size:]), HEADER_BYTES + size, life=LIFE, seed=SEED))

    assert (len(passage), passage.end) == (1, HEADER_BYTES + size)
    assert [stray.byte for stray in found] == [HEADER_BYTES + 2 * size, HEADER_BYTES + 3 * size]


def test_a_copy_of_a_record_inside_a_payload_is_not_taken_for_a_record() -> None:
    inner = written([b"I am inside"])
    data = bytearray(written([inner * 3]))
    data[0] ^= 1

    assert list(strays(bytes(data), HEADER_BYTES, life=LIFE, seed=SEED)) == []


def test_notes_are_told_from_commands_and_take_no_number() -> None:
    note = b"".join(encode(RELEASED, b"12345678", 1, at=HEADER_BYTES, group=HEADER_BYTES, life=LIFE, seed=SEED))
    data = note + written([b"first"], at=HEADER_BYTES + len(note))

    passage = scanned(data)

    assert [(found.kind, found.byte, found.payload) for found in passage.notes] == [(RELEASED, HEADER_BYTES, b"12345678")]
    assert bytes(passage.command(1)) == b"first"


def test_random_bytes_are_no_records() -> None:
    dice = random.Random(1)
    for _ in range(200):
        data = dice.randbytes(2000)
        assert len(scanned(data)) == 0
        assert list(strays(data, HEADER_BYTES, life=LIFE, seed=SEED)) == []


def test_the_index_holds_one_point_per_64_kib_and_nothing_per_entry() -> None:
    """Ten million entries of a hundred bytes: a fifth of a megabyte."""
    index = Index(1)
    for number in range(1, 200_001):
        index.note(number, HEADER_BYTES + number * 128)

    assert len(index._numbers) <= 200_000 * 128 // POINT_SPACING_BYTES + 1
    assert index._numbers.itemsize + index._bytes.itemsize == 12


def mixed() -> tuple[bytes, list[int]]:
    """Three commands with a note behind each, and where the notes stand."""
    data, places = b"", []
    for entry in range(1, 4):
        data += b"".join(encode(COMMAND, b"c" * 99, entry, at=HEADER_BYTES + len(data), group=HEADER_BYTES, life=LIFE, seed=SEED))
        places.append(HEADER_BYTES + len(data))
        data += b"".join(encode(RELEASED, b"%d" % entry * 8, entry + 1, at=places[-1], group=HEADER_BYTES, life=LIFE, seed=SEED))
    return data, places


def test_skimming_finds_the_notes_that_a_scan_finds() -> None:
    data, places = mixed()

    skimmed = skim(data + bytes(100), HEADER_BYTES, life=LIFE, seed=SEED)

    assert skimmed.notes == scanned(data).notes == [Note(RELEASED, at, b"%d" % n * 8) for n, at in enumerate(places, 1)]
    assert skimmed.end == HEADER_BYTES + len(data)


def test_no_flipped_bit_makes_skimming_take_a_note_that_was_not_written() -> None:
    data, _ = mixed()
    written_notes = scanned(data).notes

    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found = skim(bytes(flipped), HEADER_BYTES, life=LIFE, seed=SEED).notes
        assert all(note in written_notes for note in found), f"bit {bit}"
