"""Gathering: which answer the client gets, of the answers of several servers."""

from __future__ import annotations

import itertools

import pytest

from holdfast.continuity.answer import Answer, Head, Part, of_answer
from holdfast.continuity.answer_body import HELD_BYTES_MAX
from holdfast.continuity.machines.gathering import Begin, Chunk, Decided, End, Error, Gathering, Resume
from tests.unit.continuity.machines.gathered_parts import BODY, body_of, decided, piece, says, told, whole

# --- the first answer wins (5) -------------------------------------------------------------------------------------------


def test_the_first_answer_below_500_wins_and_the_second_is_only_compared() -> None:
    gathering = Gathering("t1", ["a", "b"], "first", 2.0, 0.0)

    first, second = gathering.part("b", whole(), 0.1), gathering.part("a", whole(), 0.2)

    assert first == [Begin(Head(200, [], len(BODY)), False, "b"), Chunk(BODY), End("b", b"same")]
    assert second == [Decided({"a": b"same", "b": b"same"}, "b", {})]
    assert gathering.wake_at is None


def test_an_empty_answer_has_no_chunk() -> None:
    assert Gathering("t1", ["a"]).part("a", whole(b"", 204), 0.1)[:2] == [Begin(Head(204, [], 0), False, "a"), End("a", b"same")]


def test_an_answer_to_head_names_a_length_and_has_no_body() -> None:
    answer = of_answer("t1", 7, Answer(Head(200, [], 1_234), b""))

    assert told(Gathering("t1", ["a"]).part("a", answer, 0.1)) == [Begin(answer.head, False, "a"), End("a")]  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [whole(b"oh", 500), says("failed", "reset"), says("failed", "timed out after 10 s")])
def test_an_error_does_not_win_while_another_server_may_answer(bad: Part) -> None:
    gathering = Gathering("t1", ["a", "b"], "first", 2.0, 0.0)

    assert gathering.part("a", bad, 0.1) == []
    assert body_of(gathering.part("b", whole(), 1.9)) == BODY


def test_a_500_wins_when_all_have_answered() -> None:
    gathering = Gathering("t1", ["a", "b"], "first", 2.0, 0.0)

    gathering.part("a", says("failed", "reset"), 0.1)

    assert told(gathering.part("b", whole(b"oh", 500), 0.2)) == [
        Begin(Head(500, [], 2), False, "b"),
        Chunk(b"oh"),
        End("b", b"same"),
    ]


def test_a_500_wins_after_error_wait_and_a_failure_does_not() -> None:
    with_answer, without_answer = (Gathering("t1", ["a", "b"], "first", 2.0, 0.0) for _ in range(2))
    with_answer.part("a", whole(b"oh", 503), 0.5)
    without_answer.part("a", says("failed", "reset"), 0.5)

    assert with_answer.wake_at == 2.5 and with_answer.tick(2.4) == []
    assert body_of(with_answer.tick(2.5)) == b"oh"
    assert without_answer.tick(2.5) == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ([says("failed", "reset"), says("failed", "timed out")], 502),
        ([says("failed", "timed out"), says("failed", "timed out")], 504),
        ([says("declined", "behind"), says("declined", "behind")], 503),
        ([says("gone"), says("gone")], 410),
        ([says("differs"), says("differs")], 409),
        ([says("differs"), says("gone")], 409),
        ([says("differs"), says("failed", "reset")], 409),
        ([says("gone"), says("failed", "reset")], 502),
        ([says("gone"), says("failed", "timed out")], 504),
    ],
)
def test_when_nobody_has_an_answer_the_error_says_why(said: list[Part], status: int) -> None:
    gathering = Gathering("t1", ["a", "b"])

    assert gathering.part("a", said[0], 0.1) == []
    (error,) = told(gathering.part("b", said[1], 0.2))

    assert isinstance(error, Error) and error.status == status


def test_no_answer_in_time_is_504_and_a_later_one_is_still_compared() -> None:
    gathering = Gathering("t1", ["a", "b"], now=0.0, answer_timeout=5.0, compare_wait=3.0)

    (error,) = gathering.tick(5.0)
    gathering.part("a", whole(), 6.0)

    assert isinstance(error, Error) and error.status == 504
    assert gathering.wake_at == 8.0
    assert gathering.tick(8.0) == [Decided({"a": b"same"}, "", {"b": "silent"})]


# --- known keys (9)-(11) -------------------------------------------------------------------------------------------------


def test_a_replayed_answer_wins_and_is_marked() -> None:
    gathering = Gathering("t1", ["a", "b"])

    assert gathering.part("a", says("gone"), 0.1) == []
    begin, *_ = gathering.part("b", whole(outcome="replayed"), 0.2)

    assert begin == Begin(Head(200, [], len(BODY)), True, "b")


def test_a_clash_is_422_at_once() -> None:
    (error,) = Gathering("t1", ["a", "b"]).part("a", says("clash"), 0.1)

    assert isinstance(error, Error) and error.status == 422


def test_gone_is_410_only_if_all_say_so() -> None:
    gathering = Gathering("t1", ["a", "b"], now=0.0, answer_timeout=5.0)

    gathering.part("a", says("gone"), 0.1)
    (error,) = gathering.tick(5.0)

    assert isinstance(error, Error) and error.status == 504


