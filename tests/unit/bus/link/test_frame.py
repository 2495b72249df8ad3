from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.bus.link.frame import BODY, BadFrame, Frame, decode, encode

numbers = st.integers(0, (1 << 63) - 1)


ranges = st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple)
flags = st.booleans()


@given(st.builds(Frame, st.integers(1, 5), flags, st.text(), numbers, st.text(), numbers, numbers, numbers, numbers, numbers,
                 numbers, ranges, flags, flags, st.binary()))  # fmt: skip
def test_a_frame_arrives_as_it_was_sent(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


@given(st.binary(max_size=40))
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    try:
        frame = decode(data)
    except BadFrame:
        return
    assert decode(encode(frame)) == frame


@pytest.mark.parametrize("data", [b"", b"\x02" + encode(Frame(BODY, True, "m", 1, "s", 1, 1))[1:]])
def test_a_frame_of_another_version_is_refused_with_what_to_do(data: bytes) -> None:
    with pytest.raises(BadFrame, match="this node reads 1; upgrade it"):
        decode(data)
