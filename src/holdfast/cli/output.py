"""What commands print: lines of JSON for programs, tables and sentences for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def json_line(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def print_line(text: str) -> None:
    """To stdout, and out of this process, before anything that depends on it is done."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def counted(events: int) -> str:
    return "1 event" if events == 1 else f"{events:,} events"


def show(value: Mapping[str, Any], *, as_json: bool, sentence: str | None = None) -> None:
    """One thing: as JSON, as a sentence, or as names and values."""
    if as_json:
        print_line(json_line(value))
    elif sentence is not None:
        print_line(sentence)
    else:
        width = max(map(len, value), default=0)
        for name, each in value.items():
            print_line(f"{name.replace('_', ' '):<{width}}  {_text(each)}")


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Many things: a line of JSON each, or a table."""
    if as_json:
        for row in rows:
            print_line(json_line(row))
        return
    cells = [
        [column.replace("_", " ") for column in columns],
        *([_text(row.get(column, "")) for column in columns] for row in rows),
    ]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    for line in cells:
        print_line("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | dict):
        return json_line(value)
    return str(value)
