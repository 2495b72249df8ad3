"""Delivery beside prepared transactions (ADR 25): what is locked goes to nobody new, and in the end all is delivered once."""

from __future__ import annotations

import random

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.batch_traits import PLAIN, Traits
from holdfast.destination.delivery.delivery import Delivery
from holdfast.event.position import Ranges, of
from tests import effort

WALKS = effort.rounds(short=150, long=10_000)
STEPS = 120
HOLDERS = [("ann", 1), ("bob", 1), ("carl", 1)]


class Queue:
    """A backlog with its delivery, and who holds what as those who received it know."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.backlog = Backlog()
        self.delivery = Delivery(self.backlog)
        self.entry = 0
        self.now_ms = 0
        self.waiting: set[int] = set()
        self.locks: list[set[int]] = []
        self.held: dict[int, tuple[str, int]] = {}
        self.attached: list[tuple[str, int]] = []

    def locked(self) -> set[int]:
        return {each for lock in self.locks for each in lock}

    def some(self, choice: set[int]) -> set[int]:
        found = sorted(choice)
        return set(self.dice.sample(found, min(len(found), self.dice.randint(1, 4))))

    def step(self) -> None:
        getattr(
            self,
            self.dice.choice(
                ["send", "attach", "detach", "take", "take", "confirm", "give_back", "lock", "end", "restart", "wait"]
            ),
        )()

    def send(self) -> None:
        self.entry += 1
        events = self.dice.randint(1, 4)
        traits = self.dice.choice([PLAIN, PLAIN, Traits(9, False, 0, 0, 0), Traits(4, False, self.now_ms + 20, 0, 0)])
        self.backlog.place(self.entry, events, 0, traits)
        self.delivery.placed(of(self.entry), events)
        self.waiting |= {of(self.entry, index) for index in range(events)}

    def attach(self) -> None:
        holder = self.dice.choice(HOLDERS)
        if holder not in self.attached:
            self.attached.append(holder)
            lost = self.delivery.attach(holder, Ranges())
            assert not lost
        self.delivery.grant(holder, self.dice.randint(1, 5), 1_000)

    def detach(self) -> None:
        if self.attached:
            holder = self.attached.pop(self.dice.randrange(len(self.attached)))
            self.delivery.detach(holder)
            self.held = {each: who for each, who in self.held.items() if who != holder}

    def take(self) -> None:
        handout = self.delivery.next(self.now_ms, self.dice.randint(1, 5))
        for handed in handout.slices if handout else ():
            for each in range(handed.first, handed.first + handed.events):
                assert each in self.waiting and each not in self.held, "nothing goes to two"
                assert each not in self.locked(), "what is locked goes to nobody new"
                assert handout is not None
                self.held[each] = handout.holder

    def confirm(self) -> None:
        self.finish(self.some(self.waiting - self.locked()))

    def finish(self, chosen: set[int]) -> None:
        finished = self.backlog.finish(Ranges.gather((each, each) for each in chosen))
        self.delivery.finished(finished)
        self.waiting -= chosen
        self.held = {each: who for each, who in self.held.items() if each not in chosen}

    def give_back(self) -> None:
        chosen = self.some(set(self.held))
        not_before_ms = self.dice.choice([0, self.now_ms + 30])
        returned = self.backlog.give_back(Ranges.gather((each, each) for each in chosen), not_before_ms, True)
        self.delivery.returned(returned, not_before_ms)
        self.held = {each: who for each, who in self.held.items() if each not in chosen or each in self.locked()}

    def lock(self) -> None:
        chosen = self.some(self.waiting - self.locked())
        if chosen:
            self.locks.append(chosen)
            ranges = Ranges.gather((each, each) for each in chosen)
            self.backlog.lock(ranges)
            self.delivery.locked(ranges)

    def end(self) -> None:
        if self.locks:
            chosen = self.locks.pop(self.dice.randrange(len(self.locks)))
            ranges = Ranges.gather((each, each) for each in chosen)
            self.backlog.unlock(ranges)
            if self.dice.random() < 0.5:
                self.finish(chosen)
            else:
                self.delivery.unlocked(ranges)

    def restart(self) -> None:
        """Another primary: receivers attach again, and say what they hold."""
        self.delivery = Delivery(self.backlog)
        for holder in self.attached:
            held = Ranges.gather((each, each) for each, who in self.held.items() if who == holder)
            assert not self.delivery.attach(holder, held)

    def wait(self) -> None:
        self.now_ms += 10

    def drain(self) -> None:
        """Transactions end and time passes: everything that waits is with somebody."""
        while self.locks:
            self.end()
        self.now_ms += 1_000
        self.attach()
        for _ in range(200):
            self.delivery.grant(self.attached[0], 100, 1_000)
            self.take()
        assert set(self.held) == self.waiting


def test_what_is_locked_goes_to_nobody_new_and_in_the_end_everything_is_delivered() -> None:
    first = effort.seed(20_261_118)
    for seed in range(first, first + WALKS):
        queue = Queue(seed)
        for _ in range(STEPS):
            queue.step()
            locked = queue.backlog.locks.all() if queue.backlog.locks is not None else Ranges()
            assert locked == Ranges.gather((each, each) for each in queue.locked())
        queue.drain()
