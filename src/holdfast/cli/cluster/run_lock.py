"""The lock of a cluster's folder: one process runs the cluster in it, and is found by others.

The kernel gives the lock back when that process ends, however it ends. So a file that was left behind misleads nobody.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import Unavailable


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder; Unavailable when a cluster runs there."""
    number = os.open(_file(folder), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise Unavailable(
                f"the cluster in {folder} runs already, as process {_written(number) or 'unknown'}; "
                f"end it with `holdfast cluster down --data {folder}`"
            ) from problem
        os.ftruncate(number, 0)
        os.pwrite(number, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(number)


def holder(folder: Path) -> int | None:
    """The process that runs the cluster in the folder; None when nobody does."""
    try:
        number = os.open(_file(folder), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _written(number)
    else:
        return None
    finally:
        os.close(number)


def _written(number: int) -> int | None:
    text = os.pread(number, 32, 0).decode(errors="replace")
    return int(text) if text.isdigit() else None


def _file(folder: Path) -> Path:
    return folder / "running"
