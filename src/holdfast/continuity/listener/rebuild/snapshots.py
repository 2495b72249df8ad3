"""The snapshots of a server: its state between two requests, and its listener's store at that place.

    STORE/snapshots/000000001234/      1,234 is the place: everything up to it is in the snapshot, nothing after it
      about      JSON: domain, server, place
      store/     the store of the listener
      state      what the user's command wrote: a file or a folder

A snapshot is made in `NAME.unfinished` and renamed when it is whole. KEPT of them are kept.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.continuity.listener.durable import store_folder
from holdfast.continuity.listener.rebuild.user_command import UserCommand

# The one before the newest is for the case that the newest is of no use.
KEPT = 2
_UNFINISHED = ".unfinished"


class About(msgspec.Struct, frozen=True):
    domain: str
    server: str
    place: int


class Snapshot(NamedTuple):
    """A snapshot that is whole."""

    folder: Path
    place: int

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def store(self) -> Path:
        return self.folder / "store"


class Snapshots:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Snapshot]:
        """Those that are whole, oldest first."""
        found = (path for path in self.folder.glob("*") if path.name.isdigit())
        return sorted((Snapshot(path, int(path.name)) for path in found), key=lambda each: each.place)

    @property
    def oldest_place(self) -> int:
        """The place of the oldest; 0 if there is none."""
        return min((each.place for each in self.all()), default=0)

    def newest(self) -> Snapshot | None:
        return max(self.all(), key=lambda each: each.place, default=None)

    def begin(self, place: int) -> Path:
        """The folder in which a snapshot is made. What an earlier try left is deleted."""
        folder = self.folder / f"{place:012}{_UNFINISHED}"
        for left in self.folder.glob(f"*{_UNFINISHED}"):
            shutil.rmtree(left)
        folder.mkdir(parents=True, mode=0o700)
        return folder

    async def write_state(self, folder: Path, command: UserCommand) -> None:
        """Have the server's state written, and made durable."""
        await command.run(folder / "state")
        if (folder / "state").exists():
            for path in ((folder / "state"), *(folder / "state").rglob("*")):
                store_folder.sync(path)

    def finish(self, folder: Path, about: About) -> Snapshot:
        """Make a snapshot count, and delete those that are kept no more."""
        store_folder.write_whole(folder / "about", msgspec.json.encode(about))
        whole = folder.with_name(folder.name.removesuffix(_UNFINISHED))
        if whole.exists():
            shutil.rmtree(whole)
        os.rename(folder, whole)
        store_folder.sync(self.folder)
        for old in self.all()[:-KEPT]:
            shutil.rmtree(old.folder)
        return Snapshot(whole, about.place)
