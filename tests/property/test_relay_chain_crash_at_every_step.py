"""A chain of two relays on simulated servers, with a crash or a cut line at every step: nothing lost, nothing twice, in order.

The machines are those of the product. A simulated server has positions, one subscription that the next relay holds, and
recipients that confirm or reject. Each step of a relay is one that a crash may follow: draw, append with a mark, tell upstream,
drop the mark.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.relay.machines.duties import Duties, Mode, Verdicts
from holdfast.relay.machines.marks import Mark, Marks, Stretch, judged
from tests import effort

EVENTS = 12
IDENTITY = "journal:1"
MODES: list[Mode] = ["receipt", "end-to-end", "each"]


@dataclass
class Server:
    """Events by position, and what became of each for the one who receives here."""

    events: dict[int, int] = field(default_factory=dict)  # position: which event
    finished: dict[int, str] = field(default_factory=dict)  # position: "confirm" or "reject"
    held: set[int] = field(default_factory=set)
    newest: int = 0

    def place(self, event: int) -> int:
        self.newest += 2  # positions of others lie between
        self.events[self.newest] = event
        return self.newest

    def waiting(self) -> list[int]:
        return [place for place in self.events if place not in self.finished and place not in self.held]


class SimulatedRelay:
    """A relay whose memory is lost at a crash. Its marks are durable, with the events, at the local server."""

    def __init__(self, mode: Mode, upstream: Server, local: Server) -> None:
        self.mode: Mode = mode
        self.upstream, self.local = upstream, local
        self.durable: dict[int, Mark] = {}
        self.start()

    def start(self) -> None:
        self.marks, self.duties = Marks(), Duties(self.mode)
        self.drawn: list[int] = []
        self.to_settle: list[tuple[int, str]] = []
        self.to_drop: list[int] = []
        for mark in judged(IDENTITY, self.durable.values(), [IDENTITY]).held:
            self.marks.add(mark)
            self._tell(self.duties.appended(mark.stretches))
        self.claim()

    def claim(self) -> None:
        """Attach with what is marked; what is finished upstream is none of ours."""
        for first, last in list(self.marks.marked):
            for place in range(first, last + 1):
                if place in self.upstream.finished:
                    self.settle_mark(place)
                elif place in self.upstream.events:
                    self.upstream.held.add(place)
                    self._again(place)

    def crash(self) -> None:
        self.upstream.held.clear()
        self.start()

    def cut(self, dice: random.Random) -> None:
        """The line was cut for longer than every grace: upstream gives the session up, and memory stays."""
        self.upstream.held.clear()
        self.drawn.clear()
        if dice.random() < 0.5:
            self.claim()

    # --- steps -------------------------------------------------------------------------------------------------------

    def draw(self, dice: random.Random) -> None:
        for place in sorted(self.upstream.waiting())[: dice.randrange(1, 4)]:
            self.upstream.held.add(place)
            split = self.marks.split(place, place)
            if split.marked:
                self._again(place)
            else:
                self.drawn.append(place)

    def append(self, dice: random.Random) -> None:
        count = dice.randrange(1, 4)
        taken, self.drawn = self.drawn[:count], self.drawn[count:]
        if not taken:
            return None
        stretches = tuple(Stretch(place, place, self.local.place(self.upstream.events[place]), "here") for place in taken)
        mark = Mark(max(self.durable, default=0) + 1, IDENTITY, stretches)
        self.durable[mark.number] = mark
        if dice.random() < 0.2:
            return self.crash()  # after the commit, before anybody heard of it
        self.marks.add(mark)
        self._tell(self.duties.appended(stretches))
        return None

    def hear(self, dice: random.Random) -> None:
        for target in self.duties.targets:
            for first, last in list(self.duties.waiting(target)):
                for place in range(first, last + 1):
                    verdict = self.local.finished.get(place)
                    if verdict == "confirm":
                        self._tell(self.duties.finished(target, [(place, place)]))
                    elif verdict == "reject":
                        self._tell(self.duties.died(target, [(place, place)], "rejected", "no"))

    def settle(self, dice: random.Random) -> None:
        if not self.to_settle:
            return None
        place, verdict = self.to_settle.pop(0)
        if place in self.upstream.held:
            self.upstream.finished[place] = verdict
            self.upstream.held.discard(place)
            if dice.random() < 0.2:
                return self.crash()  # upstream has applied it, and we have not heard
            self.settle_mark(place)
        return None

    def settle_mark(self, place: int) -> None:
        self.duties.settled(place, place)
        self.to_drop += self.marks.settled(place, place)

    def drop(self, dice: random.Random) -> None:
        if self.to_drop:
            del self.durable[self.to_drop.pop(0)]

    def _tell(self, verdicts: Verdicts) -> None:
        self.to_settle += [(place, "confirm") for first, last in verdicts.confirm for place in range(first, last + 1)]
        self.to_settle += [(place, "reject") for each in verdicts.reject for place in range(each.first, each.last + 1)]

    def _again(self, place: int) -> None:
        self._tell(self.duties.came_again(place, place))

    def check(self) -> None:
        """Upstream is told only as the mode says."""
        here = {event: place for place, event in self.local.events.items()}
        for place, verdict in self.upstream.finished.items():
            local = here[self.upstream.events[place]]
            if self.mode == "receipt":
                assert verdict == "confirm"
            else:
                assert self.local.finished.get(local) == verdict


def run(modes: tuple[Mode, Mode], seed: int, faults: float) -> tuple[list[Server], list[SimulatedRelay]]:
    dice = random.Random(seed)
    servers = [Server(), Server(), Server()]
    relays = [SimulatedRelay(mode, *pair) for mode, pair in zip(modes, itertools.pairwise(servers), strict=True)]
    unsent = list(range(EVENTS))
    for step in range(20_000):
        if unsent and dice.random() < 0.2:
            servers[0].place(unsent.pop(0))
        last = servers[2]
        if dice.random() < 0.3 and last.waiting():
            last.finished[dice.choice(last.waiting())] = "reject" if dice.random() < 0.1 else "confirm"
        relay = dice.choice(relays)
        if step < 2_000 and dice.random() < faults:
            relay.crash() if dice.random() < 0.5 else relay.cut(dice)
        if dice.random() < 0.05:
            relay.claim()
        dice.choice([relay.draw, relay.append, relay.hear, relay.settle, relay.drop])(dice)
        for each in relays:
            each.check()
        if not unsent and all(len(server.finished) == EVENTS for server in servers) and not any(each.durable for each in relays):
            return servers, relays
    pytest.fail(f"the chain does not come to an end: {[len(server.finished) for server in servers]}")


@settings(max_examples=effort.rounds(short=60, long=1000), deadline=None)
@given(st.sampled_from(MODES), st.sampled_from(MODES), st.integers(0, 1 << 32), st.sampled_from([0.0, 0.05, 0.3]))
def test_a_chain_of_relays_loses_nothing_and_doubles_nothing_whatever_fails(
    first: Mode, second: Mode, seed: int, faults: float
) -> None:
    servers, _ = run((first, second), seed, faults)

    assert sorted(servers[2].events.values()) == list(range(EVENTS))
    for server in servers[1:]:
        assert [server.events[place] for place in sorted(server.events)] == list(range(EVENTS)), "in order"


@settings(max_examples=effort.rounds(short=20, long=300), deadline=None)
@given(st.integers(0, 1 << 32))
def test_end_to_end_through_a_chain_means_that_the_last_recipient_has_decided(seed: int) -> None:
    servers, _ = run(("end-to-end", "end-to-end"), seed, 0.1)

    verdicts = [{server.events[place]: verdict for place, verdict in server.finished.items()} for server in servers]
    assert verdicts[0] == verdicts[2]
