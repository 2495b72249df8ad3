"""Opening a receiver: on a queue, or on a subscription that is made first if it is not there.

    Attach ─▶ checks ─┬─ queue ──────────────────────────▶ Attach command ─▶ answered
                      └─ topic, pattern ─▶ Subscribe ─▶ applied ─▶ Attach command ─▶ answered

Subscribing is answered before the receiver attaches: a subscription that is there with another selector, or in use, must not be
received from by mistake. A subscription for one receiver whose present receiver has lost its link is refused with
`is_holder_away`: it is given up soon, and a client that starts again asks until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from holdfast.bus.message import Holding, NotAttached
from holdfast.destination import command, name
from holdfast.destination.subscription import key_of_topic
from holdfast.errors import (
    AccessDenied,
    BadSetting,
    Closed,
    HoldfastError,
    NoSuchDestination,
    NoSuchSubscription,
    SubscriptionInUse,
    WrongKind,
)
from holdfast.event.position import Ranges
from holdfast.event.selector import parse_optional
from holdfast.session.session import ReceiverPlace, Session
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

Failed = Callable[[HoldfastError], None]


class Attachment:
    """One receiver that is being opened: who asked, and how to tell them."""

    def __init__(
        self, manager: ClientManager, session: Session, message: frame.Attach, answered: Callable[[Any], None], failed: Failed
    ) -> None:
        self._manager = manager
        self._session = session
        self._message = message
        self._answered = answered
        self._failed = failed
        self._may_try_again = True
        # Names that clients give have no leading underscore: one of its own is never mistaken for theirs.
        own = f"_{session.id}-{message.receiver}" if message.kind == "topic" else ""
        self._place = ReceiverPlace(key_of_topic(message.destination, message.match), message.subscription or own)

    def begin(self, held: Ranges) -> None:
        """HoldfastError when it is refused at once; otherwise it is answered later."""
        message = self._message
        parse_optional(message.selector)
        if message.kind == "queue":
            _check_queue(message)
        else:
            _check_subscription(message)
        if message.match == "name":
            name.check_receivable(message.destination)
            check_destination(self._manager, message.destination, message.kind)
            self._check_own()
        self._held = held
        if message.kind == "queue":
            self._attach()
        else:
            self._subscribe()

    def _check_own(self) -> None:
        """From a temporary destination only sessions of the client receive that made it."""
        found = self._manager.messages.directory.catalog.destinations.get(self._message.destination)
        if found is None or found.owner in ("", self._session.id):
            return
        owner = self._manager.sessions.get(found.owner)
        if owner is None or not owner.client or owner.client != self._session.client:
            raise AccessDenied(
                f"temporary {found.kind} {found.name!r} is received from by the client that made it, and by nobody else; send to "
                f"it, or use a {found.kind} that stays",
                destination=found.name,
            )

    def _subscribe(self) -> None:
        message, session = self._message, self._session
        is_own = not message.subscription
        token = self._manager.next_token(lambda _: self._subscribed(), self._refused)
        made = command.Subscribe(
            message.destination,
            self._place.subscription,
            message.is_durable and not is_own,
            session.id if is_own else "",
            self._manager.subject,
            token,
            message.match,
            message.selector,
            message.is_shared,
            message.no_local,
            session.client,
        )
        self._manager.submit(made, token)

    def _subscribed(self) -> None:
        try:
            self._attach()
        except HoldfastError as problem:
            self._refused(problem)

    def _attach(self) -> None:
        session, message = self._session, self._message
        if session.is_closing or self._manager.sessions.get(session.id) is not session:
            self._failed(Closed("the session was closed meanwhile; connect again"))
            return
        session.open_receiver(message.receiver, self._place)
        self._manager.tell_messages(Holding(self._manager.subject, session.id, message.receiver, self._held))
        token = self._manager.next_token(lambda _: self._answered({"subscription": self._place.subscription}), self._not_attached)
        selector = message.selector if message.kind == "queue" and message.selector.strip() else ""
        made = command.Attach(session.id, message.receiver, *self._place, self._manager.subject, token, selector)
        self._manager.submit(made, token)

    def _not_attached(self, problem: HoldfastError) -> None:
        message = self._message
        if isinstance(problem, NoSuchSubscription) and self._may_try_again:  # a new primary ended it before its first receiver
            self._may_try_again = False
            self._subscribe()
            return
        self._session.receivers.pop(message.receiver, None)
        self._manager.tell_messages(NotAttached(self._session.id, message.receiver))
        if message.is_shared and not message.is_durable:
            self._manager.append(command.Unsubscribe(*self._place))  # refused where others receive from it
        self._refused(problem)

    def _refused(self, problem: HoldfastError) -> None:
        if isinstance(problem, SubscriptionInUse) and self._is_holder_away():
            problem = SubscriptionInUse(problem.sentence, **{**problem.fields, "is_holder_away": True})
        self._failed(problem)

    def _is_holder_away(self) -> bool:
        """Everyone who receives from it has lost the link, or has not come back since a restart."""
        queue = self._manager.messages.directory.catalog.queues.get((self._place.destination, self._place.subscription))
        holders = [holder[0] for holder, _ in queue.receivers] if queue is not None else []
        present = [self._manager.sessions.get(holder) for holder in holders]
        return bool(present) and all(session is None or session.away_since_ms is not None for session in present)


def _check_queue(message: frame.Attach) -> None:
    if message.subscription:
        raise WrongKind(
            f"a queue has no subscriptions; receive from {message.destination!r} without a name", destination=message.destination
        )
    if message.match != "name" or message.is_shared or message.no_local:
        raise WrongKind("patterns, shared and no_local are for topics; receive from a queue without them")


def _check_subscription(message: frame.Attach) -> None:
    is_named = bool(message.subscription)
    if is_named:
        name.check_subscription(message.subscription)
    if message.is_shared and not is_named:
        raise BadSetting("a shared subscription is found by its name; give it one", setting="name")
    if is_named and not message.is_durable and not message.is_shared:
        raise BadSetting(
            f"subscription {message.subscription!r}: a subscription that is neither durable nor shared has no name; leave the "
            "name out, or say shared=True",
            setting="name",
        )


def check_destination(manager: ClientManager, destination: str, kind: Literal["queue", "topic"]) -> None:
    """Refuse what cannot be used, before anything is accepted; create what does not exist, if that is allowed.

    While the channel is still being replayed, what exists is not known yet: then "create it if it is not there" goes ahead of
    the batch.
    """
    known = manager.messages.directory.catalog.destinations.get(destination)
    found = known.kind if known is not None else manager.being_created(destination)
    if found == kind:
        return
    if found is not None:
        raise WrongKind(
            f"{destination!r} is a {found}, not a {kind}; use client.{found}({destination!r})", destination=destination
        )
    if name.is_temporary(destination):
        _check_temporary(manager, destination)
        return
    name.check_destination(destination)
    if not manager.settings.is_create_on_first_use:
        raise NoSuchDestination(
            f"there is no {kind} {destination!r}, and none is created on first use here; create it first", destination=destination
        )
    manager.create_on_first_use(destination, kind)


def _check_temporary(manager: ClientManager, destination: str) -> None:
    """It goes with the client that made it; before the channel is replayed nobody knows."""
    name.check_temporary(destination)
    if manager.messages.is_primary:
        raise NoSuchDestination(
            f"temporary destination {destination!r} is gone with the client that made it; nobody waits for this any more",
            destination=destination,
        )
