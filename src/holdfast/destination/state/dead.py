"""The dead queue `_DMQ`: events that could not be delivered, and why. Each message manager has one, always (rule 13).

An event is not copied to it: the dead queue refers to the same position. Receiving and confirming work as from any queue.
It also knows the deaths of each event:

    death        by which destination (and subscription) it was given up, why, after how many deliveries, when

    code              the reason for programs
    expired           its time to live was over
    redelivered       it was delivered as often as its destination allows
    failed            the handler of a worker failed on it to the last of its tries
    rejected          a recipient refused it
    no-destination    the destination it was sent to does not exist
    deleted           its destination was deleted while it waited
    unreadable        its bytes or its head are damaged

One event of a topic may be given up by several subscriptions: it waits here once, with all its deaths. A command that gives
up a million events has one reason for all. It is kept once, for the run of slots they were placed in; only deaths that differ
are kept by position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.backlog.runs import Run, Runs, bits, runs_of
from holdfast.destination.effect import Effect, Finished, Placed, Returned
from holdfast.destination.name import DEAD
from holdfast.destination.settings import Settings
from holdfast.destination.state.queue import EVERYTHING, EXPIRED, Queue, Taken
from holdfast.event import position
from holdfast.event.position import Ranges

# The code of a death by the redelivery limit.
REDELIVERED = "redelivered"
CODES = (EXPIRED, REDELIVERED, "failed", "rejected", "no-destination", "deleted", "unreadable")


class Death(NamedTuple):
    destination: str
    subscription: str
    reason: str
    deliveries: int
    at: int  # the entry of the command that gave the event up
    code: str = ""
    at_ms: int = 0  # 0: not known


Deaths = tuple[Death, ...]


class DeadQueue(Queue):
    def __init__(self, bodies: Bodies) -> None:
        super().__init__(DEAD, Settings(), bodies, is_reopening=True)
        self.openings: list[tuple[int, Death]] = []  # (first slot, the death of all from there on that are not in `told`)
        self.told: Runs[Deaths] = Runs()
        # The deaths of all events that wait here, by destination and code. Derived from the rest: not part of an image.
        self.counts: Counter[tuple[str, str]] = Counter()

    def receive(self, taken: Iterable[Taken], death: Death) -> list[Effect]:
        """Take events that could not be delivered. They wait here from now on, each with this death and its own deliveries."""
        first_slot = self._open(death)
        runs = list(taken)
        self.counts[death.destination, death.code] += sum(run.last - run.first + 1 for run in runs)
        return self._opened(first_slot, self._receive_batches(runs, death))

    def receive_all(self, queue: Queue, death: Death) -> list[Effect]:
        """Take everything that waits in a deleted queue: by the page where possible, so that a million batches take no time."""
        first_slot = self._open(death)
        if queue.backlog.waiting:
            self.counts[death.destination, death.code] += queue.backlog.waiting
        again: list[tuple[int, int]] = []
        if queue.backlog.displaced():
            again = self._receive_batches(queue.leaving(EVERYTHING), death)
        else:
            for page in queue.backlog.pages():
                if not queue.backlog.move_page(page, self.backlog):
                    span = (position.of(page.entries[0]), position.of(page.entries[-1], position.INDEX_MASK))
                    again += self._receive_batches(queue.leaving(Ranges.of(span)), death)
        return self._opened(first_slot, again)

    def _receive_batches(self, taken: Iterable[Taken], death: Death) -> list[tuple[int, int]]:
        """Take batches; the positions that had been here, were finished, and wait again."""
        again: list[tuple[int, int]] = []
        for entry, runs in groupby(taken, lambda run: position.entry_of(run.first)):
            self._receive_batch(entry, list(runs), death, again)
        return again

    def _open(self, death: Death) -> int:
        """Slots from here on have this death; the first of them."""
        self.openings.append((self.backlog.next_slot, death))
        return self.backlog.next_slot

    def _opened(self, first_slot: int, again: list[tuple[int, int]]) -> list[Effect]:
        effects: list[Effect] = [Returned(self.key, Ranges.gather(again), 0)] if again else []
        if self.backlog.next_slot == first_slot:
            self.openings.pop()
        else:
            run = self.backlog.next_run(first_slot)
            assert run is not None, "what was just placed waits"
            effects.append(Placed(self.key, run[1], run[2]))
        return effects

    def _receive_batch(self, entry: int, runs: list[Taken], death: Death, again: list[tuple[int, int]]) -> None:
        base = position.of(entry)
        wanted = sum(bits(run.first - base, run.last - base) for run in runs)
        opened = self.backlog.reopen(entry, wanted)
        if opened < 0:
            self.backlog.place(entry, runs[0].events, bits(0, runs[0].events - 1) & ~wanted)
            for run in runs:
                if run.deliveries or (run.reason and death.code == REDELIVERED):
                    self.told.put(run.first, run.last, (_death_of(run, death),))
            return
        for run in runs:
            self._add_death(run, _death_of(run, death), opened, base)
        again.extend((base + low, base + high) for low, high in runs_of(opened))

    def _add_death(self, run: Taken, death: Death, opened: int, base: int) -> None:
        """Add a death to positions of a batch that is here already; those in `opened` did not wait, and have no other death."""
        all_of_run = bits(run.first - base, run.last - base)
        for low, high in runs_of(all_of_run & opened):
            self.told.put(base + low, base + high, (death,))
        opening = (self._opening_of(position.entry_of(base)),)
        for low, high in runs_of(all_of_run & ~opened):
            for first, last, before in self.told.filled(base + low, base + high, opening):
                self.told.put(first, last, (*before, death))

    def deaths(self, waiting: int) -> Deaths:
        """Why a position that waits here was given up, oldest first."""
        return self.deaths_over(waiting, waiting)[0][2]

    def deaths_over(self, first: int, last: int) -> list[Run[Deaths]]:
        """Why first .. last (waiting, of one entry) were given up, in runs of equal deaths."""
        return self.told.filled(first, last, (self._opening_of(position.entry_of(first)),))

    def _opening_of(self, entry: int) -> Death:
        slot = self.backlog.slot_of(entry)
        assert slot is not None, f"nothing of entry {entry} waits in the dead queue"
        if slot >= self.openings[-1][0]:
            return self.openings[-1][1]
        return self.openings[bisect_right(self.openings, slot, key=lambda opening: opening[0]) - 1][1]

    def confirm(self, session: str, ranges: Ranges, delivered_up_to: int, next_entry: int) -> Finished | None:
        """As from any queue."""
        self.check(session, ranges, next_entry)
        self.check_position(delivered_up_to, next_entry)
        return self.finish(ranges)

    def finish(self, ranges: Ranges) -> Finished | None:
        """As from any queue; the deaths of these events are forgotten."""
        locks = self.backlog.locks
        gone = self._count(ranges if locks is None else locks.outside(ranges))
        finished = super().finish(ranges)
        for key, events in gone.items():
            self.counts[key] -= events
            if not self.counts[key]:
                del self.counts[key]
        if finished is not None:
            for first, last in finished.ranges:
                self.told.cut(first, last)
            oldest = self.backlog.oldest_slot()
            while len(self.openings) > 1 and self.openings[1][0] <= oldest:
                del self.openings[0]
            if not self.backlog.waiting:
                self.openings.clear()
        return finished

    def _count(self, ranges: Ranges) -> Counter[tuple[str, str]]:
        """The deaths of the events of these ranges that wait here, by destination and code."""
        counted: Counter[tuple[str, str]] = Counter()
        for first, last in self.backlog.unfinished(ranges):
            for low, high, deaths in self.deaths_over(first, last):
                for death in deaths:
                    counted[death.destination, death.code] += high - low + 1
        return counted

    def recount(self) -> None:
        """Count again, after everything was restored."""
        self.counts = self._count(EVERYTHING)


def _death_of(run: Taken, death: Death) -> Death:
    """The death of these events, with their deliveries, and with the last reason for their return if they died of that."""
    reason = f"{death.reason}: {run.reason}" if run.reason and death.code == REDELIVERED else death.reason
    return death._replace(deliveries=run.deliveries, reason=reason)
