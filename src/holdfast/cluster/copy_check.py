"""A check of the copies of a message manager: each tells the digest of its state at the entry of a `Check`. Pure.

    all equal                       nothing to do
    backups differ from most        those are wrong: they are opened anew
    the primary differs from most   it is wrong, and nothing is opened anew: its snapshots may be wrong, too
    no digest has most copies       the primary is believed, since it is the one that delivers; without it, nobody

Copies that do not answer are not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

# Checks whose digests a copy remembers: more than are under way at a time.
REMEMBERED_MAX = 16


class Digests:
    """The digests of one copy, by the entry of the check."""

    def __init__(self) -> None:
        self._at: dict[int, str] = {}

    def note(self, entry: int, digest: str) -> None:
        self._at[entry] = digest
        if len(self._at) > REMEMBERED_MAX:
            del self._at[next(iter(self._at))]

    def at(self, entry: int) -> str | None:
        """None for an entry that was no check, or is too long ago, or that this copy had in its snapshot."""
        return self._at.get(entry)


class Judgement(NamedTuple):
    digest: str | None  # the one that is believed; None if none is
    differing: list[str]  # the copies with another one; all of them, if none is believed
    wrong_backups: list[str]  # those that are to be opened anew


def judged(digests: Mapping[str, str], primary: str | None) -> Judgement:
    """Compare the digests that were told, by node. `primary` is None if it did not answer."""
    counts = Counter(digests.values())
    believed = next((digest for digest, copies in counts.items() if 2 * copies > len(digests)), None)
    if believed is None and primary is not None:
        believed = digests[primary]
    differing = sorted(node for node, digest in digests.items() if digest != believed)
    is_primary_right = primary is not None and primary not in differing
    return Judgement(believed, differing, differing if is_primary_right else [])
