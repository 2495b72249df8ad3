"""Restoring a directory from the chunks of a snapshot, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.destination import assembly_image, image
from holdfast.destination.backlog import Backlog
from holdfast.destination.bodies import Bodies
from holdfast.destination.history import History
from holdfast.destination.image import Part
from holdfast.destination.managing import make as make_destination
from holdfast.destination.page import Page
from holdfast.destination.producers import Batch, Producer
from holdfast.destination.queue import Queue
from holdfast.destination.sessions import Session
from holdfast.destination.snapshot import LEAD, LENGTH, MAGIC, VERSION
from holdfast.destination.state import State
from holdfast.destination.subscribing import make as make_subscription
from holdfast.destination.subscription import Terms, pattern_of_key
from holdfast.destination.topic import Topic
from holdfast.destination.traits import traits_of
from holdfast.errors import Damaged, UnknownVersion

Buffer = bytes | memoryview


def fill(state: State, chunks: Iterable[Buffer]) -> None:
    """Make an empty directory what it was when the snapshot was taken. Damaged when the snapshot is not whole."""
    restoring = _Restoring(state)
    count = 0
    for part in _parts(chunks):
        if isinstance(part, image.EndImage) and part.parts == count:
            return
        restoring.add(part)
        count += 1
    raise Damaged(f"a snapshot ends after {count} parts, before its end; take an older one, or resynchronise", parts=count)


def _parts(chunks: Iterable[Buffer]) -> Iterator[Part]:
    for chunk in chunks:
        view = memoryview(chunk)
        _check_lead(view)
        at = LEAD.size
        while at < len(view):
            (length,) = LENGTH.unpack_from(view, at) if at + LENGTH.size <= len(view) else (len(view),)
            at += LENGTH.size
            yield _decoded(view[at : at + length], length)
            at += length


def _check_lead(chunk: memoryview) -> None:
    magic, version = LEAD.unpack_from(chunk) if len(chunk) >= LEAD.size else (b"", 0)
    if magic != MAGIC:
        raise Damaged("a chunk of a snapshot does not begin as one; take an older snapshot, or resynchronise")
    if version != VERSION:
        raise UnknownVersion(
            f"snapshot format {version} is not known to this release, which reads {VERSION}; upgrade it", version=version
        )


def _decoded(data: memoryview, length: int) -> Part:
    try:
        if len(data) == length:
            return image.decode(data)
        problem: Exception | str = f"it was cut {length - len(data)} bytes before its end"
    except msgspec.MsgspecError as found:
        problem = found
    raise Damaged(f"a part of a snapshot cannot be read ({problem}); take an older snapshot, or resynchronise")


class _Restoring:
    """What is being restored: parts refer to the backlog, the session and the producer named last."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queue: Queue = state.dead
        self._session = Session("", 0)
        self._producer = Producer("", "", False)

    def add(self, part: Part) -> None:
        match part:
            case image.StateImage():
                self._state.applied, self._state.epoch, self._state.node = part.applied, part.epoch, part.node
            case image.DestinationImage():
                made = make_destination(self._state, part.name, part.kind, part.settings, part.owner)
                if isinstance(made, Topic):
                    made.accepted_count = part.accepted
            case image.SubscriptionImage():
                _subscribe(self._state, part)
            case image.SessionImage():
                self._session = Session(part.name, part.since)
                self._state.sessions()[part.name] = self._session
            case image.SessionPartImage():
                _add_to_session(self._session, part)
            case image.ProducerImage():
                self._producer = _producer(part)
                self._state.producers.restore(self._producer)
            case image.HeldImage():
                _add_heads(self._producer, part)
            case image.CarriedImage():
                for entry, place in part.places:
                    self._state.bodies.carry(entry, place)
            case image.BacklogImage():
                self._queue = self._state.queue((part.destination, part.subscription))
                self._queue.backlog = _backlog(part, self._queue, self._state.bodies)
                self._queue.configure(self._queue.settings)
                self._queue.dead_count, self._queue.expired_count = part.dead, part.expired
            case _ if assembly_image.restore(self._state, part):
                pass
            case _:
                self._add_to_backlog(part)

    def _add_to_backlog(self, part: Part) -> None:
        backlog = self._queue.backlog
        match part:
            case image.PageImage():
                backlog.rebuild_page(_page(part))
            case image.PageTraitsImage():
                backlog.rebuild_traits(part.lanes, part.delays, part.expiries)
            case image.FinishedImage():
                backlog.rebuild_finished(part.slot, int.from_bytes(part.finished, "little"))
            case image.DisplacedImage():
                for slot, entry in part.slots:
                    backlog.rebuild_displaced(slot, entry)
            case image.ReturnsImage():
                for run in part.runs:
                    backlog.history.returns.put(*run)
            case image.NotBeforeImage():
                for run in part.runs:
                    backlog.history.not_before.put(*run)
            case image.ReceiversImage():
                for session, receiver, since in part.receivers:
                    self._queue.receivers.attach((session, receiver), since)
            case image.SelectorsImage():
                for session, receiver, selector in part.selectors:
                    self._queue.receivers.select((session, receiver), selector)
            case image.SizesImage() if backlog.sizes is not None:
                backlog.sizes.rebuild(part.number, part.sizes)
            case image.OpeningsImage():
                self._state.dead.openings.extend(part.openings)
            case image.DeathsImage():
                for told in part.runs:
                    self._state.dead.told.put(*told)
            case _:
                raise Damaged("a snapshot says it ends where it does not; take an older snapshot, or resynchronise")


def _add_to_session(session: Session, part: image.SessionPartImage) -> None:
    for receiver, destination, subscription in part.receivers:
        session.receivers[receiver] = (destination, subscription)
    session.subscriptions.extend(part.subscriptions)
    session.producers.update(dict.fromkeys(part.producers))
    session.destinations.extend(part.destinations)


def _backlog(part: image.BacklogImage, queue: Queue, bodies: Bodies) -> Backlog:
    history = History()
    history.delivered_up_to = part.delivered_up_to
    history.marks = part.marks
    backlog = Backlog.rebuilt(bodies, queue.backlog.is_reopening, part.newest_entry, part.next_slot, history)
    backlog.finished_count = part.finished
    return backlog


def _page(part: image.PageImage) -> Page:
    page = Page(part.first_slot)
    page.entries.frombytes(part.entries)
    page.events.frombytes(part.events)
    page.remaining.frombytes(part.remaining)
    return page


def _subscribe(state: State, part: image.SubscriptionImage) -> None:
    is_durable = not part.owner if part.is_durable is None else part.is_durable
    terms = Terms(part.owner, is_durable, part.is_shared, part.selector, part.no_local, part.client)
    where = pattern_of_key(part.topic) or state.catalog.topic(part.topic)
    made = make_subscription(state, where, part.name, terms, part.made_at)
    made.confirmed_up_to = part.confirmed_up_to


def _add_heads(producer: Producer, part: image.HeldImage) -> None:
    held = producer.held[part.sequence]
    heads = bytes(held.heads) + part.heads
    producer.held[part.sequence] = held._replace(
        size=part.size, heads=heads, client=producer.client, traits=traits_of(memoryview(heads))
    )


def _producer(part: image.ProducerImage) -> Producer:
    producer = Producer(part.identifier, part.session, part.is_durable, part.client)
    producer.next_sequence = part.next_sequence
    producer.held = {sequence: Batch(entry, events, destination) for sequence, entry, events, destination in part.held}
    producer.recent.extend(part.recent)
    producer.skipped = part.skipped
    return producer
