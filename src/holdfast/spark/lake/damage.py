"""Damage by a power cut: log files with a name and no content, from a commit that was never reported, are set aside.

Delta writes each file of its log whole before it gets its name, and syncs nothing. A commit of ours is synced before it counts,
so only the newest version, and a checkpoint made with it, can be half on disk. They are set aside: the batch comes again, and is
committed then. Anything else that cannot be read is damage, and is left alone.
"""

from __future__ import annotations

import json
import logging
import os
import re

from holdfast.spark.lake.files import sync_folder

log = logging.getLogger("holdfast.spark.lake.table")

MARK = "_last_checkpoint"
_VERSION = re.compile(r"\d{20}\.json\Z")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet\Z")


def set_torn_aside(folder: str) -> list[str]:
    """Rename the files of the log that are only half on disk; their names."""
    torn = _torn(folder)
    for name in torn:
        log.warning("%s: %s is only half on disk, from a commit that a power cut interrupted; set aside", folder, name)
        os.rename(os.path.join(folder, name), os.path.join(folder, f"_torn.{name}"))
    if torn:
        sync_folder(folder)
    return torn


def _torn(folder: str) -> list[str]:
    names = sorted(os.listdir(folder))
    versions = [name for name in names if _VERSION.match(name)][-1:]
    checkpoints = [name for name in names if _CHECKPOINT.match(name)][-1:]
    torn = [name for name in (*versions, *checkpoints) if _is_torn(os.path.join(folder, name))]
    has_mark = MARK in names and any(name in torn for name in checkpoints)  # it points to what is set aside
    return [*torn, MARK] if has_mark else torn


def _is_torn(path: str) -> bool:
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".parquet"):
        return len(data) < 12 or data[:4] != b"PAR1" or data[-4:] != b"PAR1"
    try:
        return not [json.loads(line) for line in data.splitlines()]
    except ValueError:
        return True
