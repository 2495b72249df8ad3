"""The folder of a place: locked by its process, with the catalog, the spool, and the shelf if that is a folder.

The catalog and the shelf both know whose they are: WrongPlace for those of another place. A shelf that does not know the
catalog was emptied or exchanged: then no object counts as held.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path

from holdfast.continuity.errors import PlaceInUse, WrongPlace
from holdfast.continuity.storage.place.catalog import Catalog
from holdfast.continuity.storage.place.objects import Objects
from holdfast.continuity.storage.place.shelf import IDENTITY, ObjectGone, Shelf, folder_of, open_shelf
from holdfast.errors import BadSetting

IDENTITY_BYTES_MAX = 4096


class PlaceFolder:
    """Opens everything that a place has on disk. Blocks."""

    def __init__(self, store: str, place: str, at: str, folder: Path | None) -> None:
        """`at`: the shelf. `folder`: where the catalog is, if the shelf is no folder."""
        self.path = folder_of(at) or folder
        if self.path is None:
            raise BadSetting(f"place {place!r} is at {at}: say in which folder its catalog is, with --folder", setting="folder")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            raise BadSetting(
                f"place {place!r} cannot use the folder {self.path} ({problem.strerror}); name one that this user may write",
                setting="at",
            ) from problem
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise PlaceInUse(
                f"another process uses the place in {self.path}; stop it, or give this one a folder of its own"
            ) from None
        try:
            shutil.rmtree(self.path / "spool", ignore_errors=True)
            (self.path / "spool").mkdir()
            catalog = Catalog(self.path / "catalog.sqlite")
            self._check(catalog, store, place)
            self.objects = Objects(catalog, open_shelf(at), self.path / "spool")
            self._claim(catalog, self.objects.shelf, store, place)
        except BaseException:
            os.close(self._lock)
            raise

    def _check(self, catalog: Catalog, store: str, place: str) -> None:
        """The catalog is of this place, from now on."""
        for name, wanted in (("store", store), ("place", place)):
            found = catalog.fact(name)
            if found is not None and found != wanted:
                catalog.close()
                raise WrongPlace(
                    f"the folder {self.path} has the {name} {found!r}, not {wanted!r}; name its own, or an empty one"
                )
            catalog.set_fact(name, wanted)

    def _claim(self, catalog: Catalog, shelf: Shelf, store: str, place: str) -> None:
        """Let the shelf know whose it is. If it did not know the catalog, it holds nothing that counts."""
        wanted = {"store": store, "place": place, "identity": catalog.fact("identity")}
        try:
            found = json.loads(shelf.read(IDENTITY, 0, IDENTITY_BYTES_MAX))
        except (ObjectGone, ValueError):
            found = {}
        if found == wanted:
            return
        if found and (found.get("store"), found.get("place")) != (store, place):
            raise WrongPlace(
                f"the shelf is that of place {found.get('place')!r} of file store {found.get('store')!r}; name its own"
            )
        if catalog.number:
            catalog.release_all()
        written = self.objects.spool_folder / IDENTITY
        written.write_text(json.dumps(wanted))
        shelf.take(IDENTITY, written)

    def close(self) -> None:
        self.objects.close()
        os.close(self._lock)
