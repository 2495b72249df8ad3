"""The heartbeat of a node of a cluster: it tells all nodes that it is there, and judges by theirs who is silent.

every 100 ms ──▶ Heartbeat (its copies: epoch, applied, durable …) ──▶ all nodes, this one too
all nodes ─────▶ liveness ──▶ members: whose primary is silent, or resigns?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.bus.bus import NODES, Bus
from holdfast.bus.message import Heartbeat
from holdfast.cluster.liveness import HEARTBEAT_MS, Liveness
from holdfast.node.clock import Clock
from holdfast.node.clustered.member import Member
from holdfast.node.messages.start import Backup

# With each so many-th beat sessions are looked for whose client managers are gone.
BEATS_A_CARE = 10

Note = Callable[[Heartbeat, int], None]


class Heart:
    def __init__(
        self,
        whose: Backup,
        client_manager: str,
        bus: Bus,
        clock: Clock,
        members: Sequence[Member],
        grace_ms: int = 5_000,
        note: Note = lambda heartbeat, now_ms: None,
    ) -> None:
        """Beat from now on. `client_manager` is the subject of that of this node; "" where it has none. Sessions of a client
        manager that is silent are given up after `grace_ms`. `note` is told every heartbeat that comes."""
        self.liveness = Liveness(whose.start, clock.steady_ms())
        self._whose = whose
        self._client_manager = client_manager
        self._bus = bus
        self._clock = clock
        self._members = members
        self.grace_ms = grace_ms
        self._note = note
        self.is_drained = False
        self.links: Callable[[], int] = lambda: 0  # of clients with this node
        self.describe: Callable[[Heartbeat], Heartbeat] = lambda beat: beat  # adds what the node tells of its configuration
        self._beats = 0
        self._stop_listening = bus.listen(NODES, self._hear)
        self._timer = clock.call_later(0, self._beat)

    def _beat(self) -> None:
        now_ms = self._clock.steady_ms()
        self._timer = self._clock.call_later(HEARTBEAT_MS, self._beat)
        self.tell()
        self.liveness.forget_lost(now_ms)
        for member in self._members:
            member.look(self._silent_ms)
            if self._beats % BEATS_A_CARE == 0:
                member.give_up_lost(self._silent_ms, self.grace_ms)
        self._beats += 1

    def tell(self) -> None:
        """Tell the state of this node now, and not with the next beat."""
        copies = [state for member in self._members if (state := member.state()) is not None]
        beat = Heartbeat(self._whose.node, self._whose.start, self._client_manager, copies)
        self._bus.publish(NODES, self.describe(beat._replace(is_drained=self.is_drained, links=self.links())))

    def _silent_ms(self, start: str) -> int:
        now_ms = self._clock.steady_ms()
        self.liveness.expect(start, now_ms)
        return self.liveness.silent_ms(start, now_ms)

    def _hear(self, heartbeat: Heartbeat) -> None:
        now_ms = self._clock.steady_ms()
        self.liveness.heard(heartbeat.start, now_ms)
        self._note(heartbeat, now_ms)
        for member in self._members:
            member.candidate.heard(heartbeat.start, now_ms)
            for copy in heartbeat.copies:
                if copy.manager == member.name and copy.is_primary and heartbeat.start == member.candidate.primary:
                    member.candidate.resigns(copy.epoch, copy.resigns_to)
                    if member.candidate.is_invited:
                        member.look(self._silent_ms)

    def stop(self) -> None:
        self._stop_listening()
        self._timer.cancel()
