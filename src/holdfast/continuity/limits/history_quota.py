"""The quota of the history: how far the history may be given up, and when a snapshot is forced so that it can be (rule 8).

    place   begins after      oldest snapshot that is kept            newest
            │                 │                                       │
            ├─────────────────┴───────────────────────────────────────┤    held: events, bytes; the quota is `history_max`
             given up ───────▶                                             never past a snapshot that is still needed

    held              who is heeded                                     who takes a snapshot
    below FORCED      every member; one without a snapshot: nothing     nobody for this reason
                      is given up
    FORCED            the same                                          each current server whose newest one is NEWER of the
                                                                        quota old
    the quota         current servers that have a snapshot to which     the same
                      the history reaches back. Others need one of
                      another server from then on

A server keeps two snapshots. So one is forced at three quarters of the quota, and the next at the quota: then the older one goes,
and the history is given up to the newer. A server that comes back meanwhile holds the history until it has taken its next one:
that is NEWER of the quota more. The history itself is never removed. If no current server can take a snapshot, it grows,
and the log says so: in the end the journal is full, and the domain answers 503.

Pure: it sees what the membership and the subscriptions say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.continuity.domain import HistoryLimit
from holdfast.continuity.machines.membership import Member

# Parts of the quota. The rest is room for what comes while a snapshot is taken.
FORCED = 0.75
NEWER = 0.25


class Held(NamedTuple):
    """What the history holds, or what came after a place."""

    events: int
    bytes: int = 0

    def part_of(self, limit: HistoryLimit) -> float:
        """How much of a quota this is; 1 is all of it."""
        by_events = self.events / limit.events if limit.events else 0.0
        return max(by_events, self.bytes / limit.bytes if limit.bytes else 0.0)


class Judgement(NamedTuple):
    give_up_to: int  # a place
    is_forced: bool  # this server is to take a snapshot
    problem: str = ""  # for the log


def judge(
    members: Mapping[str, Member], limit: HistoryLimit, held: Held, server: str, since_snapshot: Held, can_take: bool,
    begins_after: int = 0,
) -> Judgement:  # fmt: skip
    """`since_snapshot`: what came after this server's newest snapshot; `can_take`: it has a command for that; `begins_after`: the
    history was given up to this place."""
    part = held.part_of(limit)
    everyone = min((each.snapshot for each in members.values()), default=0)
    if part < FORCED:
        return Judgement(everyone, False)
    is_current = server in members and members[server].state == "current"
    is_forced = can_take and is_current and since_snapshot.part_of(limit) >= NEWER
    if part < 1.0:
        return Judgement(everyone, is_forced)
    servers = [each for each in members.values() if each.state == "current" and each.role == "server"]
    usable = [each.snapshot for each in servers if each.snapshot and each.snapshot >= begins_after]
    if usable:
        return Judgement(max(everyone, min(usable)), is_forced)
    if any(each.snapshot for each in servers):  # the history does not reach back to them: others are on their way
        return Judgement(everyone, is_forced)
    problem = (
        f"the history is at its quota ({held.events} events, {held.bytes} bytes), and no current server has a snapshot;"
        " start its listener with --snapshot, or raise history_max"
    )
    return Judgement(everyone, is_forced, problem)
