"""The newest commands, kept in memory for readers that keep up. Bounded: a reader that lags reads the disk."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.channel.channel import Buffer, Entry

# What a bytes object and the list's pointer to it cost beside the bytes themselves.
_OVERHEAD_BYTES = 64


class TailCache:
    """Commands `first` to `next_entry - 1`."""

    def __init__(self, next_entry: int, bytes_max: int) -> None:
        self._commands: list[bytes] = []
        self._first = next_entry
        self._bytes = 0
        self._bytes_max = bytes_max

    @property
    def first(self) -> int:
        return self._first

    @property
    def next_entry(self) -> int:
        return self._first + len(self._commands)

    def add(self, number: int, command: Buffer) -> None:
        """The next command, which is durable. What the caller may write over is copied."""
        assert number == self._first + len(self._commands)
        kept = command if type(command) is bytes else bytes(command)
        self._commands.append(kept)
        self._bytes += len(kept) + _OVERHEAD_BYTES

    def trim(self) -> None:
        """Forget the oldest when there are too many bytes; a quarter at a time, since the list is moved each time."""
        if self._bytes <= self._bytes_max:
            return
        count = 0
        for command in self._commands:
            if self._bytes <= self._bytes_max * 3 // 4:
                break
            self._bytes -= len(command) + _OVERHEAD_BYTES
            count += 1
        del self._commands[:count]
        self._first += count

    def get(self, number: int) -> bytes | None:
        index = number - self._first
        return self._commands[index] if 0 <= index < len(self._commands) else None

    def run(self, number: int, count_max: int) -> Sequence[Entry]:
        """Up to `count_max` entries from `number` on; none if it is not here."""
        index = number - self._first
        if not 0 <= index < len(self._commands):
            return ()
        commands = self._commands[index : index + count_max]
        return list(map(Entry, range(number, number + len(commands)), commands))
