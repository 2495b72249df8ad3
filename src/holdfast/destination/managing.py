"""Creating and deleting destinations. Temporary ones are named by the server, belong to a session, and go with it."""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.catalog import Destination
from holdfast.destination.dead import Death
from holdfast.destination.effect import BacklogCreated, BacklogDeleted, DetachedReceiver
from holdfast.destination.name import check_destination, check_temporary, is_temporary
from holdfast.destination.queue import Queue
from holdfast.destination.state import Effects, State
from holdfast.destination.subscription import Subscription
from holdfast.destination.topic import Topic
from holdfast.errors import DestinationExists, Refused, WrongKind


def create(state: State, entry: int, command: commands.Create, payload: memoryview, effects: Effects) -> bool:
    """Whether it is new."""
    (check_temporary if command.session else check_destination)(command.name)
    found = state.catalog.destinations.get(command.name)
    if found is not None:
        _check_same(found, command)
        return False
    destination = make(state, command.name, command.kind, command.settings, command.session)
    if command.session:
        state.introduce(command.session, entry).destinations.append(command.name)
    if isinstance(destination, Queue):
        effects.append(BacklogCreated(destination.key))
    return True


def make(state: State, name: str, kind: str, settings: commands.Settings, owner: str = "") -> Destination:
    """A new destination in the catalog."""
    made = Topic if kind == "topic" else Queue
    destination = made(name, settings, state.bodies)
    destination.owner = owner
    state.catalog.add(destination)
    return destination


def _check_same(found: Destination, command: commands.Create) -> None:
    if found.kind != command.kind:
        raise WrongKind(
            f"'{found.name}' is a {found.kind}, not a {command.kind}; use another name", name=found.name, kind=found.kind
        )
    if not command.is_implicit:
        raise DestinationExists(f"{found.kind} '{found.name}' exists already; use it, or delete it first", name=found.name)


def delete(state: State, entry: int, command: commands.Delete, payload: memoryview, effects: Effects) -> None:
    """What waits goes to the dead queue; receivers are closed with the reason."""
    if is_temporary(command.name):
        _delete_temporary(state, command.name, effects)
        return
    check_destination(command.name)
    for queue in state.catalog.queues_of(command.name):
        remove(state, queue, "destination deleted", effects)
        death = Death(*queue.key, "destination deleted", 0, entry, "deleted", command.at_ms)
        effects.extend(state.dead.receive_all(queue, death))
    del state.catalog.destinations[command.name]


def _delete_temporary(state: State, name: str, effects: Effects) -> None:
    found = state.catalog.find(name)
    receivers = sum(len(queue.receivers) for queue in state.catalog.queues_of(name))
    if receivers:
        raise Refused(f"temporary {found.kind} '{name}' has {receivers} receivers; close them first", name=name)
    end_temporary(state, name, "destination deleted", effects)
    state.forget_unneeded()


def end_temporary(state: State, name: str, reason: str, effects: Effects) -> None:
    """What waits in a temporary destination that goes is finished, not dead: the one it was meant for wants no more."""
    for queue in state.catalog.queues_of(name):
        remove(state, queue, reason, effects)
    owner = state.catalog.destinations.pop(name).owner
    state.sessions()[owner].destinations.remove(name)


def remove(state: State, queue: Queue, reason: str, effects: Effects) -> None:
    """Its receivers are closed with the reason; what waited in it is the caller's business."""
    sessions = state.sessions()
    for (session, receiver), _ in queue.receivers:
        del sessions[session].receivers[receiver]
        effects.append(DetachedReceiver(session, receiver, queue.key, reason))
    if isinstance(queue, Subscription) and queue.owner:
        sessions[queue.owner].subscriptions.remove(queue.key)
    state.catalog.remove_queue(queue)
    effects.append(BacklogDeleted(queue.key))
