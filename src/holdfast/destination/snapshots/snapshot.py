"""Snapshots of a directory, taken at once and handed out in chunks, and its digest. `restore` reads them back.

    chunk     "HFDS" │ version u16 │ length u32, part │ length u32, part │ …          little-endian; every chunk has the lead

A snapshot shows the moment it is taken, although commands are applied meanwhile: everything that may change is encoded or copied
at once. In a full page only `remaining` changes (two bytes a batch are copied); the rest is encoded when its chunk is asked for.

The digest is taken over a canonical form: waiting events in placement order, and everything else sorted. So it does not depend
on how pages were filled, or in which order things were added.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, compress
from typing import NamedTuple

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.slots import Page
from holdfast.destination.batch_traits import LANE_PLAIN
from holdfast.destination.snapshots import assembly_parts, cluster_parts, snapshot_parts
from holdfast.destination.snapshots.snapshot_parts import Part, portions
from holdfast.destination.state.dead import DeadQueue
from holdfast.destination.state.deduplication import KEY_BYTES, Deduplication, Stretch
from holdfast.destination.state.producers import Producer
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.receivers import Session
from holdfast.destination.state.state import State
from holdfast.destination.state.subscription import Subscription
from holdfast.destination.state.topic import Topic
from holdfast.event.position import INDEX_BITS

MAGIC = b"HFDS"
VERSION = 1
LEAD = struct.Struct("<4sH")
LENGTH = struct.Struct("<I")
# Half of what one command of a channel may be, so that a chunk fits wherever a command does.
CHUNK_BYTES_MAX = 512 << 10


def chunks(state: State) -> Iterator[bytes]:
    """The chunks of the state at the moment of the call."""
    taken = [part if isinstance(part, _LATER) else snapshot_parts.encode(part) for part in _parts(state)]
    taken.append(snapshot_parts.encode(snapshot_parts.EndImage(len(taken))))
    return _packed(snapshot_parts.encode(part.image()) if isinstance(part, _LATER) else part for part in taken)


class FullPage(NamedTuple):
    """A page whose arrays of entries and events change no more; they are not copied before they are encoded."""

    first_slot: int
    entries: array[int]
    events: array[int]
    remaining: bytes

    def image(self) -> snapshot_parts.PageImage:
        return snapshot_parts.PageImage(self.first_slot, self.entries.tobytes(), self.events.tobytes(), self.remaining)


class FullTraits(NamedTuple):
    """The traits of such a page that are not plain: they change no more, either."""

    page: Page

    def image(self) -> snapshot_parts.PageTraitsImage:
        page = self.page
        return snapshot_parts.PageTraitsImage(page.first_slot, bytes(page.lanes), page.delays.tobytes(), page.expiries.tobytes())


class FullRecords(NamedTuple):
    """Events that a destination remembers, in a chunk that changes no more."""

    destination: str
    stretch: Stretch

    def image(self) -> snapshot_parts.DeduplicationImage:
        records, first = self.stretch
        keys, placed, times = records.keys[first * KEY_BYTES :], records.positions[first:], records.times[first:]
        return snapshot_parts.DeduplicationImage(self.destination, 0, bytes(keys), placed.tobytes(), times.tobytes())


_LATER = (FullPage, FullTraits, FullRecords)


def _packed(encoded: Iterable[bytes]) -> Iterator[bytes]:
    lead = LEAD.pack(MAGIC, VERSION)
    chunk, length = [lead], len(lead)
    for part in encoded:
        if length + LENGTH.size + len(part) > CHUNK_BYTES_MAX:
            yield b"".join(chunk)
            chunk, length = [lead], len(lead)
        chunk += (LENGTH.pack(len(part)), part)
        length += LENGTH.size + len(part)
    yield b"".join(chunk)


def _parts(state: State) -> Iterator[Part | FullPage | FullTraits | FullRecords]:
    yield snapshot_parts.StateImage(state.applied, state.epoch, state.node, state.placing_time.now_ms, state.start)
    yield from _destinations(state)
    for queue in state.catalog.queues.values():
        if _is_as_made(queue):
            continue
        yield _backlog_head(queue)
        yield from _backlog_pages(queue.backlog)
        yield from _beside_pages(queue)
        for receivers in portions(_receivers(queue)):
            yield _receivers_image(queue, receivers)
        for selectors in portions(queue.receivers.selectors()):
            yield snapshot_parts.SelectorsImage(selectors)
        for verdicts in portions(queue.receivers.verdicts()):
            yield snapshot_parts.VerdictsImage(verdicts)
    for session in state.sessions().values():
        yield from _session(session)
    for producer in state.producers:
        yield from _producer(producer)
    for places in portions(state.bodies.carried.items()):
        yield snapshot_parts.CarriedImage(places)
    yield from assembly_parts.parts(state)
    yield from cluster_parts.parts(state)
    yield from _deduplications(state)


def _deduplications(state: State) -> Iterator[Part | FullRecords]:
    for name, known in state.deduplications.items():
        yield snapshot_parts.DeduplicationImage(name, known.dropped_ms, b"", b"", b"")
        for stretch in known.stretches():
            taken = FullRecords(name, stretch)
            yield taken if stretch.is_full else taken.image()


def _destinations(state: State) -> Iterator[Part]:
    """Topics first, because subscriptions need them; then queues and subscriptions in the order in which they were made."""
    for destination in state.catalog.destinations.values():
        if isinstance(destination, Topic):
            made = (destination.name, destination.kind, destination.settings, destination.owner)
            yield snapshot_parts.DestinationImage(*made, destination.accepted_count, destination.is_unconfigured)
    for queue in state.catalog.queues.values():
        if isinstance(queue, Subscription):
            added = (queue.made_at, queue.confirmed_up_to, queue.terms.limits)
            yield snapshot_parts.SubscriptionImage(queue.topic, queue.name, *queue.terms[:6], *added)
        elif queue is not state.dead:
            made = (queue.name, queue.kind, queue.settings, queue.owner)
            yield snapshot_parts.DestinationImage(*made, 0, queue.is_unconfigured)


def _is_as_made(queue: Queue) -> bool:
    """Whether nothing was ever placed in it and nobody receives: then the image of its making is enough."""
    if isinstance(queue, DeadQueue) or queue.dead_count:
        return False
    if queue.is_used and (queue.backlog.next_slot or queue.backlog.newest_entry):
        return False
    return queue.is_without_receivers or not (len(queue.receivers) or any(queue.receivers.verdicts()))


def _backlog_head(queue: Queue) -> Part:
    backlog, history = queue.backlog, queue.backlog.history
    marks = history.marks_from(backlog.oldest_slot() << INDEX_BITS)
    counts = (backlog.finished_count, queue.dead_count, queue.expired_count)
    return snapshot_parts.BacklogImage(
        *queue.key, backlog.newest_entry, backlog.next_slot, 0, marks, *counts, list(history.in_hand)
    )


def _backlog_pages(backlog: Backlog) -> Iterator[Part | FullPage | FullTraits]:
    for page in backlog.pages():
        taken = FullPage(page.first_slot, page.entries, page.events, page.remaining.tobytes())
        yield taken if page.is_full else taken.image()
        if not page.is_plain:
            traits = FullTraits(page)
            yield traits if page.is_full else traits.image()


def _beside_pages(queue: Queue) -> Iterator[Part]:
    backlog = queue.backlog
    for slot, finished in sorted(backlog.finished_in_part().items()):
        yield snapshot_parts.FinishedImage(slot, finished.to_bytes(finished.bit_length() + 7 >> 3, "little"))
    for slots in portions(sorted(backlog.displaced().items())):
        yield snapshot_parts.DisplacedImage(slots)
    for runs in portions(backlog.history.returns):
        yield snapshot_parts.ReturnsImage(runs)
    for reasons in portions(backlog.history.reasons, snapshot_parts.REASONS_MAX):
        yield snapshot_parts.ReasonsImage(reasons)
    for runs in portions(backlog.history.not_before):
        yield snapshot_parts.NotBeforeImage(runs)
    if backlog.sizes is not None:
        for number, sizes in backlog.sizes.stretches():
            yield snapshot_parts.SizesImage(number, sizes)
    if isinstance(queue, DeadQueue):
        yield from _deaths(queue)


def _receivers(queue: Queue) -> list[tuple[str, int, int]]:
    return [(session, receiver, since) for (session, receiver), since in queue.receivers]


def _receivers_image(queue: Queue, receivers: list[tuple[str, int, int]]) -> snapshot_parts.ReceiversImage:
    owners = queue.receivers.owners()
    return snapshot_parts.ReceiversImage(receivers, [each[:2] for each in receivers if each[:2] in owners] if owners else [])


def _deaths(dead: DeadQueue) -> Iterator[Part]:
    for openings in portions(dead.openings):
        yield snapshot_parts.OpeningsImage(openings)
    for told in portions(dead.told):
        yield snapshot_parts.DeathsImage(told)


def _session(session: Session) -> Iterator[Part]:
    yield _session_head(session)
    for receivers in portions((receiver, *key) for receiver, key in session.receivers.items()):
        yield snapshot_parts.SessionPartImage(receivers, [], [])
    for subscriptions in portions(session.subscriptions):
        yield snapshot_parts.SessionPartImage([], subscriptions, [])
    for producers in portions(session.producers):
        yield snapshot_parts.SessionPartImage([], [], producers)
    for destinations in portions(session.destinations):
        yield snapshot_parts.SessionPartImage([], [], [], destinations)
    for attached_by in portions((receiver, *which) for receiver, which in session.attached_by.items()):
        yield snapshot_parts.SessionPartImage([], [], [], [], attached_by)


def _session_head(session: Session) -> Part:
    return snapshot_parts.SessionImage(session.name, session.since, session.client_manager, session.link)


def _producer(producer: Producer) -> Iterator[Part]:
    yield snapshot_parts.ProducerImage(
        producer.identifier,
        producer.session,
        producer.is_durable,
        producer.next_sequence,
        [(sequence, batch.entry, batch.events, batch.destination) for sequence, batch in sorted(producer.held.items())],
        list(producer.recent),
        producer.skipped,
        producer.client,
        producer.user,
        sorted(producer.repeated.items()),
        producer.ended_at,
    )
    for sequence, batch in sorted(producer.held.items()):
        for start in range(0, len(batch.heads), snapshot_parts.HEADS_BYTES_MAX):
            yield snapshot_parts.HeldImage(
                sequence, batch.size, bytes(batch.heads[start : start + snapshot_parts.HEADS_BYTES_MAX])
            )


def digest(state: State) -> str:
    """The same for states that will behave the same."""
    head = snapshot_parts.StateImage(0, state.epoch, state.node, state.placing_time.now_ms, state.start)
    parts = [*_destinations(state), *chain.from_iterable(map(_producer, state.producers))]
    parts.append(snapshot_parts.CarriedImage(sorted(state.bodies.carried.items())))
    parts.extend(assembly_parts.parts(state))
    parts.extend(cluster_parts.parts(state))
    for session in state.sessions().values():
        receivers = sorted((receiver, *key) for receiver, key in session.receivers.items())
        parts.append(_session_head(session))
        owned = (sorted(session.subscriptions), [session.name, *sorted(session.producers)], sorted(session.destinations))
        parts.append(snapshot_parts.SessionPartImage(receivers, *owned))
    found = hashlib.sha256(snapshot_parts.encode(head))
    for encoded in sorted(map(snapshot_parts.encode, parts)):
        found.update(encoded)
    for key in sorted(state.catalog.queues):
        _digest_queue(state.catalog.queues[key], found)
    for name in sorted(state.deduplications):
        _digest_deduplication(name, state.deduplications[name], found)
    return found.hexdigest()


def _digest_queue(queue: Queue, found: hashlib._Hash) -> None:
    backlog = queue.backlog
    found.update(snapshot_parts.encode(_backlog_head(queue)))
    entries, events = hashlib.sha256(), hashlib.sha256()
    for page in backlog.pages():
        real = array("Q", page.entries)
        for offset in range(len(real)) if backlog.displaced() else ():
            real[offset] = backlog.displaced().get(page.first_slot + offset, real[offset])
        entries.update(array("Q", compress(real, page.remaining)))
        events.update(array("H", compress(page.events, page.remaining)))
        if not page.is_plain:
            found.update(snapshot_parts.encode(_uncommon(backlog, page)))
    found.update(entries.digest() + events.digest())
    found.update(snapshot_parts.encode(_receivers_image(queue, sorted(_receivers(queue)))))
    found.update(snapshot_parts.encode(snapshot_parts.SelectorsImage(sorted(queue.receivers.selectors()))))
    found.update(snapshot_parts.encode(snapshot_parts.VerdictsImage(sorted(queue.receivers.verdicts()))))
    for part in _beside_pages(queue):
        found.update(snapshot_parts.encode(part))


def _digest_deduplication(name: str, known: Deduplication, found: hashlib._Hash) -> None:
    """Add what a destination remembers to the digest, however its chunks were filled."""
    found.update(snapshot_parts.encode(snapshot_parts.DeduplicationImage(name, known.dropped_ms, b"", b"", b"")))
    keys, placed, times = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    for records, first in known.stretches():
        keys.update(records.keys[first * KEY_BYTES :])
        placed.update(records.positions[first:])
        times.update(records.times[first:])
    found.update(keys.digest() + placed.digest() + times.digest())


def _uncommon(backlog: Backlog, page: Page) -> list[tuple[int, int, int, int]]:
    """(entry, lane, delay, expiry) of each unfinished batch of a page that is not plain."""
    return [
        (backlog.entry_at(page, offset), page.lane(offset), page.delay(offset), page.expiry(offset))
        for offset in range(max(len(page.lanes), len(page.delays), len(page.expiries)))
        if page.remaining[offset] and (page.lane(offset) != LANE_PLAIN or page.delay(offset) or page.expiry(offset))
    ]
