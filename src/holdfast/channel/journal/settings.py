"""The settings of a journal: how large it may become, and which part is reserve.

    ┌──────────────── size_bytes ──────────────────────────────────────────┐
    │ in use … tail │ ordinary spares │ events' reserve │ upkeep's reserve │
    └──────────────────────────────────────────────────────────────────────┘
                      made ahead of need   always there, written before the first event

A reserve of R bytes has enough segments for R bytes of commands *of any size*. A command that does not fit the rest of a segment
leaves that rest unused, and every record has a head: `sure_bytes` counts both.
"""

from __future__ import annotations

import msgspec

from holdfast.channel.channel import COMMAND_BYTES_MAX
from holdfast.channel.journal.files.disk import SECTOR_BYTES
from holdfast.channel.journal.files.layout import HEADER_BYTES
from holdfast.channel.journal.files.record import HEAD_BYTES, padded
from holdfast.errors import BadSetting

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

SEGMENT_BYTES_MIN = 8 * KIB
SEGMENT_BYTES_MAX = 1 * GIB

# Spares kept ready beyond the reserves: one for the next switch, one while the next is being written with zeros.
ORDINARY_AHEAD = 2


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. `segment_bytes` counts only when a journal is created: an existing one keeps its own.

    size_bytes         the journal never grows beyond this
    initial_bytes      written before the first event (more, if the reserves need more)
    segment_bytes      size of one file
    reserve_bytes      events that are still accepted when no new space can be had
    upkeep_bytes       kept for confirmations, snapshots and carried events; events never take it
    tail_cache_bytes   newest commands kept in memory, for readers that keep up
    read_cache_bytes   older commands kept in memory, for readers that lag
    """

    size_bytes: int = 4 * GIB
    initial_bytes: int = 64 * MIB
    segment_bytes: int = 8 * MIB
    reserve_bytes: int = 16 * MIB
    upkeep_bytes: int = 24 * MIB
    tail_cache_bytes: int = 16 * MIB
    read_cache_bytes: int = 8 * MIB


class Plan(msgspec.Struct, frozen=True):
    """The settings, counted in segments of a given size."""

    segment_bytes: int
    events_segments: int
    upkeep_segments: int
    initial_segments: int
    segments_max: int

    @property
    def reserve_segments(self) -> int:
        return self.events_segments + self.upkeep_segments

    @property
    def usable_bytes(self) -> int:
        return usable_bytes(self.segment_bytes)

    @property
    def sure_bytes(self) -> int:
        return sure_bytes(self.segment_bytes)

    @property
    def command_bytes_max(self) -> int:
        return min(COMMAND_BYTES_MAX, self.usable_bytes - HEAD_BYTES)


def usable_bytes(segment_bytes: int) -> int:
    return segment_bytes - HEADER_BYTES


def sure_bytes(segment_bytes: int) -> int:
    """Return the bytes of commands (of 256 or more each) that fit a segment whatever their sizes.

    The unused rest is smaller than the largest record. It is never more than half a segment, because a record longer than that
    fills more than half. The head and padding of a record are at most an eighth of a command of 256 bytes.
    """
    usable = usable_bytes(segment_bytes)
    return max(usable - padded(COMMAND_BYTES_MAX), usable // 2) * 8 // 9


def large_bytes(settings: JournalSettings) -> int:
    """Return the bytes that a journal holds beside its reserves, in commands of any size."""
    planned = plan(settings)
    return (planned.segments_max - planned.reserve_segments) * planned.sure_bytes


def size_for(settings: JournalSettings, wanted_bytes: int) -> int:
    """Return the size of a journal, otherwise set like this, that holds so many bytes beside its reserves."""
    planned = plan(settings)
    return (-(-wanted_bytes // planned.sure_bytes) + planned.reserve_segments) * planned.segment_bytes


def plan(settings: JournalSettings, segment_bytes: int | None = None) -> Plan:
    """Return the settings in segments of this size (an existing journal's, or the one set). BadSetting if that is impossible."""
    size = segment_bytes or settings.segment_bytes
    _check(settings, size)
    events = -(-settings.reserve_bytes // sure_bytes(size))
    upkeep = -(-settings.upkeep_bytes // sure_bytes(size))
    least = events + upkeep + 2
    if least * size > settings.size_bytes:
        raise BadSetting(
            f"a journal size of {settings.size_bytes} bytes is too small: its reserves and two more segments of {size} bytes "
            f"need {least * size}; raise the journal size, or lower the reserve or the segment size",
            setting="size_bytes",
            least=least * size,
        )
    initial = max(least, min(settings.initial_bytes, settings.size_bytes) // size)
    return Plan(size, events, upkeep, initial, settings.size_bytes // size)


def _check(settings: JournalSettings, size: int) -> None:
    if not SEGMENT_BYTES_MIN <= size <= SEGMENT_BYTES_MAX or size % SECTOR_BYTES:
        raise BadSetting(
            f"segment_bytes {size} must be a multiple of {SECTOR_BYTES} from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}",
            setting="segment_bytes",
        )
    for name in ("reserve_bytes", "upkeep_bytes", "initial_bytes", "tail_cache_bytes", "read_cache_bytes"):
        if getattr(settings, name) < 0:
            raise BadSetting(f"{name} {getattr(settings, name)} must not be negative", setting=name)
