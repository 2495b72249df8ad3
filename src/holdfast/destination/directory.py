"""The directory: the whole replicated state of one message manager, changed by applying the commands of its channel in order.

    command ─▶ apply ─▶ effects        the same commands give the same state on the primary and on every backup

A command that is refused changes nothing, and its answer says why. What was accepted is never refused: a batch that cannot
be placed goes to the dead queue. A command that cannot be read stops whoever applies it: skipping it would let replicas
drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.destination import bodies as _bodies
from holdfast.destination import command as commands
from holdfast.destination import restore as _restore
from holdfast.destination import snapshot as _snapshot
from holdfast.destination.catalog import Destination
from holdfast.destination.effect import (
    Answer,
    Attached,
    BacklogCreated,
    BacklogDeleted,
    Claimed,
    DetachedReceiver,
    Effect,
    Finished,
)  # fmt: skip
from holdfast.destination.name import check_destination, check_subscription
from holdfast.destination.producers import Batch
from holdfast.destination.queue import EVERYTHING, Queue, Taken
from holdfast.destination.sessions import Session
from holdfast.destination.state import State
from holdfast.destination.subscription import Subscription
from holdfast.destination.topic import Topic
from holdfast.errors import BadName, DestinationExists, ProtocolError, Refused, SubscriptionInUse, WrongKind
from holdfast.event import position
from holdfast.event.position import Ranges

Effects = list[Effect]
Entries = list[int]
Listing = list[dict[str, Any]]


class Directory(State):
    def apply(self, entry: int, data: commands.Buffer) -> Effects:
        """Apply the command at this entry.

        Raises only for what cannot be read: then nothing was changed, and nothing may follow.
        """
        assert entry > self.applied, f"entry {entry} was applied before; the newest is {self.applied}"
        command, payload = commands.decode(data)
        effects: Effects = []
        origin, token = getattr(command, "origin", ""), getattr(command, "token", 0)
        try:
            value, error = self._apply(entry, command, payload, effects), None
        except Refused as refusal:
            if not origin and isinstance(refusal, ProtocolError):
                raise
            value, error = None, refusal
        self.applied = entry
        if origin:
            effects.append(Answer(origin, token, value, error))
        return effects

    def _apply(self, entry: int, command: commands.Command, payload: memoryview, effects: Effects) -> Any:
        match command:
            case commands.BatchCommand():
                return self._batch(entry, command, payload, effects)
            case commands.Confirm():
                return self._confirm(entry, command, effects)
            case commands.Release():
                return self._release(entry, command, effects)
            case commands.Reject():
                return self._reject(entry, command, effects)
            case commands.Attach():
                return self._attach(entry, command, effects)
            case commands.Detach():
                return self._detach(entry, command, effects)
            case commands.OpenProducer():
                return self._open_producer(entry, command, effects)
            case commands.ForgetProducer():
                return self._forget_producer(entry, command.producer, effects)
            case commands.Carried():
                return self._carried(entry, command, payload)
            case commands.Dead():
                return self._dead(entry, command, effects)
            case commands.Claim():
                return self._claim(command, effects)
            case _:
                return self._administer(entry, command, effects)

    def _administer(self, entry: int, command: commands.Command, effects: Effects) -> Any:
        match command:
            case commands.Create():
                return self._create(command, effects)
            case commands.Delete():
                return self._delete(entry, command, effects)
            case commands.Subscribe():
                return self._subscribe(entry, command, effects)
            case commands.Unsubscribe():
                return self._unsubscribe(command, effects)
        raise AssertionError(f"{type(command).__name__} is in command.KINDS and nothing here applies it")

    # --- batches (rules 6 and 14) ------------------------------------------------------------------------------------

    def _batch(self, entry: int, command: commands.BatchCommand, payload: memoryview, effects: Effects) -> None:
        batch = Batch(entry, _bodies.events_in(payload), command.destination)
        self._place_all(self.producers.accept(command.producer, command.sequence, batch), entry, effects)

    def _place_all(self, batches: Iterable[Batch], at: int, effects: Effects) -> None:
        for batch in batches:
            destination = self.catalog.destinations.get(batch.destination)
            if destination is None or destination is self.dead:
                self._bury_unplaced(batch, at, effects)
            elif isinstance(destination, Topic):
                effects.extend(destination.place(batch.entry, batch.events))
                self._forget_if_carried(batch.entry)
            else:
                effects.append(destination.place(batch.entry, batch.events))

    def _bury_unplaced(self, batch: Batch, at: int, effects: Effects) -> None:
        reason = "nobody may send to the dead queue" if batch.destination == self.dead.name else "no such destination"
        first = position.of(batch.entry)
        unplaced = Taken(first, first + batch.events - 1, 0, batch.events)
        effects.extend(self.dead.receive([unplaced], (batch.destination, ""), reason, at))

    def _open_producer(self, entry: int, command: commands.OpenProducer, effects: Effects) -> dict[str, Any]:
        if not command.producer:
            raise BadName("a producer opens under an identifier of its own; its client manager gives it one")
        if command.session:
            self._introduce(command.session, entry).producers[command.producer] = None
        producer = self.producers.open(command.producer, command.session, command.is_durable)
        self._place_all(self.producers.begin_at(producer, command.first_sequence), entry, effects)
        return producer.answer()

    def _forget_producer(self, entry: int, identifier: str, effects: Effects) -> None:
        producer = self.producers.find(identifier)
        if producer and producer.session in self._sessions:
            self._sessions[producer.session].producers.pop(identifier, None)
        self._place_all(self.producers.forget(identifier), entry, effects)

    # --- what recipients decide (rules 4 and 5) ----------------------------------------------------------------------

    def _confirm(self, entry: int, command: commands.Confirm, effects: Effects) -> int:
        """How many events are finished by it."""
        queue = self.catalog.queue(command.destination, command.subscription)
        before = queue.backlog.waiting
        finished = queue.confirm(command.session, _ranges(command.ranges), command.delivered_up_to, entry)
        if finished is not None:
            effects.append(finished)
            self._forget_carried_of(finished)
        return before - queue.backlog.waiting

    def _release(self, entry: int, command: commands.Release, effects: Effects) -> None:
        queue = self.catalog.queue(command.destination, command.subscription)
        ranges = _ranges(command.ranges)
        returned = queue.release(command.session, ranges, command.not_before_ms, command.is_counted, entry)
        if returned is not None:
            effects.append(returned)

    def _reject(self, entry: int, command: commands.Reject, effects: Effects) -> None:
        queue = self.catalog.queue(command.destination, command.subscription)
        if queue is self.dead:
            raise Refused("events in the dead queue were given up already; confirm them to remove them, or release them")
        taken = queue.reject(command.session, _ranges(command.ranges), entry)
        self._bury(queue, taken, command.reason, entry, effects)

    def _dead(self, entry: int, command: commands.Dead, effects: Effects) -> None:
        queue = self.catalog.queues.get((command.destination, command.subscription))
        ranges = _ranges(command.ranges)
        if queue is not None and queue is not self.dead and not self._is_outdated(command.epoch):
            self._bury(queue, queue.take(ranges), command.reason, entry, effects)

    def _bury(self, queue: Queue, taken: list[Taken], reason: str, at: int, effects: Effects) -> None:
        if taken:
            effects.append(Finished(queue.key, Ranges.gather((run.first, run.last) for run in taken)))
            effects.extend(self.dead.receive(taken, queue.key, reason, at))

    # --- destinations ------------------------------------------------------------------------------------------------

    def _create(self, command: commands.Create, effects: Effects) -> bool:
        """Whether it is new."""
        check_destination(command.name)
        found = self.catalog.destinations.get(command.name)
        if found is not None:
            _check_same(found, command)
            return False
        made = Topic if command.kind == "topic" else Queue
        destination = made(command.name, command.settings, self.bodies)
        self.catalog.add(destination)
        if isinstance(destination, Queue):
            effects.append(BacklogCreated(destination.key))
        return True

    def _delete(self, entry: int, command: commands.Delete, effects: Effects) -> None:
        """What waits goes to the dead queue; receivers are closed with the reason."""
        check_destination(command.name)
        for queue in self.catalog.queues_of(command.name):
            self._remove(queue, "destination deleted", effects)
            effects.extend(self.dead.receive(queue.leaving(EVERYTHING), queue.key, "destination deleted", entry))
        del self.catalog.destinations[command.name]

    def _subscribe(self, entry: int, command: commands.Subscribe, effects: Effects) -> bool:
        """Whether it is new."""
        check_subscription(command.name, command.is_durable)
        topic = self.catalog.topic(command.topic)
        if not command.is_durable and not command.session:
            raise Refused("a non-durable subscription belongs to a session; say which", topic=topic.name)
        owner = "" if command.is_durable else command.session
        added = topic.subscribe(command.name, owner)
        if added is None:
            return False
        self.catalog.add_subscription(added)
        effects.append(BacklogCreated(added.key))
        if owner:
            self._introduce(owner, entry).subscriptions.append(added.key)
        return True

    def _unsubscribe(self, command: commands.Unsubscribe, effects: Effects) -> None:
        """What waits in it is finished: its recipient wants no more."""
        subscription = self.catalog.topic(command.topic).subscription(command.name)
        if len(subscription.receivers):
            raise SubscriptionInUse(
                f"{subscription.title} has {len(subscription.receivers)} receivers; close them first", subscription=command.name
            )
        self._remove(subscription, "unsubscribed", effects)
        self._forget_carried()

    def _remove(self, queue: Queue, reason: str, effects: Effects) -> None:
        for (session, receiver), _ in queue.receivers:
            del self._sessions[session].receivers[receiver]
            effects.append(DetachedReceiver(session, receiver, queue.key, reason))
        if isinstance(queue, Subscription) and queue.owner:
            self._sessions[queue.owner].subscriptions.remove(queue.key)
        self.catalog.remove_queue(queue)
        effects.append(BacklogDeleted(queue.key))

    # --- sessions ----------------------------------------------------------------------------------------------------

    def _introduce(self, name: str, entry: int) -> Session:
        return self._sessions.setdefault(name, Session(name, entry))

    def _attach(self, entry: int, command: commands.Attach, effects: Effects) -> None:
        queue = self.catalog.queue(command.destination, command.subscription)
        self._check_attach(command, queue)
        self._introduce(command.session, entry).receivers[command.receiver] = queue.key
        queue.receivers.attach((command.session, command.receiver), entry)
        effects.append(Attached(command.session, command.receiver, queue.key))

    def _check_attach(self, command: commands.Attach, queue: Queue) -> None:
        if not command.session or command.receiver < 1:
            raise Refused("a receiver has a session and a number from 1 up; 0 stands for the whole session")
        session = self._sessions.get(command.session)
        attached = session.receivers.get(command.receiver) if session else None
        if attached not in (None, queue.key):
            raise Refused(
                f"receiver {command.receiver} of session '{command.session}' is attached to {attached}; use another number",
                receiver=command.receiver,
            )
        if isinstance(queue, Subscription) and queue.owner not in ("", command.session):
            raise SubscriptionInUse(f"{queue.title} belongs to session '{queue.owner}'; use a subscription of your own")

    def _detach(self, entry: int, command: commands.Detach, effects: Effects) -> None:
        """Detaching what is not attached is fine: it may have been asked for twice."""
        session = self._sessions.get(command.session)
        if session is None or self._is_outdated(command.epoch):
            return
        for receiver in [command.receiver] if command.receiver else list(session.receivers):
            key = session.receivers.pop(receiver, None)
            if key is not None:
                self.catalog.queues[key].receivers.detach((session.name, receiver))
                effects.append(DetachedReceiver(session.name, receiver, key, ""))
        if not command.receiver:
            self._end(session, entry, effects)

    def _end(self, session: Session, entry: int, effects: Effects) -> None:
        """Its non-durable subscriptions and producers go with a session."""
        for key in list(session.subscriptions):
            self._remove(self.catalog.queues[key], "session ended", effects)
        self._forget_carried()
        for identifier in session.producers:
            producer = self.producers.find(identifier)
            if producer and producer.session == session.name and not producer.is_durable:
                self._place_all(self.producers.forget(identifier), entry, effects)
        del self._sessions[session.name]

    # --- the primary (rules 7 and 9) ---------------------------------------------------------------------------------

    def _claim(self, command: commands.Claim, effects: Effects) -> int:
        if command.epoch != self.epoch + 1:
            raise Refused(
                f"'{command.node}' claims epoch {command.epoch}, but epoch {self.epoch} is held by '{self.node}'; "
                f"follow it, and claim epoch {self.epoch + 1} when it is gone",
                epoch=self.epoch,
                node=self.node,
            )
        self.epoch, self.node = command.epoch, command.node
        for backlog in self.catalog.backlogs():
            backlog.begin_epoch()
        effects.append(Claimed(self.epoch, self.node))
        return self.epoch

    def _is_outdated(self, epoch: int) -> bool:
        return 0 < epoch < self.epoch

    def _carried(self, entry: int, command: commands.Carried, payload: memoryview) -> None:
        _bodies.check_carried(command, payload)
        if not self._is_outdated(command.epoch):
            for carried in command.entries:
                if self.catalog.is_needed(carried):
                    self.bodies.carry(carried, entry)

    def _forget_carried_of(self, finished: Finished) -> None:
        if self.bodies.carried:
            for first, _ in finished.ranges:
                self._forget_if_carried(position.entry_of(first))

    def _forget_if_carried(self, entry: int) -> None:
        if entry in self.bodies.carried and not self.catalog.is_needed(entry):
            self.bodies.forget(entry)

    def _forget_carried(self) -> None:
        for entry in list(self.bodies.carried):
            self._forget_if_carried(entry)

    # --- as a whole --------------------------------------------------------------------------------------------------

    def snapshot(self) -> Iterator[bytes]:
        """This state in chunks. It is that of the moment of the call, whatever is applied while the chunks are taken."""
        return _snapshot.chunks(self)

    @classmethod
    def restore(cls, chunks: Iterable[commands.Buffer]) -> Directory:
        directory = cls()
        _restore.fill(directory, chunks)
        return directory

    def digest(self) -> str:
        """Equal for equal states, however they were reached. `applied` is not part of it."""
        return _snapshot.digest(self)


def _ranges(data: bytes) -> Ranges:
    try:
        return Ranges.from_bytes(data)
    except ValueError as problem:
        raise ProtocolError(f"a command names positions that cannot be read: {problem}; its sender is broken") from problem


def _check_same(found: Destination, command: commands.Create) -> None:
    if found.kind != command.kind:
        raise WrongKind(
            f"'{found.name}' is a {found.kind}, not a {command.kind}; use another name", name=found.name, kind=found.kind
        )
    if not command.is_implicit:
        raise DestinationExists(f"{found.kind} '{found.name}' exists already; use it, or delete it first", name=found.name)
