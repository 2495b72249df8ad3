"""Deduplication against its naive twin: the table by itself, and in a directory over batches, transactions and stages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as make

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from holdfast.destination.directory import Directory
from holdfast.destination.settings import Settings
from holdfast.destination.state.deduplication import KEY_BYTES, CommandTime, Deduplication, Repeated
from holdfast.event import batch
from holdfast.event.event import Head, encode_head
from tests.machines import Manager
from tests.naive_deduplication import NaiveDestinations, NaiveTable, Named

# --- the table -----------------------------------------------------------------------------------------------------------

takes = make.lists(
    make.tuples(make.lists(make.integers(0, 40), min_size=1, max_size=12), make.integers(-20, 60)), min_size=1, max_size=60
)


def key(number: int) -> bytes:
    """Of a few shards, and of few slots in each, so that they meet."""
    return bytes([number % 3, number % 5, 0, 0, 0]) + number.to_bytes(KEY_BYTES - 5, "big")


def unfolded(repeated: Repeated) -> dict[int, int]:
    return {first + each: where + each for first, count, where in repeated for each in range(count)}


@given(takes, make.integers(1, 100), make.integers(1, 30))
def test_a_table_knows_forgets_and_shortens_its_window_as_its_naive_twin(
    made: list[tuple[list[int], int]], window_ms: int, most: int
) -> None:
    table, naive = Deduplication(window_ms, CommandTime(), most), NaiveTable(window_ms, most)
    at_ms = 1_000
    for place, (numbers, later_ms) in enumerate(made):
        at_ms += later_ms
        keys = [key(number) for number in numbers]

        assert unfolded(table.take(b"".join(keys), place << 16, at_ms)) == naive.take(keys, place << 16, at_ms)
        assert (len(table), table.shortened_to_ms) == (len(naive.known), naive.shortened_to_ms)


@pytest.mark.slow
@given(make.lists(make.integers(1, 3_000), min_size=1, max_size=12), make.integers(100, 2_500))
def test_a_table_that_grows_shrinks_and_is_copied_through_a_snapshot_knows_the_same(counts: list[int], most: int) -> None:
    time, number = CommandTime(), 0
    table = Deduplication(1_000, time, most)
    expected: dict[bytes, int] = {}
    for at, count in enumerate(counts):
        keys = [hashlib.blake2b(b"%d" % each, digest_size=KEY_BYTES).digest() for each in range(number, number + count)]
        assert table.take(b"".join(keys), number, 1_000 + 300 * at) == ()
        expected.update(dict(zip(keys, range(number, number + count), strict=True)))
        number += count

    copy = Deduplication(1_000, time, most)
    for records, first in table.stretches():
        copy.rebuild(
            bytes(records.keys[first * KEY_BYTES :]), records.positions[first:].tobytes(), records.times[first:].tobytes()
        )

    left = list(expected.items())[-len(table) :]
    for each in (table, copy):
        known = unfolded(each.take(b"".join(known for known, _ in left), 1 << 40, 0))
        assert known == {index: where for index, (_, where) in enumerate(left)}


# --- the directory -------------------------------------------------------------------------------------------------------

NAMES = ["orders", "alerts"]
SESSION, STAGES = "ann", "/"
name = make.sampled_from(NAMES)
window_ms = make.sampled_from([0, 10, 10, 40, 1_000])
identity = make.tuples(make.sampled_from(["", "till"]), make.sampled_from(["1", "2", "3", "4", ""]))
names = make.lists(identity, min_size=1, max_size=4)


@dataclass(frozen=True)
class Step:
    what: str
    destination: str
    names: list[Named]
    number: int  # of a sequence ahead, of an assembly
    window_ms: int
    later_ms: int
    is_replay: bool


step = make.builds(
    Step,
    make.sampled_from(["send"] * 6 + ["sequence"] * 4 + ["part", "part", "commit", "stage", "publish", "configure", "delete"]),
    name, names, make.integers(0, 2), window_ms, make.sampled_from([0, 1, 5, 20]), make.booleans(),
)  # fmt: skip
steps = make.lists(step, min_size=5, max_size=40)


def payload(entry: int, named: list[Named]) -> tuple[bytes, list[Named]]:
    """A batch whose events have these sources and ids, "" for those of the batch; and what they are in all."""
    heads = [encode_head(Head(source=source or None, id=id or None)) for source, id in named]
    counted = [(source or "test", id or f"{entry << 32 | index:032x}") for index, (source, id) in enumerate(named)]
    return batch.encode(heads, [b"x"] * len(heads), source="test", first_id=entry << 32), counted


class Pair:
    """The directory and its twin, with one step after the other."""

    def __init__(self) -> None:
        self.manager = Manager()
        self.naive = NaiveDestinations()
        self.at_ms = 1_000
        self.published = 0
        self.parts: dict[str, int] = {}
        for destination in NAMES:
            self.create(destination, 10)
        self.manager.ask(commands.OpenProducer("press", SESSION))

    def create(self, name: str, window_ms: int) -> None:
        kind = "queue" if name == "orders" else "topic"
        self.do(commands.Create(name, kind, Settings(deduplicate_ms=window_ms)))  # type: ignore[arg-type]
        if kind == "topic":
            self.manager.ask(commands.Subscribe(name, "audit", True))

    def do(self, command: Command, named: list[Named] | None = None, data: bytes = b"") -> Any:
        """The answer, after it was compared with the twin's."""
        entry = len(self.manager.log) + 1
        made, counted = payload(entry, named) if named else (data, [])
        repeated = self.naive.apply(entry, command, counted)
        if isinstance(command, commands.Part):
            self.manager.append(command, made)
            return None
        answer = self.manager.ask(command, made)
        if isinstance(command, commands.BatchCommand) and answer[1] == entry:
            assert (answer[0], unfolded(answer[2])) == (entry, repeated.get(entry, {}))
        return answer, repeated

    def step(self, step: Step) -> None:
        self.at_ms += step.later_ms
        us, there = self.at_ms * 1000, step.destination in self.naive.waiting
        match step.what:
            case "send":
                self.do(commands.BatchCommand(step.destination, "", 0, us), step.names)
            case "sequence":
                self.do(commands.BatchCommand(step.destination, "press", self.naive.next_sequence + step.number, us), step.names)
            case "part" | "stage" if there:
                session, assembly = (SESSION, f"tx{step.number}") if step.what == "part" else (STAGES, f"stage{step.number}")
                self.parts[assembly] = number = self.parts.get(assembly, 0) + 1
                part = commands.Part(session, assembly, number, step.destination, accepted_us=us, is_replay=step.is_replay)
                self.do(part, step.names)
            case "commit" if (assembly := f"tx{step.number}") in self.parts and self.is_whole(assembly):
                sent = sum(len(each.names) for each in self.naive.parts[assembly])
                answer, repeated = self.do(commands.Commit(SESSION, assembly, self.parts.pop(assembly), at_ms=self.at_ms))
                assert answer[0] == sent - sum(map(len, repeated.values()))
                self.manager.directory.assemblies.outcomes()[SESSION].pop(assembly)  # so that its name can be used again
            case "publish" if (stage := f"stage{step.number}") in self.parts and self.is_whole(stage):
                self.published += 1
                named = msgspec.msgpack.encode([(stage, self.parts.pop(stage))])
                self.naive.parts["scope"] = self.naive.parts.pop(stage)
                self.do(commands.Publish(STAGES, "scope", self.published, at_ms=self.at_ms), data=named)
            case "configure" if there:
                changed = ["deduplicate_ms"]
                self.do(commands.Configure(step.destination, Settings(deduplicate_ms=step.window_ms), changed=changed))
            case "delete" if there:
                self.do(commands.Delete(step.destination))
                self.create(step.destination, step.window_ms)

    def is_whole(self, assembly: str) -> bool:
        return all(each.destination in self.naive.waiting for each in self.naive.parts[assembly])

    def check(self) -> None:
        for destination, expected in self.naive.waiting.items():
            key = (destination, "") if destination == "orders" else (destination, "audit")
            assert self.manager.waiting(*key) == expected
            known, table = self.manager.directory.deduplications.get(destination), self.naive.tables[destination]
            assert (known is None) == (table is None)
            assert table is None or known is None or len(known) == len(table)


@given(steps)
def test_events_are_placed_once_as_by_the_naive_twin_however_they_are_sent(made: list[Step]) -> None:
    pair = Pair()
    for step in made:
        pair.step(step)
        pair.check()


@given(steps)
def test_what_a_directory_remembers_is_restored_from_a_snapshot_at_any_point(made: list[Step]) -> None:
    pair = Pair()
    for step in made:
        before = Directory.restore(pair.manager.directory.snapshot())
        applied = len(pair.manager.log)
        pair.step(step)
        if step.what == "commit":  # the twin's trick with outcomes is not in the log
            continue
        for entry, data in enumerate(pair.manager.log[applied:], applied + 1):
            before.apply(entry, data)
        assert before.digest() == pair.manager.directory.digest()
