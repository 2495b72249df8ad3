"""The plan of a backup: which segments are copied, and which are there from the backup before. Pure.

    wanted   3·g17·8 MiB   7·g18·8 MiB   4·g19·2 MiB
    there    3·g17·8 MiB   7·g18·5 MiB
    ───────────────────────────────────────────────
    copied                 7·g18·8 MiB   4·g19·2 MiB       a segment that has grown since is copied again, under another name
    kept     3·g17·8 MiB

A segment is the same when its number, its generation, its life and its bytes are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.backup.manifest import CopiedSegment


class Plan(NamedTuple):
    copied: tuple[CopiedSegment, ...]
    kept: tuple[CopiedSegment, ...]

    @property
    def bytes(self) -> int:
        """What is to be copied."""
        return sum(each.bytes for each in self.copied)


def planned(wanted: Iterable[CopiedSegment], there: Iterable[CopiedSegment]) -> Plan:
    """Compare what a journal consists of with what was copied before; kept segments have the checksum of their copy."""
    known = {each.key: each for each in there}
    segments = tuple(wanted)
    return Plan(
        tuple(each for each in segments if each.key not in known),
        tuple(known[each.key] for each in segments if each.key in known),
    )
