"""The tail cache: the newest commands in memory, and the readers that follow them. Bounded: a reader that lags reads the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.channel.channel import AtOnce, Buffer, Entry

# A bytes object and the list's pointer to it cost this much beside the bytes themselves.
_OVERHEAD_BYTES = 64
# At most so many entries are offered at once; more of them are read in the usual way.
OFFERED_MAX = 64


class TailCache:
    """Commands `first` to `next_entry - 1`, and the readers that have all of them and wait for more."""

    def __init__(self, next_entry: int, bytes_max: int) -> None:
        self.followers: list[Follower] = []
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
        """Add the next command, which is durable. A buffer that the caller may write over is copied."""
        assert number == self._first + len(self._commands)
        kept = command if type(command) is bytes else bytes(command)
        self._commands.append(kept)
        self._bytes += len(kept) + _OVERHEAD_BYTES

    def trim(self) -> None:
        """Forget the oldest commands when there are too many bytes: a quarter at a time, since the list is moved each time."""
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
        """Return up to `count_max` entries from `number` on; none if that number is not here."""
        index = number - self._first
        if not 0 <= index < len(self._commands):
            return ()
        commands = self._commands[index : index + count_max]
        return list(map(Entry, range(number, number + len(commands)), commands))


class Follower:
    """A reader that has every entry so far. `offer` tells it of more: it takes them there, or wakes and reads from `next` on."""

    def __init__(self, start: int, at_once: AtOnce | None) -> None:
        self.next = start
        self._at_once = at_once
        self._more: asyncio.Future[None] | None = None

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until there are entries that it has not taken; raises what `at_once` raised."""
        self._more = loop.create_future()
        try:
            await self._more
        finally:
            self._more = None

    def offer(self, tail: TailCache) -> None:
        """Tell it that there are more entries."""
        if self._at_once is None or self._more is None or self._more.done():
            self.wake()
            return
        run = tail.run(self.next, OFFERED_MAX)
        try:
            is_taken = bool(run) and run[-1].number + 1 == tail.next_entry and self._at_once(run)
        except Exception as problem:
            if not self._more.done():  # its reader may have stopped waiting
                self._more.set_exception(problem)
            return
        if is_taken:
            self.next = run[-1].number + 1
        else:
            self.wake()

    def wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)
