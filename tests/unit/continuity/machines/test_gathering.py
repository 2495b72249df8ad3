"""Gathering: which answer the client gets, of the answers of several servers."""

from __future__ import annotations

import itertools

import pytest

from holdfast.continuity.answer import Answer, Head, Outcome, Part, body_digest, of_answer, without
from holdfast.continuity.machines.answer_body import HELD_BYTES_MAX, Held
from holdfast.continuity.machines.gathering import Begin, Chunk, Cut, Decided, End, Error, Gathering, Out, Resume

BODY = b"the answer is forty-two"


def _whole(body: bytes = BODY, status: int = 200, outcome: Outcome = "answered", comparison: bytes = b"same") -> Part:
    return of_answer("t1", 7, Answer(Head(status, [], len(body)), body, comparison), outcome)


def _says(outcome: Outcome, reason: str = "") -> Part:
    return without("t1", 7, outcome, reason)


def _piece(
    begin: int, end: int, *, body: bytes = BODY, status: int = 200, length: int = len(BODY), comparison: bytes = b""
) -> Part:
    head = Head(status, [], length) if begin == 0 else None
    return Part(
        "t1", begin, begin, body[begin:end], body_digest(body[:end]), end >= len(body), "answered", head, comparison, "", 7
    )  # fmt: skip


def _told(out: list[Out]) -> list[Out]:
    return [each for each in out if not isinstance(each, Decided)]


def _body(out: list[Out]) -> bytes:
    return b"".join(each.body for each in out if isinstance(each, Chunk))


def _decided(out: list[Out]) -> Decided:
    (decided,) = (each for each in out if isinstance(each, Decided))
    return decided


# --- the first answer wins (5) -------------------------------------------------------------------------------------------


def test_the_first_answer_below_500_wins_and_the_second_is_only_compared() -> None:
    gathering = Gathering("t1", ["a", "b"], "first", 2.0, 0.0)

    first, second = gathering.part("b", _whole(), 0.1), gathering.part("a", _whole(), 0.2)

    assert first == [Begin(Head(200, [], len(BODY)), False, "b"), Chunk(BODY), End("b", b"same")]
    assert second == [Decided({"a": b"same", "b": b"same"}, "b", {})]
    assert gathering.wake_at is None


def test_an_empty_answer_has_no_chunk() -> None:
    assert Gathering("t1", ["a"]).part("a", _whole(b"", 204), 0.1)[:2] == [Begin(Head(204, [], 0), False, "a"), End("a", b"same")]


def test_an_answer_to_head_names_a_length_and_has_no_body() -> None:
    answer = of_answer("t1", 7, Answer(Head(200, [], 1_234), b""))

    assert _told(Gathering("t1", ["a"]).part("a", answer, 0.1)) == [Begin(answer.head, False, "a"), End("a")]  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [_whole(b"oh", 500), _says("failed", "reset"), _says("failed", "timed out after 10 s")])
def test_an_error_does_not_win_while_another_server_may_answer(bad: Part) -> None:
    gathering = Gathering("t1", ["a", "b"], "first", 2.0, 0.0)

    assert gathering.part("a", bad, 0.1) == []
    assert _body(gathering.part("b", _whole(), 1.9)) == BODY


def test_a_500_wins_when_all_have_answered() -> None:
    gathering = Gathering("t1", ["a", "b"], "first", 2.0, 0.0)

    gathering.part("a", _says("failed", "reset"), 0.1)

    assert _told(gathering.part("b", _whole(b"oh", 500), 0.2)) == [
        Begin(Head(500, [], 2), False, "b"),
        Chunk(b"oh"),
        End("b", b"same"),
    ]


