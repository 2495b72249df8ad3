"""Revisions: which change of its place a destination has seen last, so that a command that comes late revives or deletes nothing.

The places of a cluster number their changes, all names together. `Create` and `Delete` carry the number. That of a destination
which is gone is kept too: the last 10,000 of them. For an older name, whatever is not later than
those that were forgotten is late.
"""

from __future__ import annotations

# Far more than are deleted while a command is on its way.
GONE_MAX = 10_000


class Revisions:
    def __init__(self) -> None:
        self.present: dict[str, int] = {}
        self.gone: dict[str, int] = {}  # the one that was deleted first, first
        self.forgotten = 0  # the greatest revision of a name that is not kept any more

    def of(self, name: str) -> int:
        """The revision that was applied last to this name."""
        return self.present.get(name) or self.gone.get(name) or self.forgotten

    def create(self, name: str, revision: int) -> None:
        self.gone.pop(name, None)
        self.present[name] = revision

    def delete(self, name: str, revision: int) -> None:
        """The destination is gone; `revision` 0: by a command without one."""
        before = self.present.pop(name, 0)
        if revision or before:
            self.gone.pop(name, None)
            self.gone[name] = max(revision, before)
            if len(self.gone) > GONE_MAX:
                self.forgotten = max(self.forgotten, self.gone.pop(next(iter(self.gone))))
