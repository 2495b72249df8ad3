"""Any cut of a stream of frames decodes alike, and nothing that is fed crashes the decoder."""

from __future__ import annotations

import contextlib
import itertools

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ProtocolError, TooLarge
from holdfast.wire.decoder import FrameDecoder
from holdfast.wire.frame import (
    Answered,
    Attach,
    Credit,
    Deliver,
    Failed,
    Frame,
    Hello,
    Message,
    Ping,
    Receipted,
    Send,
    Slice,
    encode_lead,
)

numbers = st.integers(0, 2**63 - 1)
words = st.text(max_size=20)
messages: st.SearchStrategy[Message] = st.one_of(
    st.just(Ping()),
    st.builds(Hello, words, st.lists(st.integers(0, 9), max_size=3), words),
    st.builds(Send, numbers, st.sampled_from(["queue", "topic"])),
    st.builds(Receipted, numbers, numbers, st.integers(1, 9), st.booleans()),
    st.builds(Attach, numbers, numbers, words, st.sampled_from(["queue", "topic"]), words, st.binary(max_size=32)),
    st.builds(Credit, numbers, numbers, numbers),
    st.builds(Deliver, numbers, st.lists(st.builds(Slice, numbers, numbers, numbers, st.booleans(), numbers), max_size=3)),
    st.builds(Answered, numbers, st.one_of(st.none(), words, st.dictionaries(words, numbers, max_size=3))),
    st.builds(Failed, numbers, words, words, words),
)
frames = st.lists(st.tuples(st.integers(0, 65_535), messages, st.binary(max_size=200)), max_size=8)


def decoded(pieces: list[bytes]) -> tuple[list[tuple[int, Message, bytes]], str]:
    """What came out, and how it ended."""
    decoder = FrameDecoder(frame_bytes_max=4096)
    found: list[Frame] = []
    try:
        for piece in pieces:
            found.extend(decoder.feed(piece))
    except (ProtocolError, TooLarge) as problem:
        return [(frame.session, frame.message, bytes(frame.body)) for frame in found], problem.code
    return [(frame.session, frame.message, bytes(frame.body)) for frame in found], ""


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[begin:end] for begin, end in itertools.pairwise(edges)]


@given(frames, st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cut_of_a_stream_decodes_to_what_was_sent(sent: list[tuple[int, Message, bytes]], places: list[int]) -> None:
    stream = b"".join(encode_lead(session, message, len(body)) + body for session, message, body in sent)

    found, ending = decoded(cut(stream, places))

    assert (found, ending) == (sent, "")


@given(frames, st.binary(min_size=1, max_size=60), st.lists(st.integers(0, 10_000), max_size=12))
def test_garbage_after_frames_ends_alike_however_it_is_cut(
    sent: list[tuple[int, Message, bytes]], garbage: bytes, places: list[int]
) -> None:
    stream = b"".join(encode_lead(session, message, len(body)) + body for session, message, body in sent) + garbage

    found, ending = decoded(cut(stream, places))

    assert (found, ending) == decoded([stream])
    assert found[: len(sent)] == sent


@given(st.binary(max_size=400))
def test_garbage_never_crashes_the_decoder(garbage: bytes) -> None:
    with contextlib.suppress(ProtocolError, TooLarge):
        list(FrameDecoder().feed(garbage))
