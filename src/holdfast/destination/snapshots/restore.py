"""Restoring a directory from the chunks of a snapshot, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.destination.applying.managing import make as make_destination
from holdfast.destination.applying.subscribing import make as make_subscription
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.slots import Page
from holdfast.destination.batch_traits import traits_of
from holdfast.destination.removal import Limits
from holdfast.destination.snapshots import assembly_parts, cluster_parts, snapshot_parts
from holdfast.destination.snapshots.snapshot import LEAD, LENGTH, MAGIC, VERSION
from holdfast.destination.snapshots.snapshot_parts import Part
from holdfast.destination.state.producers import Batch, Producer
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.receivers import Session
from holdfast.destination.state.state import State
from holdfast.destination.state.subscription import Terms, pattern_of_key
from holdfast.destination.state.topic import Topic
from holdfast.errors import Damaged, UnknownVersion

Buffer = bytes | memoryview


def fill(state: State, chunks: Iterable[Buffer]) -> None:
    """Restore an empty directory from a snapshot. Damaged when the snapshot is not whole."""
    restoring = _Restoring(state)
    count = 0
    for part in parts_of(chunks):
        if isinstance(part, snapshot_parts.EndImage) and part.parts == count:
            state.dead.recount()
            return
        restoring.add(part)
        count += 1
    raise Damaged(f"a snapshot ends after {count} parts, before its end; take an older one, or resynchronise", parts=count)


def parts_of(chunks: Iterable[Buffer]) -> Iterator[Part]:
    """The parts of a snapshot, in order. Damaged where one cannot be read."""
    lengths, size = LENGTH.unpack_from, LENGTH.size
    for chunk in chunks:
        view = memoryview(chunk)
        _check_lead(view)
        at, end = LEAD.size, len(view)
        while at < end:
            (length,) = lengths(view, at) if at + size <= end else (end,)
            at += size
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
            return snapshot_parts.decode(data)
        problem: Exception | str = f"it was cut {length - len(data)} bytes before its end"
    except msgspec.MsgspecError as found:
        problem = found
    raise Damaged(f"a part of a snapshot cannot be read ({problem}); take an older snapshot, or resynchronise")


class _Restoring:
    """The state while it is restored: parts refer to the backlog, the session and the producer named last."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queue: Queue = state.dead
        self._session = Session("", 0)
        self._producer = Producer("", "", False)

    def add(self, part: Part) -> None:
        match part:  # the most frequent come first
            case snapshot_parts.BacklogImage():
                self._queue = self._state.queue((part.destination, part.subscription))
                _fill_backlog(self._queue.backlog, part)
                self._queue.dead_count, self._queue.expired_count = part.dead, part.expired
            case snapshot_parts.DestinationImage():
                made = make_destination(self._state, part.name, part.kind, part.settings, part.owner)
                made.is_unconfigured = part.is_unconfigured
                if isinstance(made, Topic):
                    made.accepted_count = part.accepted
            case snapshot_parts.StateImage():
                self._state.applied, self._state.epoch, self._state.node = part.applied, part.epoch, part.node
                self._state.placing_time.pass_to(part.placing_ms)
                self._state.start = part.start
            case snapshot_parts.SubscriptionImage():
                _subscribe(self._state, part)
            case snapshot_parts.SessionImage():
                self._session = Session(part.name, part.since, client_manager=part.client_manager, link=part.link)
                self._state.sessions()[part.name] = self._session
            case snapshot_parts.SessionPartImage():
                _add_to_session(self._session, part)
            case snapshot_parts.ProducerImage():
                self._producer = _producer(part)
                self._state.producers.restore(self._producer)
            case snapshot_parts.HeldImage():
                _add_heads(self._producer, part)
            case snapshot_parts.CarriedImage():
                for entry, place in part.places:
                    self._state.bodies.carry(entry, place)
            case snapshot_parts.DeduplicationImage():
                _remember(self._state, part)
            case _ if assembly_parts.restore(self._state, part) or cluster_parts.restore(self._state, part):
                pass
            case _:
                self._add_to_backlog(part)

    def _add_to_backlog(self, part: Part) -> None:
        backlog = self._queue.backlog
        match part:
            case snapshot_parts.PageImage():
                backlog.rebuild_page(_page(part))
            case snapshot_parts.PageTraitsImage():
                backlog.rebuild_traits(part.lanes, part.delays, part.expiries)
            case snapshot_parts.FinishedImage():
                backlog.rebuild_finished(part.slot, int.from_bytes(part.finished, "little"))
            case snapshot_parts.DisplacedImage():
                for slot, entry in part.slots:
                    backlog.rebuild_displaced(slot, entry)
            case snapshot_parts.ReturnsImage():
                for run in part.runs:
                    backlog.history.put_returns(*run)
            case snapshot_parts.ReasonsImage():
                for said in part.runs:
                    backlog.history.reasons.put(*said)
            case snapshot_parts.NotBeforeImage():
                for run in part.runs:
                    backlog.history.not_before.put(*run)
            case snapshot_parts.ReceiversImage():
                for session, receiver, since in part.receivers:
                    self._queue.receivers.attach((session, receiver), since)
                for owner in part.owners:
                    self._queue.receivers.own(owner)
            case snapshot_parts.SelectorsImage():
                for session, receiver, selector in part.selectors:
                    self._queue.receivers.select((session, receiver), selector)
            case snapshot_parts.VerdictsImage():
                for session, receiver, newest, partial in part.verdicts:
                    self._queue.receivers.restore_verdicts((session, receiver), newest, partial)
            case snapshot_parts.SizesImage() if backlog.sizes is not None:
                backlog.sizes.rebuild(part.number, part.sizes)
            case snapshot_parts.OpeningsImage():
                self._state.dead.openings.extend(part.openings)
            case snapshot_parts.DeathsImage():
                for told in part.runs:
                    self._state.dead.told.put(*told)
            case _:
                raise Damaged("a snapshot says it ends where it does not; take an older snapshot, or resynchronise")


