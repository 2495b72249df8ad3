"""Every row of the recovery table, and every combination of findings that leads to it (A11)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holdfast.channel.journal.files.layout import (
    HEADER_BYTES,
    MAGIC,
    NO_SNAPSHOT,
    DurableMark,
    Header,
    SnapshotPlace,
    encode_header,
    lead_checksum,
    segment_name,
    spare_header,
)
from holdfast.channel.journal.files.record import Stray
from holdfast.channel.journal.reading.recovery import (
    FoundSegment,
    Judged,
    JudgedTail,
    is_without_journal,
    judge_headers,
    judge_tail,
)
from holdfast.errors import HoldfastError, JournalDamaged, NotAJournal, UnknownVersion

ID = b"0123456789abcdef"
SIZE = 8192


def used(number: int, generation: int, previous: Header | None, *, oldest: int) -> Header:
    return Header(
        journal_id=ID, number=number, life=77 + generation, segment_bytes=SIZE, generation=generation,
        previous_generation=previous.generation if previous else 0, previous_number=previous.number if previous else 0,
        previous_end=4096 if previous else 0, first_entry=generation * 10, oldest_generation=oldest, snapshot=NO_SNAPSHOT,
    )  # fmt: skip


def found(header: Header, **changes: Any) -> FoundSegment:
    return FoundSegment(segment_name(header.number), SIZE, encode_header(header._replace(**changes)))


def chain(count: int, oldest: int = 1) -> list[Header]:
    headers: list[Header] = []
    for number in range(1, count + 1):
        headers.append(used(number, number, headers[-1] if headers else None, oldest=oldest))
    return headers


def damaged_at(verdict: Judged | JudgedTail | HoldfastError) -> tuple[object, object]:
    assert isinstance(verdict, JournalDamaged), verdict
    return verdict.fields["file"], verdict.fields["byte"]


# --- the folder: rows 1, 2 ---------------------------------------------------------------------------------------------


LEFT_BEHIND = ("owner.lock", "durable.mark", "segment-000001.hfj.preparing")


@pytest.mark.parametrize("names", [names for count in range(4) for names in itertools.combinations(LEFT_BEHIND, count)])
def test_row_1_a_folder_with_nothing_but_what_a_cut_creation_leaves_is_free(names: tuple[str, ...]) -> None:
    assert is_without_journal(names)
    assert not is_without_journal([*names, "segment-000001.hfj"])


def test_row_2_a_folder_with_foreign_files_and_no_journal_is_refused() -> None:
    with pytest.raises(NotAJournal, match=r"letter\.txt"):
        is_without_journal(["letter.txt", "owner.lock"])
    assert not is_without_journal(["letter.txt", "segment-000001.hfj"])


# --- one file: rows 3 to 7 ---------------------------------------------------------------------------------------------


def test_row_3_a_newer_version_is_unknown_not_damaged() -> None:
    newer = MAGIC + (9).to_bytes(4, "little") + lead_checksum(9).to_bytes(4, "little") + bytes(496)

    verdict = judge_headers([FoundSegment(segment_name(1), SIZE, newer)])

    assert isinstance(verdict, UnknownVersion)
    assert verdict.fields == {"version": 9}


@pytest.mark.parametrize("which", [0, 1, 2])
def test_row_4_a_header_with_any_byte_changed_is_damage_in_that_file(which: int) -> None:
    for byte in range(HEADER_BYTES):
        files = [found(header) for header in (*chain(2), spare_header(ID, 3, SIZE))]
        head = bytearray(files[which].head)
        head[byte] ^= 0x10
        files[which] = files[which]._replace(head=bytes(head))

        name, at = damaged_at(judge_headers(files))

        assert name == files[which].name
        assert isinstance(at, int)
        assert at <= byte


@pytest.mark.parametrize("head", [b"", bytes(511), bytes(512), b"something else entirely".ljust(512)])
def test_row_4_what_is_no_header_is_damage(head: bytes) -> None:
    assert damaged_at(judge_headers([FoundSegment(segment_name(1), SIZE, head)]))[0] == segment_name(1)


@pytest.mark.parametrize("size", [HEADER_BYTES, SIZE - 1, SIZE + 1])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_row_5_a_file_of_the_wrong_size_is_damage_at_its_end(size: int, which: int) -> None:
    files = [found(header) for header in (*chain(2), spare_header(ID, 3, SIZE))]
    files[which] = files[which]._replace(size=size)

    assert damaged_at(judge_headers(files)) == (files[which].name, min(size, SIZE))


@pytest.mark.parametrize("change", [{"journal_id": b"f" * 16}, {"segment_bytes": 2 * SIZE}, {"number": 1}])
def test_row_6_a_file_of_another_journal_size_or_name_is_damage(change: dict[str, Any]) -> None:
    first, second = chain(2)

    assert damaged_at(
        judge_headers([found(first), FoundSegment(segment_name(2), SIZE, encode_header(second._replace(**change)))])
    )[0] == segment_name(2)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_row_7_a_number_missing_among_the_files_is_damage_whatever_it_held(missing: int) -> None:
    headers = [*chain(2), spare_header(ID, 3, SIZE), spare_header(ID, 4, SIZE)]

    verdict = judge_headers([found(header) for header in headers if header.number != missing])

    assert damaged_at(verdict)[0] == segment_name(missing)


# --- the chain: rows 8 to 12 -------------------------------------------------------------------------------------------


def test_row_8_two_segments_of_one_generation_are_damage() -> None:
    first, second = chain(2)

    assert damaged_at(judge_headers([found(first), found(second, generation=1)]))[0] == segment_name(2)


def test_row_9_segments_that_were_never_used_are_an_empty_journal() -> None:
    spares = tuple(spare_header(ID, number, SIZE) for number in (1, 2, 3))

    assert judge_headers([found(header) for header in spares]) == Judged((), (), spares, 0)


@pytest.mark.parametrize("numbers", [*itertools.permutations((1, 2, 3))])
@pytest.mark.parametrize("oldest", [1, 2, 3])
def test_row_10_a_whole_chain_is_in_use_and_the_rest_is_spare_however_the_files_are_numbered(
    numbers: tuple[int, ...], oldest: int
) -> None:
    headers: list[Header] = []
    for generation, number in enumerate(numbers, 1):
        headers.append(used(number, generation, headers[-1] if headers else None, oldest=min(oldest, generation)))

    verdict = judge_headers([found(header) for header in (*headers, spare_header(ID, 4, SIZE))])

    assert isinstance(verdict, Judged)
    assert verdict.chain == tuple(headers[oldest - 1 :])
    assert {header.number for header in verdict.spares} == {4, *numbers[: oldest - 1]}
    assert verdict.highest_generation == 3


def test_row_10_a_segment_that_was_given_up_is_passed_over_and_spare() -> None:
    """Generation 2 was begun and its sync failed; generation 3 went on from generation 1."""
    first = used(1, 1, None, oldest=1)
    given_up, third = used(2, 2, first, oldest=1), used(3, 3, first, oldest=1)

    verdict = judge_headers([found(first), found(given_up), found(third)])

    assert verdict == Judged((), (first, third), (given_up,), 3)


def test_row_10_the_newest_snapshot_is_kept_before_the_chain() -> None:
    headers = chain(5)
    newest = headers[-1]._replace(oldest_generation=5, snapshot=SnapshotPlace(7, 2, 600, 3, 3, 900))

    verdict = judge_headers([found(header) for header in (*headers[:-1], newest)])

    assert isinstance(verdict, Judged)
    assert [header.generation for header in verdict.kept] == [2, 3]
    assert [header.generation for header in verdict.chain] == [5]
    assert [header.generation for header in verdict.spares] == [1, 4]


@pytest.mark.parametrize("reused", [2, 3])
def test_row_11_a_segment_of_the_newest_snapshot_missing_is_damage(reused: int) -> None:
    headers = chain(5)
    headers[-1] = headers[-1]._replace(oldest_generation=5, snapshot=SnapshotPlace(7, 2, 600, 3, 3, 900))
    headers[reused - 1] = spare_header(ID, reused, SIZE)

    assert isinstance(judge_headers([found(header) for header in headers]), JournalDamaged)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_row_11_a_link_missing_in_the_middle_or_at_the_beginning_is_damage(lost: int) -> None:
    headers = chain(4)
    headers[lost - 1] = spare_header(ID, lost, SIZE)

    assert damaged_at(judge_headers([found(header) for header in headers]))[0] == segment_name(lost)


@pytest.mark.parametrize("oldest", [0, 9])
def test_row_11_an_oldest_generation_that_no_chain_leads_to_is_damage(oldest: int) -> None:
    headers = chain(3)
    headers[-1] = headers[-1]._replace(oldest_generation=oldest)

    assert isinstance(judge_headers([found(header) for header in headers]), JournalDamaged)


@pytest.mark.parametrize(
    "change", [{"previous_end": 100}, {"previous_end": SIZE + 1}, {"first_entry": 1}, {"previous_number": 3}], ids=str
)
def test_row_12_a_link_that_cannot_be_is_damage(change: dict[str, Any]) -> None:
    headers = chain(3)

    verdict = judge_headers([found(headers[0]), found(headers[1], **change), found(headers[2])])

    assert damaged_at(verdict)[0] == segment_name(2)


# --- the tail: rows 13 to 18 -------------------------------------------------------------------------------------------

END, NEXT = 2000, 31
TAIL = used(1, 3, None, oldest=3)
NOTHING: list[Stray] = []
SAME_GROUP = [Stray(2400, 2480, 2000), Stray(2480, 2560, 1800)]
LATER_GROUP = [Stray(2400, 2480, 2000), Stray(2480, 2560, 2480)]


def mark(generation: int, end: int, entry: int, journal_id: bytes = ID) -> DurableMark:
    return DurableMark(journal_id, generation, end, entry)


MODEST = [None, mark(3, END, NEXT - 1), mark(3, 512, 0), mark(2, 8000, NEXT - 1), mark(2, 8000, 3)]


@pytest.mark.parametrize("modest", MODEST)
def test_row_13_a_tail_that_ends_in_nothing_is_used_as_it_is(modest: DurableMark | None) -> None:
    assert judge_tail(TAIL, END, NEXT, NOTHING, modest) == JudgedTail(END, END)


@pytest.mark.parametrize("modest", MODEST)
def test_row_14_right_records_of_the_same_group_behind_a_wrong_one_are_erased(modest: DurableMark | None) -> None:
    verdict = judge_tail(TAIL, END, NEXT, SAME_GROUP, modest)

    assert verdict == JudgedTail(END, 2560)
    assert isinstance(verdict, JudgedTail)
    assert verdict.is_torn


@pytest.mark.parametrize("modest", MODEST)
def test_row_14_the_head_of_a_record_that_was_only_begun_is_erased(modest: DurableMark | None) -> None:
    assert judge_tail(TAIL, END, NEXT, NOTHING, modest, is_begun=True) == JudgedTail(END, END + 24)


@pytest.mark.parametrize("any_mark", [*MODEST, mark(3, END + 8, NEXT)])
def test_row_15_a_later_group_behind_a_wrong_record_is_damage_whatever_the_mark_says(any_mark: DurableMark | None) -> None:
    assert damaged_at(judge_tail(TAIL, END, NEXT, LATER_GROUP, any_mark)) == (segment_name(1), END)


@pytest.mark.parametrize("strays", [NOTHING, SAME_GROUP])
@pytest.mark.parametrize("claim", [mark(3, END + 8, NEXT - 1), mark(3, END, NEXT), mark(2, 8000, NEXT)])
def test_row_16_less_than_the_mark_says_is_damage(strays: list[Stray], claim: DurableMark) -> None:
    assert damaged_at(judge_tail(TAIL, END, NEXT, strays, claim)) == (segment_name(1), END)


@pytest.mark.parametrize("strays", [NOTHING, SAME_GROUP])
def test_row_17_a_mark_of_a_newer_generation_means_that_the_newest_segment_is_missing(strays: list[Stray]) -> None:
    verdict = judge_tail(TAIL, END, NEXT, strays, mark(4, 512, 3))

    assert isinstance(verdict, JournalDamaged)
    assert "generation 4, is missing" in verdict.sentence


def test_row_18_a_mark_of_another_journal_is_damage() -> None:
    assert damaged_at(judge_tail(TAIL, END, NEXT, NOTHING, mark(3, END, 1, b"x" * 16)))[0] == "durable.mark"
