"""Producers: the batches of each are placed in the order in which they were made, each once (rule 6).

    arrives        next is 5           what happens
    5                                  placed, and after it the held batches that are now in order
    6 … 69                             held back until the hole before it is filled; at most WINDOW of them
    below 5, or held                   a duplicate: dropped
    beyond 69                          the producer went past its window, so the oldest hole can never be filled by a well-behaved
                                       one: holes are skipped (and remembered) until it is within the window
    one of the skipped                 placed when it comes: late, but not lost

A producer opens by command and is forgotten by command, or with its session unless it is durable. Forgetting skips the holes
and places the held batches. In a cluster a batch may come long after its session: there the end of the session does the same, but
sequence and holes are kept until the primary forgets them.

The batches of a producer that nobody opened (or "" for none), and those numbered below 1, have no sequence to keep: they are
placed as they come. No accepted batch is lost, whatever the sequence; at worst it is out of order, or there twice, and only for a
producer that broke its window or was forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.destination.backlog.bodies import Bodies
from holdfast.destination.batch_traits import PLAIN, Traits
from holdfast.destination.state.deduplication import Repeated
from holdfast.errors import AccessDenied
from holdfast.event.batch import without_bodies

# Batches a producer may have sent and not receipted. More would only fill memory: 64 batches are some 10 ms of the
# fastest producer.
WINDOW = 64
# Holes remembered for a producer that skips. Past it the oldest two become one: batches between them would be placed again,
# not lost.
SKIPPED_MAX = 64
# Runs of repeated events in a batch that a producer is told of after a lost link. Of a batch with more runs it is told only that
# it arrived.
REPEATED_RUNS_MAX = 64


class Batch(NamedTuple):
    """A batch with everything that placing it needs."""

    entry: int
    events: int
    destination: str
    traits: Traits = PLAIN
    size: int = 0  # bytes
    client: str = ""  # of the producer that sent it
    heads: bytes | memoryview = b""  # the batch, for selectors; without its bodies while it is held back
    unwanted: dict[str, int] | None = None  # of a staged one: what its topic's selectors answered, by their text
    keys: bytes = b""  # of a staged one whose destination deduplicates (see `deduplication`)
    is_replay: bool = False  # it is not deduplicated
    user: str = ""  # who sent it: events of other users are no repetitions of it


class Producer:
    def __init__(self, identifier: str, session: str, is_durable: bool, client: str = "", user: str = "") -> None:
        """The producer belongs to `client`; only `user` may open it again ("": it was opened where there are no users)."""
        self.client = client
        self.user = user
        self.identifier = identifier
        self.session = session
        self.is_durable = is_durable
        self.next_sequence = 1
        self.held: dict[int, Batch] = {}
        self.recent: deque[tuple[int, int]] = deque(maxlen=WINDOW)  # (sequence, entry) as they came
        self.repeated: dict[int, Repeated] = {}  # by the entries of recent batches: which of their events were repetitions
        self.skipped: list[tuple[int, int]] = []  # first and last sequence of each hole, ascending
        self.ended_at = 0  # the entry that ended its session, in a cluster; 0: it may still send

    def accept(self, sequence: int, batch: Batch) -> list[Batch]:
        """A batch has come: the batches to be placed now, in order.

        If it is not among them, it is held, or was a duplicate.
        """
        if sequence < self.next_sequence:
            return self._accept_late(sequence, batch)
        if sequence in self.held:
            return []
        self.recent.append((sequence, batch.entry))
        self.held[sequence] = batch
        placed = self._skip_to(sequence - WINDOW) if sequence > self.next_sequence + WINDOW else []
        placed.extend(self._in_order())
        return placed

    def _accept_late(self, sequence: int, batch: Batch) -> list[Batch]:
        at = bisect_right(self.skipped, (sequence, self.next_sequence)) - 1
        if at < 0 or sequence > self.skipped[at][1]:
            return []
        first, last = self.skipped[at]
        self.skipped[at : at + 1] = [hole for hole in ((first, sequence - 1), (sequence + 1, last)) if hole[0] <= hole[1]]
        self.recent.append((sequence, batch.entry))
        self._bound_skipped()
        return [batch]

    def _skip_to(self, sequence: int) -> list[Batch]:
        """Skip the holes before this sequence; the batches held among them, in order."""
        placed = []
        for held in sorted(held for held in self.held if held < sequence):
            self._skip(held)
            placed.append(self.held.pop(held))
            self.next_sequence = held + 1
        self._skip(sequence)
        self.next_sequence = sequence
        self._bound_skipped()
        return placed

    def _skip(self, sequence: int) -> None:
        if self.next_sequence < sequence:
            self.skipped.append((self.next_sequence, sequence - 1))

    def _bound_skipped(self) -> None:
        while len(self.skipped) > SKIPPED_MAX:
            self.skipped[:2] = [(self.skipped[0][0], self.skipped[1][1])]

    def _in_order(self) -> Iterator[Batch]:
        while self.next_sequence in self.held:
            yield self.held.pop(self.next_sequence)
            self.next_sequence += 1

    def note_repeated(self, entry: int, repeated: Repeated) -> None:
        """Events of this batch were repetitions."""
        known = {each: sequence for sequence, each in self.recent}
        if len(repeated) > REPEATED_RUNS_MAX:
            self.recent = deque((pair for pair in self.recent if pair[1] != entry), maxlen=WINDOW)
        elif entry in known:
            self.repeated[entry] = repeated
        self.repeated = {each: runs for each, runs in self.repeated.items() if each in known}

    def taken_as(self, sequence: int) -> tuple[int, Repeated]:
        """The entry of the batch with this sequence, and which of its events were repeated; 0 when that is not known any more."""
        entry = next((each for number, each in self.recent if number == sequence), 0)
        return entry, self.repeated.get(entry, ())

    def begin_at(self, sequence: int) -> list[Batch]:
        """Nothing below this sequence will come any more: the batches to be placed now, in order."""
        placed = [*self._skip_to(sequence), *self._in_order()] if sequence > self.next_sequence else []
        self.skipped = [(max(first, sequence), last) for first, last in self.skipped if last >= sequence]
        return placed

    def end(self, entry: int) -> list[Batch]:
        """Its session is gone. All batches that are held, in order; those that are missing are still taken when they come."""
        self.session, self.ended_at = "", entry
        return self._skip_to(max(self.held) + 1) if self.held else []

    def give_up(self) -> list[Batch]:
        """All batches that are held, in order, whatever is missing between them."""
        return [self.held[sequence] for sequence in sorted(self.held)]

    def answer(self) -> dict[str, Any]:
        """The answer to a producer before it resends. Every batch up to `last_sequence`, and each in `receipts`, is in the
        channel; `repeated` names the repeated events of entries."""
        last = self.skipped[0][0] - 1 if self.skipped else self.next_sequence - 1
        receipts = [list(pair) for pair in sorted(self.recent)]
        answer = {"producer": self.identifier, "last_sequence": last, "receipts": receipts}
        return {**answer, "repeated": sorted(self.repeated.items())} if self.repeated else answer


class Producers:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._producers: dict[str, Producer] = {}
        self._durable: dict[str, int] = {}  # how many of them, by their users
        self._ended: dict[str, int] = {}  # those whose session is gone, with the entry that ended it

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def find(self, identifier: str) -> Producer | None:
        return self._producers.get(identifier)

    def durable_of(self, user: str) -> int:
        """How many durable producers a user has."""
        return self._durable.get(user, 0)

    def whose(self, identifier: str) -> tuple[str, str]:
        """The client and the user that send under this identifier."""
        producer = self._producers.get(identifier)
        return ("", "") if producer is None else (producer.client, producer.user)

    def check_user(self, identifier: str, user: str) -> None:
        """AccessDenied for the producer of another user: batches sent under its numbers would make that user's events look like
        repetitions. A producer that was opened where there were no users belongs to the first user who opens it.
        """
        producer = self._producers.get(identifier)
        if producer is not None and user and producer.user not in ("", user):
            raise AccessDenied(
                f"producer {identifier!r} belongs to another user; send as that user, or open one of your own "
                "(for a recorder: in a new folder)",
                producer=identifier,
            )

    def open(self, identifier: str, session: str, is_durable: bool, client: str = "", user: str = "") -> Producer:
        """Open a new producer, or one that comes back: it belongs to this session from now on."""
        producer = self._producers.get(identifier)
        if producer is None:
            producer = self._producers[identifier] = Producer(identifier, session, is_durable=False)
        self._count(producer, -1)
        producer.session, producer.ended_at = session, 0
        self._ended.pop(identifier, None)
        producer.is_durable = is_durable
        producer.client = client
        producer.user = producer.user or user
        # Batches that are held change hands with their producer: a snapshot says once whose they are.
        for sequence, batch in producer.held.items():
            producer.held[sequence] = batch._replace(client=client, user=producer.user)
        self._count(producer, 1)
        return producer

    def accept(self, identifier: str, sequence: int, batch: Batch) -> list[Batch]:
        """The batches to be placed now, in order."""
        producer = self._producers.get(identifier)
        if producer is None or sequence < 1:
            return [batch]
        if sequence == producer.next_sequence and not producer.held:  # nearly always: the next one, and nothing waits for it
            producer.recent.append((sequence, batch.entry))
            producer.next_sequence += 1
            return [batch]
        placed = producer.accept(sequence, batch)
        for earlier in placed:
            if earlier is not batch:
                self._bodies.let_go(earlier.entry)
        if producer.held.get(sequence) is batch:
            producer.held[sequence] = batch._replace(heads=without_bodies(batch.heads))
            self._bodies.hold(batch.entry)
        return placed

    def note_repeated(self, identifier: str, repeated: dict[int, Repeated]) -> None:
        """Events of these batches, by their entries, were repetitions."""
        producer = self._producers.get(identifier)
        if producer is not None:
            for entry, runs in repeated.items():
                producer.note_repeated(entry, runs)

    def taken_as(self, identifier: str, sequence: int) -> tuple[int, Repeated]:
        producer = self._producers.get(identifier)
        return producer.taken_as(sequence) if producer else (0, ())

    def begin_at(self, producer: Producer, sequence: int) -> list[Batch]:
        """The producer will not send anything below this sequence: the batches to be placed now, in order."""
        placed = producer.begin_at(sequence)
        for batch in placed:
            self._bodies.let_go(batch.entry)
        return placed

    def forget(self, identifier: str) -> list[Batch]:
        """Forget the producer: the batches it still had held back, in order, to be placed now."""
        producer = self._producers.pop(identifier, None)
        self._ended.pop(identifier, None)
        if producer is not None:
            self._count(producer, -1)
        held = producer.give_up() if producer else []
        for batch in held:
            self._bodies.let_go(batch.entry)
        return held

    def end(self, producer: Producer, entry: int) -> list[Batch]:
        """The session of a producer is gone: the batches to be placed now, in order. The producer stays until it is forgotten."""
        held = producer.end(entry)
        self._ended[producer.identifier] = entry
        for batch in held:
            self._bodies.let_go(batch.entry)
        return held

    def ended(self) -> list[tuple[str, int]]:
        """The producers whose session is gone, each with the entry that ended it: the primary forgets them later."""
        return list(self._ended.items())

    def restore(self, producer: Producer) -> None:
        self._producers[producer.identifier] = producer
        if producer.ended_at:
            self._ended[producer.identifier] = producer.ended_at
        self._count(producer, 1)
        for batch in producer.held.values():
            self._bodies.hold(batch.entry)

    def _count(self, producer: Producer, by: int) -> None:
        if producer.is_durable:
            left = self._durable.get(producer.user, 0) + by
            self._durable[producer.user] = left
            if not left:
                del self._durable[producer.user]
