"""The settings of a destination are checked wherever they come from, and the defaults are known to be right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.destination.settings import _DEFAULTS, Settings
from holdfast.errors import BadSetting


def test_the_defaults_are_those_of_the_fields_and_pass_every_check() -> None:
    settings = Settings()

    assert msgspec.structs.astuple(settings) == _DEFAULTS
    settings._check_all()


@pytest.mark.parametrize("value", [False, 0.0, -1, "0", None])
@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_a_value_of_another_kind_is_refused_even_where_it_equals_the_default(name: str, value: Any) -> None:
    with pytest.raises(BadSetting, match=name):
        Settings(**{name: value})
