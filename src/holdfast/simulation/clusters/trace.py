"""The trace of a run: what happened, when and where. Two runs of one seed have the same digest, in any process.

The digest covers every line. The last lines are kept, for whoever has to find out why a promise was broken.
"""

from __future__ import annotations

import hashlib
from collections import deque

LINES_KEPT = 400


class Trace:
    def __init__(self, lines_kept: int = LINES_KEPT) -> None:
        self.lines: deque[str] = deque(maxlen=lines_kept)
        self.count = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def note(self, now_us: int, who: str, what: str) -> None:
        line = f"{now_us / 1e6:.6f} {who} {what}"
        self.count += 1
        self.lines.append(line)
        self._digest.update(line.encode())

    def digest(self) -> str:
        return self._digest.hexdigest()
