"""The dead queue `_DMQ`: what could not be delivered, and why. There is one per message manager, and it always exists (rule 13).

An event is not copied to it: the dead queue refers to the same position. Receiving and confirming work as from any queue.
What it knows beside that:

    deaths       by which destination (and subscription) it was given up, why, after how many deliveries, when

    code              the reason for programs
    expired           its time to live was over
    redelivered       it was delivered as often as its destination allows
    rejected          a recipient refused it
    no-destination    where it was sent there was nothing
    deleted           its destination was deleted while it waited
    unreadable        its bytes are not what was written

One event of a topic may be given up by several subscriptions: it waits here once, with all its deaths. A command that gives
up a million events says one reason for all: that is kept once, for the run of slots they were placed in; only what differs
is kept by position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from holdfast.destination.bodies import Bodies
from holdfast.destination.command import Settings
from holdfast.destination.effect import Effect, Finished, Placed, Returned
from holdfast.destination.name import DEAD
from holdfast.destination.page import bits, runs_of
from holdfast.destination.queue import EVERYTHING, Queue, Taken
from holdfast.destination.runs import Run, Runs
from holdfast.event import position
from holdfast.event.position import Ranges


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
        self.openings: list[tuple[int, Death]] = []  # (first slot, the death of all from there on that are not told otherwise)
        self.told: Runs[Deaths] = Runs()

    def receive(self, taken: Iterable[Taken], death: Death) -> list[Effect]:
        """These events could not be delivered. They wait here from now on, each with this death and its own deliveries."""
        first_slot = self._open(death)
        return self._opened(first_slot, self._receive_batches(taken, death))

    def receive_all(self, queue: Queue, death: Death) -> list[Effect]:
        """All that waits in a queue that is deleted: by the page where that can be, so that a million batches take no time."""
        first_slot = self._open(death)
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
        """What of them had been here and was finished, and waits again."""
        again: list[tuple[int, int]] = []
        for entry, runs in groupby(taken, lambda run: position.entry_of(run.first)):
            self._receive_batch(entry, list(runs), death, again)
        return again

    def _open(self, death: Death) -> int:
        """From this slot on it is this death."""
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
                if run.deliveries:
                    self.told.put(run.first, run.last, (death._replace(deliveries=run.deliveries),))
            return
        for run in runs:
            self._add_death(run, death._replace(deliveries=run.deliveries), opened, base)
        again.extend((base + low, base + high) for low, high in runs_of(opened))

    def _add_death(self, run: Taken, death: Death, opened: int, base: int) -> None:
        """Add a death to positions of a batch that is here already; those in `opened` did not wait, and have no other."""
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
        """As from any queue; and why these events died is forgotten."""
        finished = super().confirm(session, ranges, delivered_up_to, next_entry)
        if finished is not None:
            for first, last in finished.ranges:
                self.told.cut(first, last)
            oldest = self.backlog.oldest_slot()
            while len(self.openings) > 1 and self.openings[1][0] <= oldest:
                del self.openings[0]
            if not self.backlog.waiting:
                self.openings.clear()
        return finished
