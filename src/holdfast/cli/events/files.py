"""Files as events: `holdfast send --file` and `holdfast receive --save-to`. A file of any size is never held in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.client.receipt import Receipt
    from holdfast.client.receiving.received_event import ReceivedEvent
    from holdfast.client.sending.outgoing import EventFields

# The property that has the name of the file where it was sent.
NAME_PROPERTY = "file_name"
NAME_LENGTH_MAX = 100

Progress = Callable[[int, int | None], object]


def size_of(path: Path) -> int:
    if not path.is_file():
        raise BadSetting(f"{path} is not a file that can be sent; give the path of one", setting="file")
    return path.stat().st_size


def checked_folder(path: Path) -> Path:
    if not path.is_dir():
        raise BadSetting(f"{path} is not a folder to save to; make it first", setting="save-to")
    return path


def file_fields(path: Path, fields: EventFields) -> EventFields:
    """Add the name of the file as a property, unless that property is given."""
    properties = {NAME_PROPERTY: path.name, **(fields.get("properties") or {})}
    return {**fields, "properties": properties}


async def send_file(
    url: str, destination: str, path: Path, size: int, fields: EventFields, *, is_topic: bool, timeout: float | None
) -> Receipt:
    import holdfast

    async with holdfast.connect(url, name="holdfast send", timeout=timeout) as client:
        place = client.topic(destination) if is_topic else client.queue(destination)
        with shown(f"sending {path.name}", size) as progress:
            return await place.send_stream(path, progress=progress, **file_fields(path, fields))


async def save(event: ReceivedEvent, folder: Path) -> dict[str, Any]:
    """Save the data of an event to a file of its own. Returns a line about it to print."""
    target = folder / file_name(event)
    with shown(f"saving {target.name}", event.size) as progress:
        async with event.open_stream() as stream:
            await stream.save(target, progress=progress)
    return {"id": event.id, "type": event.type, "saved": str(target), "bytes": event.size}


def file_name(event: ReceivedEvent) -> str:
    """The id of the event, then the name of the file, with nothing in it that could lead out of the folder."""
    said = event.properties.get(NAME_PROPERTY)
    parts = [event.id, Path(said).name if isinstance(said, str) else ""]
    kept = ["".join(letter for letter in part if letter.isalnum() or letter in "._- ") for part in parts]
    return "-".join(part[-NAME_LENGTH_MAX:] for part in kept if part).lstrip(".-") or "event"


@contextmanager
def shown(what: str, size: int) -> Iterator[Progress | None]:
    """Show a progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=size)
        yield lambda done, _: bar.update(task, completed=done)
