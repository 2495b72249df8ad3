"""The slice reader: fetches the slices of a handout from the channel, without events that have expired or cannot be read.

    handout ──slices──▶ fetch ──▶ cut out of their batches ──┬─▶ ready to be sent
                                                             └─▶ unfit: for the dead queue, with the reason

Events are checked for expiry only in a batch whose head says that its first expiry is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from holdfast.bus.message import DeliveredSlice
from holdfast.channel.channel import Buffer, Channel
from holdfast.destination import effect
from holdfast.destination.backlog.bodies import Body, body_in
from holdfast.destination.delivery.handout import HandoutSlice
from holdfast.destination.directory import Directory
from holdfast.destination.name import DEAD, is_pattern
from holdfast.errors import BatchDamaged, NoSuchPosition
from holdfast.event import position
from holdfast.event.batch import Batch, earliest_expiry_of, ids_run_over, slice_of
from holdfast.event.position import Ranges
from holdfast.node.clock import Clock
from holdfast.node.reading.death_notes import with_deaths
from holdfast.node.reading.head_reader import expiry_in

log = logging.getLogger("holdfast.deliverer")

BacklogKey = effect.BacklogKey

# Bytes fetched for one publication: large enough to make a round trip worth it, small enough to be fair and to fit a frame.
FETCH_BYTES = 512 << 10
FETCH_COUNT_MAX = 256


class Unfit(NamedTuple):
    """Events that must not be sent, and why, in words and for programs."""

    ranges: Ranges
    reason: str
    code: str


class Fetched(NamedTuple):
    begin: int  # where to go on
    ready: list[DeliveredSlice]
    unfit: list[Unfit]
    is_whole: bool  # nothing unfit lies between the last that is ready and where to go on


class SliceReader:
    def __init__(self, directory: Directory, channel: Channel, clock: Clock) -> None:
        self._directory = directory
        self._channel = channel
        self._clock = clock

    def recent(self, key: BacklogKey, slices: Sequence[HandoutSlice]) -> list[DeliveredSlice] | None:
        """All of these slices with their bytes, if they are in memory and fit to be sent."""
        entries = [position.entry_of(each.first) for each in slices]
        if self._directory.backlog(key).has_expiries and any(map(self._has_expired(key), entries)):
            return None
        commands = self._channel.recent([self._directory.locate(entry) for entry in entries], FETCH_BYTES)
        if commands is None or len(commands) < len(slices):
            return None
        try:
            ready = [_delivered(key, each, body) for each, body in zip(slices, map(body_in, commands, entries), strict=True)]
            return ready if key[0] != DEAD else with_deaths(self._directory, DEAD, ready)
        except Exception:
            return None  # `fetch` deals with it

    def _has_expired(self, key: BacklogKey) -> Callable[[int], bool]:
        """A function that says whether an event of an entry has expired, as far as its backlog knows."""
        backlog, now_ms = self._directory.backlog(key), self._clock.now_ms()
        return lambda entry: 0 < backlog.expiry_of(entry) <= now_ms

    async def fetch(self, key: BacklogKey, slices: Sequence[HandoutSlice], begin: int, is_whole: bool) -> Fetched:
        """Slices from `begin` on with their bytes, until FETCH_BYTES are reached."""
        wanted = slices[begin : begin + FETCH_COUNT_MAX]
        entries = [position.entry_of(each.first) for each in wanted]
        places = [self._directory.locate(entry) for entry in entries]
        try:
            commands = await self._channel.fetch(places, FETCH_BYTES)
        except NoSuchPosition:
            if places == [self._directory.locate(entry) for entry in entries]:
                raise
            return Fetched(begin, [], [], is_whole)  # carried forward meanwhile (rule 9): fetch again
        cut = _Cut(is_whole, self._clock.now_ms())
        for each, entry, found in zip(wanted, entries, commands, strict=False):
            try:
                cut.add(_delivered(key, each, body_in(found, entry)))
            except Exception as problem:  # whatever is wrong with one batch, the others are delivered
                log.error("a batch of %s cannot be delivered and goes to %s: entry %d, %r", key, DEAD, entry, problem)
                cut.leave_out([(0, each.events - 1)], each.first, f"the batch cannot be read: {problem}", "unreadable")
        ready = cut.ready if key[0] != DEAD else with_deaths(self._directory, DEAD, cut.ready)
        return Fetched(begin + len(commands), ready, cut.unfit, cut.is_whole)


def _delivered(key: BacklogKey, each: HandoutSlice, body: Body) -> DeliveredSlice:
    """A slice with its bytes; where several destinations fill one backlog, with the one it was sent to."""
    if ids_run_over(body.batch) and key[0] != DEAD:
        raise BatchDamaged("its ids run past 128 bits")
    data = slice_of(body.batch, position.index_of(each.first), each.events)
    sent_to = body.destination if key[0] == DEAD or is_pattern(key[0]) else ""
    return DeliveredSlice(*each[:4], data, sent_to, (), body.accepted_us, each.is_returned)


class _Cut:
    """Sorts slices: those that are ready, in order, and those left out between them."""

    def __init__(self, is_whole: bool, now_ms: int) -> None:
        self.ready: list[DeliveredSlice] = []
        self.unfit: list[Unfit] = []
        self.is_whole = is_whole
        self._now_ms = now_ms

    def add(self, each: DeliveredSlice) -> None:
        expired = list(self._expired(each.batch, each.events)) if self._may_have_expired(each.batch) else []
        if not expired:
            self._take(each)
            return
        begin = 0
        for low, high in [*expired, (each.events, each.events)]:
            if begin < low:
                data, is_adjoining = slice_of(each.batch, begin, low - begin), each.is_adjoining and begin == 0
                self._take(each._replace(first=each.first + begin, events=low - begin, is_adjoining=is_adjoining, batch=data))
            self.is_whole = self.is_whole and low == each.events
            begin = high + 1
        self.leave_out(expired, each.first, "its time to live is over", "expired", is_whole=self.is_whole)

    def _take(self, each: DeliveredSlice) -> None:
        self.ready.append(each if self.is_whole else each._replace(is_adjoining=False))
        self.is_whole = True

    def leave_out(self, spans: Sequence[tuple[int, int]], first: int, reason: str, code: str, *, is_whole: bool = False) -> None:
        ranges = Ranges.gather((first + low, first + high) for low, high in spans)
        self.unfit.append(Unfit(ranges, reason, code))
        self.is_whole = is_whole

    def _may_have_expired(self, data: Buffer) -> bool:
        earliest_ms = earliest_expiry_of(data)
        return 0 < earliest_ms <= self._now_ms

    def _expired(self, data: Buffer, events: int) -> Iterator[tuple[int, int]]:
        """Runs of events (first index, last index) that have expired."""
        batch, begin = Batch(data), -1
        for index in range(events + 1):
            is_over = index < events and 0 < expiry_in(batch, index) <= self._now_ms
            if is_over and begin < 0:
                begin = index
            elif not is_over and begin >= 0:
                yield begin, index - 1
                begin = -1
