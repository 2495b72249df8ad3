"""The copy of a document of the cluster in the data folder of a node: with it a node starts although the cluster cannot be asked.

    # Written by Holdfast: …
    # {"version": 3, "base": "5f2c…", "given": {"session_grace_ms": 2000}, "given_base": "77a1…"}
    session_grace_ms = 4000

`base` is the digest of the document below, as the cluster had it: a text that was edited by hand has another one. `given` is what
the node was started with, and `given_base` the digest of the document that the cluster had when the node was first started so:
what it is started with now, and differs from `given`, was edited since then.

A file is replaced in one step. One with users has password hashes in it, so nobody else may read it. A file that was edited while
the node ran is left alone: the node says so when it starts next.
"""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.cluster.configuration import Copy, Document
from holdfast.errors import BadSetting

log = logging.getLogger("holdfast.configuration")

BYTES_MAX = 16 << 20
_NOTE = "# Written by Holdfast: what this node has from its cluster. `holdfast cluster configure` changes it at all nodes.\n"


class _Head(msgspec.Struct, frozen=True):
    version: int
    base: str
    given: dict[str, Any]
    given_base: str


class Acquired(NamedTuple):
    """A document as it was when this node was last in step with its cluster."""

    text: str
    version: int
    base: str
    given: dict[str, Any]
    given_base: str

    @property
    def copy(self) -> Copy:
        return Copy(self.text, self.base)


def acquired(document: Document, given: dict[str, Any], before: Acquired | None) -> Acquired:
    """A document of the cluster, as a node has it that was started with this."""
    is_as_before = before is not None and before.given == given
    given_base = before.given_base if before is not None and is_as_before else document.digest
    return Acquired(document.text, document.version, document.digest, given, given_base)


class AcquiredFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._written = ""  # as this node read or wrote it last

    def read(self) -> Acquired | None:
        """What was acquired; None for a node that never was in its cluster. BadSetting for a file that is not one of these."""
        try:
            whole = self.path.read_bytes()[:BYTES_MAX].decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as problem:
            raise self._unreadable(problem) from problem
        _, line, text = (*whole.split("\n", 2), "", "")[:3]
        try:
            head = msgspec.json.decode(line.removeprefix("# "), type=_Head)
        except msgspec.DecodeError as problem:
            raise self._unreadable(problem) from problem
        self._written = whole
        return Acquired(text, head.version, head.base, head.given, head.given_base)

    def write(self, kept: Acquired) -> None:
        """Replace it, unless somebody has edited it since. A node whose disk is full goes on without."""
        head = msgspec.json.encode(_Head(kept.version, kept.base, kept.given, kept.given_base)).decode()
        whole = f"{_NOTE}# {head}\n{kept.text}"
        if whole == self._written:
            return
        try:
            if self.path.exists() and self.path.read_text() != self._written:
                log.error(
                    "%s was edited while this node runs, and is left alone; version %d of the cluster is in force. Remove the "
                    "file, or edit the cluster's with `holdfast cluster configure`, before this node starts again",
                    self.path,
                    kept.version,
                )
                return
            self._replace(whole)
            self._written = whole
        except (OSError, UnicodeDecodeError) as problem:
            log.error("%s cannot be written (%s): after a restart this node asks its cluster again", self.path, problem)

    def _replace(self, whole: str) -> None:
        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(whole.encode())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _unreadable(self, problem: Exception) -> BadSetting:
        return BadSetting(
            f"{self.path} cannot be read ({problem}); remove it: this node then asks its cluster", setting="configuration"
        )
