"""Assemblies: transactions, large events and stages, bigger than one command, while they are put together (rule 10).

    part 1, part 2, … part n          entries of the channel like any others: held, pinned where they lie, visible to nobody
    commit, or abandon, or the end    all of it becomes visible at one place of the channel's order, or none ever does
    of the session

A part with a destination is a batch that a transaction sends; a part without one is a fragment of a large event's body. Twelve
bytes are kept for a part, and the heads of a batch, because selectors are asked when it is placed, and machines read no disk.

The outcomes of a session's last assemblies are remembered: a commit that is said again is answered again, not done again, and a
part that comes late revives nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterator
from typing import NamedTuple

from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.state.producers import Batch
from holdfast.errors import Refused

# Assemblies of a session whose outcome is remembered: twice as many as a session may have open (`node`), so that no outcome is
# forgotten before its session has heard it.
REMEMBERED_MAX = 64
# How far a part's number may be ahead of those that are here: more than any client has unreceipted. It bounds the memory that one
# command with a wild number takes.
AHEAD_MAX = 1_024
# Stands before the user in place of a session, for stages, which have none (see `publishing`).
_OF_NO_SESSION = "/"
# Far more than there are queries that write: some 200 bytes each.
SCOPES_MAX = 10_000

ScopeKey = tuple[str, str]  # session of the stages ("/" and a user), name


def is_stage(session: str) -> bool:
    """Whether an assembly with this session is a stage."""
    return session.startswith(_OF_NO_SESSION)


class Outcome(NamedTuple):
    """The outcome of an assembly: (events placed, events confirmed, entry of its first batch), or why it was aborted."""

    value: tuple[int, int, int] = (0, 0, 0)
    reason: str = ""
    repeated: int = 0  # where its first event was placed before, when it is a repetition


class PartBatch(NamedTuple):
    """A batch that waits for its commit. `fragments`: the numbers (first, last) of the parts that are a large event's body."""

    batch: Batch
    fragments: tuple[int, int] = (0, 0)
    fragment_bytes: int = 0
    large_bytes: int = 0

    @property
    def is_large(self) -> bool:
        return self.fragments != (0, 0)


class Totals:
    """How much is staged, by all users together."""

    def __init__(self) -> None:
        self.stages = 0
        self.parts = 0
        self.bytes = 0

    def add(self, stages: int, parts: int, size: int) -> None:
        self.stages += stages
        self.parts += parts
        self.bytes += size


class Assembly:
    def __init__(self, session: str, name: str) -> None:
        self.session = session
        self.name = name
        self.entries = array("Q")  # where part 1, 2 … lies; 0 while it has not come
        self.sizes = array("I")
        self.batches: dict[int, PartBatch] = {}
        self.bytes = 0
        self.count = 0

    def has(self, number: int) -> bool:
        return number <= len(self.entries) and self.entries[number - 1] > 0

    def add(self, number: int, entry: int, size: int) -> None:
        missing = number - len(self.entries)
        if missing > 0:
            self.entries.extend([0] * missing)
            self.sizes.extend([0] * missing)
        self.entries[number - 1], self.sizes[number - 1] = entry, size
        self.bytes += size
        self.count += 1

    def extend(self, entries: bytes, sizes: bytes) -> None:
        """Add the next parts, from a snapshot."""
        self.entries.frombytes(entries)
        self.sizes.frombytes(sizes)
        self.count = len(self.entries) - self.entries.count(0)
        self.bytes = sum(self.sizes)

    @property
    def oldest(self) -> int:
        """The least entry of its parts. Parts come in the order of the channel, whatever their numbers."""
        return min(filter(None, self.entries))

    def missing(self, parts: int) -> int:
        """The first of parts 1 .. `parts` that has not come; 0 when all are here."""
        if self.count >= parts and 0 not in self.entries[:parts]:
            return 0
        return next(number for number in range(1, parts + 1) if not self.has(number))

    def in_order(self) -> list[PartBatch]:
        return [self.batches[number] for number in sorted(self.batches)]


