"""A replica: follows a channel from its first entry, without any snapshot (rules 3 and 16).

A machine that restored a snapshot and replayed the entries after it must have the same state, by its digest, as a replica that
applied every command since the beginning. And every entry that the replica has read was durable: it must be there after any
crash.
"""

from __future__ import annotations

from holdfast.channel.channel import Channel
from holdfast.destination.directory import Directory


class Replica:
    def __init__(self) -> None:
        self._commands: list[tuple[int, bytes]] = []

    @property
    def newest(self) -> int:
        """The newest entry it has read; 0 for none."""
        return self._commands[-1][0] if self._commands else 0

    async def follow(self, channel: Channel, until: int | None = None) -> None:
        """Read up to an entry, or until it is cancelled."""
        if until is not None and self.newest >= until:
            return
        async for entries in channel.read(self.newest + 1):
            for entry in entries:
                self._commands.append((entry.number, bytes(entry.command)))
                if entry.number == until:
                    return

    def state_at(self, entry: int) -> Directory:
        """Return the state after every command up to this one."""
        directory = Directory()
        for number, command in self._commands:
            if number <= entry:
                directory.apply(number, command)
        return directory
