"""Sessions come and go: attaching receivers, detaching them, and what goes with a session that ends (rule 4)."""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.effect import Attached, DetachedReceiver
from holdfast.destination.managing import remove
from holdfast.destination.placing import place_all
from holdfast.destination.queue import Queue
from holdfast.destination.sessions import Session
from holdfast.destination.state import Effects, State
from holdfast.destination.subscription import Subscription
from holdfast.errors import Refused, SubscriptionInUse


def attach(state: State, entry: int, command: commands.Attach, payload: memoryview, effects: Effects) -> None:
    queue = state.catalog.queue(command.destination, command.subscription)
    _check_attach(state, command, queue)
    state.introduce(command.session, entry).receivers[command.receiver] = queue.key
    queue.receivers.attach((command.session, command.receiver), entry)
    effects.append(Attached(command.session, command.receiver, queue.key))


def _check_attach(state: State, command: commands.Attach, queue: Queue) -> None:
    if not command.session or command.receiver < 1:
        raise Refused("a receiver has a session and a number from 1 up; 0 stands for the whole session")
    session = state.sessions().get(command.session)
    attached = session.receivers.get(command.receiver) if session else None
    if attached not in (None, queue.key):
        raise Refused(
            f"receiver {command.receiver} of session '{command.session}' is attached to {attached}; use another number",
            receiver=command.receiver,
        )
    if isinstance(queue, Subscription) and queue.owner not in ("", command.session):
        raise SubscriptionInUse(f"{queue.title} belongs to session '{queue.owner}'; use a subscription of your own")


def detach(state: State, entry: int, command: commands.Detach, payload: memoryview, effects: Effects) -> None:
    """Detaching what is not attached is fine: it may have been asked for twice."""
    session = state.sessions().get(command.session)
    if session is None or state.is_outdated(command.epoch):
        return
    for receiver in [command.receiver] if command.receiver else list(session.receivers):
        key = session.receivers.pop(receiver, None)
        if key is not None:
            state.queue(key).receivers.detach((session.name, receiver))
            effects.append(DetachedReceiver(session.name, receiver, key, ""))
    if not command.receiver:
        _end(state, session, entry, effects)


def _end(state: State, session: Session, entry: int, effects: Effects) -> None:
    """Its non-durable subscriptions and producers go with a session."""
    for key in list(session.subscriptions):
        remove(state, state.queue(key), "session ended", effects)
    state.forget_unneeded()
    for identifier in session.producers:
        producer = state.producers.find(identifier)
        if producer and producer.session == session.name and not producer.is_durable:
            place_all(state, state.producers.forget(identifier), entry, effects)
    del state.sessions()[session.name]
