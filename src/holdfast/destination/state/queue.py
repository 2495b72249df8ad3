"""A queue: every event goes to one recipient at a time, oldest placed first.

    waiting     accepted, not finished
    finished    confirmed, or dead; the queue has forgotten it

Only `delivery`, which only a primary has, knows who holds a waiting event: a backup that takes over cannot know what arrived. It
learns from the client managers what their recipients hold, delivers the rest again, and the first confirm in channel order
counts (rules 3 and 4).

All checks come before any change: a refused command changes nothing. This module reads no clock, draws no random numbers
and does no I/O: the same commands in the same order give the same state, so a backup that follows the channel has it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.backlog.history import OFTEN
from holdfast.destination.backlog.sizes import Sizes
from holdfast.destination.command import Release
from holdfast.destination.effect import BacklogKey, Finished, Placed, Returned
from holdfast.destination.settings import Settings
from holdfast.destination.state.producers import Batch
from holdfast.destination.state.receivers import Receivers
from holdfast.errors import Detached, NoSuchPosition
from holdfast.event import position
from holdfast.event.position import Ranges

EVERYTHING = Ranges.of((0, (1 << 64) - 1))
# The code of a death by time to live (see `dead`).
EXPIRED = "expired"


class Taken(NamedTuple):
    """Events taken out of a queue, to go elsewhere: a run of one batch (of `events` in all), delivered equally often."""

    first: int
    last: int
    deliveries: int
    events: int
    reason: str = ""  # why they came back the last time


class Queue:
    kind = "queue"

    def __init__(self, name: str, settings: Settings, bodies: Bodies, is_reopening: bool = False) -> None:
        self.name = name
        self.settings = settings
        self._bodies = bodies
        self._is_reopening = is_reopening
        self._backlog: Backlog | None = None
        self.is_used = False  # something was placed or restored here; otherwise there is no backlog yet
        self._receivers: Receivers | None = None
        if self.counts_bytes:
            self.configure(settings)
        self.owner = ""  # the session it belongs to and goes with
        self.is_unconfigured = False  # it came into being on first use, and nobody has given it a setting
        self.dead_count = 0  # events that were given up here, ever
        self.expired_count = 0  # those of them whose time was over

    @property
    def backlog(self) -> Backlog:
        """Made on first use, so that a start with a hundred thousand queues makes only those that hold something."""
        if self._backlog is None:
            self._backlog = Backlog(self._bodies, self._is_reopening)
            self.is_used = True
        return self._backlog

    @property
    def receivers(self) -> Receivers:
        """Made on first use, as the backlog is."""
        if self._receivers is None:
            self._receivers = Receivers()
        return self._receivers

    @property
    def is_without_receivers(self) -> bool:
        return not self._receivers

    @property
    def counts_bytes(self) -> bool:
        """Whether a limit is set in bytes."""
        return bool(self.settings.bytes_max)

    @property
    def key(self) -> BacklogKey:
        return (self.name, "")

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return f"queue '{self.name}'"

    def place(self, batch: Batch, finished: int = 0) -> Placed:
        """A batch waits here from now on; `finished` are the bits of its events that do not."""
        backlog = self.backlog
        backlog.place(batch.entry, batch.events, finished, batch.traits)
        if backlog.sizes is not None:
            backlog.sizes.put(backlog.next_slot - 1, batch.size)
        return Placed(self.key, position.of(batch.entry), batch.events)

    def copy_from(self, other: Queue) -> None:
        """Let everything wait here that waits in another queue, at the same positions and places. Nothing has waited here yet."""
        if other.is_used:
            self._backlog, self.is_used = other.backlog.copy(), True

    def configure(self, settings: Settings) -> None:
        """Use these settings from now on. Batches placed while bytes were not counted are not counted later, either."""
        self.settings = settings
        if not self.counts_bytes:
            if self._backlog is not None:
                self._backlog.sizes = None
        elif self.backlog.sizes is None:
            self.backlog.sizes = Sizes()

    def confirm(self, session: str, ranges: Ranges, delivered_up_to: int, next_entry: int) -> Finished | None:
        """A recipient has finished with these.

        Client managers resend confirms after a takeover: finished positions are passed over.
        """
        self.check(session, ranges, next_entry)
        self.check_position(delivered_up_to, next_entry)
        finished = self.backlog.finish(ranges)
        return Finished(self.key, finished) if finished else None

    def finish(self, ranges: Ranges) -> Finished | None:
        """A transaction, which has checked everything, confirms these."""
        finished = self.backlog.finish(ranges)
        return Finished(self.key, finished) if finished else None

    def release(self, command: Release, ranges: Ranges, next_entry: int) -> Returned | None:
        """A recipient gives these back, to be delivered again. Finished ones stay finished.

        Events that a program saw (`is_counted`), and for which it said no delay, wait at least as long as the settings say for so
        many deliveries, counted from the time of the release. The usual back-off, which nobody chose, is only for those that a
        program released: who leaves, recovers or rolls back finds the order as it was. Whatever is said, an event that came back
        often waits a moment: no recipient can make it go round as fast as it can.
        """
        self.check(command.session, ranges, next_entry)
        returned = self.backlog.give_back(ranges, command.not_before_ms, command.is_counted, command.reason)
        settings = self.settings
        is_waiting = command.wait == "back-off" or (not command.wait and not settings.usual_back_off)
        if command.is_counted and settings.redelivery_delay_ms and is_waiting:
            self.backlog.back_off(returned, command.at_ms, settings.redelivery_delay_of)
        if command.is_counted and command.often_ms:
            self.backlog.back_off(returned, command.at_ms, lambda deliveries: command.often_ms if deliveries >= OFTEN else 0)
        return Returned(self.key, returned, command.not_before_ms, command.session) if returned else None

    def reject(self, session: str, ranges: Ranges, next_entry: int) -> list[Taken]:
        """A recipient refuses these for good: they were delivered once more than had been counted, and leave this queue."""
        self.check(session, ranges, next_entry)
        return self.take(ranges, more_deliveries=1)

    def note_dead(self, events: int, code: str) -> None:
        """So many of the events taken out of here went to the dead queue, for a reason with this code."""
        self.dead_count += events
        if code == EXPIRED:
            self.expired_count += events

    def account(self) -> dict[str, int]:
        """The account of all events ever placed here: accepted = confirmed + dead + waiting. Expired events are dead, too."""
        accepted = self.backlog.waiting + self.backlog.finished_count
        confirmed = self.backlog.finished_count - self.dead_count
        return {"accepted": accepted, "confirmed": confirmed, "dead": self.dead_count, "expired": self.expired_count}

    def take(self, ranges: Ranges, more_deliveries: int = 0) -> list[Taken]:
        """Take these out: they are finished here, because they go elsewhere."""
        taken = list(self.leaving(ranges, more_deliveries))
        self.backlog.finish(ranges)
        return taken

    def leaving(self, ranges: Ranges, more_deliveries: int = 0) -> Iterator[Taken]:
        """The events of these ranges that wait here and are not locked, as they go elsewhere. Changes nothing."""
        locks = self.backlog.locks
        for first, last in self.backlog.unfinished(ranges if locks is None else locks.outside(ranges)):
            events = self.backlog.events_of(position.entry_of(first))
            for low, high, deliveries in self.backlog.deliveries_over(first, last):
                for start, end, reason in self.backlog.history.reasons.filled(low, high, ""):
                    yield Taken(start, end, deliveries + more_deliveries, events, reason)

    def check(self, session: str, ranges: Ranges, next_entry: int) -> None:
        if not self.receivers.is_attached(session):
            raise Detached(
                f"{self.title}: session '{session}' is not attached and what it held went to others; "
                "attach again, discard unconfirmed work",
                destination=self.name,
                session=session,
            )
        if ranges:
            self.check_position(ranges.last, next_entry)

    def check_position(self, newest: int, next_entry: int) -> None:
        if position.entry_of(newest) >= next_entry:
            raise NoSuchPosition(
                f"{self.title}: position {newest} is past the newest one, which lies in entry {next_entry - 1}; "
                "use only positions that were delivered",
                destination=self.name,
                position=newest,
            )

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "waiting": self.backlog.waiting,
            "receivers": len(self.receivers),
            **self.account(),
            **self.settings.describe(),
        }
