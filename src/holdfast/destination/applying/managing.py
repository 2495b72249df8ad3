"""Creating, configuring and deleting destinations.

Temporary ones are named by the server, belong to a session, and go with it. In a cluster, a command with an older revision than
the one that was applied last to its name changes nothing (see `revisions`).
"""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.effect import BacklogCreated, BacklogDeleted, Configured, DetachedReceiver, Died, Resembling
from holdfast.destination.name import DEAD, WELL_KNOWN, check_destination, check_temporary, is_temporary
from holdfast.destination.settings import Settings, changed
from holdfast.destination.state.catalog import Destination
from holdfast.destination.state.dead import Death
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import Subscription
from holdfast.destination.state.topic import Topic
from holdfast.errors import DestinationExists, NotEmpty, Refused, SubscriptionInUse, WrongKind

# Subscriptions that a refusal names.
NAMED_MAX = 5


def create(state: State, entry: int, command: commands.Create, payload: memoryview, effects: Effects) -> bool:
    """Create a destination: whether it is new."""
    (check_temporary if command.session else check_destination)(command.name)
    found = state.catalog.destinations.get(command.name)
    if found is not None:
        check_kind(found, command.kind)
        is_repeated = 0 < command.revision == state.revisions.of(command.name)
        if not command.is_implicit and not is_repeated:
            raise DestinationExists(f"{found.kind} '{found.name}' exists already; use it, or delete it first", name=found.name)
        note_revision(state, command)
        return False
    note_revision(state, command)
    destination = make(state, command.name, command.kind, command.settings, command.session)
    destination.is_unconfigured = command.is_unconfigured
    if command.session:
        state.introduce(command.session, entry).destinations.append(command.name)
    if isinstance(destination, Queue):
        effects.append(BacklogCreated(destination.key))
        if command.is_unconfigured and (like := state.catalog.resembled(command.name)):
            effects.append(Resembling(command.name, like))
    return True


def note_revision(state: State, command: commands.Create | commands.Ensure) -> None:
    """A destination is created, or found: note the revision of its place. Refused if a later one has deleted it."""
    if not command.revision:
        return
    known = state.revisions.of(command.name)
    if command.name not in state.catalog.destinations and command.revision <= known:
        raise _late(command.name, known)
    state.revisions.create(command.name, max(known, command.revision))


def _late(name: str, known: int) -> Refused:
    return Refused(
        f"'{name}' has been changed since, by revision {known} of its place; read the place again", name=name, revision=known
    )


def make(state: State, name: str, kind: str, settings: Settings, owner: str = "") -> Destination:
    """Make a new destination in the catalog."""
    made = Topic if kind == "topic" else Queue
    destination = made(name, settings, state.bodies)
    destination.owner = owner
    state.catalog.add(destination)
    if settings.deduplicate_ms:
        state.deduplicate(name, settings.deduplicate_ms)
    return destination


def check_kind(found: Destination, kind: str) -> None:
    if found.kind != kind:
        raise WrongKind(f"'{found.name}' is a {found.kind}, not a {kind}; use another name", name=found.name, kind=found.kind)


def delete(state: State, entry: int, command: commands.Delete, payload: memoryview, effects: Effects) -> None:
    """Delete a destination: its events go to the dead queue, its receivers are closed with the reason.

    It must be forced if an event waits or is in flight. A topic with an owned subscription is not deleted at all.
    """
    if is_temporary(command.name):
        _delete_temporary(state, command, effects)
        return
    check_destination(command.name)
    if command.revision:
        known, is_there = state.revisions.of(command.name), command.name in state.catalog.destinations
        if command.revision < known or (command.revision == known and is_there):
            raise _late(command.name, known)
        if not is_there:
            state.revisions.delete(command.name, command.revision)
            return
    _check_delete(state, command)
    for queue in state.catalog.queues_of(command.name):
        remove(state, queue, "destination deleted", effects)
        death = Death(*queue.key, "destination deleted", 0, entry, "deleted", command.at_ms)
        waiting = queue.backlog.waiting
        effects.extend(state.dead.receive_all(queue, death))
        if waiting:
            effects.append(Died(queue.key, waiting, death.code))
    state.catalog.remove(command.name)
    state.revisions.delete(command.name, command.revision)
    state.deduplicate(command.name, 0)


