"""Places change by revision (rule 9): nodes use, create and delete one name in any order, die at any step; commands come late.

Each node has a copy of the places that may be behind. Commands lie in the channel of a manager for any time before they are
applied, in any order: that is more than a real channel does. The message managers are real directories.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cluster.shared_places import Done, Place, Put, SharedPlaces
from holdfast.destination.command import Create, Delete
from holdfast.errors import Refused
from tests import effort
from tests.machines import Manager

MANAGERS = ("m1", "m2")
NAME = "orders"
PROGRAMS = ("use", "delete", "create", "delete_empty", "send")

# What a program does next: read the bucket, put an entry, or have a command applied; it goes on with the answer.
Program = Generator[Any, Any, None]


class World:
    """The bucket, the message managers, and the commands that are on their way to them."""

    def __init__(self) -> None:
        self.entry: Place | None = None
        self.revision = 0
        self.managers = {name: Manager() for name in MANAGERS}
        self.under_way: list[tuple[str, Create | Delete, Running]] = []
        self.created_by = 0  # the revision of the Create that made the present destination
        self.deleted_by = 0  # the greatest revision of a Delete that was applied

    def put(self, place: Place, after: int) -> Place | None:
        if (self.entry.revision if self.entry is not None else 0) != after:
            return None
        self.revision += 1
        self.entry = place._replace(revision=self.revision)
        return self.entry

    def is_there(self) -> bool:
        there = [name for name, each in self.managers.items() if NAME in each.directory.catalog.destinations]
        assert len(there) <= 1
        return bool(there)

    def apply(self, number: int) -> None:
        """Apply one of the commands that are under way, and tell its node, if it lives."""
        manager, command, asker = self.under_way.pop(number)
        was_there = self.is_there()
        try:
            answer: object = self.managers[manager].ask(command)
        except Refused as problem:
            answer = problem
        if isinstance(command, Create) and self.is_there() and not was_there:
            assert command.revision > self.deleted_by, "a late Create revived what was deleted"
            self.created_by = command.revision
        if isinstance(command, Delete) and was_there and not self.is_there():
            assert command.revision > self.created_by, "a late Delete deleted what was made after it"
            self.deleted_by = max(self.deleted_by, command.revision)
        asker.answer = answer
        asker.is_waiting = False


class Running:
    """A node that carries out one program, with its own copy of the places."""

    def __init__(self, world: World, program: str) -> None:
        self.world = world
        self.places = SharedPlaces(MANAGERS, lambda name: None)
        self.program: Program | None = _PROGRAMS[program](self)
        self.is_waiting = False
        self.answer: object = None

    def read(self) -> None:
        if self.world.entry is not None:
            self.places.learn(NAME, self.world.entry)

    def put(self, step: Put) -> Place | None:
        done = self.world.put(step.place, step.after)
        self.read()
        return done

    def go_on(self) -> None:
        assert self.program is not None
        try:
            asked = self.program.send(self.answer)
        except StopIteration:
            self.program = None
            return
        self.answer = None
        if asked is not None:
            self.is_waiting = True
            self.world.under_way.append((*asked, self))


def use(node: Running, is_created: bool = False) -> Program:
    node.read()
    yield
    while not isinstance(step := node.places.reserving(NAME, is_created=is_created), Done):
        if node.put(step) is not None:
            is_created = False
        yield
    answer = yield step.place.manager, Create(NAME, "queue", is_implicit=not is_created, revision=step.place.revision)
    assert answer is not None


def create(node: Running) -> Program:
    return use(node, is_created=True)


def send(node: Running) -> Program:
    for manager in node.world.managers.values():
        if NAME in manager.directory.catalog.destinations:
            manager.send(NAME)
    yield


def delete(node: Running, is_forced: bool = True) -> Program:
    node.read()
    yield
    begun = None
    while begun is None:
        step = node.places.deleting(NAME)
        if step is None:
            return
        begun = node.put(step)
        yield
    answer = yield begun.manager, Delete(NAME, is_forced=is_forced, revision=begun.revision)
    node.put(node.places.kept(begun) if isinstance(answer, Refused) else node.places.deleted(begun))


def delete_empty(node: Running) -> Program:
    return delete(node, is_forced=False)


_PROGRAMS: dict[str, Any] = {"use": use, "create": create, "delete": delete, "delete_empty": delete_empty, "send": send}


@settings(max_examples=effort.rounds(short=120, long=5_000))
@given(st.lists(st.sampled_from(PROGRAMS), min_size=3, max_size=8), st.data())
def test_whatever_comes_late_nothing_is_revived_or_deleted_and_the_name_stays_usable(
    programs: list[str], data: st.DataObject
) -> None:
    world = World()
    nodes = [Running(world, program) for program in programs]
    for _ in range(80):
        able = [node for node in nodes if node.program is not None and not node.is_waiting]
        steps = [*(("go_on", each) for each in range(len(able))), *(("apply", each) for each in range(len(world.under_way)))]
        if not steps:
            break
        kind, number = data.draw(st.sampled_from(steps))
        if kind == "apply":
            world.apply(number)
        elif data.draw(st.integers(0, 30)) == 30:
            able[number].program = None  # it dies
        else:
            able[number].go_on()

    last = Running(world, "use")
    while last.program is not None:
        if last.is_waiting:
            world.apply(next(index for index, (_, _, asker) in enumerate(world.under_way) if asker is last))
        last.go_on()
    assert world.is_there()
    while world.under_way:
        world.apply(0)
    assert world.is_there(), "the name was used after every deletion had begun: none of them may delete it now"
