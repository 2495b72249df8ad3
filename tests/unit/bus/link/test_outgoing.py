from __future__ import annotations

from holdfast.bus.link.frame import FRAME_BYTES
from holdfast.bus.link.outgoing import (
    ASK_AFTER_MS,
    ASK_AFTER_MS_MAX,
    GRANT_BYTES_MIN,
    SEND_AGAIN_MS,
    WAITING_BYTES_MAX,
    Outgoing,
    Piece,
)

QUARTER = Piece(bytes(GRANT_BYTES_MIN // 4 - FRAME_BYTES), False)


def sequences(outgoing: Outgoing, now_ms: int = 0) -> list[int]:
    return [sequence for sequence, _ in outgoing.due(now_ms)]


def test_no_more_is_unacknowledged_than_was_granted_and_the_rest_waits() -> None:
    outgoing = Outgoing()
    assert outgoing.offer([QUARTER] * 6)

    assert sequences(outgoing) == [1, 2, 3, 4]
    assert (outgoing.unacknowledged_bytes, outgoing.waiting_bytes) == (GRANT_BYTES_MIN, 2 * QUARTER.size)
    assert outgoing.is_congested

    outgoing.acknowledge(1, 0, 0)
    assert sequences(outgoing) == [5]
    outgoing.acknowledge(1, 2 * GRANT_BYTES_MIN, 0)
    assert sequences(outgoing) == [6]
    assert not outgoing.is_congested


def test_a_grant_is_never_less_than_two_frames() -> None:
    outgoing = Outgoing()

    outgoing.acknowledge(0, 1, 0)

    assert outgoing.granted == GRANT_BYTES_MIN


def test_a_piece_that_is_larger_than_the_grant_goes_alone() -> None:
    outgoing, large = Outgoing(), Piece(bytes(2 * GRANT_BYTES_MIN), False)
    outgoing.offer([large])
    outgoing.offer([large])

    assert sequences(outgoing) == [1]
    outgoing.acknowledge(1, 0, 0)
    assert sequences(outgoing) == [2]


def test_when_too_much_waits_a_message_is_not_taken_at_all() -> None:
    outgoing = Outgoing()
    while outgoing.waiting_bytes + QUARTER.size <= WAITING_BYTES_MAX:
        assert outgoing.offer([QUARTER])

    before = outgoing.waiting_bytes

    assert not outgoing.offer([QUARTER, QUARTER])
    assert outgoing.waiting_bytes == before


def test_a_message_larger_than_all_that_may_wait_is_taken_when_nothing_waits() -> None:
    outgoing = Outgoing()

    assert outgoing.offer([QUARTER] * (2 * WAITING_BYTES_MAX // QUARTER.size))


def test_an_acknowledgement_of_what_was_never_sent_or_was_acknowledged_before_changes_nothing() -> None:
    outgoing = Outgoing()
    outgoing.offer([QUARTER] * 3)
    sequences(outgoing)
    outgoing.acknowledge(2, 0, 0)

    outgoing.acknowledge(4, 8 * GRANT_BYTES_MIN, 0)
    outgoing.acknowledge(1, 0, 0)

    assert (outgoing.acknowledged, outgoing.newest, outgoing.granted) == (2, 3, GRANT_BYTES_MIN)


def test_what_is_missing_is_sent_again_but_not_what_was_sent_a_moment_ago() -> None:
    outgoing = Outgoing()
    outgoing.offer([Piece(bytes([number]), False) for number in range(6)])
    sequences(outgoing, 1_000)
    outgoing.acknowledge(1, 0, 1_000)

    assert list(outgoing.send_again([(2, 3)], 1_000 + SEND_AGAIN_MS - 1)) == []
    again = list(outgoing.send_again([(1, 3), (5, 99)], 1_000 + SEND_AGAIN_MS))
    assert [(sequence, piece.body) for sequence, piece in again] == [(each, bytes([each - 1])) for each in (2, 3, 5, 6)]
    assert list(outgoing.send_again([(2, 3)], 1_000 + SEND_AGAIN_MS + 1)) == []


def test_the_other_side_is_asked_after_a_silence_and_then_less_and_less_often() -> None:
    outgoing = Outgoing()
    assert not outgoing.must_ask(10_000)
    outgoing.offer([QUARTER])
    sequences(outgoing, 10_000)

    asked = [ms for ms in range(0, 10_000, 50) if outgoing.must_ask(10_000 + ms)]

    assert asked == [ASK_AFTER_MS, 300, 700, 1_500, 3_100, 4_700, 6_300, 7_900, 9_500]
    assert asked[-1] - asked[-2] == ASK_AFTER_MS_MAX


def test_an_acknowledgement_that_comes_further_begins_the_silence_anew() -> None:
    outgoing = Outgoing()
    outgoing.offer([QUARTER] * 2)
    sequences(outgoing, 0)
    assert [outgoing.must_ask(at_ms) for at_ms in (100, 300)] == [True, True]

    outgoing.acknowledge(1, 0, 350)

    assert [at_ms for at_ms in range(350, 700, 50) if outgoing.must_ask(at_ms)] == [450, 650]
    outgoing.acknowledge(2, 0, 700)
    assert not outgoing.must_ask(5_000)
