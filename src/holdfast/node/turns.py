"""Turns: how much one session may have on its way into the channel, so that those who send little need not wait for those who
flood (B22).

A channel keeps the order in which it is given things: whoever comes has everything before it written first. So a session that
sends faster than the disk takes has only so many bytes in the channel; the rest of what it sent, which its window bounds, waits
here, in its order, and goes in as its receipts come out. What others send goes in between.

    company           under way at most    and then
    nobody            no bound
    others            512 KiB              the next as a receipt comes
    a quiet session   64 KiB               the next after a pause

A quiet session sends little and waits for its receipt. What it waits for is the processor more than the disk: a flood keeps the
server, its writer and the one who floods busy, and on two processors each step of a quiet send then waits for another's time
slice. The pauses leave it the machine (measured: its p99 falls from ten times what it is alone to about twice); a flood
beside it is held to some 10 MB/s, until it has been silent for a quarter of a second.

What a flood receives is paced in the same company, so that working off what piled up before does not take the machine either:
credit that it grants takes effect at 40,000 events a second. Whoever receives less than that never waits for it.

What waits here was promised to nobody: with a lost link it is dropped, and its client sends it again. A batch is given the time
when it goes in: along a channel the times at which its entries were accepted go as the clock does.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from holdfast.channel.channel import Buffer, Channel, Purpose, Receipt, Told
from holdfast.destination.command import BatchCommand, accepted
from holdfast.errors import HoldfastError
from holdfast.node.clock import Clock

# Enough that the next group is there when one is written; a group of the journal is at most twice as much.
UNDER_WAY_BYTES_MAX = 512 << 10
# So long after another session sent something, a session is not alone.
COMPANY_SECONDS = 1.0
# Beside a quiet session, which sends no more than this with nothing of its own under way.
QUIET_BYTES_MAX = 4 << 10
QUIET_SECONDS = 0.25
BESIDE_QUIET_BYTES_MAX = 64 << 10
PAUSE_MS = 10
# What a session grants beside a quiet one: so long for each event, the first few thousand at once, and never long at a time.
GRANTED_EVENT_SECONDS = 1 / 40_000
GRANTED_AT_ONCE_SECONDS = 0.1
GRANT_WAITS_SECONDS_MAX = 0.1


class Turns:
    def __init__(self, channel: Channel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._latest = ""
        self._company_until = 0.0
        self._quiet = ""
        self._quiet_until = 0.0
        self._under_way: dict[str, int] = {}  # bytes, by session
        self._held: dict[str, deque[tuple[BatchCommand, Buffer, Told]]] = {}
        self._pausing: set[str] = set()
        self._granted_until: dict[str, float] = {}
        self._grants: dict[str, list[Callable[[], None]]] = {}

    def submit(self, session: str, batch: BatchCommand, payload: Buffer, told: Told) -> None:
        """Append a batch, now or when it is its turn; `told` hears what became of it."""
        if session != self._latest:
            self._latest = session
            self._company_until = time.monotonic() + COMPANY_SECONDS
        under_way = self._under_way.get(session, 0)
        if session in self._held:
            self._held[session].append((batch, payload, told))
        elif under_way >= BESIDE_QUIET_BYTES_MAX and under_way >= self._room(session):
            self._held[session] = deque(((batch, payload, told),))
        else:
            if not under_way and len(payload) <= QUIET_BYTES_MAX:
                self._quiet, self._quiet_until = session, time.monotonic() + QUIET_SECONDS
            self._append(session, batch, payload, told)

    def _room(self, session: str) -> float:
        """How many bytes it may have under way."""
        if self._is_beside_quiet(session):
            return BESIDE_QUIET_BYTES_MAX
        return UNDER_WAY_BYTES_MAX if time.monotonic() < self._company_until else math.inf

    def _is_beside_quiet(self, session: str) -> bool:
        return session != self._quiet and time.monotonic() < self._quiet_until

    def drop(self, session: str) -> None:
        """Its link is lost: what waits for its turn was not accepted."""
        self._held.pop(session, None)
        self.forget(session)

    def forget(self, session: str) -> None:
        """It receives no more."""
        self._granted_until.pop(session, None)
        self._grants.pop(session, None)

    # --- what it receives ----------------------------------------------------------------------------------------------

    def grant(self, session: str, events: int, take_effect: Callable[[], None]) -> None:
        """Let a receiver of a session have credit for so many events, now or a little later. Grants add up, in any order."""
        if not self._is_beside_quiet(session):
            take_effect()
            return
        now = time.monotonic()
        owed = max(0.0, self._granted_until.get(session, now) - now) + events * GRANTED_EVENT_SECONDS
        waits = min(owed - GRANTED_AT_ONCE_SECONDS, GRANT_WAITS_SECONDS_MAX)
        self._granted_until[session] = now + GRANTED_AT_ONCE_SECONDS + waits
        if waits <= 0:
            take_effect()
        elif session in self._grants:
            self._grants[session].append(take_effect)
        else:
            self._grants[session] = [take_effect]
            self._clock.call_later(round(waits * 1000), partial(self._grant_held, session, self._grants[session]))

    def _grant_held(self, session: str, held: list[Callable[[], None]]) -> None:
        """Unless the link was lost meanwhile: then what it granted is void."""
        if self._grants.get(session) is held:
            del self._grants[session]
            for take_effect in held:
                take_effect()

    # --- what it sends -------------------------------------------------------------------------------------------------

    def _append(self, session: str, batch: BatchCommand, payload: Buffer, told: Told) -> None:
        size = len(payload)
        self._under_way[session] = self._under_way.get(session, 0) + size
        command = accepted(batch, payload, self._clock.now_us())
        self._channel.submit(command, Purpose.EVENTS, partial(self._done, session, size, told))

    def _done(self, session: str, size: int, told: Told, outcome: Receipt | HoldfastError) -> None:
        left = self._under_way[session] - size
        if left:
            self._under_way[session] = left
        else:
            del self._under_way[session]
        told(outcome)
        if session in self._pausing or session not in self._held:
            return
        if self._is_beside_quiet(session):
            self._pausing.add(session)
            self._clock.call_later(PAUSE_MS, partial(self._go_on, session))
        else:
            self._go_on(session)

    def _go_on(self, session: str) -> None:
        self._pausing.discard(session)
        held, room = self._held.get(session), self._room(session)
        while held and self._under_way.get(session, 0) < room:
            self._append(session, *held.popleft())
        if held is not None and not held and self._held.get(session) is held:
            del self._held[session]
