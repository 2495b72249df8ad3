"""Every key of a TOML text is found where it stands."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.actions.toml_places import Place, nearest, places

TEXT = '''
name = "x"  # a comment = with a sign
"quoted key".'other' = 1
list = [1, "a]b", [2, 3],
  # between
  { inner = 4, deep.er = 5 },
]
text = """
[not.a.table]
key = 1 \\"""
still"""
raw = \'\'\'two '' quotes\'\'\'\'
[rules.disk]
topics = ["a", "b"]
  [[rules.disk.actions]]
  do = "log"
  [[rules.disk.actions]]
  do = "send"
  [rules.disk.actions.properties]
  host = "{host}"
[rules."odd name"]
x = 2026-01-01T00:00:00Z
'''


def test_keys_tables_and_elements_are_found() -> None:
    tomllib.loads(TEXT)  # it is TOML

    found = places(TEXT)

    assert found["name",] == Place(2, 1)
    assert found["quoted key", "other"] == Place(3, 1)
    assert found["list", 1] == Place(4, 12)
    assert found["list", 3, "inner"] == Place(6, 5)
    assert found["list", 3, "deep", "er"] == Place(6, 16)
    assert found["rules", "disk"] == Place(13, 1)
    assert found["rules", "disk", "topics", 1] == Place(14, 16)
    assert found["rules", "disk", "actions", 1] == Place(17, 3)
    assert found["rules", "disk", "actions", 1, "do"] == Place(18, 3)
    assert found["rules", "disk", "actions", 1, "properties", "host"] == Place(20, 3)
    assert found["rules", "odd name", "x"] == Place(22, 1)
    assert ("not", "a", "table") not in found
    assert nearest(found, ("rules", "disk", "missing")) == Place(13, 1)
    assert nearest(found, ("nowhere",)) == Place(1, 1)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, each in inner for found in _paths(each, (*path, name)))]


KEY = st.sampled_from(["a", "b-c", '"d e"', "'f.g'", "h.i"])
VALUES = st.recursive(
    st.sampled_from(["1", '"x"', "'#'", '"\\""', '"""a\nb"""', "true", "1979-05-27"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
    max_leaves=6,
)


@given(
    st.lists(st.tuples(st.sampled_from(["", "[t]", "[[l]]", "[u.v]", "[[u.w]]"]), KEY, VALUES, st.sampled_from(["", "  # c"])))
)
def test_every_key_of_any_toml_has_a_place(lines: list[tuple[str, str, str, str]]) -> None:
    text = "".join(f"{header}\n{key} = {value}{comment}\n" for header, key, value, comment in lines)
    try:
        given_values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return

    found = places(text)

    for path in _paths(given_values):
        if not path:
            continue
        assert path in found
        if isinstance(path[-1], str):
            line, column = found[path]
            assert text.split("\n")[line - 1][column - 1] in "ab\"'h["


@given(st.text(alphabet="[]{}=\"'\n ,.#ab"))
def test_a_text_that_is_no_toml_does_no_harm(text: str) -> None:
    places(text)
