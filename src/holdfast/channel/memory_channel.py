"""A channel in memory: the whole contract, and nothing that outlives the process.

It serves `memory:` URLs and tests. Its receipts say so: one copy, not synced. A command is "durable" at the next turn of the loop
after its append. All appends of one turn become durable together, as appends to a journal share one sync. So users of a channel
meet the same order here.

    │◀──────── ordinary room ────────▶│◀─ reserve of EVENTS ─▶│◀─ reserve of UPKEEP ─▶│      together: size_bytes

Every command takes ordinary room while there is any, and then its own reserve. Released bytes fill the reserves first.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

import msgspec

from holdfast.channel.channel import (
    COMMAND_BYTES_MAX,
    AtOnce,
    Buffer,
    Entry,
    OnOutcome,
    Pressure,
    Purpose,
    Receipt,
    Snapshot,
    Stretch,
    all_recent,
    older_snapshot,
    tell_outcome,
)
from holdfast.errors import BadSetting, Blocked, Closed, HoldfastError, NoSuchPosition, TooLarge

MIB = 1 << 20
# Even an empty command costs its place in the list and the head of its object.
COMMAND_COST_MIN_BYTES = 64
# A reader gets at most this many entries at once, so that a lagging reader leaves the loop to others in between.
RUN_ENTRIES_MAX = 1024


class MemorySettings(msgspec.Struct, frozen=True):
    """The channel takes `size_bytes`: of these, `reserve_bytes` are for events when space is short, `upkeep_bytes` never."""

    size_bytes: int = 256 * MIB
    reserve_bytes: int = 16 * MIB
    upkeep_bytes: int = 24 * MIB

    def __post_init__(self) -> None:
        if min(self.reserve_bytes, self.upkeep_bytes) < 0 or self.size_bytes <= self.reserve_bytes + self.upkeep_bytes:
            raise BadSetting(
                f"size_bytes {self.size_bytes} leaves nothing beside reserve_bytes {self.reserve_bytes} and upkeep_bytes "
                f"{self.upkeep_bytes}; make it larger than their sum"
            )


class MemorySpace:
    """Counts how much of the channel's space is taken, and from which part."""

    def __init__(self, settings: MemorySettings) -> None:
        self._settings = settings
        self._ordinary_bytes = settings.size_bytes - settings.reserve_bytes - settings.upkeep_bytes
        self._reserves = [settings.reserve_bytes, settings.upkeep_bytes]  # bytes left, by purpose
        self._lent = [0, 0]
        self.is_short = False

    def take(self, cost: int, purpose: Purpose) -> bool:
        """Take so many bytes; return whether there was room."""
        if cost <= self._ordinary_bytes:
            self._ordinary_bytes -= cost
            return True
        self.is_short = True
        if cost > self._reserves[purpose]:
            return False
        self._reserves[purpose] -= cost
        self._lent[purpose] += cost
        return True

    def give_back(self, freed: int) -> None:
        for purpose in (Purpose.UPKEEP, Purpose.EVENTS):
            back = min(freed, self._lent[purpose])
            self._lent[purpose] -= back
            self._reserves[purpose] += back
            freed -= back
        self._ordinary_bytes += freed
        if freed and not any(self._lent):
            self.is_short = False

    @property
    def pressure(self) -> Pressure:
        return Pressure(
            free_bytes=self._ordinary_bytes,
            events_reserve_bytes=self._reserves[Purpose.EVENTS],
            upkeep_reserve_bytes=self._reserves[Purpose.UPKEEP],
            is_short=self.is_short,
            reason="the memory given to this channel is used up" if self.is_short else "",
            used_bytes=self._settings.size_bytes - self._ordinary_bytes - sum(self._reserves),
            size_bytes=self._settings.size_bytes,
            ordinary_bytes=self._settings.size_bytes - self._settings.reserve_bytes - self._settings.upkeep_bytes,
        )


