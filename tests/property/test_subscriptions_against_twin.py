"""Subscriptions of every kind against their naive twin, over random commands, refused ones too; and restored at any point."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as make

from holdfast.destination import command as commands
from holdfast.destination.command import Command
from holdfast.destination.directory import Directory
from holdfast.destination.removal import Limits
from holdfast.errors import HoldfastError
from holdfast.event import batch
from holdfast.event.event import Head, encode_head
from tests.machines import Manager
from tests.naive_subscriptions import PATTERNS, SELECTORS, NaiveSubscriptions, Refusal

pytestmark = pytest.mark.slow

NAMES = ["a.x", "a.y", "b", "_temporary.1.topic"]
PLACES = [*(("name", name) for name in NAMES), *(tuple(key.split(":", 1)) for key in PATTERNS)]
name = make.sampled_from(NAMES)
session = make.sampled_from(["ann", "bob", "3/eve", "4/eve"])  # of nobody, and of a user
client = make.sampled_from(["", "c1", "c2"])
subscription = make.sampled_from(["audit", "pager"])
producer = make.sampled_from(["press", "mill", ""])
ahead = make.sampled_from([0, 0, 0, 0, 1, 2, -1])  # of the sequence that is expected
key = make.sampled_from([*NAMES, *PATTERNS])


@make.composite
def subscribes(draw: make.DrawFn) -> Command:
    match, where = draw(make.sampled_from(PLACES))
    is_durable, is_shared = draw(make.sampled_from([(True, False), (True, True), (False, True), (False, False)]))
    replace = draw(make.sampled_from([None, False, True]))
    wanted = (draw(make.sampled_from(list(SELECTORS))), is_shared, draw(make.booleans()), draw(client), replace)
    limits = draw(make.sampled_from([None, None, Limits(), Limits(1), Limits(5)]))
    return commands.Subscribe(where, draw(subscription), is_durable, draw(session), "", 0, match, *wanted, limits)  # type: ignore[arg-type]


@make.composite
def attaches(draw: make.DrawFn) -> Command:
    return commands.Attach(
        draw(session), draw(make.integers(1, 2)), draw(key), draw(subscription), is_owner=draw(make.booleans()),
        take_over=draw(make.booleans()),
    )  # fmt: skip


@make.composite
def sends(draw: make.DrawFn) -> Command:
    return commands.BatchCommand(draw(name), draw(producer), draw(ahead))


def creates(made: str, owner: str) -> Command:
    return commands.Create(made, "topic", is_implicit=True, session=owner if made.startswith("_") else "")


command = make.one_of(
    *(subscribes() for _ in range(4)),
    make.builds(creates, name, session),
    make.builds(lambda deleted, forced: commands.Delete(deleted, is_forced=forced), name, make.booleans()),
    make.builds(lambda where, which, forced: commands.Unsubscribe(where, which, is_forced=forced), key, subscription,
                make.booleans()),
    make.builds(commands.SubscribeLike, key, subscription, subscription, make.booleans()),
    make.builds(commands.Remove, make.just(0), key, subscription, make.sampled_from([0, 0, 0, 1])),
    attaches(),
    attaches(),
    make.builds(lambda who, at: commands.Detach(who, at), session, make.integers(0, 2)),
    make.builds(lambda opened, who, whose: commands.OpenProducer(opened, who, client=whose), make.sampled_from(["press", "mill"]),
                session, client),
    make.just(commands.Claim(0, "node")),
    *(sends() for _ in range(10)),
)  # fmt: skip
values = make.lists(make.sampled_from([None, 0, 1, 2, 3]), min_size=1, max_size=4)
steps = make.lists(make.tuples(command, values), min_size=12, max_size=30)


def payload(values: list[int | None]) -> bytes:
    heads = [encode_head(Head(properties=None if n is None else {"n": n})) for n in values]
    return batch.encode(heads, [b"x"] * len(heads), source="test", first_id=1)


class Pair:
    """The directory and its twin, with one command after the other."""

    def __init__(self) -> None:
        self.manager = Manager()
        self.naive = NaiveSubscriptions()
        for command in (
            *(creates(each, "ann") for each in NAMES),
            commands.OpenProducer("press", "ann", client="c1"),
            commands.OpenProducer("mill", "bob", client="c2"),
        ):
            self.step(command, [])

    def step(self, command: Command, values: list[int | None]) -> None:
        if isinstance(command, commands.Claim):
            command = commands.Claim(self.manager.directory.epoch + 1, "node")
        entry = len(self.manager.log) + 1
        if isinstance(command, commands.Remove):
            found = self.manager.directory.catalog.queues.get((command.topic, command.name))
            command = commands.Remove(0, command.topic, command.name, getattr(found, "made_at", 0) + command.made_at)
            self.manager.append(command)
            self.naive.apply(entry, command, values)
            return
        if isinstance(command, commands.BatchCommand):
            known = self.naive.producers.get(command.producer)
            sequence = max(1, (known.next_sequence if known else 1) + command.sequence)
            command = commands.BatchCommand(command.destination, command.producer, sequence)
            self.manager.append(command, payload(values))
            self.naive.apply(entry, command, values)
            return
        try:
            self.naive.apply(entry, command, values)
            is_refused = False
        except Refusal:
            is_refused = True
        if is_refused:
            assert isinstance(self.manager.refusal(command), HoldfastError)
        else:
            self.manager.ask(command)

    def check(self) -> None:
        directory = self.manager.directory
        found = {key: self.manager.waiting(*key) for key in directory.backlogs() if key[1]}
        assert found == {key: each.waiting for key, each in self.naive.subscriptions.items()}
        for key, expected in self.naive.subscriptions.items():
            assert [holder for holder, _ in directory.queue(key).receivers] == expected.receivers
            assert directory.queue(key).receivers.owners() == expected.owners


@given(steps)
def test_subscriptions_take_and_refuse_what_their_naive_twin_does(made: list[tuple[Command, list[int | None]]]) -> None:
    pair = Pair()
    for command, values in made:
        pair.step(command, values)
        pair.check()


@given(steps)
def test_subscriptions_restored_from_a_snapshot_at_any_point_do_the_same_ever_after(
    made: list[tuple[Command, list[int | None]]],
) -> None:
    pair = Pair()
    copies: list[Directory] = []
    for command, values in made:
        pair.step(command, values)
        entry, data = len(pair.manager.log), pair.manager.log[-1]
        for copy in copies:
            assert [repr(each) for each in copy.apply(entry, data)] == [repr(each) for each in pair.manager.effects]
        copies = [*copies[-3:], Directory.restore(pair.manager.directory.snapshot())]
        assert {copy.digest() for copy in copies} == {pair.manager.directory.digest()}