class Assemblies:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._open: dict[tuple[str, str], Assembly] = {}
        self._outcomes: dict[str, dict[str, Outcome]] = {}
        self.staged = Totals()

    def __iter__(self) -> Iterator[Assembly]:
        return iter(self._open.values())

    def find(self, session: str, name: str) -> Assembly | None:
        return self._open.get((session, name))

    def open_of(self, session: str) -> int:
        """How many assemblies a session has open."""
        return sum(1 for owner, _ in self._open if owner == session)

    def outcome(self, session: str, name: str) -> Outcome | None:
        return self._outcomes.get(session, {}).get(name)

    def outcomes(self) -> dict[str, dict[str, Outcome]]:
        """Outcomes by session, oldest first."""
        return self._outcomes

    def add_part(self, session: str, name: str, number: int, entry: int, size: int, made: PartBatch | None) -> None:
        """Hold a part; one that is here already counts once."""
        assembly = self._open.get((session, name)) or Assembly(session, name)
        if not 1 <= number <= len(assembly.entries) + AHEAD_MAX:
            raise Refused(
                f"part {number} of assembly '{name}' is not one of the next {AHEAD_MAX}; number parts from 1", number=number
            )
        if assembly.has(number):
            return
        assembly.add(number, entry, size)
        if is_stage(session):
            self.staged.add(assembly.count == 1, 1, size)
        if made is not None:
            assembly.batches[number] = made
            self._bodies.hold(entry)
        if assembly.count == 1:
            self._restore(assembly)

    def _restore(self, assembly: Assembly) -> None:
        self._open[assembly.session, assembly.name] = assembly
        self._bodies.pin((assembly.session, assembly.name), entry=assembly.oldest, entries=assembly.entries)

    def extend(self, session: str, name: str, entries: bytes, sizes: bytes) -> None:
        """Add the next parts of an assembly, from a snapshot."""
        known = self._open.get((session, name))
        assembly = known or Assembly(session, name)
        count, size = assembly.count, assembly.bytes
        assembly.extend(entries, sizes)
        self._restore(assembly)
        if is_stage(session):
            self.staged.add(known is None, assembly.count - count, assembly.bytes - size)

    def decide(self, session: str, name: str, outcome: Outcome) -> None:
        """The assembly is committed or aborted: let its parts go, and remember the outcome."""
        self.let_go(session, name)
        known = self._outcomes.setdefault(session, {})
        known[name] = outcome
        while len(known) > REMEMBERED_MAX:
            del known[next(iter(known))]

    def let_go(self, session: str, *names: str) -> None:
        """The parts of these assemblies are needed no more, or belong to a destination now."""
        entries: list[int] = []
        for name in names:
            assembly = self._open.pop((session, name), None)
            if assembly is not None:
                self._bodies.unpin((session, name))
                if is_stage(session):
                    self.staged.add(-1, -assembly.count, -assembly.bytes)
                entries.extend(made.batch.entry for made in assembly.batches.values())
        self._bodies.let_go_all(entries)

    def end(self, session: str, spared: Container[tuple[str, str]] = ()) -> None:
        """The session is gone: its open assemblies are let go, but for those that are spared, and its outcomes are forgotten."""
        for owner, name in [key for key in self._open if key[0] == session and key not in spared]:
            self.let_go(owner, name)
        self._outcomes.pop(session, None)

    def remember(self, session: str, outcomes: dict[str, Outcome]) -> None:
        self._outcomes.setdefault(session, {}).update(outcomes)


class Scopes:
    """How far each scope has published, so that what is published again changes nothing (D3).

        scope "query 7"    batches 0, 1, 2 are published; 2 again is a repetition, 3 is new

    A scope is known by its user and its name. SCOPES_MAX of them are remembered; past that the one that was used least recently
    is forgotten, and would publish any number as new. Half of the room is for scopes that have published more than one number:
    programs that publish once and never come back, however many, do not push out a query that goes on.
    """

    def __init__(self) -> None:
        # The highest number of each, the one used least recently first.
        self._once: dict[ScopeKey, int] = {}
        self._often: dict[ScopeKey, int] = {}

    def __iter__(self) -> Iterator[tuple[str, str, int, bool]]:
        """(session, name, highest number, whether it has published several) of each scope."""
        for scopes, is_often in ((self._once, False), (self._often, True)):
            for (session, name), number in scopes.items():
                yield session, name, number, is_often

    def last(self, key: ScopeKey) -> int:
        """The highest number it has published; -1 before the first."""
        return self._once.get(key, self._often.get(key, -1))

    def use(self, key: ScopeKey, number: int) -> None:
        """The scope publishes this number, for the first time or again."""
        last, is_known_once = self.last(key), key in self._once
        is_often = key in self._often or (is_known_once and number > last)
        self._once.pop(key, None)
        self._often.pop(key, None)
        self.restore(key, max(number, last), is_often)
        if len(self._once) + len(self._often) > SCOPES_MAX:
            victims = self._once if len(self._once) > SCOPES_MAX // 2 else self._often
            del victims[next(iter(victims))]

    def restore(self, key: ScopeKey, number: int, is_often: bool) -> None:
        (self._often if is_often else self._once)[key] = number
