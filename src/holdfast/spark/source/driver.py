"""The driver's view of a stream: from which marks to which the next batch goes, what is confirmed, how much is left.

A batch begins at the marks of the newest commit. Before anything is read on from them they are compared with the subscriptions:

    of another subscription     it was deleted and made again, or this is another server
    of another incarnation      the server was restored from a backup: its places mean other events
    before what is confirmed    a newer checkpoint confirmed it: what lies between is not here any more
    after what was ever placed  the server's data is older than the checkpoint

Each is refused, with what to do; `onMismatch=continue` (or `failOnDataLoss=false`) goes on with what waits instead. A checkpoint
that is older than what was confirmed is always refused: its numbers of batches were used for others, and a sink would take new
events for repetitions. A subscription that is deleted while the query runs is treated as one that was deleted before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from holdfast.client.reading.place_reader import Extent
from holdfast.errors import AlreadyConfirmed, CheckpointMismatch, NoSuchPosition
from holdfast.node.background import shared_background
from holdfast.spark.options import StreamOptions
from holdfast.spark.server_address import ServerAddress
from holdfast.spark.source import offsets
from holdfast.spark.source.batch_minimum import BatchMinimum
from holdfast.spark.source.idle_wait import IdleWait
from holdfast.spark.source.offsets import PIECES_MAX, Mark, Marks, Range, is_of_restored, pieces_of
from holdfast.spark.source.read_target import ReadTarget
from holdfast.spark.source.safety import safety
from holdfast.spark.source.stream_ownership import RESTORED, Allowance, Owner, SubscriptionGone

log = logging.getLogger(__name__)

# To learn where a subscription begins and ends, the least is asked for.
_ONE = Allowance(events=1)
# A mark that says nothing of any subscription: what waits is read from its beginning.
_NOWHERE = Mark("", 0)


_Planned = tuple[dict[str, Extent], Marks]


class Driver:
    """Lives as long as the query, in the process Spark keeps for its source."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._owner = Owner(ServerAddress.of(options), read_targets(options).values(), options.selector)
        self._safety = safety(options.sync)
        self._minimum = BatchMinimum(options.events_min, options.trigger_delay_s)
        self._idle_wait = IdleWait(options.poll_seconds)
        self._idle_since: float | None = None  # when Spark was last told that nothing has come
        self._background = shared_background()
        self._identities: dict[str, str] = {}  # of the subscriptions whose marks were compared
        self._given_up: dict[str, Mark] = {}  # marks that do not fit, and are gone on from all the same
        self._safe: dict[str, int] = {}  # what was confirmed
        self._stop_places: dict[str, int] | None = None  # with the trigger availableNow: where to stop
        self._reported: dict[str, Any] | None = None

    def close(self) -> None:
        self._background.run(self._owner.close())

    def beginning(self) -> Marks:
        """Where a new stream begins: at the oldest event that waits, or as the options say. The same until a confirm."""
        found = self._extents({}, _ONE)
        self._identities = {name: extent.identity for name, extent in found.items()}
        places = {name: extent.confirmed for name, extent in found.items()}
        if self._options.starting is not None:
            places |= self._background.run(self._owner.starting_places(self._options.starting))
        return {name: Mark(extent.identity, places[name]) for name, extent in found.items()}

    def stop_at_newest(self) -> None:
        """Read nothing that is placed from now on."""
        self._stop_places = {name: extent.newest for name, extent in self._extents({}, _ONE).items()}

    def latest(self, start: Marks, allowance: Allowance, *, has_minimum: bool = True) -> Marks:
        """How far the next batch goes, now that `start` was committed: as far as `start` if nothing has come, or too little."""
        try:
            return self._latest(start, allowance, has_minimum)
        except SubscriptionGone as problem:
            gone = self._mismatch(problem.destination, problem.reason)
            if self._options.on_mismatch == "fail":
                raise gone from problem
            log.warning("%s", gone)
        self._background.run(self._owner.forget())
        self._identities, self._safe = {}, {}
        return self._latest(start, allowance, has_minimum)

    def _latest(self, start: Marks, allowance: Allowance, has_minimum: bool) -> Marks:
        places = _places(self.fitting(start))
        self._confirm(start)
        found, end = self._planned(start, places, allowance, has_minimum)
        if end == start and self._stop_places is not None:
            self._confirm_the_last(start)
        elif end == start and self._waited(found):
            found, end = self._planned(start, places, allowance, has_minimum)
        self._idle_since = time.monotonic() if end == start else None
        self._report(found)
        return end

    def _planned(self, start: Marks, places: Mapping[str, int], allowance: Allowance, has_minimum: bool) -> _Planned:
        """What there is, and how far the batch goes."""
        found = self._extents(places, allowance, max(PIECES_MAX, self._options.partitions_min))
        end = self._end(start, found)
        is_whole = not has_minimum or self._stop_places is not None
        if end == start or is_whole or self._minimum.is_reached(sum(extent.events + extent.left for extent in found.values())):
            return found, end
        return found, start

    def _waited(self, found: Mapping[str, Extent]) -> bool:
        """Wait for more than was found, if it is time to; whether it was."""
        pause_s = None if self._idle_since is None else time.monotonic() - self._idle_since
        wait_s = min(self._idle_wait.next_s(pause_s), max(0.0, self._minimum.seconds_left()))
        if wait_s:
            newest = {name: extent.newest for name, extent in found.items()}
            self._background.run(self._owner.more(newest, wait_s))
        return wait_s > 0

    def report(self) -> dict[str, Any] | None:
        """The newest place of each subscription, and how many of its events are not confirmed; as of the last `latest`."""
        return self._reported

    def fitting(self, marks: Marks) -> Marks:
        """Choose the marks that are of these subscriptions, compared when one is first seen. CheckpointMismatch if one is not."""
        unknown = {
            name: mark
            for name, mark in marks.items()
            if self._identities.get(name) != mark.identity and self._given_up.get(name) != mark
        }
        if unknown:
            found = self._extents({}, _ONE)
            for name, mark in unknown.items():
                self._compare(name, mark, found.get(name))
            self._identities = {name: extent.identity for name, extent in found.items()}
        return {name: mark for name, mark in marks.items() if self._given_up.get(name) != mark}

    def ranges(self, start: Marks, end: Marks) -> list[Range]:
        """Divide a batch among the executors. One that was planned for a subscription that is gone has nothing to read."""
        fitting = self.fitting(start)
        there = {name: mark for name, mark in end.items() if mark.identity == self._identities.get(name)}
        return offsets.ranges({name: fitting.get(name, _NOWHERE) for name in start}, there)

    # --- confirming --------------------------------------------------------------------------------------------------

    def _confirm(self, committed: Marks) -> None:
        """Also what is confirmed already: to say it again costs little, and takes the ownership again if a link was lost."""
        safe = self._safety.safe(committed)
        if safe is not None:
            self._safe = _places(self.fitting(safe))
        self._background.run(self._owner.confirm(self._safe))

    def _confirm_the_last(self, committed: Marks) -> None:
        """There is no next batch with which it would be confirmed: what is not safe yet is waited for."""
        seconds_left = self._safety.seconds_left()
        if seconds_left:
            time.sleep(seconds_left)
            self._confirm(committed)

    # --- how far -----------------------------------------------------------------------------------------------------

    def _extents(self, starts: Mapping[str, int], allowance: Allowance, pieces: int = 1) -> dict[str, Extent]:
        return self._background.run(self._owner.extents(starts, allowance, pieces))

    def _end(self, start: Marks, found: Mapping[str, Extent]) -> Marks:
        return {name: self._end_of(name, start.get(name), extent) for name, extent in found.items()}

    def _end_of(self, name: str, start: Mark | None, extent: Extent) -> Mark:
        """A destination that was added to the options begins with what waits, in the batch after this one."""
        known = self._identities.setdefault(name, extent.identity)
        if known != extent.identity:
            raise SubscriptionGone.instead(name, known, extent.identity)
        if start is None:
            return Mark(extent.identity, extent.confirmed)
        if self._given_up.get(name) == start:
            start = _NOWHERE
        end = extent.end if self._stop_places is None else min(extent.end, self._stop_places.get(name, extent.end))
        if end <= start.place:
            return start
        cuts = [cut for cut in extent.cuts if cut < end]
        return Mark(extent.identity, end, offsets.thinned(cuts, pieces_of(extent, self._options.partitions_min)))

    def _report(self, found: Mapping[str, Extent]) -> None:
        if any(extent.start > extent.confirmed for extent in found.values()):
            found = self._extents({}, _ONE)
        self._reported = {
            name: [found[name].identity, found[name].newest, found[name].events + found[name].left] for name in sorted(found)
        }

    # --- what does not belong together -------------------------------------------------------------------------------

    def _compare(self, name: str, mark: Mark, extent: Extent | None) -> None:
        try:
            self._check(name, mark, extent)
        except CheckpointMismatch as problem:
            if self._options.on_mismatch == "fail" or isinstance(problem.__cause__, AlreadyConfirmed):
                raise
            self._given_up[name] = mark

    def _check(self, name: str, mark: Mark, extent: Extent | None) -> None:
        if extent is None:
            raise CheckpointMismatch(
                f"the checkpoint has read {name!r}, which the option 'destinations' does not name any more, and its subscription "
                "would keep every event for ever: name it again; or, to leave it out, delete its subscription "
                f"{self._options.subscription!r} and start once with option('onMismatch', 'continue')",
                destination=name,
            )
        if extent.identity != mark.identity:
            is_restored = is_of_restored(mark.identity, extent.identity)
            raise self._mismatch(name, RESTORED if is_restored else "it was deleted and made again, or is another server's")
        try:
            self._extents({name: mark.place}, _ONE)
        except AlreadyConfirmed as problem:
            raise CheckpointMismatch(
                f"the checkpoint is older than what a newer one has confirmed of subscription {self._options.subscription!r} of "
                f"{name!r} ({problem}). Use the newer one; or begin with a new checkpoint folder, which goes on with what waits",
                destination=name,
                subscription=self._options.subscription,
            ) from problem
        except NoSuchPosition as problem:
            raise self._mismatch(name, f"the server's data is older than the checkpoint ({problem})") from problem

    def _mismatch(self, name: str, reason: str) -> CheckpointMismatch:
        return CheckpointMismatch(
            f"the checkpoint does not fit subscription {self._options.subscription!r} of {name!r}: {reason}. Use the checkpoint "
            "that belongs to it; or begin with a new checkpoint folder, or once with option('onMismatch', 'continue'), also "
            "called failOnDataLoss=false: both go on with what waits in the subscription, and what is missing from the table "
            "stays missing",
            destination=name,
            subscription=self._options.subscription,
        )


def read_targets(options: StreamOptions) -> dict[str, ReadTarget]:
    """The subscriptions that are read, by the names of their destinations."""
    return {each.name: ReadTarget(each.name, options.subscription, each.match) for each in options.destinations}


def read_target(options: StreamOptions, key: str) -> ReadTarget:
    """The subscription that is read under this name in offsets."""
    targets = read_targets(options)
    if key in targets:
        return targets[key]
    destination, _, channel = key.rpartition("@")
    return targets[destination]._replace(channel=channel)


def _places(marks: Marks) -> dict[str, int]:
    return {name: mark.place for name, mark in marks.items()}
