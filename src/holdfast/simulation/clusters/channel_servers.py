"""The servers that keep a channel: one order of entries, kept by a majority, whatever becomes of one server.

    take(id, command) ──▶ stored, with its number       the same id again: the number that it has
                      ──▶ no majority: nothing is answered, or that there is none
                      ──▶ a server is paused: kept, and stored when it goes on, late
    forget_ids()      ──▶ a command that is sent again is stored twice

Entries are told to those who follow, each after a while. Nothing here is ever lost: that is what the servers promise. Everything
else that they do not promise may happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.channel.channel import Snapshot
from holdfast.simulation.clusters.world import World

Answer = Callable[[int | None], None]
# Two snapshots are kept, and the entries after the older one.
SNAPSHOTS_KEPT = 2


class _Taken(NamedTuple):
    who: str
    id: str
    command: bytes
    answer: Answer


class ChannelServers:
    def __init__(self, world: World, name: str) -> None:
        self.id = f"{name}@simulated"
        self.first = 1
        self.entries: list[bytes] = []  # entry N is at N - 1; released ones are empty
        self.snapshots: list[Snapshot] = []
        self.has_majority = True
        self.is_paused = False
        self.doubled = 0
        self._world = world
        self._name = name
        self._ids: dict[str, int] = {}
        self._held: list[_Taken] = []
        self._followers: list[Callable[[int], None]] = []

    @property
    def last(self) -> int:
        return len(self.entries)

    def follow(self, told: Callable[[int], None]) -> None:
        """Call a function with the newest number whenever there is one."""
        self._followers.append(told)

    # --- appending ---------------------------------------------------------------------------------------------------

    def take(self, who: str, id: str, command: bytes, answer: Answer) -> None:
        """Take a command; `answer` is called with its number, with 0 if there is no majority, or never."""
        if self.is_paused:
            self._held.append(_Taken(who, id, command, answer))
        elif not self.has_majority:
            if self._world.dice.random() < 0.5:
                answer(0)
        else:
            answer(self._store(who, id, command))

    def _store(self, who: str, id: str, command: bytes) -> int:
        known = self._ids.get(id)
        if known is not None:
            return known
        self.entries.append(command)
        number = self._ids[id] = len(self.entries)
        self._world.note(self._name, f"{number} {who} {id} {command[0]} {len(command)}")
        for told in self._followers:
            told(number)
        return number

    # --- faults ------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        self.is_paused = True

    def go_on(self) -> None:
        """Store what came meanwhile, whether its sender still waits or not."""
        self.is_paused = False
        held, self._held = self._held, []
        for each in held:
            self.take(*each)

    def forget_ids(self) -> None:
        self._ids.clear()

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def save(self, snapshot: Snapshot) -> bool:
        """Keep a snapshot, unless a newer one is there."""
        if self.snapshots and snapshot.at < self.snapshots[-1].at:
            return False
        self.snapshots = [*self.snapshots, snapshot][-SNAPSHOTS_KEPT:]
        return True

    def release(self, below: int) -> None:
        """Forget entries, but none after the older of the two snapshots."""
        kept = self.snapshots[0].at + 1 if len(self.snapshots) == SNAPSHOTS_KEPT else 1
        while self.first < min(below, kept):
            self.entries[self.first - 1] = b""
            self.first += 1
