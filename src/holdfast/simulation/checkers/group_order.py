"""Group order: the events of a group are seen in the order in which they were sent, and by one recipient at a time.

    order kept            an event that is seen for the first time is newer than all events of its group seen before
    one at a time         while a recipient works on an event of a group, no other gets one of the same group

Seeing an event again is allowed (a crash may cost a confirm); seeing it for the first time too late is not.
"""

from __future__ import annotations

from collections.abc import Hashable


class GroupOrder:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._newest: dict[Hashable, int] = {}
        self._seen: set[tuple[Hashable, int]] = set()
        self._at_work: dict[Hashable, tuple[Hashable, int]] = {}

    def handed(self, group: Hashable, recipient: Hashable, number: int) -> None:
        """Note that a recipient begins to work on an event; `number` counts the events of the group as they were sent."""
        other = self._at_work.get(group)
        if other is not None and other[0] != recipient:
            self.problems.append(f"{recipient} has {number} of group {group} while {other[0]} works on {other[1]}")
        self._at_work[group] = recipient, number
        if (group, number) not in self._seen and number < self._newest.get(group, 0):
            self.problems.append(f"{number} of group {group} is seen after {self._newest[group]}")
        self._seen.add((group, number))
        self._newest[group] = max(number, self._newest.get(group, 0))

    def done(self, group: Hashable, recipient: Hashable) -> None:
        """Note that a recipient has given its verdict."""
        if self._at_work.get(group, (None, 0))[0] == recipient:
            del self._at_work[group]

    def all_gone(self) -> None:
        """Note that every recipient died in the middle of its work."""
        self._at_work.clear()

    @property
    def seen(self) -> int:
        return len(self._seen)
