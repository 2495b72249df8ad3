"""Templates: text with fields, and nothing that runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.actions.machines.template import BadTemplate, Template

FIELDS = {"rule": "disk", "count": 3, "keys": ["a", "b"], "suppressed": 0}
EVENT = {
    "type": "full",
    "properties": {"host": "web-1", "rule": "own", "share": 0.5},
    "data": {"disks": [{"free": 7}], "none": None},
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{rule}: {count} of {keys}", "disk: 3 of a, b"),
        ("{host} {type} {share}", "web-1 full 0.5"),
        ("{properties.rule} {rule}", "own disk"),
        ("{data.disks.0.free} {data.disks}", '7 {"free":7}'),
        ("{data.none|nothing}{data.disks.9.free|x}{data.host.y}", "nothingx"),
        ("{missing}|{missing|}|{missing|or this}", "||or this"),
        ("{{host}} {{}}", "{host} {}"),
        ("{suppressed}", "0"),
    ],
)
def test_fields_are_filled_in(text: str, filled: str) -> None:
    assert Template(text).fill(FIELDS, EVENT) == filled


@pytest.mark.parametrize(
    ("text", "column"), [("{host", 1), ("a {b", 3), ("host}", 5), ("{}", 2), ("{a b}", 2), ("{host.__class__()}", 2), ("x{1}", 3)]
)
def test_a_mistake_is_told_with_its_column(text: str, column: int) -> None:
    with pytest.raises(BadTemplate) as refused:
        Template(text)

    assert refused.value.column == column


@given(st.text())
def test_a_value_is_never_read_as_a_template(value: str) -> None:
    filled = Template("<{host}>").fill({}, {"properties": {"host": value}})

    assert filled == f"<{value}>"


@given(st.text(alphabet="{}ab.|x"))
def test_any_text_is_filled_in_or_refused(text: str) -> None:
    try:
        template = Template(text)
    except BadTemplate as problem:
        assert 1 <= problem.column <= len(text) + 1
    else:
        assert isinstance(template.fill({}, {}), str)
