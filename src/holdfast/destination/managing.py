"""Creating and deleting destinations and subscriptions."""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.catalog import Destination
from holdfast.destination.effect import BacklogCreated, BacklogDeleted, DetachedReceiver
from holdfast.destination.name import check_destination, check_subscription
from holdfast.destination.queue import EVERYTHING, Queue
from holdfast.destination.state import Effects, State
from holdfast.destination.subscription import Subscription
from holdfast.destination.topic import Topic
from holdfast.errors import DestinationExists, Refused, SubscriptionInUse, WrongKind


def create(state: State, entry: int, command: commands.Create, payload: memoryview, effects: Effects) -> bool:
    """Whether it is new."""
    check_destination(command.name)
    found = state.catalog.destinations.get(command.name)
    if found is not None:
        _check_same(found, command)
        return False
    made = Topic if command.kind == "topic" else Queue
    destination = made(command.name, command.settings, state.bodies)
    state.catalog.add(destination)
    if isinstance(destination, Queue):
        effects.append(BacklogCreated(destination.key))
    return True


def _check_same(found: Destination, command: commands.Create) -> None:
    if found.kind != command.kind:
        raise WrongKind(
            f"'{found.name}' is a {found.kind}, not a {command.kind}; use another name", name=found.name, kind=found.kind
        )
    if not command.is_implicit:
        raise DestinationExists(f"{found.kind} '{found.name}' exists already; use it, or delete it first", name=found.name)


def delete(state: State, entry: int, command: commands.Delete, payload: memoryview, effects: Effects) -> None:
    """What waits goes to the dead queue; receivers are closed with the reason."""
    check_destination(command.name)
    for queue in state.catalog.queues_of(command.name):
        remove(state, queue, "destination deleted", effects)
        effects.extend(state.dead.receive(queue.leaving(EVERYTHING), queue.key, "destination deleted", entry))
    del state.catalog.destinations[command.name]


def subscribe(state: State, entry: int, command: commands.Subscribe, payload: memoryview, effects: Effects) -> bool:
    """Whether it is new."""
    check_subscription(command.name, command.is_durable)
    topic = state.catalog.topic(command.topic)
    if not command.is_durable and not command.session:
        raise Refused("a non-durable subscription belongs to a session; say which", topic=topic.name)
    owner = "" if command.is_durable else command.session
    added = topic.subscribe(command.name, owner)
    if added is None:
        return False
    state.catalog.add_subscription(added)
    effects.append(BacklogCreated(added.key))
    if owner:
        state.introduce(owner, entry).subscriptions.append(added.key)
    return True


def unsubscribe(state: State, entry: int, command: commands.Unsubscribe, payload: memoryview, effects: Effects) -> None:
    """What waits in it is finished: its recipient wants no more."""
    subscription = state.catalog.topic(command.topic).subscription(command.name)
    if len(subscription.receivers):
        raise SubscriptionInUse(
            f"{subscription.title} has {len(subscription.receivers)} receivers; close them first", subscription=command.name
        )
    remove(state, subscription, "unsubscribed", effects)
    state.forget_unneeded()


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
