"""A candidate: when a backup of a message manager claims the next epoch.

    primary silent for 0.5 s ──▶ + rank × 0.15 s ──▶ at most 0.1 s behind? ──▶ claim epoch + 1 ──▶ applied: somebody's epoch began
                                                       no: not yet                 1 s without: claim again

The claim is a plain append to the channel, and the first one of the next epoch wins there. So two candidates that claim at once
cost nothing but an entry. A primary that resigns names its successor, which claims at once, without a silence. A primary that was
deposed and is found alive was suspected wrongly: the limit is doubled, up to 4 s. An hour without that halves it again.
"""

from __future__ import annotations

from collections import deque

from holdfast.cluster.liveness import SILENCE_MS

SILENCE_MS_MAX = 4_000
# Candidates claim one after the other, so that usually one does.
RANK_MS = 150
# A candidate whose state is older than this does not claim.
BEHIND_MS_MAX = 100
# A claim that was not applied after this was lost, or refused: it is made again.
CLAIM_AGAIN_MS = 1_000
# After so long without a wrong suspicion the limit is halved.
CALM_MS = 3_600_000
# Marks that are kept to tell how far behind it is; beyond, every second one is dropped.
MARKS_MAX = 64


class Candidate:
    def __init__(self, own: str, rank: int, now_ms: int) -> None:
        """`own` is the start id of this node; the candidate of rank 0 claims first."""
        self.epoch = 0
        self.primary = ""  # the start id of the node whose epoch it is; "" before the first
        self.silence_ms = SILENCE_MS
        self.wrongly_suspected = 0
        self._own = own
        self._rank = rank
        self._deposed = ""
        self._suspected_ms = now_ms
        self._marks: deque[tuple[int, int]] = deque()  # when which entry was known to be durable, and is not applied yet
        self._claimed: tuple[int, int] | None = None  # which epoch, and when
        self._successor = ""  # to whom the primary of this epoch resigns

    @property
    def is_primary(self) -> bool:
        return self.primary == self._own

    @property
    def is_invited(self) -> bool:
        """The primary resigns, and this node is to claim."""
        return self._successor == self._own

    def began(self, epoch: int, primary: str, now_ms: int) -> bool:
        """A claim was applied. Whether this node is deposed by it, and must step down. A primary that had resigned is not deposed
        for its silence."""
        if epoch <= self.epoch:
            return False
        was_primary, former, was_planned = self.is_primary, self.primary, bool(self._successor)
        self.epoch, self.primary, self._claimed, self._successor = epoch, primary, None, ""
        self._deposed = "" if was_planned or former == primary else former
        return was_primary and not self.is_primary

    def lost(self) -> None:
        """The copy of this node ended without being deposed. If it led, nobody does: its node is heard, so no other claims."""
        if self.is_primary:
            self.primary, self._successor = "", ""

    def heard(self, start: str, now_ms: int) -> None:
        """A heartbeat of this node has come: if it is of a primary that was deposed for its silence, it was suspected wrongly."""
        if start == self._deposed and start:
            self._deposed = ""
            self.wrongly_suspected += 1
            self._suspected_ms = now_ms
            self.silence_ms = min(2 * self.silence_ms, SILENCE_MS_MAX)
        elif self.silence_ms > SILENCE_MS and now_ms - self._suspected_ms >= CALM_MS:
            self._suspected_ms = now_ms
            self.silence_ms //= 2

    def resigns(self, epoch: int, successor: str) -> None:
        """The primary of this epoch says to whom it resigns: the start id of a node; "" for nobody, or nobody any more."""
        if epoch == self.epoch:
            self._successor = successor

    def followed(self, applied: int, durable: int, now_ms: int) -> None:
        """This is how far the channel reaches, and how much of it is applied here."""
        if not self._marks or durable > self._marks[-1][1]:
            self._marks.append((now_ms, durable))
        while self._marks and self._marks[0][1] <= applied:
            self._marks.popleft()
        if len(self._marks) > MARKS_MAX:
            self._marks = deque(list(self._marks)[::2])

    def behind_ms(self, now_ms: int) -> int:
        """For how long the oldest entry that is not applied here has been durable, as far as is known."""
        return now_ms - self._marks[0][0] if self._marks else 0

    def claim(self, primary_silent_ms: int, now_ms: int) -> int | None:
        """The epoch to claim now, or None. `primary_silent_ms` is the silence of `primary`, whoever that is."""
        if self.is_primary:
            return None
        if not self.is_invited and primary_silent_ms < self.silence_ms + self._rank * RANK_MS:
            return None
        if self.behind_ms(now_ms) > BEHIND_MS_MAX:
            return None
        if self._claimed is not None and now_ms - self._claimed[1] < CLAIM_AGAIN_MS:
            return None
        self._claimed = self.epoch + 1, now_ms
        return self.epoch + 1
