"""Turns: how much one session may have on its way into the channel, so that those who send little need not wait for those who
flood (B22).

A channel keeps the order in which it is given things: whoever comes has everything before it written first. So a session that
sends faster than the disk takes has only so many bytes in the channel; the rest of what it sent, which its window bounds, waits
here, in its order, and goes in as its receipts come out. What others send goes in between. Who is alone has no such bound.

What waits here was promised to nobody: with a lost link it is dropped, and its client sends it again.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial

from holdfast.channel.channel import Buffer, Channel, Purpose, Receipt, Told
from holdfast.errors import HoldfastError

# Enough that the next group is there when one is written; a group of the journal is at most twice as much.
UNDER_WAY_BYTES_MAX = 512 << 10
# So long after another session sent something, a session is not alone.
COMPANY_SECONDS = 1.0


class Turns:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._latest = ""
        self._company_until = 0.0
        self._under_way: dict[str, int] = {}  # bytes, by session
        self._held: dict[str, deque[tuple[Buffer, Told]]] = {}

    def submit(self, session: str, body: Buffer, told: Told) -> None:
        """Append a batch, now or when it is its turn; `told` hears what became of it."""
        if session != self._latest:
            self._latest = session
            self._company_until = time.monotonic() + COMPANY_SECONDS
        if session in self._held:
            self._held[session].append((body, told))
        elif self._under_way.get(session, 0) >= UNDER_WAY_BYTES_MAX and self._has_company():
            self._held[session] = deque(((body, told),))
        else:
            self._append(session, body, told)

    def _has_company(self) -> bool:
        return time.monotonic() < self._company_until

    def drop(self, session: str) -> None:
        """Its link is lost: what waits for its turn was not accepted."""
        self._held.pop(session, None)

    def _append(self, session: str, body: Buffer, told: Told) -> None:
        size = len(body)
        self._under_way[session] = self._under_way.get(session, 0) + size
        self._channel.submit(body, Purpose.EVENTS, partial(self._done, session, size, told))

    def _done(self, session: str, size: int, told: Told, outcome: Receipt | HoldfastError) -> None:
        left = self._under_way[session] - size
        if left:
            self._under_way[session] = left
        else:
            del self._under_way[session]
        told(outcome)
        self._go_on(session)

    def _go_on(self, session: str) -> None:
        held = self._held.get(session)
        while held and self._under_way.get(session, 0) < UNDER_WAY_BYTES_MAX:
            self._append(session, *held.popleft())
        if held is not None and not held and self._held.get(session) is held:
            del self._held[session]
