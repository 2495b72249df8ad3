"""Producers: whose batches are placed in the order in which they were made, each once (rule 6).

    arrives        next is 5           what happens
    5                                  placed, and after it what is held and now in order
    6 … 69                             held back until the hole before it is filled; at most WINDOW of them
    below 5, or held                   a duplicate: dropped
    beyond 69                          the producer went past its window, so the oldest hole can never be filled by a well-behaved
                                       one: holes are skipped (and remembered) until it is within the window
    one of the skipped                 placed when it comes: late, but not lost

A producer opens by command and is forgotten by command, or with its session unless it is durable; forgetting skips the
holes and places what is held. The batches of a producer that nobody opened (or "" for none), and those numbered below 1,
have no sequence to keep: they are placed as they come. Nothing that was accepted is lost, whatever the sequence; at worst
it is out of order, or there twice, and only for a producer that broke its window or was forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.destination.bodies import Bodies
from holdfast.destination.traits import PLAIN, Traits
from holdfast.event.batch import without_bodies

# Batches a producer may have sent and not receipted. More would only fill memory: 64 batches are some 10 ms of the
# fastest producer.
WINDOW = 64
# Holes remembered of a producer that skips. Past it the oldest two become one: what lay between them would be placed
# again, not lost.
SKIPPED_MAX = 64


class Batch(NamedTuple):
    """A batch as far as placing it goes."""

    entry: int
    events: int
    destination: str
    traits: Traits = PLAIN
    size: int = 0  # bytes
    client: str = ""  # whose producer sent it
    heads: bytes | memoryview = b""  # the batch, for selectors; without its bodies while it is held back
    unwanted: dict[str, int] | None = None  # of a staged one: what its topic's selectors said of it, by their text


class Producer:
    def __init__(self, identifier: str, session: str, is_durable: bool, client: str = "") -> None:
        """`client` is whose producer it is."""
        self.client = client
        self.identifier = identifier
        self.session = session
        self.is_durable = is_durable
        self.next_sequence = 1
        self.held: dict[int, Batch] = {}
        self.recent: deque[tuple[int, int]] = deque(maxlen=WINDOW)  # (sequence, entry) as they came
        self.skipped: list[tuple[int, int]] = []  # first and last sequence of each hole, ascending

    def accept(self, sequence: int, batch: Batch) -> list[Batch]:
        """What is to be placed now that this batch has come, in order.

        The batch is held if it is not among them, or a duplicate.
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
        """Give up on holes before this sequence; what was held among them, in order."""
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

    def begin_at(self, sequence: int) -> list[Batch]:
        """Nothing below this sequence will come any more: what was held for it, in order."""
        placed = [*self._skip_to(sequence), *self._in_order()] if sequence > self.next_sequence else []
        self.skipped = [(max(first, sequence), last) for first, last in self.skipped if last >= sequence]
        return placed

    def give_up(self) -> list[Batch]:
        """All that is held, in order, whatever is missing between."""
        return [self.held[sequence] for sequence in sorted(self.held)]

    def answer(self) -> dict[str, Any]:
        """What a producer asks before it resends: every batch up to `last_sequence`, and of the receipts, is in the channel."""
        last = self.skipped[0][0] - 1 if self.skipped else self.next_sequence - 1
        receipts = [list(pair) for pair in sorted(self.recent)]
        return {"producer": self.identifier, "last_sequence": last, "receipts": receipts}


class Producers:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._producers: dict[str, Producer] = {}

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def find(self, identifier: str) -> Producer | None:
        return self._producers.get(identifier)

    def client_of(self, identifier: str) -> str:
        producer = self._producers.get(identifier)
        return "" if producer is None else producer.client

    def open(self, identifier: str, session: str, is_durable: bool, client: str = "") -> Producer:
        """A new producer, or one that comes back: then it belongs to this session from now on."""
        producer = self._producers.get(identifier)
        if producer is None:
            producer = self._producers[identifier] = Producer(identifier, session, is_durable)
        producer.session = session
        producer.is_durable = is_durable
        producer.client = client
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

    def begin_at(self, producer: Producer, sequence: int) -> list[Batch]:
        """The producer will not send what is below this sequence: what is to be placed now, in order."""
        placed = producer.begin_at(sequence)
        for batch in placed:
            self._bodies.let_go(batch.entry)
        return placed

    def forget(self, identifier: str) -> list[Batch]:
        """What the producer still had held back, in order: to be placed now."""
        producer = self._producers.pop(identifier, None)
        held = producer.give_up() if producer else []
        for batch in held:
            self._bodies.let_go(batch.entry)
        return held

    def restore(self, producer: Producer) -> None:
        self._producers[producer.identifier] = producer
        for batch in producer.held.values():
            self._bodies.hold(batch.entry)
