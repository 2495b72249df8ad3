"""The output of commands: lines of JSON for programs, tables and sentences for people."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Unavailable
from holdfast.event.event import PRIORITY_DEFAULT

if TYPE_CHECKING:
    from holdfast.client.receiving.received_event import Received


def json_line(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def print_line(text: str) -> None:
    """Write a line to stdout and flush it, before anything that depends on it is done."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        forget_output()
        raise Unavailable(
            f"the output cannot be written ({problem.strerror}); what was not printed is not confirmed"
        ) from problem


def forget_output() -> None:
    """Stdout takes no more: keep the interpreter from writing to it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def while_read() -> Iterator[None]:
    """Raise BrokenPipeError here as soon as nobody reads our output any more, also while there is nothing to print."""
    task, loop, pipe = asyncio.current_task(), asyncio.get_running_loop(), _pipe()
    if task is None or pipe is None:
        yield
        return
    is_gone = False

    def gone() -> None:
        nonlocal is_gone
        is_gone = True
        loop.remove_reader(pipe)
        task.cancel()

    loop.add_reader(pipe, gone)  # the writing end of a pipe is readable only when its reader is gone
    try:
        yield
    except asyncio.CancelledError:
        if not is_gone or task.uncancel():
            raise
        raise BrokenPipeError("nobody reads the output any more") from None
    finally:
        loop.remove_reader(pipe)


def _pipe() -> int | None:
    """The file number of stdout, where it is a pipe."""
    try:
        number = sys.stdout.fileno()
        return number if stat.S_ISFIFO(os.fstat(number).st_mode) else None
    except OSError:  # a stand-in that is no file
        return None


def data_of(event: Received) -> Any:
    """The data of an event, as it is printed; id, type and size of an event that is too large to be printed."""
    if event.is_large:
        return {"id": event.id, "type": event.type, "bytes": event.size}
    data = _printable(event)
    return base64.b64encode(data).decode() if isinstance(data, bytes) else data


def _printable(event: Received) -> Any:
    """The data of an event; its bytes where it is nested too deep to be written as JSON again."""
    data = event.data
    if isinstance(data, dict | list):
        try:
            json_line([data])
        except RecursionError:
            return bytes(event.body)
    return data


def as_cloud_event(event: Received) -> dict[str, Any]:
    """The whole event with the names of CloudEvents in JSON, without fields that are not set. An event that is too large to be
    printed has its size, `bytes`, in place of its data; a dead event has `dead`."""
    shown: dict[str, Any] = {
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time.isoformat(),
        "subject": event.subject,
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
        "properties": dict(event.properties) or None,
        "priority": event.priority if event.priority != PRIORITY_DEFAULT else None,
        "group": event.group,
        "correlation_id": event.correlation_id,
        "reply_to": event.reply_to,
        "destination": event.destination,
        "position": event.position,
        "accepted_at": event.accepted_at.isoformat() if event.accepted_at else None,
        "deliveries": event.deliveries or None,
        "dead": [{**death._asdict(), "when": death.when.isoformat() if death.when else None} for death in event.dead] or None,
    }
    shown = {name: value for name, value in shown.items() if value is not None}
    if event.is_large:
        return shown | {"bytes": event.size}
    data = _printable(event)
    return shown | ({"data_base64": base64.b64encode(data).decode()} if isinstance(data, bytes) else {"data": data})


def counted(events: int) -> str:
    return "1 event" if events == 1 else f"{events:,} events"


def in_units(size: int) -> str:
    """A size as people write it: 1.5M."""
    for unit, power in (("T", 40), ("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.1f}".rstrip("0").rstrip(".") + unit
    return f"{size} bytes"


def show(value: Mapping[str, Any], *, as_json: bool, sentence: str | None = None) -> None:
    """Print one thing: as JSON, as a sentence, or as names and values."""
    if as_json:
        print_line(json_line(value))
    elif sentence is not None:
        print_line(sentence)
    else:
        width = max(map(len, value), default=0)
        for name, each in value.items():
            print_line(f"{name.replace('_', ' '):<{width}}  {_text(each)}")


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print many things: a line of JSON each, or a table."""
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
