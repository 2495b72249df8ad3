"""Extents: how far a reading by place goes within its limits, and which events still wait before a place.

    extent         from a place on, within limits in events and bytes, cut into pieces     answered when sizes were read
    ranges_before  the events that still wait before a place, to be confirmed              answered at once

Events are counted exactly (`destination.state.places`). Bytes are those of the batches as they lie in the channel. Up to
BATCHES_READ batches, the size of each is read from its fixed head: then they are exact. Beyond, they are estimated from the sizes
of SAMPLES batches spread evenly over the extent: off by as much as the average of those is off from the average of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.command import RANGES_MAX
from holdfast.destination.directory import Directory
from holdfast.destination.state.places import Extent, Places, check_place, check_start, extent_of, waiting_before
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import BadSetting, NoSuchPosition, WrongKind
from holdfast.event.batch import FIXED_LENGTH, count_of
from holdfast.event.position import INDEX_BITS
from holdfast.node.administration import arguments
from holdfast.node.reading.place_pages import EntrySource, Run, runs_from

# Batches whose sizes are read one by one; batches whose sizes are read of a longer extent.
BATCHES_READ = 256
SAMPLES = 64
# Enough of a command for its head, with the longest names, and the fixed head of its batch.
FRONT_BYTES = 1 << 10
# Batches that are read whole for their sizes, where all were carried.
CARRIED_READ = 4
PIECES_MAX = 4_096
# Cuts that are found without a turn for everyone else: some milliseconds at most.
CUTS_A_TURN = 16
NUMBER_MAX = 1 << 62

Answer = dict[str, Any]


class Wanted(NamedTuple):
    """An extent that is asked for, checked."""

    start: int | None
    events_max: int | None
    bytes_max: int | None
    pieces: int

    @classmethod
    def of(cls, asked: arguments.Extent) -> Wanted:
        return cls(
            _number(asked.start, "start", 0),
            _number(asked.events_max, "events_max", 1),
            _number(asked.bytes_max, "bytes_max", 1),
            _number(asked.pieces, "pieces", 1, PIECES_MAX) or 1,
        )


def _number(value: int | None, name: str, least: int, most: int = NUMBER_MAX) -> int | None:
    if value is not None and not least <= value <= most:
        raise BadSetting(
            f"{name} {value!r:.40} is not a whole number from {least} to {most}; leave it out for none", setting=name
        )
    return value


def checked_place(value: int, name: str) -> int:
    """Return a place. BadSetting when it is none, as an extent names them."""
    _number(value, name, 0)
    return value


def queue_in(directory: Directory, asked: arguments.OfSubscription) -> Queue:
    """The queue or subscription that is asked about."""
    return directory.catalog.queue(asked.key, asked.subscription)


def identity_of(channel_id: str, queue: Queue) -> str:
    """A text that no other subscription has, here or anywhere; one that is deleted and created again has another."""
    return f"{channel_id}:{queue.made_at if isinstance(queue, Subscription) else 0}"


def ranges_before(directory: Directory, asked: arguments.ConfirmUpTo) -> Answer:
    """The events that still wait before a place, as many as one command confirms; and where to go on."""
    queue, place = queue_in(directory, asked), checked_place(asked.place, "place")
    check_place(queue, place)
    if not isinstance(queue, Subscription):
        raise WrongKind(f"{queue.title} is not read by one owner; others take from it", destination=queue.name)
    ranges, up_to = waiting_before(queue.backlog, place, RANGES_MAX)
    return {"ranges": ranges.to_bytes(), "up_to": up_to, "is_news": bool(ranges) or place > queue.confirmed_up_to}


class Extents:
    def __init__(self, directory: Directory, channel: EntrySource) -> None:
        self._directory = directory
        self._channel = channel

    async def extent(self, asked: arguments.Extent) -> Answer:
        wanted, queue = Wanted.of(asked), queue_in(self._directory, asked)
        if wanted.start is not None:
            check_start(queue, wanted.start)
        found, size = await self._within(queue.backlog, wanted)
        cuts = await _cuts(queue.backlog, found, wanted.pieces)
        return {
            "identity": identity_of(self._channel.id, queue), **found._asdict(), "cuts": cuts, "bytes": size,
        }  # fmt: skip

    async def _within(self, backlog: Backlog, wanted: Wanted) -> tuple[Extent, int]:
        """The extent that both limits allow, of at least one event if any waits; and its bytes."""
        found = extent_of(backlog, wanted.start, wanted.events_max)
        if not found.events:
            return found, 0
        runs = list(runs_from(backlog, found.start, found.end, BATCHES_READ + 1))
        is_long = len(runs) > BATCHES_READ
        if is_long and wanted.bytes_max is None:
            return found, round(found.events * await self._average(backlog, found))
        sizes = await self._sizes(runs[:BATCHES_READ])
        if wanted.bytes_max is not None and (events := _events_in(runs, sizes, wanted.bytes_max)) is not None:
            return self._ending(backlog, found, events), _sum_in(runs, sizes, events)
        if not is_long:
            return found, sum(sizes)
        each = max(1.0, sum(sizes) / sum(run.events for run in runs[:BATCHES_READ]))
        return await self._estimated(backlog, wanted.bytes_max or 0, found, each)

    async def _estimated(self, backlog: Backlog, bytes_max: int, found: Extent, each: float) -> tuple[Extent, int]:
        """The extent of so many bytes, estimated: first with the average of the first batches, then with that of samples all
        over."""
        for _ in range(2):
            found = self._ending(backlog, found, min(found.events, int(bytes_max / each)))
            each = await self._average(backlog, found)
            if found.events * each <= bytes_max:
                break
        return found, round(found.events * each)

    async def _average(self, backlog: Backlog, found: Extent) -> float:
        """Average bytes of an event, from batches spread evenly over the extent; 1 when all of them were finished meanwhile."""
        samples = _samples(backlog, found)
        return max(1.0, sum(await self._sizes(samples)) / max(1, sum(run.events for run in samples)))

    @staticmethod
    def _ending(backlog: Backlog, found: Extent, events: int) -> Extent:
        return extent_of(backlog, found.start, max(1, events))

    async def _sizes(self, runs: Sequence[Run]) -> list[int]:
        """The bytes of these runs. A batch that is finished in part counts with its share; one that was carried (rule 9), or was
        finished meanwhile, with the average of the others."""
        own = [run for run in runs if self._directory.locate(run.entry) == run.entry]
        known = await self._read_sizes(own or runs[:CARRIED_READ], FRONT_BYTES if own else None)
        each = sum(known.values()) / max(1, sum(run.events for run in known))
        return [known.get(run, round(run.events * each)) for run in runs]

    async def _read_sizes(self, runs: Sequence[Run], front: int | None) -> dict[Run, int]:
        """Batches that were carried lie within other commands: they are read whole (no `front`)."""
        try:
            found = await self._channel.fetch([self._directory.locate(run.entry) for run in runs], None, front) if runs else []
            return {run: _size_of(run, self._directory.batch_in(data, run.entry)) for run, data in zip(runs, found, strict=True)}
        except NoSuchPosition:
            return {}


def _size_of(run: Run, front: memoryview) -> int:
    if len(front) < FIXED_LENGTH:
        return len(front)
    source, heads, bodies = (int.from_bytes(front[low:high], "little") for low, high in ((10, 12), (56, 60), (60, 64)))
    events = count_of(front)
    return (FIXED_LENGTH + source + 8 * events + heads + bodies) * run.events // max(1, events)


def _events_in(runs: Sequence[Run], sizes: Sequence[int], bytes_max: int) -> int | None:
    """How many events, from the first on, fit so many bytes; None when all of these do."""
    events = 0
    for run, size in zip(runs, sizes, strict=False):
        if size > bytes_max:
            return events + run.events * bytes_max // size
        events += run.events
        bytes_max -= size
    return None


def _sum_in(runs: Sequence[Run], sizes: Sequence[int], events: int) -> int:
    """How many bytes so many events are, at least one."""
    total, left = 0, max(1, events)
    for run, size in zip(runs, sizes, strict=False):
        if left <= run.events:
            return total + size * left // run.events
        total, left = total + size, left - run.events
    return total


def _samples(backlog: Backlog, found: Extent) -> list[Run]:
    """Some batches of an extent, spread evenly over its slots."""
    first, last = found.start >> INDEX_BITS, found.end >> INDEX_BITS
    slots = dict.fromkeys(first + (last - first) * number // SAMPLES for number in range(SAMPLES))
    runs = (next(runs_from(backlog, max(found.start, slot << INDEX_BITS), found.end, 1), None) for slot in slots)
    return list(dict.fromkeys(run for run in runs if run is not None))


async def _cuts(backlog: Backlog, found: Extent, pieces: int) -> list[int]:
    """Places within an extent that divide it into pieces of about equal size."""
    pieces = min(pieces, found.events)
    cuts: dict[int, None] = {}
    for begin in range(1, pieces, CUTS_A_TURN):
        places = Places(backlog)
        before = places.before(found.start)
        for number in range(begin, min(begin + CUTS_A_TURN, pieces)):
            cut = places.nth(before + found.events * number // pieces)
            if found.start < cut < found.end:
                cuts[cut] = None
        await asyncio.sleep(0)
    return sorted(cuts)
