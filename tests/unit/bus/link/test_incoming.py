from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.bus.link.frame import BODY_BYTES_MAX, FRAME_BYTES, MISSING_RANGES_MAX
from holdfast.bus.link.incoming import ACKNOWLEDGE_AFTER_MS, EARLY_FRAMES_MAX, GAP_AGAIN_MS, Incoming
from holdfast.bus.link.outgoing import GRANT_BYTES_MIN, Piece


def piece(number: int, size: int = 0) -> Piece:
    return Piece(b"%d" % number + bytes(size), False)


def take(incoming: Incoming, *sequences: int, now_ms: int = 0) -> list[int]:
    return [int(each.body) for sequence in sequences for each in incoming.take(sequence, piece(sequence), now_ms)]


@given(st.lists(st.integers(1, 12), max_size=60))
@example([2, 3, 5, 4, 9, 7, 8, 1])
@example([12, 10, 11, 3, 2, 6, 5, 1, 4])
def test_whatever_comes_the_pieces_follow_in_order_each_once_and_the_rest_is_missing(sequences: list[int]) -> None:
    incoming = Incoming()

    taken = take(incoming, *sequences)

    came = set(sequences)
    expected = next(number for number in range(1, 14) if number not in came) - 1
    assert taken == list(range(1, expected + 1))
    assert all(first <= last for first, last in incoming.missing())
    missing = {number for first, last in incoming.missing() for number in range(first, last + 1)}
    assert missing == set(range(1, max(came, default=0) + 1)) - came
    assert incoming.duplicates == len(sequences) - len(came)


def test_what_was_sent_and_did_not_come_is_missing() -> None:
    incoming = Incoming()
    take(incoming, 1, 3, 4, 7)

    incoming.note_newest(9, 0)

    assert incoming.missing() == ((2, 2), (5, 6), (8, 9))


def test_only_some_ranges_are_named_at_once() -> None:
    incoming = Incoming()
    take(incoming, *range(2, 100, 2))

    assert incoming.missing() == tuple((number, number) for number in range(1, 2 * MISSING_RANGES_MAX, 2))


def test_what_comes_early_takes_a_bounded_place() -> None:
    incoming = Incoming()
    for sequence in range(2, 50):
        list(incoming.take(sequence, Piece(bytes(BODY_BYTES_MAX), False), 0))

    assert incoming.early_bytes == GRANT_BYTES_MIN + BODY_BYTES_MAX + FRAME_BYTES
    assert incoming.missing() == ((1, 1), (5, 49))
    assert len(list(incoming.take(1, piece(1), 0))) == 4
    assert incoming.early_bytes == 0
    take(incoming, 6 + EARLY_FRAMES_MAX)
    assert incoming.early_bytes == 0


def test_what_came_is_acknowledged_after_20_ms() -> None:
    incoming = Incoming()
    assert not incoming.must_tell(10_000)

    take(incoming, 1, now_ms=1_000)
    take(incoming, 2, now_ms=1_015)

    assert not incoming.must_tell(1_000 + ACKNOWLEDGE_AFTER_MS - 1)
    assert incoming.must_tell(1_000 + ACKNOWLEDGE_AFTER_MS)
    incoming.told()
    assert not incoming.must_tell(10_000)


def test_a_quarter_of_the_grant_is_acknowledged_at_once() -> None:
    incoming = Incoming()
    size = GRANT_BYTES_MIN // 8 - FRAME_BYTES

    list(incoming.take(1, Piece(bytes(size), False), 0))
    assert not incoming.must_tell(0)

    list(incoming.take(2, Piece(bytes(size), False), 0))
    assert incoming.must_tell(0)
    incoming.told()
    list(incoming.take(3, Piece(bytes(size), False), 0))
    assert not incoming.must_tell(0)


def test_a_gap_is_told_at_once_and_then_not_for_each_frame_behind_it() -> None:
    incoming = Incoming()
    take(incoming, 1, 3, now_ms=1_000)
    assert incoming.must_tell(1_000)
    incoming.told()

    take(incoming, 4, now_ms=1_001)
    assert not incoming.must_tell(1_001)
    take(incoming, 5, now_ms=1_000 + GAP_AGAIN_MS)
    assert incoming.must_tell(1_000 + GAP_AGAIN_MS)


def test_a_duplicate_is_acknowledged_again_since_the_acknowledgement_was_lost() -> None:
    incoming = Incoming()
    take(incoming, 1, now_ms=0)
    incoming.told()

    take(incoming, 1, now_ms=100)

    assert incoming.must_tell(100 + ACKNOWLEDGE_AFTER_MS)


def test_another_grant_is_told_at_once_and_the_same_one_is_not() -> None:
    incoming = Incoming()

    incoming.grant(GRANT_BYTES_MIN, 0)
    assert not incoming.must_tell(0)

    incoming.grant(3 * GRANT_BYTES_MIN, 0)
    assert incoming.must_tell(0)
    assert incoming.granted == 3 * GRANT_BYTES_MIN
