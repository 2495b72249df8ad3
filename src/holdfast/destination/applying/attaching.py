"""Attaching and detaching receivers, and ending sessions with everything that belongs to them (rule 4).

A program that was killed takes over its durable subscription when it starts again (`take_over`): in one step the former receiver
is detached, and the new one attached. The newest one in the order of the channel has the subscription.

In a cluster, only `Introduce` makes a session: what comes after its end does not revive it. A session moves with its client from
one client manager to another; a command that came by an earlier link of the client changes nothing (ADR 25).
"""

from __future__ import annotations

from holdfast.destination import command as commands
from holdfast.destination.applying.managing import end_temporary, remove
from holdfast.destination.applying.placing import place_all
from holdfast.destination.effect import Attached, DetachedReceiver, Holder
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.receivers import Session
from holdfast.destination.state.state import Effects, State
from holdfast.destination.state.subscription import Subscription
from holdfast.errors import Detached, Refused, SubscriptionInUse
from holdfast.event.selector.selector import stored_selector

# Why a receiver was detached whose subscription another one took over.
TAKEN_OVER = "another receiver of the same user took this subscription over, and gets what was held; discard unconfirmed work"


# Why the receivers of a client manager were detached that fell silent.
REVOKED = (
    "the client manager of this receiver fell silent, and what it held went to others; attach again, discard unconfirmed work"
)
# Commands that make a session on a single server.
_OF_A_SESSION = (commands.Attach, commands.OpenProducer, commands.Create, commands.Subscribe)


def check_session(state: State, command: commands.Command) -> None:
    """Detached for a command of a cluster whose session is not known here."""
    if isinstance(command, _OF_A_SESSION) and command.session and command.session not in state.sessions():
        raise Detached(f"session '{command.session}' is not known here; introduce it, or open another", session=command.session)


def introduce(state: State, entry: int, command: commands.Introduce, payload: memoryview, effects: Effects) -> bool:
    """Introduce a session, or move it to another client manager: whether it is new."""
    if not command.session or command.link < 1:
        raise Refused("a session is introduced by its name and the number of its client's link, from 1 on")
    session = state.sessions().get(command.session)
    if session is None and command.is_resuming:
        raise Detached(f"session '{command.session}' is not known here any more; open another", session=command.session)
    if session is not None and command.link < session.link:
        raise Refused(
            f"session '{command.session}' has come by link {session.link} of its client since; link {command.link} is over",
            link=session.link,
        )
    found = state.introduce(command.session, entry)
    found.client_manager, found.link = command.client_manager, command.link
    return session is None


def revoke(state: State, entry: int, command: commands.Revoke, payload: memoryview, effects: Effects) -> int:
    """Detach all receivers of a client manager: how many. Its sessions stay, until they are given up."""
    if state.is_outdated(command.epoch):
        return 0
    found = [session for session in state.sessions().values() if session.client_manager == command.client_manager]
    receivers = [(session, receiver) for session in found if session.link for receiver in session.receivers]
    for session, receiver in receivers:
        queue = _detach(state, session, receiver, REVOKED, effects)
        if queue is not None:
            end_if_left_behind(state, queue, effects)
    return len(receivers)


def attach(state: State, entry: int, command: commands.Attach, payload: memoryview, effects: Effects) -> int:
    """Attach a receiver: the entry that made the subscription; 0 for a queue. One that was overtaken by a later Attach of the
    same receiver changes nothing: that would take the receiver's credit away, and nobody would grant it again."""
    queue = state.catalog.queue(command.destination, command.subscription)
    made_at = queue.made_at if isinstance(queue, Subscription) else 0
    session = state.sessions().get(command.session)
    if session is not None and session.is_late(command.receiver, command.origin, command.token):
        return made_at
    for holder in _check_attach(state, command, queue):
        _detach(state, state.sessions()[holder[0]], holder[1], TAKEN_OVER, effects)
    session = state.introduce(command.session, entry)
    session.receivers[command.receiver] = queue.key
    if session.link:
        session.note_attached(command.receiver, command.origin, command.token)
    queue.receivers.attach((command.session, command.receiver), entry)
    queue.receivers.select((command.session, command.receiver), command.selector)
    if command.is_owner:
        queue.receivers.own((command.session, command.receiver))
    effects.append(Attached(command.session, command.receiver, queue.key, command.selector))
    return made_at


