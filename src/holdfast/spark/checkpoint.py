"""Mending a checkpoint after a power cut, which leaves files with a name and no content.

    checkpoint/metadata      the id of the query
    checkpoint/offsets/41    how far batch 41 goes; written before anything of it is read
    checkpoint/commits/41    batch 41 is where it belongs; written after the sink has committed it

Spark writes each file whole before it gets its name, syncs none of them, and will not start a query whose newest file is empty.
Our sinks make a batch's offsets durable before they commit it (`sink.stage_writer.make_plan_durable`), and our source makes its
commit durable before it confirms. So only two files can be half on disk: the newest offsets, of a batch that no sink has
committed, and the newest commit, of a batch whose repetition the sink will know. Both are set aside: the batch is planned again,
or comes again.

A query must not be running when its checkpoint is mended. Anything else that cannot be read is damage, and is left alone.
"""

from __future__ import annotations

import json
import logging
import os

from holdfast.errors import BadSetting, DiskFailed
from holdfast.spark.lake.files import sync_folder
from holdfast.spark.lake.table import local_folder

log = logging.getLogger("holdfast.spark.checkpoint")

METADATA = "metadata"
OFFSETS = "offsets"
COMMITS = "commits"


def mend_checkpoint(checkpoint: str) -> list[str]:
    """Set aside what a power cut left half written, so that the query can be started; what that was.

    Nothing is done to a checkpoint that is whole, that is not there yet, or that lies in no folder of this machine.
    """
    try:
        folder = local_folder(checkpoint)
    except BadSetting:
        return []
    try:
        torn = _torn(folder)
        for name in torn:
            _set_aside(folder, name)
    except OSError as problem:
        raise DiskFailed(
            f"the checkpoint {folder} cannot be read or mended ({problem}); see to its disk", path=folder
        ) from problem
    return torn


def _torn(folder: str) -> list[str]:
    offsets, commits = _newest(folder, OFFSETS), _newest(folder, COMMITS)
    is_commit_torn = commits >= 0 and _is_torn(folder, f"{COMMITS}/{commits}")
    whole_commits = commits - 1 if is_commit_torn else commits
    torn = [f"{COMMITS}/{commits}"] if is_commit_torn else []
    if offsets > whole_commits and _is_torn(folder, f"{OFFSETS}/{offsets}"):
        torn.append(f"{OFFSETS}/{offsets}")
        offsets -= 1
    if offsets < 0 and whole_commits < 0 and os.path.exists(os.path.join(folder, METADATA)) and _is_torn(folder, METADATA):
        torn.append(METADATA)  # nothing was planned yet: the query gets another id
    return torn


def _newest(folder: str, part: str) -> int:
    """The number of the newest file; -1 if there is none."""
    try:
        names = os.listdir(os.path.join(folder, part))
    except FileNotFoundError:
        return -1
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _is_torn(folder: str, name: str) -> bool:
    """Empty, full of zeros, or cut off in the middle of the JSON in its last line."""
    with open(os.path.join(folder, name), "rb") as file:
        data = file.read()
    if not data or b"\0" in data:
        return True
    last = data.splitlines()[-1]
    try:
        return last.startswith((b"{", b"[")) and not isinstance(json.loads(last), dict | list)
    except ValueError:
        return True


def _set_aside(folder: str, name: str) -> None:
    """Under a name that Spark does not look at; its checksum, which speaks of what the file should have been, goes."""
    path = os.path.join(folder, name)
    place, last = os.path.split(path)
    log.warning("%s: %s is only half on disk, from a batch that a power cut interrupted; set aside", folder, name)
    os.replace(path, os.path.join(place, f"_torn.{last}"))
    try:
        os.unlink(os.path.join(place, f".{last}.crc"))
    except FileNotFoundError:
        pass
    sync_folder(place)
