"""Shipping: this package travels to nodes that lack it, inside the data source that Spark sends there.

    here       the package, and what it cannot do without, in an archive; a data source that carries it
    there      unpacked once, where Spark keeps an application's files; found by `import` from then on

Spark hands a data source from process to process by pickling it: on the driver to planners, to the query's own process, to the
executors. This module is pickled by value, so its top level imports nothing but Python and Spark. Readers and writers are
wrapped, so that the archive is unpacked before their classes are looked for.

Modules with machine code are sent as they are here: the nodes need the same Python and the same kind of machine.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import pickle
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

from pyspark import SparkFiles
from pyspark import cloudpickle as _cloudpickle
from pyspark.sql.datasource import DataSource

Thing = TypeVar("Thing")

cloudpickle: Any = _cloudpickle  # it has no types

PACKAGE = "holdfast"
# Packages that a client needs: for frames, checksums, selectors and patterns.
NEEDED = ("msgspec", "crc32c", "lark", "re2")
_LEFT_OUT = ("__pycache__", "tests", "cli", "simulation", "engine", "listener", "storage", "relay", "jetstream", "clustered")


def archive_of(names: tuple[str, ...] = (PACKAGE, *NEEDED)) -> bytes:
    """Packages that are installed here. Those that are not, the nodes must have themselves."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:  # xz takes five seconds longer to be a quarter smaller
        for path, inside in (found for name in names for found in _files(name)):
            archive.add(path, inside)
    return made.getvalue()


def _files(name: str) -> Iterator[tuple[str, str]]:
    """The files of a package or module, each with its path below the folder that is searched."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return
    if not spec.submodule_search_locations:
        yield spec.origin, os.path.basename(spec.origin)
        return
    top = os.path.dirname(spec.origin)
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(each for each in folders if each not in _LEFT_OUT)
        for file in sorted(files):
            path = os.path.join(folder, file)
            yield path, os.path.join(name, os.path.relpath(path, top))


def arrive(archive: bytes) -> None:
    """Make the package importable in this process, unless it is installed here."""
    if importlib.util.find_spec(PACKAGE) is not None:
        return
    folder = os.path.join(_room(), f"{PACKAGE}-{len(archive)}-{zlib.crc32(archive):08x}")
    if not os.path.isdir(folder):
        unpacked = tempfile.mkdtemp(dir=os.path.dirname(folder))
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            if hasattr(tarfile, "data_filter"):
                opened.extractall(unpacked, filter="data")
            else:  # before Python 3.11.4; the archive is our own
                opened.extractall(unpacked)
        try:
            os.rename(unpacked, folder)
        except OSError:  # another worker was first
            shutil.rmtree(unpacked, ignore_errors=True)
    sys.path.append(folder)
    importlib.invalidate_caches()


def _room() -> str:
    """The application's own folder on this node, which Spark clears away; a private one where it has none."""
    try:
        room = SparkFiles.getRootDirectory()
        os.makedirs(room, exist_ok=True)
        return room
    except Exception:  # not a process that Spark has started
        return tempfile.mkdtemp(prefix=f"{PACKAGE}-")


def restore(archive: bytes, pickled: bytes) -> Any:
    """Unpickle an object in a process that may lack its class."""
    arrive(archive)
    return pickle.loads(pickled)


def aboard(thing: Thing, archive: bytes) -> Thing:
    """Make an object take the archive along whenever it is pickled."""
    plain: Any = type(thing)

    def reduce(self: Any, protocol: Any) -> Any:
        self.__class__ = plain
        try:
            return restore, (archive, cloudpickle.dumps(self, protocol))
        finally:
            self.__class__ = travelling

    travelling = type(plain.__name__, (plain,), {"__reduce_ex__": reduce, "__module__": plain.__module__})
    thing.__class__ = travelling
    return thing


def shipped(format_name: str, module: str, source: str, archive: bytes) -> type[DataSource]:
    """A data source that is `source` of `module` wherever it is used, and brings the package along."""

    class Shipped(DataSource):
        def _real(self) -> Any:
            arrive(archive)
            return getattr(importlib.import_module(module), source)(self.options)

        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> Any:
            return self._real().schema()

        def reader(self, schema: Any) -> Any:
            return aboard(self._real().reader(schema), archive)

        def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
            return aboard(self._real().streamReader(schema), archive)

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return aboard(self._real().writer(schema, overwrite), archive)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
            return aboard(self._real().streamWriter(schema, overwrite), archive)

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return Shipped
