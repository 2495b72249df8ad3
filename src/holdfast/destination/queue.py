"""A queue: every event goes to one recipient at a time, oldest placed first.

    waiting     accepted, not finished
    finished    confirmed, or dead; the queue has forgotten it

Who holds a waiting event is not known here but in `delivery`, which only a primary has: a backup that takes over cannot
know what arrived. It hears from the client managers what their recipients hold, delivers the rest again, and the first
confirm in channel order counts (rules 3 and 4).

All checks come before any change: a refused command changes nothing. This module reads no clock, draws no random numbers
and does no I/O: the same commands in the same order give the same state, which is what lets a backup follow the channel and
arrive here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.destination.backlog import Backlog
from holdfast.destination.bodies import Bodies
from holdfast.destination.command import Settings
from holdfast.destination.effect import BacklogKey, Finished, Placed, Returned
from holdfast.destination.producers import Batch
from holdfast.destination.receivers import Receivers
from holdfast.destination.sizes import Sizes
from holdfast.errors import Detached, NoSuchPosition
from holdfast.event import position
from holdfast.event.position import Ranges

EVERYTHING = Ranges.of((0, (1 << 64) - 1))
# The code of a death that only time brought (see `dead`).
EXPIRED = "expired"


class Taken(NamedTuple):
    """Events taken out of a queue to go elsewhere: a run of one batch (which has `events` in all), delivered equally often."""

    first: int
    last: int
    deliveries: int
    events: int


class Queue:
    kind = "queue"

    def __init__(self, name: str, settings: Settings, bodies: Bodies, is_reopening: bool = False) -> None:
        self.name = name
        self.settings = settings
        self.backlog = Backlog(bodies, is_reopening)
        self.receivers = Receivers()
        self.configure(settings)
        self.owner = ""  # the session it belongs to and goes with
        self.dead_count = 0  # events that were given up here, ever
        self.expired_count = 0  # those of them whose time was over

    @property
    def key(self) -> BacklogKey:
        return (self.name, "")

    @property
    def title(self) -> str:
        """What it is called in sentences."""
        return f"queue '{self.name}'"

    def place(self, batch: Batch, finished: int = 0) -> Placed:
        """A batch waits here from now on; `finished` are the bits of those of its events that do not."""
        self.backlog.place(batch.entry, batch.events, finished, batch.traits)
        if self.backlog.sizes is not None:
            self.backlog.sizes.put(self.backlog.next_slot - 1, batch.size)
        return Placed(self.key, position.of(batch.entry), batch.events)

    def configure(self, settings: Settings) -> None:
        """From now on these hold. The bytes of what was placed while no high water was set in bytes are not counted."""
        self.settings = settings
        if not settings.bytes_max:
            self.backlog.sizes = None
        elif self.backlog.sizes is None:
            self.backlog.sizes = Sizes()

    def confirm(self, session: str, ranges: Ranges, delivered_up_to: int, next_entry: int) -> Finished | None:
        """A recipient has finished with these.

        Client managers resend confirms after a takeover: what is finished already is passed over.
        """
        self.check(session, ranges, next_entry)
        self.check_position(delivered_up_to, next_entry)
        self.backlog.history.note_delivered(delivered_up_to)
        finished = self.backlog.finish(ranges)
        return Finished(self.key, finished) if finished else None

    def release(
        self, session: str, ranges: Ranges, not_before_ms: int, is_counted: bool, next_entry: int, at_ms: int = 0
    ) -> Returned | None:
        """A recipient gives these back, to be delivered again. What is finished stays finished.

        What somebody had looked at (`is_counted`) waits at least as long as the settings say for so many deliveries, counted
        from when it was said.
        """
        self.check(session, ranges, next_entry)
        returned = self.backlog.give_back(ranges, not_before_ms, is_counted)
        if is_counted and self.settings.redelivery_delay_ms:
            self.backlog.back_off(returned, at_ms, self.settings.redelivery_delay_of)
        return Returned(self.key, returned, not_before_ms, session) if returned else None

    def reject(self, session: str, ranges: Ranges, next_entry: int) -> list[Taken]:
        """A recipient refuses these for good: they were delivered once more than had been counted, and leave this queue."""
        self.check(session, ranges, next_entry)
        return self.take(ranges, more_deliveries=1)

    def note_dead(self, events: int, code: str) -> None:
        """So many of what was taken out of here went to the dead queue, for a reason with this code."""
        self.dead_count += events
        if code == EXPIRED:
            self.expired_count += events

    def account(self) -> dict[str, int]:
        """What became of all that was ever meant for it: accepted = confirmed + dead + waiting. What expired is dead, too."""
        accepted = self.backlog.waiting + self.backlog.finished_count
        confirmed = self.backlog.finished_count - self.dead_count
        return {"accepted": accepted, "confirmed": confirmed, "dead": self.dead_count, "expired": self.expired_count}

    def take(self, ranges: Ranges, more_deliveries: int = 0) -> list[Taken]:
        """Finish these here, because they go elsewhere."""
        taken = list(self.leaving(ranges, more_deliveries))
        self.backlog.finish(ranges)
        return taken

    def leaving(self, ranges: Ranges, more_deliveries: int = 0) -> Iterator[Taken]:
        """What of these ranges waits here, as it goes elsewhere. Changes nothing."""
        for first, last in self.backlog.unfinished(ranges):
            events = self.backlog.events_of(position.entry_of(first))
            for low, high, deliveries in self.backlog.deliveries_over(first, last):
                yield Taken(low, high, deliveries + more_deliveries, events)

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
                "settle only what was delivered",
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
