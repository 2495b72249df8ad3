"""The tail judge: whether a stream has lost its end, or has other contents than it had (rule 4 of the cluster).

    sent after 17 was known  ─▶ gets 18 or more     otherwise entries from 18 on are gone
    asked after 17 was known ─▶ last is 17 or more  otherwise the same; three times in a row, because a new leader may lag, and
                                                    only of a leader that hears a majority: one that is alone may lag
    number 17, read twice    ─▶ one checksum        otherwise another entry stands in its place

Numbers become known by acknowledgements and by reading: both come only after a majority of the copies has the entry.
"""

from __future__ import annotations

from collections import OrderedDict

# Checksums that are kept, newest last. A lost tail is noticed by its numbers long before this many were given again.
CHECKSUMS_MAX = 8192
CONTRADICTIONS_MAX = 3


class TailJudge:
    """Each method returns what is wrong, in words, or an empty string."""

    def __init__(self) -> None:
        self.known = 0  # the newest number that is in the stream for sure
        self._checksums: OrderedDict[int, int] = OrderedDict()
        self._contradictions = 0

    def accepted(self, number: int, checksum: int, known_when_sent: int) -> str:
        """Judge the acknowledgement of a command that was first sent when `known_when_sent` was known."""
        if number <= known_when_sent:
            return (
                f"a command was stored as entry {number}, although entry {known_when_sent} was there before it was sent: entries "
                f"from {number} on were lost"
            )
        return self.saw(number, checksum)

    def saw(self, number: int, checksum: int) -> str:
        """Judge an entry by its checksum, which is right for its contents."""
        found = self._checksums.setdefault(number, checksum)
        if found != checksum:
            return f"entry {number} has checksum {checksum:08x} and had {found:08x}: another entry stands in its place"
        if len(self._checksums) > CHECKSUMS_MAX:
            self._checksums.popitem(last=False)
        self.known = max(self.known, number)
        return ""

    def heard_last(self, last: int, known_when_asked: int, *, is_led: bool = True) -> str:
        """Judge the last number that a server names. `is_led`: it leads, and hears a majority of the copies."""
        if last >= known_when_asked:
            self._contradictions = 0
            self.known = max(self.known, last)
            return ""
        if not is_led:
            return ""
        self._contradictions += 1
        if self._contradictions < CONTRADICTIONS_MAX:
            return ""
        return f"its last entry is {last}, although entry {known_when_asked} was there: entries from {last + 1} on were lost"