def _check_delete(state: State, command: commands.Delete) -> None:
    queues = state.catalog.queues_of(command.name)
    owned = next((queue for queue in queues if queue.receivers.owners()), None)
    if owned is not None:
        raise SubscriptionInUse(
            f"{owned.title} is owned by session '{owned.receivers.owners()[0][0]}', which reads it by place as a Spark query "
            "does; stop that query, or close that reading, and delete the topic then",
            name=command.name,
            subscription=owned.name,
        )
    _check_empty(command, queues)


def _check_empty(command: commands.Delete, queues: list[Queue]) -> None:
    waiting = sum(queue.backlog.waiting for queue in queues)
    if command.is_forced or not waiting:
        return
    where = [f"{queue.backlog.waiting:,} in subscription '{queue.name}'" for queue in queues if queue.backlog.waiting]
    shown = (
        f" ({', '.join(where[:NAMED_MAX])}{' …' if len(where) > NAMED_MAX else ''})"
        if isinstance(queues[0], Subscription)
        else ""
    )
    fate = "is lost" if is_temporary(command.name) else "goes to the dead events"
    raise NotEmpty(
        f"'{command.name}' is not deleted: {counted(waiting)}{shown}; receive what waits first, or say force=True (--force): "
        f"then what waits {fate}",
        name=command.name,
        waiting=waiting,
    )


def counted(waiting: int) -> str:
    """How many events wait, in flight included, for a sentence."""
    return f"{waiting:,} {'event waits' if waiting == 1 else 'events wait'} in it"


def _delete_temporary(state: State, command: commands.Delete, effects: Effects) -> None:
    name = command.name
    found = state.catalog.find(name)
    queues = state.catalog.queues_of(name)
    receivers = sum(len(queue.receivers) for queue in queues)
    if receivers:
        raise Refused(f"temporary {found.kind} '{name}' has {receivers} receivers; close them first", name=name)
    _check_empty(command, queues)
    end_temporary(state, name, "destination deleted", effects)
    state.forget_unneeded()


def end_temporary(state: State, name: str, reason: str, effects: Effects) -> None:
    """End a temporary destination. Its events are finished, not dead: the client they were meant for wants no more."""
    for queue in state.catalog.queues_of(name):
        remove(state, queue, reason, effects)
    owner = state.catalog.remove(name).owner
    state.sessions()[owner].destinations.remove(name)


def remove(state: State, queue: Queue, reason: str, effects: Effects, code: str = "detached") -> None:
    """Remove a queue or subscription, and close its receivers with the reason and the code of an error. The caller decides on the
    events that waited."""
    sessions = state.sessions()
    for (session, receiver), _ in queue.receivers:
        del sessions[session].receivers[receiver]
        effects.append(DetachedReceiver(session, receiver, queue.key, reason, code))
    if isinstance(queue, Subscription) and queue.owner:
        sessions[queue.owner].subscriptions.remove(queue.key)
    state.catalog.remove_queue(queue)
    effects.append(BacklogDeleted(queue.key))


def configure(state: State, entry: int, command: commands.Configure, payload: memoryview, effects: Effects) -> None:
    """Change settings: those that are named change, the rest stays. A topic's settings are those of each subscription."""
    if command.name == DEAD or command.name not in WELL_KNOWN:
        check_destination(command.name)
    destination = state.catalog.find(command.name)
    settings = changed(destination.settings, command.settings, command.changed)
    set_settings(state, destination, settings, effects)


def set_settings(state: State, destination: Destination, settings: Settings, effects: Effects) -> None:
    """Use these settings from now on. The destination counts as configured, also where they are the same."""
    destination.settings = settings
    destination.is_unconfigured = False
    state.catalog.note_changed(destination.name)
    for queue in state.catalog.queues_of(destination.name):
        queue.configure(settings)
    state.deduplicate(destination.name, settings.deduplicate_ms)
    effects.append(Configured(destination.name))
