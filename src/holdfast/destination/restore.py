"""Restoring a directory from the chunks of a snapshot, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.destination import image
from holdfast.destination.backlog import Backlog
from holdfast.destination.bodies import Bodies
from holdfast.destination.history import History
from holdfast.destination.image import Part
from holdfast.destination.page import Page
from holdfast.destination.producers import Batch, Producer
from holdfast.destination.queue import Queue
from holdfast.destination.sessions import Session
from holdfast.destination.snapshot import LEAD, LENGTH, MAGIC, VERSION
from holdfast.destination.state import State
from holdfast.destination.topic import Topic
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
    """What is being restored: parts refer to the backlog and the session named last."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queue: Queue = state.dead
        self._session = Session("", 0)

    def add(self, part: Part) -> None:
        match part:
            case image.StateImage():
                self._state.applied, self._state.epoch, self._state.node = part.applied, part.epoch, part.node
            case image.DestinationImage():
                made = Topic if part.kind == "topic" else Queue
                self._state.catalog.add(made(part.name, part.settings, self._state.bodies))
            case image.SubscriptionImage():
                added = self._state.catalog.topic(part.topic).subscribe(part.name, part.owner)
                if added is not None:
                    self._state.catalog.add_subscription(added)
            case image.SessionImage():
                self._session = Session(part.name, part.since)
                self._state.sessions()[part.name] = self._session
            case image.SessionPartImage():
                _add_to_session(self._session, part)
            case image.ProducerImage():
                self._state.producers.restore(_producer(part))
            case image.CarriedImage():
                for entry, place in part.places:
                    self._state.bodies.carry(entry, place)
            case image.BacklogImage():
                self._queue = self._state.queue((part.destination, part.subscription))
                self._queue.backlog = _backlog(part, self._queue, self._state.bodies)
            case _:
                self._add_to_backlog(part)

    def _add_to_backlog(self, part: Part) -> None:
        backlog = self._queue.backlog
        match part:
            case image.PageImage():
                backlog.rebuild_page(_page(part))
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


def _backlog(part: image.BacklogImage, queue: Queue, bodies: Bodies) -> Backlog:
    history = History()
    history.delivered_up_to = part.delivered_up_to
    history.marks = part.marks
    return Backlog.rebuilt(bodies, queue.backlog.is_reopening, part.newest_entry, part.next_slot, history)


def _page(part: image.PageImage) -> Page:
    page = Page(part.first_slot)
    page.entries.frombytes(part.entries)
    page.events.frombytes(part.events)
    page.remaining.frombytes(part.remaining)
    return page


def _producer(part: image.ProducerImage) -> Producer:
    producer = Producer(part.identifier, part.session, part.is_durable)
    producer.next_sequence = part.next_sequence
    producer.held = {sequence: Batch(entry, events, destination) for sequence, entry, events, destination in part.held}
    producer.recent.extend(part.recent)
    producer.skipped = part.skipped
    return producer