def test_a_500_wins_after_error_wait_and_a_failure_does_not() -> None:
    with_answer, without_answer = (Gathering("t1", ["a", "b"], "first", 2.0, 0.0) for _ in range(2))
    with_answer.part("a", _whole(b"oh", 503), 0.5)
    without_answer.part("a", _says("failed", "reset"), 0.5)

    assert with_answer.wake_at == 2.5 and with_answer.tick(2.4) == []
    assert _body(with_answer.tick(2.5)) == b"oh"
    assert without_answer.tick(2.5) == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ([_says("failed", "reset"), _says("failed", "timed out")], 502),
        ([_says("failed", "timed out"), _says("failed", "timed out")], 504),
        ([_says("declined", "behind"), _says("declined", "behind")], 503),
        ([_says("gone"), _says("gone")], 410),
        ([_says("differs"), _says("differs")], 409),
        ([_says("differs"), _says("gone")], 409),
        ([_says("differs"), _says("failed", "reset")], 409),
        ([_says("gone"), _says("failed", "reset")], 502),
        ([_says("gone"), _says("failed", "timed out")], 504),
    ],
)
def test_when_nobody_has_an_answer_the_error_says_why(said: list[Part], status: int) -> None:
    gathering = Gathering("t1", ["a", "b"])

    assert gathering.part("a", said[0], 0.1) == []
    (error,) = _told(gathering.part("b", said[1], 0.2))

    assert isinstance(error, Error) and error.status == status


def test_no_answer_in_time_is_504_and_a_later_one_is_still_compared() -> None:
    gathering = Gathering("t1", ["a", "b"], now=0.0, answer_timeout=5.0, compare_wait=3.0)

    (error,) = gathering.tick(5.0)
    gathering.part("a", _whole(), 6.0)

    assert isinstance(error, Error) and error.status == 504
    assert gathering.wake_at == 8.0
    assert gathering.tick(8.0) == [Decided({"a": b"same"}, "", {"b": "silent"})]


# --- known keys (9)-(11) -------------------------------------------------------------------------------------------------


def test_a_replayed_answer_wins_and_is_marked() -> None:
    gathering = Gathering("t1", ["a", "b"])

    assert gathering.part("a", _says("gone"), 0.1) == []
    begin, *_ = gathering.part("b", _whole(outcome="replayed"), 0.2)

    assert begin == Begin(Head(200, [], len(BODY)), True, "b")


def test_a_clash_is_422_at_once() -> None:
    (error,) = Gathering("t1", ["a", "b"]).part("a", _says("clash"), 0.1)

    assert isinstance(error, Error) and error.status == 422


def test_gone_is_410_only_if_all_say_so() -> None:
    gathering = Gathering("t1", ["a", "b"], now=0.0, answer_timeout=5.0)

    gathering.part("a", _says("gone"), 0.1)
    (error,) = gathering.tick(5.0)

    assert isinstance(error, Error) and error.status == 504


# --- two equal answers (6) -----------------------------------------------------------------------------------------------


def test_agreed_waits_for_two_equal_answers() -> None:
    gathering = Gathering("t1", ["a", "b", "c"], "agreed")

    assert gathering.part("a", _whole(b"lie", comparison=b"other"), 0.1) == []
    assert gathering.part("b", _whole(), 0.2) == []
    out = gathering.part("c", _whole(), 0.3)

    assert _body(out) == BODY and _decided(out).kinds == {"a": "wrong"}


def test_agreed_is_502_as_soon_as_no_two_can_be_equal() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")

    gathering.part("a", _whole(comparison=b"1"), 0.1)
    (error,) = _told(out := gathering.part("b", _whole(comparison=b"2"), 0.2))

    assert isinstance(error, Error) and error.status == 502
    assert _decided(out).named == ("a", "b") and _decided(out).kinds == {}


def test_agreed_gives_an_error_on_which_two_agree_only_when_nothing_better_may_come() -> None:
    gathering = Gathering("t1", ["a", "b", "c"], "agreed")

    assert gathering.part("a", _whole(b"oh", 500, comparison=b"e"), 0.1) == []
    assert gathering.part("b", _whole(b"oh", 500, comparison=b"e"), 0.2) == []

    assert _body(gathering.part("c", _whole(), 0.3)) == b"oh"


def test_agreed_with_one_server_is_the_first() -> None:
    assert _body(Gathering("t1", ["a"], "agreed").part("a", _whole(), 0.1)) == BODY


def test_agreed_becomes_the_first_when_all_others_are_removed() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")

    gathering.part("a", _whole(), 0.1)

    assert _body(gathering.lost("b", 0.2, "removed")) == BODY


