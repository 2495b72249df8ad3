"""Turn the text of options into events: data and properties."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import BadEvent

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(_WHOLE.pattern + r"(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def parse_data(text: str) -> Any:
    """JSON where it is JSON, text otherwise: `{"sku": 7}` is a dict, `hello` is itself. Invalid Unicode is sent as bytes."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    except UnicodeEncodeError:
        return os.fsencode(text)


def read_data(given: str) -> Iterator[Any]:
    """The data of each event: one event for JSON or @FILE, one for each line of stdin."""
    if given == "-":
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")
        for line in sys.stdin:
            yield parse_data(line.rstrip("\n"))
    elif given.startswith("@"):
        yield _read_file(Path(given[1:]).expanduser())
    else:
        yield parse_data(given)


def _read_file(path: Path) -> Any:
    try:
        body = path.read_bytes()
    except OSError as problem:
        raise BadEvent(f"the data cannot be read from {path}: {problem.strerror}; name a file that can be read") from problem
    try:
        return parse_data(body.decode())
    except UnicodeDecodeError:
        return body


def parse_properties(given: list[str] | None) -> dict[str, bool | int | float | str | None]:
    """Read NAME=VALUE. A number, true, false or null as JSON writes it is that value; `007` and `nan` are text."""
    properties: dict[str, bool | int | float | str | None] = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise BadEvent(f"property {each!r} is not NAME=VALUE; write it like amount=120", property=each)
        properties[name] = _value(value)
    return properties


def _value(text: str) -> bool | int | float | str | None:
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if _WHOLE.fullmatch(text) else float(text)
