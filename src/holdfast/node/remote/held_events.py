"""Events that wait at a client manager because their message manager is not heard (rule 13 of the cluster).

    primary heard within the last second ──▶ appended
    otherwise ──▶ held, in order ── heard again ──▶ appended
                                 └─ 20 s later ──▶ Unavailable: nothing happened

Who does not hear the primary does not know which destinations are full. What is held is bounded by the windows of its sessions,
and by `HELD_BYTES_MAX`: everything else waits at the clients. Confirmations, and all other commands that are no events, go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from holdfast.channel.channel import Buffer, OnOutcome, Purpose
from holdfast.errors import Blocked, HoldfastError, Unreachable
from holdfast.node.clock import Clock

# As long as an append is tried: longer than a takeover, or an election of NATS servers, takes.
HELD_MS_MAX = 20_000
HELD_BYTES_MAX = 64 << 20

Submit = Callable[[Buffer, Purpose, OnOutcome], None]


class _Held(NamedTuple):
    command: Buffer
    purpose: Purpose
    on_outcome: OnOutcome
    until_ms: int


class HeldEvents:
    def __init__(self, manager: str, is_fresh: Callable[[], bool], submit: Submit, clock: Clock) -> None:
        """`is_fresh` says whether the primary was heard a moment ago; `submit` appends."""
        self._manager = manager
        self._is_fresh = is_fresh
        self._submit = submit
        self._clock = clock
        self._held: deque[_Held] = deque()
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        """Append a command, now or when the primary is heard. Nothing overtakes what is held."""
        if not self._held and self._is_fresh():
            self._submit(command, purpose, on_outcome)
            return
        if self._bytes + len(command) > HELD_BYTES_MAX:
            self._refuse_later(on_outcome, Blocked(f"{self._bytes} bytes of events wait for {self._manager}; repeat it later"))
            return
        self._held.append(_Held(command, purpose, on_outcome, self._clock.steady_ms() + HELD_MS_MAX))
        self._bytes += len(command)
        if self._timer is None:
            self._timer = self._clock.call_later(HELD_MS_MAX, self._give_up)

    def go_on(self) -> None:
        """The primary was heard."""
        while self._held and self._is_fresh():
            held = self._take()
            self._submit(held.command, held.purpose, held.on_outcome)

    def _take(self) -> _Held:
        held = self._held.popleft()
        self._bytes -= len(held.command)
        return held

    def _give_up(self) -> None:
        """Refuse what has waited for too long."""
        now_ms, self._timer = self._clock.steady_ms(), None
        while self._held and self._held[0].until_ms <= now_ms:
            self._take().on_outcome(
                Unreachable(
                    f"message manager {self._manager} has no primary that this node hears; nothing happened, repeat later",
                    manager=self._manager,
                )
            )
        if self._held and self._timer is None:
            self._timer = self._clock.call_later(max(1, self._held[0].until_ms - now_ms), self._give_up)

    def _refuse_later(self, on_outcome: OnOutcome, problem: HoldfastError) -> None:
        self._clock.call_later(0, lambda: on_outcome(problem))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