class MemoryChannel:
    """Implements `channel.Channel`. Make and use it inside a running loop."""

    def __init__(self, settings: MemorySettings | None = None) -> None:
        self._settings = settings or MemorySettings()
        self._loop = asyncio.get_running_loop()
        self._space = MemorySpace(self._settings)
        self._commands: list[bytes] = []  # entry `_base + i` is at i; those below `first` are empty until they are cut off
        self._base = 1
        self._first = 1
        self._durable = 0
        self._bytes_appended = 0
        self._group: list[asyncio.Future[Receipt]] = []  # appended in this turn of the loop
        self._readers: list[asyncio.Future[None]] = []  # wait for `durable` to move
        self._id = secrets.token_hex(16)
        self._watchers: list[Callable[[Pressure], None]] = []
        self._snapshot: Snapshot | None = None
        self._is_closed = False

    @property
    def id(self) -> str:
        return self._id

    @property
    def first(self) -> int:
        return self._first

    @property
    def durable(self) -> int:
        return self._durable

    @property
    def bytes_appended(self) -> int:
        return self._bytes_appended

    @property
    def pressure(self) -> Pressure:
        return self._space.pressure

    def oldest_stretch(self) -> Stretch | None:
        return None  # entries are freed one by one

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        self._watchers.append(changed)

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        future: asyncio.Future[Receipt] = self._loop.create_future()
        refusal = self._refusal_of(len(command), purpose)
        if refusal is not None:
            future.set_exception(refusal)
            return future
        if not self._group:
            self._loop.call_soon(self._make_durable)
        self._commands.append(bytes(command))
        self._bytes_appended += len(command)
        self._group.append(future)
        return future

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        self.append(command, purpose).add_done_callback(partial(tell_outcome, on_outcome))

    def _refusal_of(self, length: int, purpose: Purpose) -> HoldfastError | None:
        if self._is_closed:
            return _closed()
        if length > COMMAND_BYTES_MAX:
            return TooLarge(
                f"a command of {length} bytes is over the limit of {COMMAND_BYTES_MAX}; send smaller batches", length=length
            )
        was_short = self._space.is_short
        has_room = self._space.take(max(length, COMMAND_COST_MIN_BYTES), purpose.reserve)
        self._tell_watchers(was_short)
        if has_room:
            return None
        return Blocked(
            f"no room for a command of {length} bytes: the memory of this channel and the reserve for {purpose.name.lower()} are "
            "used up; what was accepted is safe; it goes on by itself when recipients confirm",
            length=length,
        )

    def _tell_watchers(self, was_short: bool) -> None:
        if self._space.is_short != was_short:
            for changed in self._watchers:
                self._loop.call_soon(changed, self._space.pressure)

    def _make_durable(self) -> None:
        group, self._group = self._group, []
        entry = self._durable
        self._durable += len(group)
        for future in group:
            entry += 1
            if not future.done():  # its caller may have stopped waiting; the command stays
                future.set_result(Receipt(entry, 1, False))
        self._wake_readers()

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)

    async def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        number = start
        while True:
            self._check_open()
            if number < self._first:
                raise NoSuchPosition(
                    f"entry {number} was released; the oldest held is {self._first}: start there, or from a snapshot",
                    entry=number,
                    first=self._first,
                )
            if number <= self._durable:
                run = self._run_from(number)
                number += len(run)
                yield run
            else:
                await self._news()

    def _run_from(self, number: int) -> list[Entry]:
        end = min(self._durable + 1, number + RUN_ENTRIES_MAX)
        commands = self._commands[number - self._base : end - self._base]
        return [Entry(entry, command) for entry, command in zip(range(number, end), commands, strict=True)]

    async def _news(self) -> None:
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._readers.append(waiting)
        await waiting

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        self._check_open()
        for number in numbers:
            if not self._first <= number <= self._durable:
                raise NoSuchPosition(
                    f"entry {number} is not held; this channel holds {self._first}..{self._durable}", entry=number
                )
        found: list[Buffer] = []
        total = 0
        for number in numbers:
            if bytes_max is not None and total >= bytes_max:
                break
            found.append(self._commands[number - self._base])
            total += len(found[-1])
        return found

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        return None if self._is_closed else all_recent(map(self._held, numbers), bytes_max)

    def _held(self, number: int) -> bytes | None:
        return self._commands[number - self._base] if self._first <= number <= self._durable else None

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        self._check_open()
        if not 0 <= at <= self._durable:
            raise NoSuchPosition(f"no snapshot can be saved as of entry {at}: the newest durable is {self._durable}", entry=at)
        if self._snapshot is not None and at < self._snapshot.at:
            raise older_snapshot(at, self._snapshot.at)
        saved: list[Buffer] = []
        total = 0
        for chunk in chunks:
            saved.append(bytes(chunk))
            total += len(chunk)
            if total > self._settings.size_bytes:
                raise Blocked(
                    f"the snapshot is larger than the {self._settings.size_bytes} bytes of this channel; the older one is kept"
                )
        self._snapshot = Snapshot(at, saved)

    async def load_snapshot(self) -> Snapshot | None:
        self._check_open()
        return self._snapshot

    async def release(self, below: int) -> None:
        self._check_open()
        end = min(below, self._durable + 1)
        if end <= self._first:
            return
        start, stop = self._first - self._base, end - self._base
        freed = sum(max(len(command), COMMAND_COST_MIN_BYTES) for command in self._commands[start:stop])
        self._commands[start:stop] = [b""] * (stop - start)
        self._first = end
        if stop > len(self._commands) // 2:  # deleting moves the rest: only worth it when the rest is the smaller part
            del self._commands[:stop]
            self._base = end
        was_short = self._space.is_short
        self._space.give_back(freed)
        self._tell_watchers(was_short)

    async def close(self) -> None:
        """Answer the appends of this turn, then end. Closing twice does nothing."""
        if self._is_closed:
            return
        self._make_durable()
        self._is_closed = True
        self._wake_readers()
        self._commands.clear()
        self._snapshot = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()


def _closed() -> Closed:
    return Closed("the channel was closed by this program; open it again")
