"""A channel: a durable, totally ordered sequence of commands that can be read again from any position still held.

    producers ─▶ append ─▶ │ 17 │ 18 │ 19 │ 20 │ 21 │ ─▶ read, read, read …
                             ▲                    ▲
                           first               durable
                     (release moves it)    (append moves it)

Everything that changes anything is a command in a channel. A channel knows nothing of what a command means, nor of what is alive
in it: it numbers commands, makes them durable, hands them out in order, keeps one snapshot, and forgets a prefix when told.

The rules every implementation keeps (one contract suite proves them, `tests/contract`):

1. Entries are numbered from 1 without a gap, in the order in which `append` was called; but FRAGMENTS, of which there may be
   many and which nobody waits for one by one, may be overtaken by everything else.
2. `append` answers when the command is durable, not before; then `durable` is at least its number. Several appends may share
   one sync. A failed append has not happened, or raises OutcomeUnknown.
3. No reader ever sees an entry past `durable`.
4. `read(start)` hands out every entry from `start` on, then waits for more. Starting below `first` is refused: NoSuchPosition.
   Nothing is handed out twice, nor passed over, whichever way it is handed out (`AtOnce`).
5. `release(below)` forgets entries below a number, lazily: `first` may stay lower. It never forgets what is not below.
6. `save_snapshot(at, chunks)` is whole or not at all; `load_snapshot` gives the newest whole one. Entries after `at` rebuild
the rest.
7. Appends for UPKEEP (confirmations, carried events, snapshots) have room of their own that EVENTS never take.
8. After `close`, everything raises Closed; what was appended and not yet durable is answered with an error, never left waiting.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from holdfast.errors import HoldfastError, OutcomeUnknown

Buffer = bytes | memoryview

# The largest command any channel takes. A batch is at most 1 MiB and its command head a few hundred bytes.
COMMAND_BYTES_MAX = (1 << 20) + 4096


class Purpose(enum.IntEnum):
    """Which reserve a command may draw on when space is short."""

    EVENTS = 0
    UPKEEP = 1
    FRAGMENTS = 2

    @property
    def reserve(self) -> Purpose:
        """Fragments of large events draw on what there is for events."""
        return Purpose.EVENTS if self is Purpose.FRAGMENTS else self


class Entry(NamedTuple):
    number: int
    command: Buffer


class Receipt(msgspec.Struct, frozen=True):
    """The proof that a command is durable."""

    entry: int
    copies: int
    is_synced: bool


class Pressure(msgspec.Struct, frozen=True):
    """How much room is left. `is_short`: no new space can be had, and events are drawing on their reserve."""

    free_bytes: int
    events_reserve_bytes: int
    upkeep_reserve_bytes: int
    is_short: bool
    reason: str = ""


# Offered what has just become durable; whether it was taken.
AtOnce = Callable[[Sequence[Entry]], bool]
# What a command became: durable, or why it is not.
Told = Callable[[Receipt | HoldfastError], None]


def tell(told: Told, done: asyncio.Future[Receipt]) -> None:
    """Say what became of an `append`, for channels whose `submit` is made of it."""
    problem = done.exception()
    if problem is None:
        told(done.result())
    elif isinstance(problem, HoldfastError):
        told(problem)
    else:
        told(OutcomeUnknown(f"the channel failed while this was being appended ({problem!r}); look before you repeat it"))


def whole(commands: Iterable[Buffer | None], bytes_max: int) -> list[Buffer] | None:
    """The commands up to `bytes_max`, for `recent`; None when one of them is missing."""
    found: list[Buffer] = []
    total = 0
    for command in commands:
        if total >= bytes_max:
            break
        if command is None:
            return None
        found.append(command)
        total += len(command)
    return found


class Stretch(NamedTuple):
    """The oldest part of a channel that is freed only as a whole (a segment): entries first..last, in so many bytes."""

    first: int
    last: int
    bytes: int


class Snapshot(NamedTuple):
    """State as of entry `at`, in the chunks it was saved in."""

    at: int
    chunks: Sequence[Buffer]


class Channel(Protocol):
    @property
    def id(self) -> str:
        """What no other channel has, for as long as this one exists: numbers of entries mean something only together with it."""

    @property
    def first(self) -> int:
        """The number of the oldest entry still held; one past `durable` when none is."""

    @property
    def durable(self) -> int:
        """The number of the newest durable entry; 0 when there never was one."""

    @property
    def bytes_appended(self) -> int:
        """Bytes of commands appended since it was opened: what tells when a new snapshot is worth its writing."""

    @property
    def pressure(self) -> Pressure: ...

    def oldest_stretch(self) -> Stretch | None:
        """The oldest stretch that is complete (nothing is appended to it any more); None where entries are freed one by one."""

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        """Call `changed` whenever `is_short` turns, from the loop."""

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        """Number the command now, answer when it is durable.

        Raises (through the future) Blocked when its reserve is used up, DiskFailed when the disk refused it, TooLarge past
        COMMAND_BYTES_MAX, Closed.
        """

    def submit(self, command: Buffer, purpose: Purpose, told: Told) -> None:
        """`append`, for whoever would rather be told than wait: `told` is called once, from the loop, as soon as it is known.

        Never from within this call. What it says is what the future of `append` would give or raise.
        """

    def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        """Every entry from `start` on, in order, in runs of convenient length; then live.

        A reader that waits for more may be offered it `at_once`, within the call that made it durable, after the receipts: that
        saves it a turn of the loop. What it does not take there comes in the usual way.
        """

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """The commands with these numbers, from memory where they are recent, from disk otherwise.

        With `bytes_max`, the answer ends once that is reached, and may be shorter than what was asked for; never empty. With
        `front`, so many bytes of each will do, and more may come: where it saves reading, the rest is not read, and then the
        checksum of the whole cannot be checked.
        """

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        """What `fetch` would answer, if all of it is in memory: at once. None when it must be fetched."""

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None: ...

    async def load_snapshot(self) -> Snapshot | None: ...

    async def release(self, below: int) -> None: ...

    async def close(self) -> None: ...