def _check_attach(state: State, command: commands.Attach, queue: Queue) -> list[Holder]:
    """The receivers that are detached by it: those it takes over from."""
    if not command.session or command.receiver < 1:
        raise Refused("a receiver has a session and a number from 1 up; 0 stands for the whole session")
    session = state.sessions().get(command.session)
    attached = session.receivers.get(command.receiver) if session else None
    if attached not in (None, queue.key):
        raise Refused(
            f"receiver {command.receiver} of session '{command.session}' is attached to {attached}; use another number",
            receiver=command.receiver,
        )
    _check_selector(command, queue)
    if isinstance(queue, Subscription):
        return _check_subscription(command, queue)
    if command.take_over:
        raise Refused(f"{queue.title} has any number of receivers, and none is taken over; leave take_over out")
    return []


def _check_selector(command: commands.Attach, queue: Queue) -> None:
    holder = (command.session, command.receiver)
    if command.selector:
        if isinstance(queue, Subscription):
            raise Refused(f"{queue.title} has one selector for all its receivers; give it when you subscribe")
        selector = stored_selector(command.selector)
        if selector is not None:
            selector.ready()
    if queue.receivers.is_there(holder) and queue.receivers.selector_of(holder) != command.selector:
        raise Refused(
            f"receiver {command.receiver} of session '{command.session}' is attached to {queue.title} with another selector; "
            "detach it first, or use another number",
            receiver=command.receiver,
        )


def _check_subscription(command: commands.Attach, queue: Subscription) -> list[Holder]:
    if queue.owner not in ("", command.session):
        raise SubscriptionInUse(f"{queue.title} belongs to session '{queue.owner}'; use a subscription of your own")
    others = [holder for holder, _ in queue.receivers if holder != (command.session, command.receiver)]
    if command.take_over and command.is_owner:
        raise Refused(f"{queue.title}: who reads by place takes no subscription over; leave take_over out")
    if command.take_over and (others or not queue.is_for_one or not queue.is_durable):
        return queue.taken_over_by(command.session)
    if queue.is_for_one and others:
        raise SubscriptionInUse(
            f"{queue.title} has a receiver, and is not shared; close that one first, or subscribe with shared=True everywhere "
            "to let several share its events",
            destination=command.destination,
            subscription=command.subscription,
        )
    return []


def detach(state: State, entry: int, command: commands.Detach, payload: memoryview, effects: Effects) -> None:
    """Detach a receiver, or a session. It need not be attached: the client may have asked twice."""
    session = state.sessions().get(command.session)
    if session is None or state.is_outdated(command.epoch) or 0 < command.link < session.link:
        return
    for receiver in [command.receiver] if command.receiver else list(session.receivers):
        queue = _detach(state, session, receiver, "", effects)
        if queue is not None:
            end_if_left_behind(state, queue, effects)
    if not command.receiver:
        _end(state, session, entry, effects, command.at_ms)


def _detach(state: State, session: Session, receiver: int, reason: str, effects: Effects) -> Queue | None:
    """Detach a receiver; the queue that it was attached to, if it was."""
    key = session.receivers.pop(receiver, None)
    if key is None:
        return None
    queue = state.queue(key)
    queue.receivers.detach((session.name, receiver))
    queue.backlog.history.leave((session.name, receiver))
    effects.append(DetachedReceiver(session.name, receiver, key, reason))
    return queue


def end_if_left_behind(state: State, queue: Queue, effects: Effects) -> None:
    """Remove a shared non-durable subscription that has no receiver any more, and no locked event."""
    if isinstance(queue, Subscription) and queue.goes_with_its_last_receiver and not len(queue.receivers):
        if queue.key in state.transactions.backlogs:
            return
        remove(state, queue, "its last receiver is gone", effects)
        state.forget_unneeded()


def _end(state: State, session: Session, entry: int, effects: Effects, at_ms: int) -> None:
    """End a session, with its non-durable subscriptions, temporary destinations, assemblies and producers."""
    for name in list(session.destinations):
        end_temporary(state, name, "session ended", effects)
    for key in list(session.subscriptions):
        remove(state, state.queue(key), "session ended", effects)
    state.assemblies.end(session.name, spared=state.transactions.open)
    state.forget_unneeded()
    for identifier in session.producers:
        producer = state.producers.find(identifier)
        if producer and producer.session == session.name and not producer.is_durable:
            held = state.producers.end(producer, entry) if session.link else state.producers.forget(identifier)
            place_all(state, held, entry, effects, at_ms)
    del state.sessions()[session.name]
