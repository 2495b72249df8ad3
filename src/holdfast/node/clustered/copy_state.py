"""What a copy of a message manager tells in the heartbeats of its node (`CopyState`), so that client managers of other nodes keep
its limits without asking: how full it is, what is staged, what waits in temporary destinations while space is short."""

from __future__ import annotations

from holdfast.bus.message import CopyState
from holdfast.destination.name import LOG
from holdfast.node.login.allowance import FULL_PERCENT, WAITING_MAX
from holdfast.node.messages.destination_flow import fullness
from holdfast.node.messages.message_manager import MessageManager

# Temporary destinations that a heartbeat names: those beyond are held back when their senders send again.
CROWDED_MAX = 256
# They are looked for so often: there may be many destinations.
LOOK_MS = 1_000


class CopyStates:
    def __init__(self) -> None:
        self._crowded: dict[str, int] = {}
        self._looked_ms: int | None = None

    def of(self, name: str, manager: MessageManager, resigns_to: str, now_ms: int) -> CopyState:
        directory, channel = manager.directory, manager.channel
        staged = directory.assemblies.staged
        return CopyState(
            name,
            directory.epoch,
            manager.is_primary,
            manager.applied,
            channel.durable,
            bytes=channel.pressure.used_bytes,
            flow_version=manager.flow.version,
            stages=staged.stages,
            staged_parts=staged.parts,
            staged_bytes=staged.bytes,
            temporary_waiting=self._crowded_of(manager, now_ms) if manager.is_primary else {},
            destinations=directory.catalog.version,
            resigns_to=resigns_to,
            is_log_read=bool(directory.catalog.topic(LOG).subscriptions),
        )

    def _crowded_of(self, manager: MessageManager, now_ms: int) -> dict[str, int]:
        """How many events wait in temporary destinations that may take no more while the channel is nearly full."""
        pressure = manager.channel.pressure
        if 100 * pressure.used_bytes <= FULL_PERCENT * pressure.ordinary_bytes:
            return {}
        if self._looked_ms is None or now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            waiting = ((each.name, fullness(each)[0]) for each in manager.directory.catalog.destinations.values() if each.owner)
            crowded = [each for each in waiting if each[1] > WAITING_MAX]
            self._crowded = dict(sorted(crowded, key=lambda each: -each[1])[:CROWDED_MAX])
        return self._crowded