def test_agreed_fetches_a_body_that_was_too_large_to_hold() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")
    large = b"x" * (HELD_BYTES_MAX + 10)
    cuts = [0, HELD_BYTES_MAX, len(large)]
    for server in ("a", "b"):
        for begin, end in itertools.pairwise(cuts):
            out = gathering.part(server, _piece(begin, end, body=large, length=len(large), comparison=b"c"), 0.1)

    assert out[-1] == Resume("a", HELD_BYTES_MAX) and len(_body(out)) == HELD_BYTES_MAX
    assert _told(gathering.part("a", _piece(cuts[1], cuts[2], body=large, comparison=b"c"), 0.2))[-1] == End("a", b"c")


# --- streams (20), (22) --------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_its_first_part_and_ends_with_its_last() -> None:
    gathering = Gathering("t1", ["a", "b"])

    out = [gathering.part("a", _piece(*cut), 0.1) for cut in ((0, 5), (5, 9), (9, len(BODY)))]

    assert [type(each) for outs in out for each in outs] == [Begin, Chunk, Chunk, Chunk, End]


def test_parts_are_put_in_order_and_a_gap_is_asked_for_once() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", _piece(0, 5), 0.1)

    assert gathering.part("a", _piece(9, 12), 0.2) == [Resume("a", 5)]
    assert gathering.part("a", _piece(12, len(BODY)), 0.3) == []
    assert _body(gathering.part("a", _piece(5, 9), 0.4)) == BODY[5:]


def test_missing_parts_are_asked_for_again_until_they_come() -> None:
    gathering = Gathering("t1", ["a", "b"], part_wait=1.0)
    gathering.part("a", _piece(0, 5), 0.0)

    assert gathering.wake_at == 1.0
    assert gathering.tick(1.0) == [Resume("a", 5)]
    assert gathering.tick(2.0) == [Resume("a", 5)]


def test_status_and_headers_that_were_missed_are_asked_for_again() -> None:
    gathering = Gathering("t1", ["a"], now=0.0, part_wait=1.0)

    assert gathering.part("a", _piece(5, len(BODY)), 0.5) == []
    assert gathering.tick(1.0) == [Resume("a", 0)]
    assert _body(gathering.part("a", _piece(0, 5), 1.1)) == BODY


@pytest.mark.parametrize("is_lost", [True, False])
def test_another_server_goes_on_where_the_first_stopped(is_lost: bool) -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", _piece(0, 9), 0.1)
    gathering.part("b", _whole(), 0.2)

    out = gathering.lost("a", 0.3) if is_lost else gathering.part("a", _says("failed", "cut"), 0.3)
    rest = gathering.part("b", _piece(9, len(BODY)), 0.4)

    assert out == [Resume("b", 9)]
    assert _body(rest) == BODY[9:] and End("b", b"same") in rest


def test_a_server_that_cut_its_parts_elsewhere_goes_on_without_being_asked() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", _piece(0, 9), 0.1)
    gathering.part("b", _piece(0, 4), 0.2)

    assert gathering.lost("a", 0.3) == []
    assert gathering.part("b", _piece(4, 8), 0.4) == []
    assert _body(gathering.part("b", _piece(8, 15), 0.5)) == BODY[9:15]


@pytest.mark.parametrize(
    "other",
    [
        _whole(b"another body of the lng"),
        _whole(BODY + b"!"),
        _whole(BODY, 201),
        of_answer("t1", 7, Answer(Head(200, [], -1), BODY)),
    ],
)
def test_an_answer_that_began_otherwise_does_not_go_on_and_the_client_is_cut(other: Part) -> None:
    gathering = Gathering("t1", ["a", "b"], error_wait=2.0)
    gathering.part("a", _piece(0, 9), 0.1)
    gathering.part("b", other, 0.2)

    out = gathering.part("a", _says("failed", "reset"), 0.3)
    if out == [Resume("b", 9)]:
        tail = Part("t1", 9, 9, other.body[9:], other.digest, True)
        out = gathering.part("b", tail, 0.4)

    assert [type(each) for each in _told(out)] == [Cut]


