"""Frames come out as they went in, however the bytes are cut; anything else ends the link."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.answer import Answer, Head, of_answer
from holdfast.continuity.link import frame
from holdfast.continuity.link.frame import (
    Answered,
    Frames,
    Goodbye,
    Hello,
    Read,
    Resume,
    Roll,
    Running,
    Seen,
    State,
    Traced,
    Welcome,
)
from holdfast.continuity.request import Content
from holdfast.errors import ProtocolError

MESSAGES: list[frame.Message] = [
    Hello(1, "shop", "a", "north", "server", "store"),
    Welcome("e", "00"),
    Goodbye("enough"),
    Answered(of_answer("t", 3, Answer(Head(200, [(b"a", b"b")], 2), b"ok", b"c"))),
    State("current", 1, 2, 3, b"m", 4, 5),
    Seen("s"),
    Read("r1", Content("GET", "/", []), 5, 6),
    Resume("t", 100),
    Roll(),
    Traced("1", "00ff"),
    Running("1", "t"),
]
STREAM = b"".join(map(frame.encode, MESSAGES))


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_messages_come_out_in_order_however_the_stream_is_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    frames = Frames()

    found = [each for begin, end in pairwise(places) for each in frames.feed(STREAM[begin:end])]

    assert found == MESSAGES


@pytest.mark.parametrize("place", range(len(frame.encode(Seen("session")))))
def test_a_flipped_bit_anywhere_is_noticed(place: int) -> None:
    data = bytearray(frame.encode(Seen("session")) + frame.encode(Roll()))
    data[place] ^= 1

    frames = Frames()
    try:
        found = list(frames.feed(bytes(data) + frame.encode(Roll()) * 64))
    except ProtocolError:
        return
    assert Seen("session") not in found and len(found) < 2  # a longer length swallowed what follows, and waits for more


def test_a_frame_over_the_limit_is_refused_before_it_is_held() -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        list(Frames(100).feed((101).to_bytes(4, "big") + bytes(4)))
    with pytest.raises(ProtocolError, match="send the body in parts"):
        frame.encode(Seen("x" * (frame.FRAME_MAX + 1)))


def test_a_known_peer_may_send_larger_frames() -> None:
    frames, large = Frames(100), frame.encode(Seen("x" * 200))
    frames.widen()

    assert list(frames.feed(large)) == [Seen("x" * 200)]
