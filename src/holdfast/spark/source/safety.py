"""Safety: from when on a commit of Spark survives a power cut, so that it may be confirmed.

Spark syncs neither its checkpoint nor its output. An event that is confirmed too early is lost if the power
fails: it is gone from the server, and the file that holds it was never on the disk. So a commit is confirmed later:

    sync=local      all file systems of the driver's machine are synced first. For checkpoints and tables on its own disks
    sync=SECONDS    nothing is confirmed before it is so many seconds old. For file systems of other machines (HDFS, S3, NFS):
                    until then they have written it down by themselves
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol

from holdfast.spark.source.offsets import Marks

Clock = Callable[[], float]


class Safety(Protocol):
    def safe(self, committed: Marks) -> Marks | None:
        """The newest marks that can no longer be lost, now that these are committed; None: nothing new."""

    def seconds_left(self) -> float:
        """How long until all commits are safe."""


class Synced:
    """A commit is safe after a sync. A commit that was synced is not synced again."""

    def __init__(self, sync: Callable[[], None] = os.sync) -> None:
        self._sync = sync
        self._synced: Marks | None = None

    def safe(self, committed: Marks) -> Marks | None:
        if committed == self._synced:
            return None
        self._sync()
        self._synced = committed
        return committed

    def seconds_left(self) -> float:
        return 0.0


class Aged:
    """A commit is safe when it is so many seconds old."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._noted: deque[tuple[float, Marks]] = deque()
        self._newest: Marks | None = None

    def safe(self, committed: Marks) -> Marks | None:
        now = self._clock()
        if committed != self._newest:
            self._newest = committed
            self._noted.append((now, committed))
        found = None
        while self._noted and self._noted[0][0] <= now - self._seconds:
            found = self._noted.popleft()[1]
        return found

    def seconds_left(self) -> float:
        return max(0.0, self._noted[-1][0] + self._seconds - self._clock()) if self._noted else 0.0


def safety(sync: float | Literal["local"]) -> Safety:
    return Synced() if sync == "local" else Aged(sync)
