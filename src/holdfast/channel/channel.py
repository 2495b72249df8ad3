"""A channel: a durable, totally ordered sequence of commands that can be read again from any position still held.

    producers ─▶ append ─▶ │ 17 │ 18 │ 19 │ 20 │ 21 │ ─▶ read, read, read …
                             ▲                    ▲
                           first               durable
                     (release moves it)    (append moves it)

Everything that changes anything is a command in a channel. A channel does not know what a command means, nor which entries are
still needed. It numbers commands, makes them durable, hands them out in order, keeps one snapshot, and forgets a prefix on order.

Every implementation keeps these rules (one contract suite proves them, `tests/contract`):

1. Entries are numbered from 1 without a gap, in the order in which `append` was called. Only FRAGMENTS may be overtaken by
   everything else: there may be many, and nobody waits for a single one. In a cluster a command that was lost on its way is
   repeated, and may then stand behind later ones: whoever depends on a command waits for its answer.
2. `append` answers when the command is durable, not before; then `durable` is at least its number. Several appends may share
   one sync. A failed append has not happened, or raises OutcomeUnknown.
3. No reader ever sees an entry past `durable`.
4. `read(start)` hands out every entry from `start` on, then waits for more. Starting below `first` is refused: NoSuchPosition.
   Nothing is handed out twice or passed over, also where entries are offered early (`AtOnce`).
5. `release(below)` forgets entries below a number, lazily: `first` may stay lower. It never forgets other entries.
6. `save_snapshot(at, chunks)` is whole or not at all; `load_snapshot` gives the newest whole one. Entries after `at` rebuild
   the rest. One with an older `at` than the newest is refused: NoSuchPosition.
7. Appends for UPKEEP (confirmations, carried events, snapshots) have room of their own that EVENTS never take.
8. After `close`, everything raises Closed. A command that was appended and is not yet durable is answered with an error.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from holdfast.errors import HoldfastError, NoSuchPosition, OutcomeUnknown

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
        """Return the reserve it draws on: fragments of large events draw on that of events."""
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
    """How much room is left. `is_short`: no new space can be had, and events draw on their reserve.

    It uses `used_bytes` of the `size_bytes` it may grow to. Space is short from `ordinary_bytes` on; the rest is reserve.
    """

    free_bytes: int
    events_reserve_bytes: int
    upkeep_reserve_bytes: int
    is_short: bool
    reason: str = ""
    used_bytes: int = 0
    size_bytes: int = 0
    ordinary_bytes: int = 0


# A reader is offered entries that have just become durable, and returns whether it took them.
AtOnce = Callable[[Sequence[Entry]], bool]
# Called with the outcome of a command: its receipt, or why it is not durable.
OnOutcome = Callable[[Receipt | HoldfastError], None]


def tell_outcome(on_outcome: OnOutcome, done: asyncio.Future[Receipt]) -> None:
    """Report the outcome of an `append`, for channels whose `submit` is built on it."""
    problem = done.exception()
    if problem is None:
        on_outcome(done.result())
    elif isinstance(problem, HoldfastError):
        on_outcome(problem)
    else:
        on_outcome(OutcomeUnknown(f"the channel failed during the append ({problem!r}); look before you repeat it"))


def older_snapshot(at: int, newest: int) -> NoSuchPosition:
    """Return the refusal of a snapshot that is older than the newest one."""
    return NoSuchPosition(
        f"no snapshot can be saved as of entry {at}: the newest is as of entry {newest}, and entries up to it may be released; "
        "load that one",
        entry=at,
        newest=newest,
    )


def all_recent(commands: Iterable[Buffer | None], bytes_max: int) -> list[Buffer] | None:
    """Return the commands up to `bytes_max`, for `recent`; None when one of them is missing."""
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
    """The oldest part of a channel that is freed only as a whole (a segment): entries first..last, and its bytes."""

    first: int
    last: int
    bytes: int


class Snapshot(NamedTuple):
    """State as of entry `at`, in the chunks it was saved in."""

    at: int
    chunks: Sequence[Buffer]


class Appendable(Protocol):
    """What those need of a channel who append to it and never read it."""

    @property
    def id(self) -> str:
        """A name that no other channel has. The number of an entry means something only together with it."""

    @property
    def durable(self) -> int:
        """The number of the newest entry that is known to be durable; 0 before the first."""

    @property
    def pressure(self) -> Pressure: ...

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        """Call `changed` from the loop whenever `is_short` changes."""

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        """Number the command now, answer when it is durable.

        Raises (through the future) Blocked when its reserve is used up, DiskFailed when the disk refused it, TooLarge past
        COMMAND_BYTES_MAX, Closed.
        """

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        """Append, and call `on_outcome` once, from the loop, with what the future of `append` would give or raise.

        It is never called from within this call.
        """


class Channel(Appendable, Protocol):
    @property
    def first(self) -> int:
        """The number of the oldest entry still held; `durable` + 1 when none is held."""

    @property
    def bytes_appended(self) -> int:
        """Bytes of commands appended since it was opened. It tells when a new snapshot is worth writing."""

    def oldest_stretch(self) -> Stretch | None:
        """Return the oldest complete stretch (nothing is appended to it any more); None where entries are freed one by one."""

    def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        """Yield every entry from `start` on, in order, in runs of convenient length; then wait for more.

        A waiting reader may be offered new entries `at_once`, after the receipts, within the call that made them durable. That
        saves a turn of the loop. Entries that it does not take there come in the usual way.
        """

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Return the commands with these numbers, from memory where they are recent, from disk otherwise.

        With `bytes_max`, the answer ends once that is reached: it may be shorter, but is never empty. With `front`, so many bytes
        of each command are enough, and more may come: where it saves reading, the rest is not read, and the checksum of the
        command is not checked.
        """

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        """Return at once what `fetch` would answer, if all of it is in memory; None when it must be fetched."""

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None: ...

    async def load_snapshot(self) -> Snapshot | None: ...

    async def release(self, below: int) -> None: ...

    async def close(self) -> None: ...
