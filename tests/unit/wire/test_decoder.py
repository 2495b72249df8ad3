"""The frame decoder: bytes in, frames out, however they were cut."""

from __future__ import annotations

import pytest

from holdfast.errors import ProtocolError, TooLarge
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import LENGTH, Frame, Message, Ping, Receipted, Send, encode_lead


def encoded(session: int, message: Message, body: bytes = b"") -> bytes:
    return encode_lead(session, message, len(body)) + body


def plain(frames: list[Frame]) -> list[tuple[int, Message, bytes]]:
    return [(frame.session, frame.message, bytes(frame.body)) for frame in frames]


def test_a_frame_fed_whole_is_read_where_it_lies() -> None:
    data = encoded(1, Send(7), b"body")

    (frame,) = FrameDecoder().feed(data)

    assert isinstance(frame.body, memoryview)
    assert frame.body.obj is data


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 5, 7, 64, 1000])
def test_frames_come_out_alike_in_pieces_of_any_size(piece: int) -> None:
    sent: list[tuple[int, Message, bytes]] = [(0, Ping(), b""), (1, Send(1), b"x" * 5000), (2, Receipted(1, 9, 1, True), b"")]
    stream = b"".join(encoded(*frame) for frame in sent)
    decoder = FrameDecoder()

    found = [frame for at in range(0, len(stream), piece) for frame in decoder.feed(stream[at : at + piece])]

    assert plain(found) == sent
    assert decoder.is_between_frames


def test_a_frame_that_is_too_long_is_refused_from_its_first_four_bytes() -> None:
    decoder = FrameDecoder(frame_bytes_max=100)

    with pytest.raises(TooLarge, match="101 bytes"):
        list(decoder.feed(LENGTH.pack(101)))


def test_a_frame_that_is_too_long_is_refused_also_when_its_length_comes_byte_by_byte() -> None:
    decoder = FrameDecoder(frame_bytes_max=100)
    length = LENGTH.pack(101)
    assert [list(decoder.feed(length[at : at + 1])) for at in range(3)] == [[], [], []]

    with pytest.raises(TooLarge):
        list(decoder.feed(length[3:]))


def test_a_frame_that_is_shorter_than_its_lead_is_refused() -> None:
    with pytest.raises(ProtocolError, match="does not speak this protocol"):
        list(FrameDecoder().feed(LENGTH.pack(4) + b"abcd"))


def test_the_frames_before_a_wrong_one_are_handed_out() -> None:
    found: list[Frame] = []

    with pytest.raises(ProtocolError):
        found.extend(FrameDecoder().feed(encoded(0, Ping()) + LENGTH.pack(5) + bytes((255, 0, 0, 0, 0))))

    assert plain(found) == [(0, Ping(), b"")]


def test_memory_grows_with_what_came_and_not_with_what_was_promised() -> None:
    decoder = FrameDecoder()

    assert list(decoder.feed(encoded(1, Send(1), b"x" * 1_000_000)[:100])) == []

    assert sum(map(len, decoder._pieces)) == 100
    assert not decoder.is_between_frames


def test_a_frame_that_comes_byte_by_byte_is_kept_in_few_pieces() -> None:
    decoder, sent = FrameDecoder(), encoded(1, Send(1), bytes(range(256)) * 4)

    found = [each for byte in sent for each in decoder.feed(bytes([byte]))]

    assert plain(found) == [(1, Send(1), bytes(range(256)) * 4)]
    for byte in sent[:-1]:
        list(decoder.feed(bytes([byte])))
    assert len(decoder._pieces) <= 65
