"""Outcomes against a naive twin that remembers every verdict: topics with durable and other subscriptions, batches held back,
transactions, deaths, purges, subscriptions that come and go, and restores from snapshots at any point (A9)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as make

from holdfast.destination import command as commands
from holdfast.destination import outcomes
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Finished, Placed
from holdfast.destination.name import DEAD
from holdfast.event.position import Ranges
from tests.machines import Manager, batch_of

TOPIC = "alerts"
NAMES = ("one", "two", "three")
PATTERN = ("glob:al*", "wide")
KEYS = (*((TOPIC, name) for name in NAMES), PATTERN)

number = make.integers(0, 255)
kind = make.sampled_from(
    ["send", "send", "ahead", "part", "commit", "confirm", "confirm", "dead", "reject", "purge", "subscribe", "delete", "restore"]
)
steps = make.lists(make.tuples(kind, number, number), min_size=5, max_size=60)


class Twin:
    """The machine, and what it should tell: who counted for each event, who has not decided, and how each died."""

    def __init__(self) -> None:
        self.manager = Manager()
        self.there: dict[tuple[str, str], int] = {}  # the durable subscriptions, and the entry that made each
        self.owing: dict[int, set[tuple[str, str]]] = {}  # by position
        self.dead: dict[int, list[tuple[tuple[str, str], str]]] = {}  # who gave it up, and why
        self.unplaced: set[int] = set()
        self.decided: list[tuple[int, int]] = []  # what somebody who counts has decided on
        self.parts: list[int] = []
        self.sales = 0
        self.next_sequence = 1
        self.sent: set[int] = set()
        for command in (
            commands.Create(TOPIC, "topic"),
            commands.Subscribe(TOPIC, "_own", False, "ann"),
            commands.Attach("ann", 1, TOPIC, "_own"),
            commands.Attach("ann", 9, DEAD, ""),
            commands.OpenProducer("press", "ann"),
        ):
            self.append(command)

    @property
    def entry(self) -> int:
        return len(self.manager.log)

    def append(self, command: commands.Command, payload: bytes = b"") -> None:
        for effect in self.manager.append(command, payload):
            if isinstance(effect, Finished) and effect.backlog in self.there:
                self.decided.extend(effect.ranges)
            if isinstance(effect, Placed) and effect.backlog in self.there:
                for position in range(effect.first, effect.first + effect.events):
                    self.owing.setdefault(position, set()).add(effect.backlog)
            if isinstance(effect, Placed) and effect.backlog[0] != DEAD:
                self.unplaced -= set(range(effect.first, effect.first + effect.events))

    def do(self, kind: str, a: int, b: int) -> None:
        getattr(self, f"_{kind}")(a, b)

    def _note(self, events: int, is_placed: bool) -> None:
        for position in range(self.entry << 16, (self.entry << 16) + events):
            self.owing.setdefault(position, set())
            if not is_placed:
                self.unplaced.add(position)

    def _send(self, a: int, b: int) -> None:
        self.append(commands.BatchCommand(TOPIC, "", 0), batch_of(1 + a % 4))
        self._note(1 + a % 4, True)

    def _ahead(self, a: int, b: int) -> None:
        sequence = self.next_sequence + a % 3
        if sequence not in self.sent:
            self.sent.add(sequence)
            events, before = 1 + b % 3, dict(self.owing)
            self.append(commands.BatchCommand(TOPIC, "press", sequence), batch_of(events))
            self._note(
                events, sequence == self.next_sequence or any(p >> 16 == self.entry for p in self.owing if p not in before)
            )
        while self.next_sequence in self.sent:
            self.next_sequence += 1

    def _part(self, a: int, b: int) -> None:
        self.append(commands.Part("ann", f"sale-{self.sales}", len(self.parts) + 1, TOPIC), batch_of(1 + a % 2))
        self.parts.append(self.entry)
        self._note(1 + a % 2, False)

    def _commit(self, a: int, b: int) -> None:
        self.append(commands.Commit("ann", f"sale-{self.sales}", len(self.parts)))
        self.sales += 1
        self.unplaced = {each for each in self.unplaced if each >> 16 not in self.parts}
        self.parts = []

    def _some(self, a: int, b: int) -> list[int]:
        known = sorted(self.owing)
        return known[a % len(known) :][: 1 + b % 4] if known else []

    def _deciding(self, a: int, b: int) -> tuple[tuple[str, str], list[int]] | None:
        key = KEYS[b % len(KEYS)]
        positions = [each for each in self._some(a, b) if key in self.owing[each]]
        return (key, positions) if key in self.there and positions else None

    def _confirm(self, a: int, b: int) -> None:
        if (found := self._deciding(a, b)) is not None:
            key, positions = found
            self.append(commands.Confirm(*key, "ann", ranges_of(positions).to_bytes()))
            for each in positions:
                self.owing[each].discard(key)

    def _dead(self, a: int, b: int) -> None:
        if (found := self._deciding(a, b)) is not None:
            key, positions = found
            self.append(commands.Dead(0, *key, ranges_of(positions).to_bytes(), f"why {b % 2}", "expired"))
            self._bury(key, positions, f"why {b % 2}")

    def _reject(self, a: int, b: int) -> None:
        if (found := self._deciding(a, b)) is not None:
            key, positions = found
            self.append(commands.Reject(*key, "ann", ranges_of(positions).to_bytes(), "no"))
            self._bury(key, positions, "no")

    def _bury(self, key: tuple[str, str], positions: list[int], reason: str) -> None:
        for each in positions:
            self.owing[each].discard(key)
            self.dead.setdefault(each, []).append((key, reason))

    def _purge(self, a: int, b: int) -> None:
        positions = [each for each in self._some(a, b) if each in self.dead]
        self.append(commands.Confirm(DEAD, "", "ann", ranges_of(positions).to_bytes()))
        for each in positions:
            del self.dead[each]

    def _subscribe(self, a: int, b: int) -> None:
        key = KEYS[a % len(KEYS)]
        if key not in self.there:
            where = ("al*", "wide", True, "", "", 0, "glob") if key == PATTERN else (*key, True)
            self.append(commands.Subscribe(*where))
            self.there[key] = self.entry
            self.append(commands.Attach("ann", 2 + KEYS.index(key), *key))

    def _delete(self, a: int, b: int) -> None:
        key = KEYS[a % len(KEYS)]
        if key in self.there:
            self.append(commands.Detach("ann", 2 + KEYS.index(key)))
            self.append(commands.Unsubscribe(*key, is_forced=True))
            del self.there[key]
            for owed in self.owing.values():
                owed.discard(key)

    def _restore(self, a: int, b: int) -> None:
        self.manager.directory = Directory.restore(list(self.manager.directory.snapshot()))

    # --- what should be told -----------------------------------------------------------------------------------------

    def told(self, position: int, key: tuple[str, str] | None) -> str:
        who = self.there if key is None else {key: self.there[key]}
        if position in self.unplaced or self.owing[position] & set(who):
            return "waiting"
        deaths = [each for each in self.dead.get(position, ()) if key in (None, each[0])]
        if deaths:
            return f"dead {deaths[0][1]}"
        return "confirmed" if any(made < position >> 16 for made in who.values()) else "nobody"


def ranges_of(positions: list[int]) -> Ranges:
    return Ranges.gather((each, each) for each in positions)


def by_position(found: outcomes.Outcomes, asked: list[int]) -> dict[int, str]:
    told = dict.fromkeys(asked, "confirmed")
    for ranges, said in (
        (found.waiting, "waiting"),
        (found.nobody, "nobody"),
        *((each.ranges, f"dead {each.reason}") for each in found.dead),
    ):
        for first, last in ranges:
            for each in range(first, last + 1):
                assert told.get(each) == "confirmed", "each position is told once, and only those that were asked for"
                told[each] = said
    return told


@given(steps)
def test_each_position_is_told_as_the_twin_remembers_it(steps: list[tuple[str, int, int]]) -> None:
    twin = Twin()
    twin.do("subscribe", 0, 0)
    for step in steps:
        twin.do(*step)

    asked = sorted(twin.owing)
    for key in (None, *twin.there):
        where = (TOPIC, "") if key is None else key
        found = outcomes.outcomes_of(twin.manager.directory, *where, ranges_of(asked))
        assert by_position(found, asked) == {each: twin.told(each, key) for each in asked}


@given(steps)
def test_a_short_answer_tells_the_first_positions_as_the_whole_one_does_and_how_far_it_goes(
    steps: list[tuple[str, int, int]],
) -> None:
    twin = Twin()
    twin.do("subscribe", 0, 0)
    for step in steps:
        twin.do(*step)
    asked = sorted(twin.owing)
    whole = by_position(outcomes.outcomes_of(twin.manager.directory, TOPIC, "", ranges_of(asked)), asked)

    told: dict[int, str] = {}
    limits = outcomes.RANGES_MAX, outcomes.DEATHS_MAX
    outcomes.RANGES_MAX, outcomes.DEATHS_MAX = 2, 1
    try:
        while left := [each for each in asked if each not in told]:
            found = outcomes.outcomes_of(twin.manager.directory, TOPIC, "", ranges_of(left))
            reached = [each for each in left if each <= found.through]
            assert reached, "each answer tells of one at least"
            told |= by_position(found, reached)
    finally:
        outcomes.RANGES_MAX, outcomes.DEATHS_MAX = limits
    assert told == whole


@given(steps, make.integers(1, 5), make.sampled_from([(8_192, 128), (3, 2)]))
def test_outcomes_of_parts_are_joined_to_those_of_the_whole(
    steps: list[tuple[str, int, int]], size: int, limits: tuple[int, int]
) -> None:
    twin = Twin()
    twin.do("subscribe", 0, 0)
    for step in steps:
        twin.do(*step)
    asked = sorted(twin.owing)
    whole = by_position(outcomes.outcomes_of(twin.manager.directory, TOPIC, "", ranges_of(asked)), asked)

    before = outcomes.RANGES_MAX, outcomes.DEATHS_MAX
    outcomes.RANGES_MAX, outcomes.DEATHS_MAX = limits
    try:
        parts = list(ranges_of(asked).portions(size))
        found = outcomes.joined([(part, outcomes.outcomes_of(twin.manager.directory, TOPIC, "", part)) for part in parts])
    finally:
        outcomes.RANGES_MAX, outcomes.DEATHS_MAX = before

    reached = [each for each in asked if each <= found.through]
    assert by_position(found, reached) == {each: whole[each] for each in reached}
    assert reached or not asked or limits[0] < size
    assert max(len(found.waiting), len(found.nobody), len(found.dead)) <= limits[0]


@given(steps, steps)
def test_looking_at_what_was_decided_since_tells_the_same_as_looking_at_all(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    twin = Twin()
    for name in range(len(KEYS)):
        twin.do("subscribe", name, 0)
    for step in before:
        twin.do(*step)
    waiting = ranges_of([each for each in twin.owing if each not in twin.unplaced and twin.told(each, None) == "waiting"])
    twin.decided.clear()
    for step in after:
        if step[0] not in ("delete", "subscribe"):
            twin.do(*step)

    decided = waiting.common(Ranges.gather(twin.decided))
    found = outcomes.outcomes_since(twin.manager.directory, TOPIC, "", waiting, decided)

    assert found == outcomes.outcomes_of(twin.manager.directory, TOPIC, "", waiting)
