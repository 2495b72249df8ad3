"""Reading by place against a naive twin: extents, slices and confirms up to a place, over batches placed out of turn, foreign
entries, events finished by other means, and restores from snapshots at any point (ADR 5, ADR 10, rules 6 and 10)."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as make

from holdfast.destination import command as commands
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Placed
from holdfast.destination.state.places import Places, extent_of, newest_of, next_waiting, waiting_before
from holdfast.event import position
from holdfast.event.position import Ranges
from holdfast.node.reading.place_pages import runs_from
from tests.machines import Manager, batch_of

KEY = ("alerts", "lake")
PRODUCER = "press"

number = make.integers(0, 255)
kind = make.sampled_from(["send", "send", "ahead", "ahead", "foreign", "part", "commit", "confirm", "dead", "up_to", "restore"])
steps = make.lists(make.tuples(kind, number, number), min_size=5, max_size=50)


class Pair:
    """The machine, and what it should know: every event that was ever placed, by its place, and which of them wait."""

    def __init__(self) -> None:
        self.manager = Manager()
        self.slots: list[list[int]] = []  # the positions of each batch, in placement order
        self.waiting: set[int] = set()
        self.parts = 0
        self.next_sequence = 1
        self.sent: set[int] = set()
        for command in (
            commands.Create("alerts", "topic"),
            commands.Create("others", "queue"),
            commands.Subscribe(*KEY, True),
            commands.Attach("ann", 1, *KEY),
            commands.OpenProducer(PRODUCER, "ann"),
        ):
            self.append(command)

    @property
    def backlog(self) -> Backlog:
        return self.manager.directory.backlog(KEY)

    def append(self, command: commands.Command, payload: bytes = b"") -> None:
        for effect in self.manager.append(command, payload):
            if isinstance(effect, Placed) and effect.backlog == KEY:
                placed = list(range(effect.first, effect.first + effect.events))
                self.slots.append(placed)
                self.waiting.update(placed)

    # --- what may happen ---------------------------------------------------------------------------------------------

    def do(self, kind: str, a: int, b: int) -> None:
        getattr(self, f"_{kind}")(a, b)

    def _send(self, a: int, b: int) -> None:
        self.append(commands.BatchCommand("alerts", "", 0), batch_of(1 + a % 5))

    def _ahead(self, a: int, b: int) -> None:
        """A batch of a producer, perhaps ahead of its turn: then it is held back, and placed out of the order of entries."""
        sequence = self.next_sequence + a % 3
        if sequence not in self.sent:
            self.append(commands.BatchCommand("alerts", PRODUCER, sequence), batch_of(1 + b % 3))
            self.sent.add(sequence)
        while self.next_sequence in self.sent:
            self.next_sequence += 1

    def _foreign(self, a: int, b: int) -> None:
        self.append(commands.BatchCommand("others", "", 0), batch_of(2))

    def _part(self, a: int, b: int) -> None:
        self.parts += 1
        self.append(commands.Part("ann", "sale", self.parts, "alerts"), batch_of(1 + a % 2))

    def _commit(self, a: int, b: int) -> None:
        self.append(commands.Commit("ann", "sale", self.parts))
        self.parts = 0

    def _some(self, a: int, b: int) -> Ranges:
        known = sorted(itertools.chain(*self.slots)) or [position.of(1)]
        first = known[a % len(known)]
        return Ranges.of((first, max(first, known[b % len(known)]) if b % 5 == 0 else first + b % 3))

    def _finish(self, ranges: Ranges) -> None:
        self.waiting -= {each for first, last in ranges for each in self.waiting if first <= each <= last}

    def _confirm(self, a: int, b: int) -> None:
        ranges = self._some(a, b)
        self.append(commands.Confirm(*KEY, "ann", ranges.to_bytes()))
        self._finish(ranges)

    def _dead(self, a: int, b: int) -> None:
        """Expired, as the primary says."""
        ranges = self._some(a, b)
        self.append(commands.Dead(0, *KEY, ranges.to_bytes(), "its time to live is over", "expired"))
        self._finish(ranges)

    def _restore(self, a: int, b: int) -> None:
        before = self.manager.directory.digest()
        self.manager.directory = Directory.restore(list(self.manager.directory.snapshot()))
        assert self.manager.directory.digest() == before

    def _up_to(self, a: int, b: int) -> None:
        """Everything before a place, in commands of few batches, with something else between asking and confirming."""
        place = self.places()[a % len(self.places())]
        expected = self.waiting - {each for at, each in self.events() if at < place}
        up_to, rounds = 0, 0
        while up_to < place:
            ranges, up_to = waiting_before(self.backlog, place, 1 + b % 9)
            if rounds < 3:
                before = set(self.waiting)
                self.do(("ahead", "commit", "send")[(a + rounds) % 3], 0, b)  # a gap is closed: what was held back comes
                expected |= self.waiting - before
            self.append(commands.Confirm(*KEY, "ann", ranges.to_bytes(), up_to=up_to))
            rounds += 1
        self.waiting = expected
        assert waiting_before(self.backlog, place, 4) == (Ranges(), place)  # said again, it would find nothing
        assert self.manager.directory.catalog.subscription(*KEY).confirmed_up_to >= place

    # --- what should be so -------------------------------------------------------------------------------------------

    def events(self) -> list[tuple[int, int]]:
        """(place, position) of everything that waits, in order."""
        placed = ((slot << 16 | index, each) for slot, batch in enumerate(self.slots) for index, each in enumerate(batch))
        return [(place, each) for place, each in placed if each in self.waiting]

    def places(self) -> list[int]:
        """Of all events, and behind each batch."""
        return sorted({slot << 16 | at for slot, batch in enumerate(self.slots) for at in range(len(batch) + 1)} | {self.newest})

    @property
    def newest(self) -> int:
        return len(self.slots) << 16

    def check(self, a: int, b: int) -> None:
        events, known = self.events(), self.places()
        start, most = known[a % len(known)], 1 + b % 9
        behind = [(place, each) for place, each in events if place >= start]
        chosen = behind[:most]
        end = behind[most][0] if len(behind) > most else self.newest if chosen else start
        confirmed = events[0][0] if events else self.newest

        assert newest_of(self.backlog) == self.newest
        assert extent_of(self.backlog, start, most) == (
            confirmed, start, end, len(chosen), len(behind) - len(chosen), self.newest,
        )  # fmt: skip
        assert extent_of(self.backlog, None, None) == (
            confirmed, confirmed, self.newest if events else confirmed, len(events), 0, self.newest,
        )  # fmt: skip
        assert self.read(start, end) == [each for _, each in chosen]
        assert next_waiting(self.backlog, start) == (behind[0][0] if behind else self.newest)
        assert [Places(self.backlog).nth(at) for at in range(len(events) + 1)] == [*(place for place, _ in events), self.newest]
        assert sum(page.waiting for page in self.backlog.pages()) == len(events)

    def read(self, start: int, end: int) -> list[int]:
        runs = list(runs_from(self.backlog, start, end, 1_000)) if start < end else []
        return [run.first + at for run in runs for at in range(run.events)]


@given(steps)
def test_what_is_read_by_place_is_what_waits_there(taken: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    for kind, a, b in taken:
        pair.do(kind, a, b)
        pair.check(a + b, b)

    assert pair.read(0, pair.newest) == [each for _, each in pair.events()]