# --- two equal answers (6) -----------------------------------------------------------------------------------------------


def test_agreed_waits_for_two_equal_answers() -> None:
    gathering = Gathering("t1", ["a", "b", "c"], "agreed")

    assert gathering.part("a", whole(b"lie", comparison=b"other"), 0.1) == []
    assert gathering.part("b", whole(), 0.2) == []
    out = gathering.part("c", whole(), 0.3)

    assert body_of(out) == BODY and decided(out).kinds == {"a": "wrong"}


def test_agreed_is_502_as_soon_as_no_two_can_be_equal() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")

    gathering.part("a", whole(comparison=b"1"), 0.1)
    (error,) = told(out := gathering.part("b", whole(comparison=b"2"), 0.2))

    assert isinstance(error, Error) and error.status == 502
    assert decided(out).named == ("a", "b") and decided(out).kinds == {}


def test_agreed_gives_an_error_on_which_two_agree_only_when_nothing_better_may_come() -> None:
    gathering = Gathering("t1", ["a", "b", "c"], "agreed")

    assert gathering.part("a", whole(b"oh", 500, comparison=b"e"), 0.1) == []
    assert gathering.part("b", whole(b"oh", 500, comparison=b"e"), 0.2) == []

    assert body_of(gathering.part("c", whole(), 0.3)) == b"oh"


def test_agreed_with_one_server_is_the_first() -> None:
    assert body_of(Gathering("t1", ["a"], "agreed").part("a", whole(), 0.1)) == BODY


def test_agreed_becomes_the_first_when_all_others_are_removed() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")

    gathering.part("a", whole(), 0.1)

    assert body_of(gathering.lost("b", 0.2, "removed")) == BODY


def test_agreed_fetches_a_body_that_was_too_large_to_hold() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")
    large = b"x" * (HELD_BYTES_MAX + 10)
    cuts = [0, HELD_BYTES_MAX, len(large)]
    for server in ("a", "b"):
        for begin, end in itertools.pairwise(cuts):
            out = gathering.part(server, piece(begin, end, body=large, length=len(large), comparison=b"c"), 0.1)

    assert out[-1] == Resume("a", HELD_BYTES_MAX) and len(body_of(out)) == HELD_BYTES_MAX
    assert told(gathering.part("a", piece(cuts[1], cuts[2], body=large, comparison=b"c"), 0.2))[-1] == End("a", b"c")


def test_agreed_does_not_take_two_answers_without_digests_for_equal() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")

    (error,) = told([out for server in "ab" for out in gathering.part(server, whole(comparison=b""), 0.1)])

    assert isinstance(error, Error) and error.status == 502


def test_agreed_counts_a_server_that_keeps_the_digest_of_an_answer_and_not_its_body() -> None:
    gathering = Gathering("t1", ["a", "b"], "agreed")

    gathering.part("a", Part("t1", 0, 0, outcome="gone", comparison=b"same"), 0.1)

    assert body_of(gathering.part("b", whole(outcome="replayed"), 0.2)) == BODY


# --- loss, removal, shadows ----------------------------------------------------------------------------------------------


def test_a_server_whose_link_is_lost_may_answer_for_error_wait() -> None:
    gathering = Gathering("t1", ["a"], error_wait=2.0)

    assert gathering.lost("a", 1.0) == []
    assert gathering.wake_at == 3.0
    (error,) = told(gathering.tick(3.0))

    assert isinstance(error, Error) and error.status == 504


def test_nothing_counts_that_a_removed_server_says() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.lost("a", 0.1, "removed")

    assert gathering.part("a", whole(), 0.2) == []
    assert decided(gathering.part("b", whole(), 0.3)).digests == {"b": b"same"}


def test_a_server_that_became_current_later_may_answer() -> None:
    gathering = Gathering("t1", ["a"], error_wait=2.0)
    gathering.expect("b")

    gathering.part("a", says("failed", "reset"), 0.1)

    assert body_of(gathering.part("b", whole(), 0.2)) == BODY


def test_a_shadow_never_answers_and_is_compared_with_what_was_given() -> None:
    gathering = Gathering("t1", ["a"], shadows=["s"])

    assert gathering.part("s", whole(b"new", comparison=b"new"), 0.1) == []
    out = gathering.part("a", whole(), 0.2)

    assert body_of(out) == BODY and decided(out).kinds == {"s": "wrong"}


def test_the_kinds_of_what_is_held_against_servers_are_named() -> None:
    gathering = Gathering("t1", ["a", "b", "c", "d", "e"], error_wait=2.0, compare_wait=9.0)
    gathering.part("a", whole(), 1.0)
    gathering.part("b", says("failed", "reset"), 1.1)
    gathering.lost("c", 1.2)
    gathering.part("d", whole(), 3.5)

    assert gathering.tick(10.0) == [
        Decided({"a": b"same", "d": b"same"}, "a", {"b": "in doubt", "c": "link lost", "d": "late", "e": "silent"})
    ]


def test_a_server_that_answered_500_where_another_answer_was_given_is_wrong() -> None:
    gathering = Gathering("t1", ["a", "b"])
    gathering.part("a", whole(), 0.1)

    assert decided(gathering.part("b", whole(b"oh", 500, comparison=b"e"), 0.2)).kinds == {"b": "wrong"}
