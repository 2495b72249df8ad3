"""A run: drafts that become records of one segment, with one write and one sync.

    draft ─▶ fits the tail? ─▶ room for its purpose? ─▶ a record, with its number
                  │ no                 │ no
                  ▼                    ▼
            the run ends            refused, like all of its purpose behind it

Nobody overtakes: when a draft is refused for want of room, all of its purpose behind it are refused, even those that would fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.channel.channel import Buffer, Purpose
from holdfast.channel.journal.files.record import COMMAND, RELEASED, SNAPSHOT_PART, Note, encode, padded
from holdfast.channel.journal.files.segment import POINT_SPACING_BYTES, Segment
from holdfast.channel.journal.space import Space
from holdfast.errors import HoldfastError


class Draft(NamedTuple):
    """A record to be written: a command, or a note of the journal to itself."""

    kind: int
    payload: Buffer
    purpose: Purpose


# The number of a draft's entry (for a note: of the next entry), or why it was refused.
Outcome = int | HoldfastError


class Admission:
    """Decides whether there is room for a draft of the group. `blocked`: purposes that were refused in this group, and why."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.blocked: dict[Purpose, HoldfastError] = {}

    def refusal(self, draft: Draft, left: int) -> HoldfastError | None:
        """Return why this draft is refused when the tail has so many bytes left; None when it is taken."""
        size = padded(len(draft.payload))
        if draft.kind == RELEASED and size <= left:
            return None
        refusal = self.blocked.get(draft.purpose) or self.space.refusal(
            draft.purpose, size, left, is_snapshot=draft.kind == SNAPSHOT_PART
        )
        if refusal:
            self.blocked[draft.purpose] = refusal
        return refusal


class Run:
    """Records from the tail's end up to `end`, and the facts to publish once they are durable."""

    __slots__ = ("command_bytes", "end", "next_entry", "notes", "parts", "points", "upkeep_bytes")

    def __init__(self, start: int, next_entry: int) -> None:
        self.end = start
        self.next_entry = next_entry
        self.parts: list[Buffer] = []
        self.notes: list[Note] = []
        self.points: list[tuple[int, int]] = []
        self.upkeep_bytes = 0
        self.command_bytes = 0


def gather(drafts: Sequence[Draft], outcomes: list[Outcome], tail: Segment, next_entry: int, admission: Admission) -> Run:
    """Take as many drafts as fit the tail, from the first without an outcome on. Each gets its number, or why it is refused."""
    group = tail.end
    run = Run(group, next_entry)
    at, room, life, seed = group, tail.header.segment_bytes, tail.life, tail.seed
    entry, next_point, is_ample = next_entry, 0, admission.space.ordinary >= 1 and not admission.blocked
    for draft in drafts[len(outcomes) :]:
        kind, payload, purpose = draft
        size = padded(len(payload))
        if at + size > room:
            break
        if not is_ample and (refusal := admission.refusal(draft, room - at)):
            outcomes.append(refusal)
            continue
        run.parts += encode(kind, payload, entry, at=at, group=group, life=life, seed=seed)
        outcomes.append(entry)
        if kind == COMMAND:
            if at >= next_point:
                run.points.append((entry, at))
                next_point = at + POINT_SPACING_BYTES
            entry += 1
            run.command_bytes += len(payload)
        else:
            run.notes.append(Note(kind, at, bytes(payload)))
        if purpose is Purpose.UPKEEP:
            run.upkeep_bytes += size
        at += size
    run.end, run.next_entry = at, entry
    return run