def _remember(state: State, part: snapshot_parts.DeduplicationImage) -> None:
    known = state.deduplications[part.destination]
    known.rebuild(part.keys, part.positions, part.times)
    known.dropped_ms = max(known.dropped_ms, part.dropped_ms)


def _add_to_session(session: Session, part: snapshot_parts.SessionPartImage) -> None:
    for receiver, destination, subscription in part.receivers:
        session.receivers[receiver] = (destination, subscription)
    session.subscriptions.extend(part.subscriptions)
    session.producers.update(dict.fromkeys(part.producers))
    session.destinations.extend(part.destinations)
    session.attached_by.update({receiver: (origin, token) for receiver, origin, token in part.attached_by})


def _fill_backlog(backlog: Backlog, part: snapshot_parts.BacklogImage) -> None:
    backlog.rebuild(part.newest_entry, part.next_slot)
    backlog.history.marks = part.marks
    for run in part.in_hand:
        backlog.history.in_hand.put(*run)
    backlog.finished_count = part.finished


def _page(part: snapshot_parts.PageImage) -> Page:
    page = Page(part.first_slot)
    page.entries.frombytes(part.entries)
    page.events.frombytes(part.events)
    page.remaining.frombytes(part.remaining)
    return page


def _subscribe(state: State, part: snapshot_parts.SubscriptionImage) -> None:
    is_durable = not part.owner if part.is_durable is None else part.is_durable
    terms = Terms(part.owner, is_durable, part.is_shared, part.selector, part.no_local, part.client, Limits(*part.limits))
    where = pattern_of_key(part.topic) or state.catalog.topic(part.topic)
    made = make_subscription(state, where, part.name, terms, part.made_at)
    made.confirmed_up_to = part.confirmed_up_to


def _add_heads(producer: Producer, part: snapshot_parts.HeldImage) -> None:
    held = producer.held[part.sequence]
    heads = bytes(held.heads) + part.heads
    producer.held[part.sequence] = held._replace(
        size=part.size, heads=heads, client=producer.client, traits=traits_of(memoryview(heads)), user=producer.user
    )


def _producer(part: snapshot_parts.ProducerImage) -> Producer:
    producer = Producer(part.identifier, part.session, part.is_durable, part.client, part.user)
    producer.next_sequence = part.next_sequence
    producer.held = {sequence: Batch(entry, events, destination) for sequence, entry, events, destination in part.held}
    producer.recent.extend(part.recent)
    producer.skipped = part.skipped
    producer.repeated = dict(part.repeated)
    producer.ended_at = part.ended_at
    return producer
