"""Gathering streams: parts put in order, and another server that goes on where one stopped."""

from __future__ import annotations

import pytest

from holdfast.continuity.answer import Answer, Head, Part, body_digest, of_answer
from holdfast.continuity.answer_body import HELD_BYTES_MAX, Held
from holdfast.continuity.machines.gathering import Begin, Chunk, Cut, End, Gathering, Resume
from tests.unit.continuity.machines.gathered_parts import BODY, body_of, piece, says, told, whole


def test_a_stream_begins_with_its_first_part_and_ends_with_its_last() -> None:
    gathering = Gathering("t1", ["a", "b"])

    out = [gathering.part("a", piece(*cut), 0.1) for cut in ((0, 5), (5, 9), (9, len(BODY)))]

    assert [type(each) for outs in out for each in outs] == [Begin, Chunk, Chunk, Chunk, End]


def test_parts_are_put_in_order_and_a_gap_is_asked_for_once() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", piece(0, 5), 0.1)

    assert gathering.part("a", piece(9, 12), 0.2) == [Resume("a", 5)]
    assert gathering.part("a", piece(12, len(BODY)), 0.3) == []
    assert body_of(gathering.part("a", piece(5, 9), 0.4)) == BODY[5:]


def test_missing_parts_are_asked_for_again_until_they_come() -> None:
    gathering = Gathering("t1", ["a", "b"], part_wait=1.0)
    gathering.part("a", piece(0, 5), 0.0)

    assert gathering.wake_at == 1.0
    assert gathering.tick(1.0) == [Resume("a", 5)]
    assert gathering.tick(2.0) == [Resume("a", 5)]


def test_status_and_headers_that_were_missed_are_asked_for_again() -> None:
    gathering = Gathering("t1", ["a"], now=0.0, part_wait=1.0)

    assert gathering.part("a", piece(5, len(BODY)), 0.5) == []
    assert gathering.tick(1.0) == [Resume("a", 0)]
    assert body_of(gathering.part("a", piece(0, 5), 1.1)) == BODY


@pytest.mark.parametrize("is_lost", [True, False])
def test_another_server_goes_on_where_the_first_stopped(is_lost: bool) -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", piece(0, 9), 0.1)
    gathering.part("b", whole(), 0.2)

    out = gathering.lost("a", 0.3) if is_lost else gathering.part("a", says("failed", "cut"), 0.3)
    rest = gathering.part("b", piece(9, len(BODY)), 0.4)

    assert out == [Resume("b", 9)]
    assert body_of(rest) == BODY[9:] and End("b", b"same") in rest


def test_a_server_that_cut_its_parts_elsewhere_goes_on_without_being_asked() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", piece(0, 9), 0.1)
    gathering.part("b", piece(0, 4), 0.2)

    assert gathering.lost("a", 0.3) == []
    assert gathering.part("b", piece(4, 8), 0.4) == []
    assert body_of(gathering.part("b", piece(8, 15), 0.5)) == BODY[9:15]


@pytest.mark.parametrize(
    "other",
    [
        whole(b"another body of the lng"),
        whole(BODY + b"!"),
        whole(BODY, 201),
        of_answer("t1", 7, Answer(Head(200, [], -1), BODY)),
    ],
)
def test_an_answer_that_began_otherwise_does_not_go_on_and_the_client_is_cut(other: Part) -> None:
    gathering = Gathering("t1", ["a", "b"], error_wait=2.0)
    gathering.part("a", piece(0, 9), 0.1)
    gathering.part("b", other, 0.2)

    out = gathering.part("a", says("failed", "reset"), 0.3)
    if out == [Resume("b", 9)]:
        tail = Part("t1", 9, 9, other.body[9:], other.digest, True)
        out = gathering.part("b", tail, 0.4)

    assert [type(each) for each in told(out)] == [Cut]


def test_a_body_that_ends_before_its_length_is_never_complete() -> None:
    gathering = Gathering("t1", ["a"])
    short = Part("t1", 1, 5, BODY[5:9], body_digest(BODY[:9]), True)

    gathering.part("a", piece(0, 5), 0.1)

    assert [type(each) for each in told(gathering.part("a", short, 0.2))] == [Cut]


def test_a_lost_server_that_comes_back_goes_on_with_its_own_stream() -> None:
    gathering = Gathering("t1", ["a"], error_wait=2.0)
    gathering.part("a", piece(0, 9), 0.1)

    assert gathering.lost("a", 0.2) == []
    assert gathering.back("a", 0.3) == [Resume("a", 9)]
    assert body_of(gathering.part("a", piece(9, len(BODY)), 0.4)) == BODY[9:]


def test_a_stream_that_goes_silent_is_cut_when_its_time_is_over() -> None:
    gathering = Gathering("t1", ["a", "b"], answer_timeout=5.0)
    gathering.part("b", says("failed", "reset"), 0.0)
    gathering.part("a", piece(0, 9), 1.0)

    assert [type(each) for each in gathering.tick(5.9)] == [Resume]
    assert [type(each) for each in told(gathering.tick(6.0))] == [Cut]


def test_a_stream_that_goes_silent_is_cut_in_time_although_another_server_never_answered() -> None:
    gathering = Gathering("t1", ["a", "b"], answer_timeout=5.0)
    gathering.part("a", piece(0, 9), 1.0)

    assert [type(each) for each in told(gathering.tick(6.0))] == [Cut]


def test_parts_of_other_servers_are_not_kept_while_one_streams() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("b", piece(0, 5, status=500), 0.1)
    gathering.part("a", piece(0, 5), 0.2)
    gathering.part("b", piece(5, 9, status=500), 0.3)

    assert len(gathering._servers["b"].held) == 0


def test_parts_that_wait_are_bounded_and_the_part_that_is_needed_first_has_room() -> None:
    held = Held()
    size = HELD_BYTES_MAX // 4
    for place in (1, 2, 3, 4, 5, 0):
        held.put(Part("t1", place, place * size, b"x" * size, is_last=False))

    assert held.bytes == HELD_BYTES_MAX and len(held) == 4
    assert [held.take(place * size) is not None for place in range(6)] == [True, True, True, True, False, False]
    assert held.bytes == 0
