"""The incarnation of a journal: which life of its numbers this is.

    7c1e…            never restored: the id of the journal
    7c1e…+1-9f3a…    restored once, with a tag drawn at random
    7c1e…+2-04bd…    restored again, from a backup of that one

A journal that was restored from a backup goes on from an older state. It gives positions, entries and sequences to other events
than those that the lost journal gave them to. So numbers are the same only within one incarnation, and whoever remembers a number
remembers the incarnation with it. A server tells its own in the greeting.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple, Self

TAG_BYTES = 8
_MARK = "+"


class Restored(NamedTuple):
    """How often a journal was restored, and the tag of the last time: two copies of one backup have different ones."""

    times: int = 0
    tag: bytes = bytes(TAG_BYTES)

    def again(self) -> Self:
        return self._replace(times=self.times + 1, tag=secrets.token_bytes(TAG_BYTES))

    def incarnation(self, journal: str) -> str:
        """The incarnation of the journal with this id."""
        return f"{journal}{_MARK}{self.times}-{self.tag.hex()}" if self.times else journal


NEVER_RESTORED = Restored()


def is_restored(known: str, told: str) -> bool:
    """Tell whether `told` is another incarnation of the journal that was known as `known`.

    "" is that of a server, or a file, of a release that did not tell it: nothing is known then. Another journal is no incarnation
    of this one.
    """
    return bool(known) and known != told and known.partition(_MARK)[0] == told.partition(_MARK)[0]
