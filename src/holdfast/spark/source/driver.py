"""The driver's view of a stream: from which marks to which the next batch goes, what is confirmed, how much is left.

A batch begins at the marks of the newest commit. Before anything is read on from them they are compared with the subscriptions:

    of another subscription     it was deleted and made again, or this is another server
    before what is confirmed    a newer checkpoint confirmed it: what lies between is not here any more
    after what was ever placed  the server's data is older than the checkpoint

Each is refused, with what to do; `onMismatch=continue` goes on with what waits instead. Not so where the checkpoint is older than
what was confirmed: its numbers of batches were used for others, and a sink would take new events for repetitions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from holdfast.blocking.background import shared_background
from holdfast.client.reading import Extent
from holdfast.errors import AlreadyConfirmed, CheckpointMismatch, NoSuchPosition
from holdfast.spark.options import StreamOptions
from holdfast.spark.source import offsets
from holdfast.spark.source.connecting import Connection, Holding
from holdfast.spark.source.offsets import Mark, Marks, Range
from holdfast.spark.source.owning import Allowance, Owner
from holdfast.spark.source.planning import PIECES_MAX, pieces_of
from holdfast.spark.source.safety import safety

# To learn where a subscription begins and ends, the least is asked for.
_ONE = Allowance(events=1)
# A mark that says nothing of any subscription: what waits is read from its beginning.
_NOWHERE = Mark("", 0)


class Driver:
    """Lives as long as the query, in the process Spark keeps for its source."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._owner = Owner(Connection.of(options), holdings(options).values(), options.selector)
        self._safety = safety(options.sync)
        self._background = shared_background()
        self._identities: dict[str, str] = {}  # of the subscriptions whose marks were compared
        self._given_up: dict[str, Mark] = {}  # marks that do not fit, and are gone on from all the same
        self._safe: dict[str, int] = {}  # what was confirmed
        self._targets: dict[str, int] | None = None  # with the trigger availableNow: where to stop
        self._reported: dict[str, Any] | None = None

    def close(self) -> None:
        self._background.run(self._owner.close())

    def beginning(self) -> Marks:
        """What waits begins here. The same however often it is asked, until a commit is confirmed."""
        found = self._extents({}, _ONE)
        self._identities = {name: extent.identity for name, extent in found.items()}
        return {name: Mark(extent.identity, extent.confirmed) for name, extent in found.items()}

    def stop_at_newest(self) -> None:
        """What is placed from now on is not read any more."""
        self._targets = {name: extent.newest for name, extent in self._extents({}, _ONE).items()}

    def latest(self, start: Marks, allowance: Allowance) -> Marks:
        """`start` was committed. How far the next batch goes: where nothing has come, as far as `start`."""
        places = _places(self.fitting(start))
        pieces = max(PIECES_MAX, self._options.partitions_min)
        self._confirm(start)
        found = self._extents(places, allowance, pieces)
        end = self._end(start, found)
        if end == start and self._targets is not None:
            self._confirm_the_last(start)
        elif end == start:
            waited_for = {name: extent.newest for name, extent in found.items()}
            self._background.run(self._owner.more(waited_for, self._options.poll_seconds))
            found = self._extents(places, allowance, pieces)
            end = self._end(start, found)
        self._report(found)
        return end

    def report(self) -> dict[str, Any] | None:
        """The newest place of each subscription, and how many of its events are not confirmed; as of the last `latest`."""
        return self._reported

    def fitting(self, marks: Marks) -> Marks:
        """Those that are of these subscriptions, compared when one is first seen. CheckpointMismatch if they do not fit."""
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
        """What the executors read. A batch that was planned for a subscription that is gone has nothing to read any more."""
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
        if self._identities.setdefault(name, extent.identity) != extent.identity:
            raise self._mismatch(name, "it was deleted and made again while the query ran")
        if start is None:
            return Mark(extent.identity, extent.confirmed)
        if self._given_up.get(name) == start:
            start = _NOWHERE
        end = extent.end if self._targets is None else min(extent.end, self._targets.get(name, extent.end))
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
            raise self._mismatch(name, "it was deleted and made again, or is another server's")
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
            "that belongs to it; or begin with a new checkpoint folder, or once with option('onMismatch', 'continue'): both go "
            "on with what waits in the subscription, and what is missing from the table stays missing",
            destination=name,
            subscription=self._options.subscription,
        )


def holdings(options: StreamOptions) -> dict[str, Holding]:
    """The subscriptions that are read, by the names of their destinations."""
    return {each.name: Holding(each.name, options.subscription, each.match) for each in options.destinations}


def _places(marks: Marks) -> dict[str, int]:
    return {name: mark.place for name, mark in marks.items()}
