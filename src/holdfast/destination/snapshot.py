"""Snapshots of a directory: taken at once, handed out in chunks; and its digest. `restore` reads them back.

    chunk     "HFDS" │ version u16 │ length u32, part │ length u32, part │ …          little-endian; every chunk has the lead

It is that of the moment it is taken although commands go on being applied: what may change is encoded or copied at once; of a
full page only `remaining` changes (two bytes a batch are copied), the rest is encoded when its chunk is asked for.

The digest is taken over a canonical form: what waits, in placement order, and everything else sorted; so it does not depend on
how pages came to be filled, or in which order things were added.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, compress
from typing import NamedTuple

from holdfast.destination import assembly_image, image
from holdfast.destination.backlog import Backlog
from holdfast.destination.dead import DeadQueue
from holdfast.destination.image import Part, portions
from holdfast.destination.page import Page
from holdfast.destination.producers import Producer
from holdfast.destination.queue import Queue
from holdfast.destination.sessions import Session
from holdfast.destination.state import State
from holdfast.destination.subscription import Subscription
from holdfast.destination.topic import Topic
from holdfast.destination.traits import LANE_PLAIN
from holdfast.event.position import INDEX_BITS

MAGIC = b"HFDS"
VERSION = 1
LEAD = struct.Struct("<4sH")
LENGTH = struct.Struct("<I")
# Half of what one command of a channel may be, so that a chunk fits wherever a command does.
CHUNK_BYTES_MAX = 512 << 10


def chunks(state: State) -> Iterator[bytes]:
    """The state of this moment, as it is when this is called."""
    taken = [part if isinstance(part, _LATER) else image.encode(part) for part in _parts(state)]
    taken.append(image.encode(image.EndImage(len(taken))))
    return _packed(image.encode(part.image()) if isinstance(part, _LATER) else part for part in taken)


class FullPage(NamedTuple):
    """A page whose arrays of entries and events change no more; they are not copied before they are encoded."""

    first_slot: int
    entries: array[int]
    events: array[int]
    remaining: bytes

    def image(self) -> image.PageImage:
        return image.PageImage(self.first_slot, self.entries.tobytes(), self.events.tobytes(), self.remaining)


class FullTraits(NamedTuple):
    """What is not plain in such a page: it changes no more, either."""

    page: Page

    def image(self) -> image.PageTraitsImage:
        page = self.page
        return image.PageTraitsImage(page.first_slot, bytes(page.lanes), page.delays.tobytes(), page.expiries.tobytes())


_LATER = (FullPage, FullTraits)


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


def _parts(state: State) -> Iterator[Part | FullPage | FullTraits]:
    yield image.StateImage(state.applied, state.epoch, state.node)
    yield from _destinations(state)
    for queue in state.catalog.queues.values():
        yield _backlog_head(queue)
        yield from _backlog_pages(queue.backlog)
        yield from _beside_pages(queue)
        for receivers in portions(_receivers(queue)):
            yield image.ReceiversImage(receivers)
        for selectors in portions(queue.receivers.selectors()):
            yield image.SelectorsImage(selectors)
    for session in state.sessions().values():
        yield from _session(session)
    for producer in state.producers:
        yield from _producer(producer)
    for places in portions(state.bodies.carried.items()):
        yield image.CarriedImage(places)
    yield from assembly_image.parts(state)


def _destinations(state: State) -> Iterator[Part]:
    """Topics first, because subscriptions need them; then queues and subscriptions in the order in which they were made."""
    for destination in state.catalog.destinations.values():
        if isinstance(destination, Topic):
            made = (destination.name, destination.kind, destination.settings, destination.owner)
            yield image.DestinationImage(*made, destination.accepted_count)
    for queue in state.catalog.queues.values():
        if isinstance(queue, Subscription):
            yield image.SubscriptionImage(queue.topic, queue.name, *queue.terms, queue.made_at, queue.confirmed_up_to)
        elif queue is not state.dead:
            yield image.DestinationImage(queue.name, queue.kind, queue.settings, queue.owner)


def _backlog_head(queue: Queue) -> Part:
    backlog, history = queue.backlog, queue.backlog.history
    marks = history.marks_from(backlog.oldest_slot() << INDEX_BITS)
    counts = (backlog.finished_count, queue.dead_count, queue.expired_count)
    return image.BacklogImage(*queue.key, backlog.newest_entry, backlog.next_slot, history.delivered_up_to, marks, *counts)


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
        yield image.FinishedImage(slot, finished.to_bytes(finished.bit_length() + 7 >> 3, "little"))
    for slots in portions(sorted(backlog.displaced().items())):
        yield image.DisplacedImage(slots)
    for runs in portions(backlog.history.returns):
        yield image.ReturnsImage(runs)
    for runs in portions(backlog.history.not_before):
        yield image.NotBeforeImage(runs)
    if backlog.sizes is not None:
        for number, sizes in backlog.sizes.stretches():
            yield image.SizesImage(number, sizes)
    if isinstance(queue, DeadQueue):
        yield from _deaths(queue)


def _receivers(queue: Queue) -> list[tuple[str, int, int]]:
    return [(session, receiver, since) for (session, receiver), since in queue.receivers]


def _deaths(dead: DeadQueue) -> Iterator[Part]:
    for openings in portions(dead.openings):
        yield image.OpeningsImage(openings)
    for told in portions(dead.told):
        yield image.DeathsImage(told)


def _session(session: Session) -> Iterator[Part]:
    yield image.SessionImage(session.name, session.since)
    for receivers in portions((receiver, *key) for receiver, key in session.receivers.items()):
        yield image.SessionPartImage(receivers, [], [])
    for subscriptions in portions(session.subscriptions):
        yield image.SessionPartImage([], subscriptions, [])
    for producers in portions(session.producers):
        yield image.SessionPartImage([], [], producers)
    for destinations in portions(session.destinations):
        yield image.SessionPartImage([], [], [], destinations)


def _producer(producer: Producer) -> Iterator[Part]:
    yield image.ProducerImage(
        producer.identifier,
        producer.session,
        producer.is_durable,
        producer.next_sequence,
        [(sequence, batch.entry, batch.events, batch.destination) for sequence, batch in sorted(producer.held.items())],
        list(producer.recent),
        producer.skipped,
        producer.client,
    )
    for sequence, batch in sorted(producer.held.items()):
        for start in range(0, len(batch.heads), image.HEADS_BYTES_MAX):
            yield image.HeldImage(sequence, batch.size, bytes(batch.heads[start : start + image.HEADS_BYTES_MAX]))


def digest(state: State) -> str:
    """The same for states that will behave the same."""
    head = image.StateImage(0, state.epoch, state.node)
    parts = [*_destinations(state), *chain.from_iterable(map(_producer, state.producers))]
    parts.append(image.CarriedImage(sorted(state.bodies.carried.items())))
    parts.extend(assembly_image.parts(state))
    for session in state.sessions().values():
        receivers = sorted((receiver, *key) for receiver, key in session.receivers.items())
        parts.append(image.SessionImage(session.name, session.since))
        owned = (sorted(session.subscriptions), [session.name, *sorted(session.producers)], sorted(session.destinations))
        parts.append(image.SessionPartImage(receivers, *owned))
    found = hashlib.sha256(image.encode(head))
    for encoded in sorted(map(image.encode, parts)):
        found.update(encoded)
    for key in sorted(state.catalog.queues):
        _digest_queue(state.catalog.queues[key], found)
    return found.hexdigest()


def _digest_queue(queue: Queue, found: hashlib._Hash) -> None:
    backlog = queue.backlog
    found.update(image.encode(_backlog_head(queue)))
    entries, events = hashlib.sha256(), hashlib.sha256()
    for page in backlog.pages():
        real = array("Q", page.entries)
        for offset in range(len(real)) if backlog.displaced() else ():
            real[offset] = backlog.displaced().get(page.first_slot + offset, real[offset])
        entries.update(array("Q", compress(real, page.remaining)))
        events.update(array("H", compress(page.events, page.remaining)))
        if not page.is_plain:
            found.update(image.encode(_uncommon(backlog, page)))
    found.update(entries.digest() + events.digest())
    found.update(image.encode(image.ReceiversImage(sorted(_receivers(queue)))))
    found.update(image.encode(image.SelectorsImage(sorted(queue.receivers.selectors()))))
    for part in _beside_pages(queue):
        found.update(image.encode(part))


def _uncommon(backlog: Backlog, page: Page) -> list[tuple[int, int, int, int]]:
    """(entry, lane, delay, expiry) of each batch of a page of which something waits and that is not plain."""
    return [
        (backlog.entry_at(page, offset), page.lane(offset), page.delay(offset), page.expiry(offset))
        for offset in range(max(len(page.lanes), len(page.delays), len(page.expiries)))
        if page.remaining[offset] and (page.lane(offset) != LANE_PLAIN or page.delay(offset) or page.expiry(offset))
    ]
