"""The definition of a domain from a TOML file.

    order = "key"
    servers-min = 2
    [[keys]]
    path = "/accounts/([^/]+)"
    [[routes]]
    path = "/accounts/*/balance"

Keys are the fields of `Domain`, with - or _. A key that is none is refused with the nearest one.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from holdfast.continuity.domain import Domain, checked
from holdfast.errors import BadSetting

_UNKNOWN = re.compile(r"unknown field `(\w+)`")


def read(name: str, file: Path | None, given: dict[str, Any]) -> Domain:
    """The definition in a file, with what was `given` beside it counting before it."""
    settings = (_read(file) if file is not None else {}) | given
    return checked(from_settings(name, settings, str(file) if file is not None else "the options"))


def from_settings(name: str, settings: dict[str, Any], where: str) -> Domain:
    try:
        return msgspec.convert({**settings, "name": name}, Domain)
    except msgspec.ValidationError as problem:
        found = _UNKNOWN.search(str(problem))
        near = difflib.get_close_matches(found.group(1), _fields(), 1) if found else []
        hint = f"; did you mean {near[0].replace('_', '-')}?" if near else ""
        setting = found.group(1) if found else "definition"
        raise BadSetting(f"{where}: {problem}{hint}", setting=setting) from problem


def _fields() -> list[str]:
    return [field.name for field in msgspec.structs.fields(Domain)]


def _read(file: Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = _underscored(tomllib.loads(file.read_text()))
        return settings
    except OSError as problem:
        raise BadSetting(f"the file {file} cannot be read: {problem.strerror}", setting="definition") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSetting(f"{file} is not TOML: {problem}", setting="definition") from problem


def _underscored(value: Any) -> Any:
    if isinstance(value, dict):
        return {key.replace("-", "_"): _underscored(each) for key, each in value.items()}
    return [_underscored(each) for each in value] if isinstance(value, list) else value
