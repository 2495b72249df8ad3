"""Transactions over several message managers, as one of them knows them (ADR 25).

    open        in doubt: prepared and without a Final, or (at the first participant) decided and not complete
    outcomes    of the last ones that are not in doubt, whatever became of their sessions
    waiting     commands that would end something which a prepared transaction needs: applied after its Final

What a prepared transaction needs is counted, so that such a command is found at once: the destinations of its parts and of its
locked events, the backlogs of the latter, and the scope and the stages of a publication.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from holdfast.destination.effect import BacklogKey
from holdfast.destination.state.assembly import Outcome
from holdfast.destination.state.dead import Death
from holdfast.event.position import Ranges

# Outcomes of transactions that are not in doubt: some 150 bytes each.
OUTCOMES_MAX = 16_384
# Commands that wait: an administrator deletes, clients go. A further one is refused, and said again later.
WAITING_MAX = 1_024

Key = tuple[str, str]  # session, assembly


class Afterwards(NamedTuple):
    """What happens to locked events after an abort: they are dead, or (None) thrown away."""

    backlog: BacklogKey
    ranges: Ranges
    death: Death | None


class Publication(NamedTuple):
    """Stages that are published together, once (see `publishing`)."""

    session: str  # of the stages: "/" and a user
    scope: str
    number: int
    stages: tuple[tuple[str, int], ...]  # name, parts


class Prepared(NamedTuple):
    """What a transaction locks until its Final."""

    client: str
    settled: tuple[tuple[BacklogKey, Ranges], ...]
    destinations: tuple[str, ...]  # of its parts
    afterwards: list[Afterwards]
    publication: Publication | None = None


class InDoubt(NamedTuple):
    """A transaction in doubt, for those who recover it and for administration."""

    session: str
    assembly: str
    participants: tuple[str, ...]
    here: str
    since: int  # the entry of its Prepare, or of its decision
    since_ms: int  # when that was said; 0: not known
    is_prepared: bool  # it locks something here
    decision: str  # "commit", "abort" or "": not known here
    keys: tuple[Key, ...]  # session and assembly at each participant


class Transaction:
    def __init__(
        self, key: Key, participants: Iterable[str], here: str, since: int, since_ms: int, keys: Iterable[Key] = ()
    ) -> None:  # fmt: skip
        """`keys`: at each participant, which has sessions of its own; none: the same at all."""
        self.key = key
        self.keys = tuple((session, assembly) for session, assembly in keys)
        self.participants = tuple(participants)
        self.here = here
        self.since = since
        self.since_ms = since_ms
        self.prepared: Prepared | None = None
        self.is_commit: bool | None = None  # the decision; None: there is none, or it is not known here
        self.reason = ""
        self.outcome: Outcome | None = None

    @property
    def is_first(self) -> bool:
        return self.here == self.participants[0]

    @property
    def decision(self) -> str:
        return "" if self.is_commit is None else "commit" if self.is_commit else "abort"


class Transactions:
    def __init__(self) -> None:
        self.open: dict[Key, Transaction] = {}
        self.outcomes: dict[Key, Outcome] = {}  # oldest first
        self.waiting: list[tuple[int, bytes]] = []  # the entry at which a command came, and its bytes
        self.prepared = 0  # how many of those that are open
        self.names: Counter[str] = Counter()
        self.backlogs: Counter[BacklogKey] = Counter()
        self.stages: Counter[Key] = Counter()
        self.scopes: Counter[Key] = Counter()

    def outcome(self, key: Key) -> Outcome | None:
        found = self.open.get(key)
        return found.outcome if found is not None else self.outcomes.get(key)

    def in_doubt(self) -> Iterator[InDoubt]:
        """Those in doubt, oldest first."""
        for each in self.open.values():
            is_prepared = each.prepared is not None
            keys = each.keys or (each.key,) * len(each.participants)
            since, decision = (each.since, each.since_ms), each.decision
            yield InDoubt(*each.key, each.participants, each.here, *since, is_prepared, decision, keys)

    def add(self, transaction: Transaction) -> None:
        """A transaction is in doubt from now on."""
        self.open[transaction.key] = transaction
        if transaction.prepared is not None:
            self._count(transaction.prepared, 1)

    def finish(self, transaction: Transaction, outcome: Outcome) -> None:
        """Its Final is applied here. It stays in doubt at the first participant, until it is complete."""
        assert transaction.prepared is not None, "what was not prepared has its outcome"
        self._count(transaction.prepared, -1)
        transaction.prepared, transaction.outcome = None, outcome
        if not transaction.is_first:
            self.complete(transaction)

    def complete(self, transaction: Transaction) -> None:
        assert transaction.outcome is not None, "a transaction without an outcome is in doubt"
        del self.open[transaction.key]
        self.remember(transaction.key, transaction.outcome)

    def remember(self, key: Key, outcome: Outcome) -> None:
        self.outcomes[key] = outcome
        if len(self.outcomes) > OUTCOMES_MAX:
            del self.outcomes[next(iter(self.outcomes))]

    def take_after(self, backlog: BacklogKey, ranges: Ranges, death: Death | None) -> None:
        """These positions are locked. If they are given free again, they are dead, or (None) thrown away."""
        for transaction in self.open.values():
            for key, locked in transaction.prepared.settled if transaction.prepared is not None else ():
                if key == backlog and (common := locked.common(ranges)):
                    assert transaction.prepared is not None
                    transaction.prepared.afterwards.append(Afterwards(backlog, common, death))

    def _count(self, prepared: Prepared, by: int) -> None:
        self.prepared += by
        for name in prepared.destinations:
            _add(self.names, name, by)
        for key, _ in prepared.settled:
            _add(self.names, key[0], by)
            _add(self.backlogs, key, by)
        if prepared.publication is not None:
            session, scope, _, stages = prepared.publication
            _add(self.scopes, (session, scope), by)
            for name, _ in stages:
                _add(self.stages, (session, name), by)


def _add(counter: Counter[Any], key: Any, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]
