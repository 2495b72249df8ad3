"""Fair shares: whose batch goes into the channel next, so that who sends little need not wait for those that flood (B22).

A channel keeps its order: a batch waits until everything before it is written. So what goes in early makes others late.

    quiet      has at most 8 KiB on its way, this batch included: goes in at once
    a flood    has more, and is one until it has had less for a quarter of a second

    company of a flood                               of all floods together under way
    a quiet session, in the last quarter second      32 KiB or more, at least one batch
    another session, in the last second              1 MiB, at least one batch
    nobody                                           no bound: its window is one

Beside a quiet session the bound is 32 KiB at first. It grows while receipts come soon: in 4 ms, or in three times the shortest of
late. It shrinks when they do not. Where a sync takes long whatever is in it, more goes into each, and the quiet session waits no
longer than it would anyway.

Batches over the bound wait in line: in order for each session, and sessions take turns. With each receipt the next go in. There
are no pauses: whoever waits in line waits for a batch that is under way. So the line always moves, and a flood keeps most of its
rate.

A session that begins to flood looks quiet for its first 8 KiB, and no longer. Pure: the time is handed in, in seconds, and never
goes back.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

# An event or a few: more than those that send one by one have under way, and less than a batch of a pipeline.
QUIET_BYTES_MAX = 8 << 10
# Long enough for one that sends a few events a second to be noticed; a flood beside it then has its full rate again.
QUIET_SECONDS = 0.25
FLOOD_SECONDS = 0.25
BESIDE_QUIET_BYTES_MIN = 32 << 10
# A receipt comes soon within this, or within so many times the shortest of late, which is forgotten by a hundredth with each.
SOON_SECONDS = 0.004
SOON_TIMES = 3
SHORTEST_FORGOTTEN = 1.01
# Enough that the next group is there when one is written; a group of the journal is as much at most.
IN_COMPANY_BYTES_MAX = 1 << 20
COMPANY_SECONDS = 1.0

Item = TypeVar("Item")


class FairShares(Generic[Item]):
    def __init__(self) -> None:
        self._load: dict[str, int] = {}  # bytes under way or in line, by session
        self._floods_under_way = 0
        self.beside_quiet_bytes = BESIDE_QUIET_BYTES_MIN
        self._shortest = 1.0
        # The latest last: until when each session is what it was seen to be.
        self._quiet: dict[str, float] = {}
        self._floods: dict[str, float] = {}
        self._line: dict[str, deque[tuple[Item, int]]] = {}
        self._stopped: dict[str, deque[tuple[Item, int]]] = {}
        self._latest = ""
        self._company_until = 0.0

    def offer(self, session: str, item: Item, size: int, now: float) -> bool | None:
        """Whether a batch goes in now: as that of a flood (True), or of a quiet session (False). None: it waits in line."""
        if session != self._latest:
            self._latest, self._company_until = session, now + COMPANY_SECONDS
        self._load[session] = load = self._load.get(session, 0) + size
        is_flood = self._see(session, load, now)
        waiting = self._stopped.get(session) or self._line.get(session)
        if waiting is not None:
            waiting.append((item, size))
            return None
        if not is_flood:
            return False
        if self._line or not self._has_room(size, now):
            self._line[session] = deque(((item, size),))
            return None
        self._floods_under_way += size
        return True

    def _see(self, session: str, load: int, now: float) -> bool:
        """Note what a session is that has so much on its way; whether it is a flood."""
        if load > QUIET_BYTES_MAX:
            self._quiet.pop(session, None)
            _put_last(self._floods, session, now, FLOOD_SECONDS)
            return True
        if self._floods.get(session, 0.0) > now:
            return True
        _put_last(self._quiet, session, now, QUIET_SECONDS)
        return False

    def is_beside_quiet(self, now: float) -> bool:
        """Whether a quiet session has sent something of late."""
        return bool(self._quiet) and next(reversed(self._quiet.values())) > now

    def _has_room(self, size: int, now: float) -> bool:
        if not self._floods_under_way:
            return True
        if self.is_beside_quiet(now):
            return self._floods_under_way + size <= self.beside_quiet_bytes
        return now >= self._company_until or self._floods_under_way + size <= IN_COMPANY_BYTES_MAX

    def learn(self, size: int, began: float, now: float) -> None:
        """Beside a quiet session, see by the receipt of a flood how much may be under way."""
        if not self.is_beside_quiet(now):
            return
        took = now - began
        self._shortest = min(took, self._shortest * SHORTEST_FORGOTTEN)
        if took <= max(SOON_SECONDS, SOON_TIMES * self._shortest):
            self.beside_quiet_bytes = min(IN_COMPANY_BYTES_MAX, self.beside_quiet_bytes + size // 4)
        else:
            self.beside_quiet_bytes = max(BESIDE_QUIET_BYTES_MIN, self.beside_quiet_bytes * 3 // 4)

    def receipted(self, session: str, size: int, is_flood: bool) -> None:
        """A batch is under way no longer. `next` tells what may go in instead."""
        if is_flood:
            self._floods_under_way -= size
        left = self._load.pop(session, size) - size  # as `_lighten`, for every batch
        if left:
            self._load[session] = left

    def next(self, now: float) -> tuple[str, Item, int] | None:
        """Take the next batch of the line, if it may go in now: as that of a flood."""
        if not self._line:
            return None
        session, waiting = next(iter(self._line.items()))
        if not self._has_room(waiting[0][1], now):
            return None
        item, size = waiting.popleft()
        del self._line[session]
        if waiting:
            self._line[session] = waiting
        self._floods_under_way += size
        return session, item, size

    def stop(self, session: str, item: Item, size: int, is_flood: bool) -> None:
        """A batch that could go in must wait for something else, and its session with it: nobody else waits."""
        if is_flood:
            self._floods_under_way -= size
        self._stopped[session] = self._line.pop(session, deque())
        self._stopped[session].appendleft((item, size))

    def resume(self, session: str, item: Item) -> bool:
        """Whether the batch that a session was stopped for goes in now, as that of a flood; the rest waits in line. A batch that
        was dropped meanwhile does not."""
        waiting = self._stopped.get(session)
        if waiting is None or waiting[0][0] is not item:
            return False
        del self._stopped[session]
        self._floods_under_way += waiting.popleft()[1]
        if waiting:
            self._line[session] = waiting
        return True

    def drop(self, session: str) -> None:
        """Forget a session, and its batches that wait; those under way are still counted."""
        self._quiet.pop(session, None)
        self._floods.pop(session, None)
        for waiting in (self._line.pop(session, None), self._stopped.pop(session, None)):
            if waiting:
                self._lighten(session, sum(size for _, size in waiting))

    def _lighten(self, session: str, size: int) -> None:
        left = self._load.pop(session, size) - size
        if left:
            self._load[session] = left


def _put_last(seen: dict[str, float], session: str, now: float, seconds: float) -> None:
    """Note a session as the latest, and forget the earliest that count no more."""
    seen.pop(session, None)
    seen[session] = now + seconds
    while seen[earliest := next(iter(seen))] <= now:
        del seen[earliest]
