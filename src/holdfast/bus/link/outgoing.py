"""One direction of a link, where it is sent from: what waits for room, what is sent and not acknowledged, what is sent again.

    offer ──▶ waiting ──(room in the grant)──▶ unacknowledged ──(received up to)──▶ forgotten
                                                    ▲     │
                                                    └─────┘ sent again: it is named as missing

Nothing is sent again blindly. When nothing was acknowledged for a while, the other side is asked, and names what is missing. So
a slow peer does not get more to read because it is slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.bus.link.frame import BODY_BYTES_MAX, FRAME_BYTES

# What may be unacknowledged until the other side has said it, and the least that it ever says: two frames.
GRANT_BYTES_MIN = 2 * (BODY_BYTES_MAX + FRAME_BYTES)
# More than this does not wait for room: the link is given up, and both sides begin anew.
WAITING_BYTES_MAX = 8 << 20
# Ask after this silence; twice as long each time that nothing comes.
ASK_AFTER_MS = 100
ASK_AFTER_MS_MAX = 1_600
# A frame that is named as missing may still be on its way: it is sent again after this at the earliest.
SEND_AGAIN_MS = 50


class Piece(NamedTuple):
    """A message, or a part of one that the next piece continues."""

    body: bytes
    is_part: bool

    @property
    def size(self) -> int:
        return len(self.body) + FRAME_BYTES


class Outgoing:
    def __init__(self) -> None:
        self.newest = 0  # the newest sequence that was sent
        self.granted = GRANT_BYTES_MIN
        self.unacknowledged_bytes = 0
        self.waiting_bytes = 0
        self._waiting: deque[Piece] = deque()
        self._unacknowledged: deque[Piece] = deque()  # the newest is the last
        self._sent_ms: deque[int] = deque()  # when each of them was sent, the last time
        self._ask_ms = 0
        self._ask_after_ms = ASK_AFTER_MS

    @property
    def acknowledged(self) -> int:
        return self.newest - len(self._unacknowledged)

    @property
    def is_congested(self) -> bool:
        return bool(self._waiting)

    def offer(self, pieces: Sequence[Piece]) -> bool:
        """Take the pieces of a message, to be sent in turn; False, and nothing is taken, when too much waits already."""
        size = sum(piece.size for piece in pieces)
        if self._waiting and self.waiting_bytes + size > WAITING_BYTES_MAX:
            return False
        self._waiting.extend(pieces)
        self.waiting_bytes += size
        return True

    def due(self, now_ms: int) -> Iterator[tuple[int, Piece]]:
        """What there is room for now, with its sequence. A piece alone has room always: it may be larger than a grant."""
        while self._waiting:
            size = self._waiting[0].size
            if self._unacknowledged and self.unacknowledged_bytes + size > self.granted:
                return
            if not self._unacknowledged:
                self._restart_silence(now_ms)
            piece = self._waiting.popleft()
            self.waiting_bytes -= size
            self.unacknowledged_bytes += size
            self._unacknowledged.append(piece)
            self._sent_ms.append(now_ms)
            self.newest += 1
            yield self.newest, piece

    def acknowledge(self, received: int, granted: int, now_ms: int) -> None:
        """The other side has everything up to a sequence. A frame that was overtaken says nothing new, except what is granted."""
        if received > self.newest:
            return  # of a sequence that was never sent: nothing of ours says that
        if granted:
            self.granted = max(granted, GRANT_BYTES_MIN)
        for _ in range(received - self.acknowledged):
            self.unacknowledged_bytes -= self._unacknowledged.popleft().size
            self._sent_ms.popleft()
            self._restart_silence(now_ms)

    def send_again(self, missing: Sequence[tuple[int, int]], now_ms: int) -> Iterator[tuple[int, Piece]]:
        """What is missing at the other side, and was not sent a moment ago."""
        first = self.acknowledged + 1
        for begin, end in missing:
            for sequence in range(max(begin, first), min(end, self.newest) + 1):
                if now_ms - self._sent_ms[sequence - first] >= SEND_AGAIN_MS:
                    self._sent_ms[sequence - first] = now_ms
                    yield sequence, self._unacknowledged[sequence - first]

    def must_ask(self, now_ms: int) -> bool:
        """Whether nothing was acknowledged for so long that the other side is to be asked, now."""
        if not self._unacknowledged or now_ms < self._ask_ms:
            return False
        self._ask_after_ms = min(2 * self._ask_after_ms, ASK_AFTER_MS_MAX)
        self._ask_ms = now_ms + self._ask_after_ms
        return True

    def _restart_silence(self, now_ms: int) -> None:
        self._ask_after_ms = ASK_AFTER_MS
        self._ask_ms = now_ms + ASK_AFTER_MS
