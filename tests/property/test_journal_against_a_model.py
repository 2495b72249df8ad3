"""The journal is a FIFO with a head and a tail (A3): whatever is done to it, in whatever order, it agrees with a list.

The model knows nothing of segments: it is what was accepted, the newest snapshot, and below what was released. Opening again,
with or without a crash in between, is one more thing that can be done.
"""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.channel.channel import Purpose
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.errors import Blocked, NoSuchPosition
from holdfast.simulation.simulated_disk import SimulatedDisk, by_seed

FOLDER = Path("/journal")
SIZES = st.sampled_from((0, 1, 7, 8, 100, 900, 2500, 7000))
SETTINGS = JournalSettings(segment_bytes=8192, initial_bytes=0, size_bytes=9 * 8192, reserve_bytes=4000, upkeep_bytes=8000)


class JournalAgainstAList(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.disk = SimulatedDisk()
        self.accepted: list[bytes] = []
        self.released_below = 1
        self.snapshot: tuple[int, list[bytes]] | None = None
        self.journal = self.open()

    def open(self) -> Journal:
        return Journal.open(FOLDER, SETTINGS, disk=self.disk, dice=self.dice.randbytes, clock=lambda: 0.0)

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=4), purpose=st.sampled_from(Purpose))
    def append(self, sizes: list[int], purpose: Purpose) -> None:
        commands = [self.dice.randbytes(size) for size in sizes]
        try:
            first = self.journal.append(commands, purpose)
        except Blocked:
            assert self.journal.is_short
            self.accepted += commands[: self.journal.durable - len(self.accepted)]
        else:
            assert first == len(self.accepted) + 1
            self.accepted += commands

    @rule(back=st.integers(0, 30))
    def release(self, back: int) -> None:
        self.released_below = max(self.released_below, len(self.accepted) + 1 - back)
        self.journal.release(self.released_below)
        later = [segment.first_entry for segment in self.journal.chain[1:]]
        assert all(first > self.released_below for first in later), "what holds nothing that is wanted is free again"

    @rule(sizes=st.lists(st.sampled_from((0, 5, 3000)), max_size=3), back=st.integers(0, 3))
    def save_snapshot(self, sizes: list[int], back: int) -> None:
        at, chunks = max(0, len(self.accepted) - back), [self.dice.randbytes(size) for size in sizes]
        try:
            self.journal.save_snapshot(at, chunks)
        except Blocked:
            return
        except NoSuchPosition:
            assert self.snapshot is not None and at < self.snapshot[0], "only an older one is refused"
            return
        assert self.snapshot is None or at >= self.snapshot[0]
        self.snapshot = (at, chunks)

    @rule(number=st.integers(1, 200))
    def fetch(self, number: int) -> None:
        if self.journal.first <= number <= self.journal.durable:
            assert [bytes(command) for command in self.journal.fetch([number])] == [self.accepted[number - 1]]

    @rule()
    def close_and_open(self) -> None:
        self.journal.close()
        self.journal = self.open()

    @precondition(lambda self: self.accepted)
    @rule(seed=st.integers(0, 1000))
    def crash_and_open(self, seed: int) -> None:
        self.disk = self.disk.after_crash(by_seed(seed))
        self.journal = self.open()

    @invariant()
    def it_holds_what_was_accepted(self) -> None:
        assert self.journal.durable == len(self.accepted)
        assert self.journal.first <= self.released_below
        found = [(entry.number, bytes(entry.command)) for entry in self.journal.read_from(self.journal.first)]
        assert found == [(number, self.accepted[number - 1]) for number in range(self.journal.first, len(self.accepted) + 1)]

    @invariant()
    def it_has_the_newest_snapshot(self) -> None:
        snapshot = self.journal.load_snapshot()
        assert (snapshot and (snapshot.at, [bytes(chunk) for chunk in snapshot.chunks])) == self.snapshot


TestJournalAgainstAList = JournalAgainstAList.TestCase
TestJournalAgainstAList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
