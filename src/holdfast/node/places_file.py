"""The table of places of a node with several message managers, in a file beside their journals (ADR 22).

    ["orders","m1"]          one line of JSON for each place, synced before the place counts
    ["invoices","m2"]
    ["refu                   a line that a crash cut off: it never counted

A place is made once and never changed: the file grows by a line for each new name. Should it be lost, the table is made again
from the destinations that the message managers have.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from holdfast.cluster.places import EVERYWHERE, PlaceTable, Rule
from holdfast.destination import name
from holdfast.errors import DiskFailed
from holdfast.event.pattern import Pattern

log = logging.getLogger("holdfast.places")

FILE = "places"


def open_table(managers: Sequence[str], placement: Iterable[tuple[str, str]], file: Path | None = None) -> PlaceTable:
    """Open the table of these managers; without a file, it is gone with its process. `placement`: patterns and managers."""
    rules = [Rule(Pattern.glob(pattern), manager) for pattern, manager in placement]
    if file is None:
        return PlaceTable(managers, fixed(managers), rules)
    known = _read(file)
    return PlaceTable(managers, fixed(managers), rules, known, lambda *place: _append(file, *place))


def reconcile(table: PlaceTable, manager: str, destinations: Iterable[str]) -> None:
    """A message manager has replayed its channel, and has these destinations."""
    for each in destinations:
        if not table.note(each, manager):
            log.critical(
                "%r is at message manager %s, and its place is at %s: what waits at %s is not delivered; restore the file %r",
                each, manager, table.find(each), manager, FILE,
            )  # fmt: skip


def fixed(managers: Sequence[str]) -> Callable[[str], str | None]:
    def fixed(destination: str) -> str | None:
        if name.is_everywhere(destination):
            return EVERYWHERE
        if name.is_temporary(destination):
            named = name.manager_of_temporary(destination)
            return named if named in managers else managers[0]
        return managers[0] if destination.startswith("_") else None

    return fixed


def _read(file: Path) -> dict[str, str]:
    """The places in the file. What a crash cut off is cut off for good, so that the next line begins at its own beginning."""
    data = file.read_bytes() if file.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(file, len(whole))
    return dict(map(json.loads, whole.splitlines()))


def _append(file: Path, destination: str, manager: str) -> None:
    """Add a place, durably. What a full disk took of its line is cut off: the next one begins at its own beginning."""
    is_new = not file.exists()
    line = json.dumps([destination, manager], separators=(",", ":")).encode() + b"\n"
    try:
        with file.open("ab", buffering=0) as lines:
            before = os.fstat(lines.fileno()).st_size
            try:
                if lines.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(lines.fileno())
            except OSError:
                lines.truncate(before)
                raise
        if is_new:
            _sync_folder(file.parent)
    except OSError as problem:
        raise DiskFailed(f"the place of {destination!r} cannot be written to {str(file)!r}: {problem}") from problem


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
