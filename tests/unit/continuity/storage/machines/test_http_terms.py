"""Tags, conditions and ranges of HTTP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.storage.machines.http_terms import Stretch, Unsatisfiable, condition_in, stretch_in, tag_of


@pytest.mark.parametrize(
    ("header", "size", "found"),
    [
        ("", 10, None),
        ("bytes=0-3", 10, Stretch(0, 4)),
        ("bytes=4-", 10, Stretch(4, 10)),
        ("bytes=-3", 10, Stretch(7, 10)),
        ("bytes=-30", 10, Stretch(0, 10)),
        ("bytes=0-99", 10, Stretch(0, 10)),
        ("bytes=3-1", 10, None),
        ("bytes=0-1,4-5", 10, None),
        ("bytes=-", 10, None),
        ("lines=0-1", 10, None),
    ],
)
def test_a_range_is_one_stretch_or_the_whole_file(header: str, size: int, found: Stretch | None) -> None:
    assert stretch_in(header, size) == found


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=11-12", 10), ("bytes=-0", 10), ("bytes=0-", 0)])
def test_a_range_behind_the_end_cannot_be_satisfied(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        stretch_in(header, size)


@given(st.text("bytes=-, 0123456789", max_size=20), st.integers(0, 100))
def test_a_stretch_is_never_empty_and_never_outside_of_the_file(header: str, size: int) -> None:
    try:
        found = stretch_in(header, size)
    except Unsatisfiable:
        return
    assert found is None or 0 <= found.begin < found.end <= size


def test_conditions_name_digests_and_a_weak_tag_is_not_strong() -> None:
    assert condition_in(f'{tag_of("ab")}, W/"cd"', weak=True) == ("ab", "cd")
    assert condition_in(f'{tag_of("ab")}, W/"cd"', weak=False) == ("ab",)
    assert condition_in(" * ", weak=False) == ("*",)
    assert condition_in("", weak=False) == ()
    assert condition_in('W/"cd"', weak=False) == ("",)  # holds for no file