def test_a_body_that_ends_before_its_length_is_never_complete() -> None:
    gathering = Gathering("t1", ["a"])
    short = Part("t1", 1, 5, BODY[5:9], body_digest(BODY[:9]), True)

    gathering.part("a", _piece(0, 5), 0.1)

    assert [type(each) for each in _told(gathering.part("a", short, 0.2))] == [Cut]


def test_a_lost_server_that_comes_back_goes_on_with_its_own_stream() -> None:
    gathering = Gathering("t1", ["a"], error_wait=2.0)
    gathering.part("a", _piece(0, 9), 0.1)

    assert gathering.lost("a", 0.2) == []
    assert gathering.back("a", 0.3) == [Resume("a", 9)]
    assert _body(gathering.part("a", _piece(9, len(BODY)), 0.4)) == BODY[9:]


def test_a_stream_that_goes_silent_is_cut_when_its_time_is_over() -> None:
    gathering = Gathering("t1", ["a", "b"], answer_timeout=5.0)
    gathering.part("b", _says("failed", "reset"), 0.0)
    gathering.part("a", _piece(0, 9), 1.0)

    assert [type(each) for each in gathering.tick(5.9)] == [Resume]
    assert [type(each) for each in _told(gathering.tick(6.0))] == [Cut]


def test_parts_of_other_servers_are_not_kept_while_one_streams() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("b", _piece(0, 5, status=500), 0.1)
    gathering.part("a", _piece(0, 5), 0.2)
    gathering.part("b", _piece(5, 9, status=500), 0.3)

    assert len(gathering._servers["b"].held) == 0


def test_parts_that_wait_are_bounded_and_the_part_that_is_needed_first_has_room() -> None:
    held = Held()
    size = HELD_BYTES_MAX // 4
    for place in (1, 2, 3, 4, 5, 0):
        held.put(Part("t1", place, place * size, b"x" * size, is_last=False))

    assert held.bytes == HELD_BYTES_MAX and len(held) == 4
    assert [held.take(place * size) is not None for place in range(6)] == [True, True, True, True, False, False]
    assert held.bytes == 0


# --- loss, removal, shadows ----------------------------------------------------------------------------------------------


def test_a_server_whose_link_is_lost_may_answer_for_error_wait() -> None:
    gathering = Gathering("t1", ["a"], error_wait=2.0)

    assert gathering.lost("a", 1.0) == []
    assert gathering.wake_at == 3.0
    (error,) = _told(gathering.tick(3.0))

    assert isinstance(error, Error) and error.status == 504


def test_nothing_counts_that_a_removed_server_says() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.lost("a", 0.1, "removed")

    assert gathering.part("a", _whole(), 0.2) == []
    assert _decided(gathering.part("b", _whole(), 0.3)).digests == {"b": b"same"}


def test_a_shadow_never_answers_and_is_compared_with_what_was_given() -> None:
    gathering = Gathering("t1", ["a"], shadows=["s"])

    assert gathering.part("s", _whole(b"new", comparison=b"new"), 0.1) == []
    out = gathering.part("a", _whole(), 0.2)

    assert _body(out) == BODY and _decided(out).kinds == {"s": "wrong"}


def test_the_kinds_of_what_is_held_against_servers_are_named() -> None:
    gathering = Gathering("t1", ["a", "b", "c", "d", "e"], error_wait=2.0, compare_wait=9.0)
    gathering.part("a", _whole(), 1.0)
    gathering.part("b", _says("failed", "reset"), 1.1)
    gathering.lost("c", 1.2)
    gathering.part("d", _whole(), 3.5)

    assert gathering.tick(10.0) == [
        Decided({"a": b"same", "d": b"same"}, "a", {"b": "in doubt", "c": "link lost", "d": "late", "e": "silent"})
    ]


def test_a_server_that_answered_500_where_another_answer_was_given_is_wrong() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", _whole(), 0.1)

    assert _decided(gathering.part("b", _whole(b"oh", 500, comparison=b"e"), 0.2)).kinds == {"b": "wrong"}
