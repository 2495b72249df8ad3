"""The definition of a relay from a TOML file: `holdfast relay --config relay.toml`.

    name = "berlin"
    local = "file:./berlin"

    [upstreams.head]
    url = "holdfasts://berlin@head.example:7400"
    password-env = "HEAD_PASSWORD"

    [routes.alerts]
    from = "head"
    topic = "alerts.**"
    to = "branch.berlin.**"
    mode = "end-to-end"
    selector = "level >= 3"

Keys are the fields of `definition`, with - or _. A relative `file:` URL is meant from the folder of the file. Without
`local`, the environment has it as HOLDFAST_URL. All mistakes are named at once; a key that is none, with the nearest that is.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from holdfast.errors import BadSetting
from holdfast.relay.definition import RelayDefinition, Route, Upstream, checked

_FILE = "file:"
ENVIRONMENT = "HOLDFAST_URL"


def read(file: Path) -> RelayDefinition:
    """The definition in a file. BadSetting names every mistake."""
    try:
        given = tomllib.loads(file.read_text())
    except OSError as problem:
        raise BadSetting(f"the file {file} cannot be read: {problem.strerror}", setting="config") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSetting(f"{file} is not TOML: {problem}", setting="config") from problem
    try:
        return from_settings(given, file.absolute().parent)
    except BadSetting as problem:
        raise BadSetting(f"{file}: {problem.sentence}", **problem.fields) from None


def from_settings(given: dict[str, Any], folder: Path) -> RelayDefinition:
    problems: list[str] = []
    if "local" not in given and ENVIRONMENT in os.environ:
        given = {**given, "local": os.environ[ENVIRONMENT]}
    upstreams = _tables(given.get("upstreams", {}), Upstream, "upstreams", problems)
    routes = _tables(given.get("routes", {}), Route, "routes", problems)
    top = _table({**given, "upstreams": {}, "routes": {}}, RelayDefinition, "", problems)
    if problems or top is None:
        raise BadSetting("; ".join(problems), setting="definition", problems=len(problems))
    placed = {name: msgspec.structs.replace(each, url=_from(folder, each.url)) for name, each in upstreams.items()}
    return checked(msgspec.structs.replace(top, local=_from(folder, top.local), upstreams=placed, routes=routes))


def _from(folder: Path, url: str) -> str:
    """A URL whose relative path is meant from a folder."""
    path, mark, query = url.removeprefix(_FILE).partition("?")
    is_relative = url.startswith(_FILE) and not path.startswith(("/", "~"))
    return f"{_FILE}{folder / path}{mark}{query}" if is_relative else url


def _tables(given: Any, kind: type, where: str, problems: list[str]) -> dict[str, Any]:
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        problems.append(f"{where} are tables: write [{where}.NAME]")
        return {}
    made = {name: _table(each, kind, f"{where}.{name}.", problems) for name, each in given.items()}
    return {name: each for name, each in made.items() if each is not None}


def _table(given: dict[str, Any], kind: Any, where: str, problems: list[str]) -> Any:
    """One table as a struct; None if it has mistakes, which are then named."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    hints = get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    before = len(problems)
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in fields:
            problems.append(f"{where}{key} is not known{_nearest(name, list(fields))}")
            continue
        try:
            values[name] = msgspec.convert(value, hints[fields[name].name])
        except msgspec.ValidationError as problem:
            problems.append(f"{where}{key} = {value!r}: {str(problem)[0].lower()}{str(problem)[1:]}")
    problems += [f"{where}{name} is missing" for name, field in fields.items() if field.required and not _has(given, name)]
    if len(problems) > before:
        return None
    return kind(**{fields[name].name: value for name, value in values.items()})


def _has(given: dict[str, Any], name: str) -> bool:
    return any(key.replace("-", "_") == name for key in given)


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0].replace('_', '-')}?" if near else f"; there are {', '.join(known).replace('_', '-')}"
