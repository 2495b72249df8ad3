"""The state of one message manager, and the questions it answers. Only `directory` changes it.

catalog      queues and topics with their subscriptions, by name; `_DMQ` always
sessions     which receivers are attached where
producers    in which order their batches are placed (rule 6)
assemblies   those that are being put together, and the outcomes of the last ones (rule 10)
scopes       how far each has published its stages (D3)
deduplications  which events destinations that deduplicate have taken lately, by their names
bodies       where the batches that are still needed lie in the channel (rule 9)
transactions those over several managers: what they lock, and their outcomes (ADR 25)
origins      who sends stamped commands, and what became of them (ADR 25)
revisions    which change of its place each destination has seen last (ADR 25)
epoch        which primary's commands count (rule 7)
"""

from __future__ import annotations

from typing import Any

from holdfast.destination.backlog import bodies as _bodies
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.command import Buffer
from holdfast.destination.effect import BacklogKey, Effect, Finished
from holdfast.destination.state.assembly import Assemblies, Scopes
from holdfast.destination.state.catalog import Catalog, Destination
from holdfast.destination.state.cluster.origins import Origins
from holdfast.destination.state.cluster.revisions import Revisions
from holdfast.destination.state.cluster.transactions import Transactions
from holdfast.destination.state.dead import DeadQueue, Deaths
from holdfast.destination.state.deduplication import CommandTime, Deduplication
from holdfast.destination.state.producers import Producers
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.receivers import Session
from holdfast.destination.state.subscription_matching import Answers
from holdfast.errors import Detached, NoSuchPosition
from holdfast.event import position

Effects = list[Effect]
Entries = list[int]
Listing = list[dict[str, Any]]


class State:
    def __init__(self) -> None:
        self.applied = 0  # the newest entry applied
        self.epoch = 0
        self.node = ""  # the primary
        self.start = ""  # of its process, as far as its claim says
        self.bodies = Bodies()
        self.catalog = Catalog(self.bodies)
        self.producers = Producers(self.bodies)
        self.assemblies = Assemblies(self.bodies)
        self.scopes = Scopes()
        self.transactions = Transactions()
        self.origins = Origins()
        self.revisions = Revisions()
        self.deduplications: dict[str, Deduplication] = {}
        self.placing_time = CommandTime()  # of the latest command that placed something in a destination that deduplicates
        self.answers: Answers = {}  # to the `selector_questions` of the commands that are applied next, if they were asked
        self._sessions: dict[str, Session] = {}

    @property
    def dead(self) -> DeadQueue:
        return self.catalog.dead

    def deaths(self, waiting: int) -> Deaths:
        """Why a position that waits in the dead queue was given up."""
        return self.dead.deaths(waiting)

    def queue(self, key: BacklogKey) -> Queue:
        """The queue or subscription with this key; KeyError when there is none."""
        return self.catalog.queues[key]

    def backlog(self, key: BacklogKey) -> Backlog:
        return self.catalog.queues[key].backlog

    def backlogs(self) -> dict[BacklogKey, Backlog]:
        return {key: queue.backlog for key, queue in self.catalog.queues.items()}

    def destination(self, name: str) -> Destination:
        return self.catalog.find(name)

    def describe(self, name: str) -> dict[str, Any]:
        """Describe a destination, for administration."""
        return self.catalog.find(name).describe()

    def list(self, after: str = "", limit: int | None = None) -> Listing:
        return self.catalog.listing(after, limit)

    def sessions(self) -> dict[str, Session]:
        return self._sessions

    def introduce(self, name: str, entry: int) -> Session:
        """The session of this name, made if it is new."""
        return self._sessions.setdefault(name, Session(name, entry))

    def is_outdated(self, epoch: int) -> bool:
        """Whether a former primary issued a command of this epoch; 0 is nobody's epoch (rule 7)."""
        return 0 < epoch < self.epoch

    def deduplicate(self, name: str, window_ms: int) -> None:
        """A destination deduplicates from now on, for so long; 0: it does not."""
        known = self.deduplications.get(name)
        if not window_ms:
            self.deduplications.pop(name, None)
        elif known is None:
            self.deduplications[name] = Deduplication(window_ms, self.placing_time)
        else:
            known.configure(window_ms)

    def receivers_of(self, session: str) -> dict[int, BacklogKey]:
        found = self._sessions.get(session)
        return dict(found.receivers) if found else {}

    def locate(self, entry: int) -> int:
        """Where in the channel the body of this entry is now."""
        return self.bodies.locate(entry)

    @staticmethod
    def batch_in(data: Buffer, entry: int) -> memoryview:
        return _bodies.batch_in(data, entry)

    def oldest_needed(self) -> int:
        """The least entry number of the channel whose body is needed; the next entry when none is."""
        oldest = self.catalog.oldest_needed()
        return self.applied + 1 if oldest is None else oldest

    def needed_between(self, first_entry: int, last_entry: int) -> Entries:
        """The original numbers of the entries whose bodies lie in first_entry .. last_entry and are needed."""
        return self.catalog.needed_between(first_entry, last_entry)

    def is_pinned(self, first_entry: int, last_entry: int) -> bool:
        """Something in first_entry .. last_entry must stay where it lies: parts of assemblies, bodies of large events."""
        return bool(self.bodies.pinned_between(first_entry, last_entry))

    def fragment(self, session: str, receiver: int, where: int, index: int) -> int:
        """The entry of a fragment of the large event at position `where`, for a receiver that is attached where it waits."""
        key = self.receivers_of(session).get(receiver)
        if key is None:
            raise Detached(f"receiver {receiver} of session '{session}' is not attached; attach it first", receiver=receiver)
        return self.fragment_in(self.backlog(key), where, index)

    def fragment_in(self, backlog: Backlog, where: int, index: int) -> int:
        """The entry of a fragment of the large event at position `where`, which waits in a backlog."""
        large = self.bodies.larges.get(position.entry_of(where))
        if large is None or not backlog.is_waiting(where):
            raise NoSuchPosition(f"no large event at position {where} waits here; it is finished, or never was", position=where)
        if not 0 <= index < len(large.fragments):
            raise NoSuchPosition(
                f"the event at position {where} has {len(large.fragments)} fragments, and no fragment {index}", position=where
            )
        return large.fragments[index]

    # --- forgetting bodies that nobody needs -------------------------------------------------------------------------

    def forget_unneeded_of(self, finished: Finished) -> None:
        if self.bodies.knows_any:
            for first, _ in finished.ranges:
                self.forget_if_unneeded(position.entry_of(first))

    def forget_if_unneeded(self, entry: int) -> None:
        if self.bodies.knows(entry) and not self.catalog.is_needed(entry):
            self.bodies.forget(entry)

    def forget_unneeded(self) -> None:
        for entry in [*self.bodies.carried, *self.bodies.larges]:
            self.forget_if_unneeded(entry)
