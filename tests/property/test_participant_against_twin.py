"""A participant of transactions over several managers against its naive twin, over random commands of every kind (ADR 25); and
against itself, restored from a snapshot at every point.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from msgspec.structs import replace

from holdfast.destination import command as commands
from holdfast.destination.applying.publishing import encode_payload
from holdfast.destination.backlog import slots
from holdfast.destination.command import Command, Stamp
from holdfast.destination.directory import Directory
from holdfast.event.position import Ranges
from tests import effort
from tests.machines import batch_of
from tests.naive_directory import traits_for
from tests.naive_participant import NaiveParticipant
from tests.property import test_directory_against_twin as twin
from tests.random_commands import FRAGMENT, Choice, Driver, choices

TWO = ["east", "west"]
WALKS = effort.rounds(short=50, long=5_000)
STEPS = 80
KINDS = ["send"] * 4 + ["prepare"] * 4 + ["prepare_stages"] * 2 + ["final"] * 4 + ["decide"] * 3 + [
    "confirm", "release", "reject", "dead", "attach", "attach", "take_over", "detach", "subscribe", "unsubscribe", "like",
    "remove", "create", "create", "delete", "purge", "in_hand", "open", "forget", "claim", "carry", "configure",
    "part", "part", "part", "fragment", "commit", "abandon", "stage", "stage", "stage", "publish", "drop",
    "complete", "again", "again",
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLOTS_MAX", 3)
        yield


class ParticipantDriver(Driver):
    """All commands are stamped, and any of them may come again."""

    naive: NaiveParticipant

    def __init__(self) -> None:
        self.here: dict[tuple[str, str], str] = {}
        super().__init__(KINDS, NaiveParticipant())

    def apply(self, command: Command, events: int = 0, stages: list[tuple[str, int]] | None = None) -> None:
        entry = len(self.manager.log) + 1
        payload = b""
        match command:
            case commands.BatchCommand():
                payload = batch_of(events, entry, traits_for(entry))
            case commands.Part():
                payload = batch_of(events, entry, traits_for(entry)) if command.destination else FRAGMENT
            case commands.Carried():
                bodies = [self.body(original) for original in command.entries]
                command = commands.Carried(command.epoch, command.entries, [len(body) for body in bodies])
                payload = b"".join(bodies)
                self.carried.update(dict.fromkeys(command.entries, entry))
            case commands.Publish() | commands.Prepare() if stages is not None:
                payload = encode_payload(stages)
            case commands.OpenProducer():  # others outlive their session here, which the twin does not know
                command = replace(command, is_durable=True)
        if isinstance(command, commands.Attach | commands.OpenProducer | commands.Subscribe):
            self.introduce(command.session)
            entry = len(self.manager.log) + 1
        is_batch = isinstance(command, commands.BatchCommand | commands.Part)
        self.append(commands.encode(command, payload, None if is_batch else Stamp("cm", entry)))
        self.naive.obey(entry, command, events, stages)

    def introduce(self, session: str) -> None:
        if session and session not in self.naive.sessions:
            entry = len(self.manager.log) + 1
            self.append(commands.encode(commands.Introduce(session, "cm", 1), b"", Stamp("cm", entry)))
            self.naive.introduce(session)

    def append(self, data: bytes) -> None:
        self.manager.log.append(data)
        self.manager.effects = self.manager.directory.apply(len(self.manager.log), data)

    def _again(self, a: int, b: int, c: int) -> None:
        """A stamped command comes again: nothing changes."""
        stamped = [data for data in self.manager.log if data[0] & 0x80]
        if stamped:
            digest = self.manager.directory.digest()
            self.append(stamped[(a << 8 | b) % len(stamped)])
            assert self.manager.directory.digest() == digest

    def _prepare(self, a: int, b: int, c: int) -> Command:
        made = self._commit(a, b, c)
        assert isinstance(made, commands.Commit)
        here = self.here.setdefault((made.session, made.assembly), TWO[a % 2])
        return commands.Prepare(made.session, made.assembly, made.parts, TWO, here, made.settled)

    def _prepare_stages(self, a: int, b: int, c: int) -> tuple[Command, int, list[tuple[str, int]]]:
        publish, _, stages = self._publish(a, b, c)
        assert isinstance(publish, commands.Publish)
        key = ("/", f"p{len(self.here) - c % 2}")
        here = self.here.setdefault(key, TWO[a % 2])
        return commands.Prepare(*key, 0, TWO, here, scope=publish.scope, number=publish.number), 0, stages

    def _chosen(self, a: int) -> tuple[str, str]:
        known = [*self.naive.prepared(), *self.here]
        return known[a % len(known)] if known else ("ann", "0")

    def _decide(self, a: int, b: int, c: int) -> Command | None:
        key = self._chosen(a)
        if self.here.setdefault(key, "east") != "east":
            return None
        return commands.Decision(*key, TWO, b % 3 > 0)

    def _final(self, a: int, b: int, c: int) -> Command:
        key = self._chosen(a)
        known = self.naive.transactions.get(key)
        is_commit = known.decision == "commit" if known is not None and known.is_first else b % 3 > 0
        return commands.Final(*key, TWO, self.here.setdefault(key, "east"), is_commit)

    def _complete(self, a: int, b: int, c: int) -> Command:
        return commands.Complete(*self._chosen(a))


def check_transactions(driver: ParticipantDriver) -> None:
    directory, naive = driver.manager.directory, driver.naive
    locks = {key: backlog.locks.all() for key, backlog in directory.backlogs().items() if backlog.locks is not None}
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for key, each in naive.locked:
        spans.setdefault(key, []).append((each, each))
    assert locks == {key: Ranges.gather(each) for key, each in spans.items()}
    assert len(directory.transactions.waiting) == len(naive.postponed)
    for key, known in naive.transactions.items():
        outcome = directory.transactions.outcome(key)
        assert known.status == ("prepared" if outcome is None else "aborted" if outcome.reason else "committed")


def check(driver: ParticipantDriver) -> None:
    check_transactions(driver)
    twin.check_backlogs(driver)
    twin.check_dead_counts(driver)
    twin.check_bodies(driver)
    twin.check_sessions(driver)
    twin.check_assemblies(driver)


@given(choices)
def test_a_participant_does_what_its_naive_twin_does(made: list[Choice]) -> None:
    driver = ParticipantDriver()
    for choice in made:
        driver.step(choice)
        check(driver)


def test_a_participant_does_what_its_naive_twin_does_on_long_walks() -> None:
    """Hypothesis draws few commands at a time. Here transactions are in doubt in most states, and commands wait for them."""
    first = effort.seed(20_261_118)
    ended: Counter[str] = Counter()
    for seed in range(first, first + WALKS):
        dice, driver = random.Random(seed), ParticipantDriver()
        for _ in range(STEPS):
            driver.step((dice.randrange(256), dice.randrange(256), dice.randrange(256), dice.randrange(256)))
            check(driver)
            ended["waiting"] += len(driver.naive.postponed)
        ended.update(known.status for known in driver.naive.transactions.values())
        ended["published"] += sum(
            known.status == "committed" and known.scope != "" for known in driver.naive.transactions.values()
        )

    assert min(ended[each] for each in ("waiting", "prepared", "committed", "aborted", "published")) > WALKS // 10, ended


@given(choices)
def test_a_snapshot_at_any_point_restores_the_same_state_and_the_same_behaviour_ever_after(made: list[Choice]) -> None:
    driver = ParticipantDriver()
    copies: list[tuple[Directory, int]] = []
    for choice in made:
        driver.step(choice)
        log = driver.manager.log
        copies = [(copy, _caught_up(copy, at, log)) for copy, at in copies]
        digest = driver.manager.directory.digest()
        assert {copy.digest() for copy, _ in copies} <= {digest}
        copies.append((Directory.restore(driver.manager.directory.snapshot()), len(log)))
        assert copies[-1][0].digest() == digest
        assert {copy.oldest_needed() for copy, _ in copies} == {driver.manager.directory.oldest_needed()}


def _caught_up(copy: Directory, at: int, log: list[bytes]) -> int:
    for entry in range(at + 1, len(log) + 1):
        copy.apply(entry, log[entry - 1])
    return len(log)
