"""Paths into JSON: how they are written, and what they mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.continuity.json_path import Deep, Every, change, is_written, parse, remove, written
from holdfast.errors import BadSetting


def test_a_path_is_a_row_of_steps() -> None:
    assert parse("$.a.b[0][*]['c d'][\"e'f\"]..id") == ("a", "b", 0, Every(), "c d", "e'f", Deep("id"))


@pytest.mark.parametrize("text", ["", "$", "a", "$.", "$..", "$.a.", "$[", "$[a]", "$.a[-1]", "$.*", "$['a]", "$.a b]", "$a"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadSetting, match=r"write it like \$\.account\.id"):
        parse(text)


@given(st.lists(st.one_of(st.text(max_size=4).filter(is_written), st.integers(0, 9), st.just(Every())), min_size=1, max_size=4))
def test_what_is_written_is_read_again(steps: list[Any]) -> None:
    assert parse(written(tuple(steps))) == tuple(steps)


@pytest.mark.parametrize(
    ("path", "changed", "removed"),
    [
        ("$.a", {"a": "x", "b": [1, {"a": 2}]}, {"b": [1, {"a": 2}]}),
        ("$.b[*]", {"a": {"a": 0}, "b": ["x", "x"]}, {"a": {"a": 0}, "b": []}),
        ("$.b[1].a", {"a": {"a": 0}, "b": [1, {"a": "x"}]}, {"a": {"a": 0}, "b": [1, {}]}),
        ("$.b[7]", {"a": {"a": 0}, "b": [1, {"a": 2}]}, {"a": {"a": 0}, "b": [1, {"a": 2}]}),
        ("$..a", {"a": "x", "b": [1, {"a": "x"}]}, {"b": [1, {}]}),
    ],
)
def test_values_are_changed_or_taken_out_where_the_path_says(path: str, changed: Any, removed: Any) -> None:
    def document() -> Any:
        return {"a": {"a": 0}, "b": [1, {"a": 2}]}

    assert change(document(), parse(path), lambda _: "x") == changed
    assert remove(document(), parse(path)) == removed
