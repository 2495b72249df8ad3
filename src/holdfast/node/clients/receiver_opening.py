"""Opening a receiver: on a queue, or on a subscription that is created first if it is not there.

    Attach ─▶ checks ─┬─ queue ──────────────────────────▶ Attach command ─▶ answered
                      └─ topic, pattern ─▶ Subscribe ─▶ applied ─▶ Attach command ─▶ answered

Subscribing is answered before the receiver attaches: nobody must receive by mistake from a subscription that has another selector
or is in use. A subscription for one receiver is refused with `is_holder_away` while its present receiver has lost the link: that
one is given up soon, and a client that starts again asks until then. A receiver that takes over need not wait: the message
manager counts what the present one was handed, and the Attach command detaches that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.bus.message import Holding, NotAttached
from holdfast.destination import command, name
from holdfast.destination.removal import Limits
from holdfast.destination.state.subscription import key_of_topic
from holdfast.errors import (
    AccessDenied,
    BadSetting,
    Closed,
    HoldfastError,
    LinkLost,
    NoSuchSubscription,
    SubscriptionInUse,
    WrongKind,
)
from holdfast.event.position import Ranges
from holdfast.event.selector.selector import parse_optional
from holdfast.node.clients.destination_checks import check_destination
from holdfast.node.login.allowance import check_receivers
from holdfast.node.login.permission import check_attach
from holdfast.node.message_manager_view import Holding as HoldingSession
from holdfast.session.session import ReceiverPlace
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.clients.requests import Request


class ReceiverOpening:
    """One receiver that is being opened: who asked, and how to tell them."""

    def __init__(self, request: Request, message: frame.Attach, held: Ranges, ahead: list[tuple[int, int]] | None) -> None:
        """`held` and `ahead` as in `Holding`."""
        self._request = request
        self._manager = request.manager
        self._target = request.target
        self._session = request.session
        self._message = message
        self._held = held
        self._ahead = ahead
        self._may_try_again = True
        # Names that clients give have no leading underscore: one of its own is never mistaken for theirs.
        own = f"_{self._session.id}-{message.receiver}" if message.kind == "topic" else ""
        self._place = ReceiverPlace(key_of_topic(message.destination, message.match), message.subscription or own)

    def begin(self) -> None:
        """Check and begin. HoldfastError when it is refused at once; otherwise it is answered later."""
        message = self._message
        parse_optional(message.selector)
        if message.kind == "queue":
            _check_queue(message)
        else:
            _check_subscription(message)
        if message.match == "name":
            name.check_receivable(message.destination)
            check_destination(self._target, message.destination, message.kind)
            self._check_own()
            if self._target.must_wait(message.destination, self._begin_again):
                return
        if message.kind == "queue":
            self._attach()
        else:
            self._subscribe()

    def _begin_again(self) -> None:
        """Its destination was created, or was not."""
        try:
            self.begin()
        except HoldfastError as problem:
            self._refused(problem)

    def _check_own(self) -> None:
        """Only sessions of the client that made a temporary destination receive from it."""
        destination = self._message.destination
        found = self._target.messages.find_temporary(destination)
        if found is None:
            return
        if self._message.receiver not in self._session.receivers:
            check_receivers(destination, found, self._session)
        if found.owner == self._session.id:
            return
        owner = self._manager.sessions.get(found.owner)
        if owner is None or not owner.client or owner.client != self._session.client:
            raise AccessDenied(
                f"temporary {found.kind} {destination!r} is received from by the client that made it, and by nobody else; send "
                f"to it, or use a {found.kind} that stays",
                destination=destination,
            )

    def _subscribe(self) -> None:
        message, session = self._message, self._session
        is_own = not message.subscription
        token = self._target.next_token(lambda _: self._subscribed(), self._refused)
        made = command.Subscribe(
            message.destination,
            self._place.subscription,
            message.is_durable and not is_own,
            session.id if is_own else "",
            self._target.subject,
            token,
            message.match,
            message.selector,
            message.is_shared,
            message.no_local,
            session.client,
            message.replace,
            Limits(*message.limits) if message.limits is not None else None,
        )
        self._target.submit(made, token)

    def _subscribed(self) -> None:
        try:
            check_attach(self._session, self._message)  # the rules may have changed meanwhile
            if self._message.take_over:
                self._target.messages.prepare_take_over(*self._place, self._session.id, self._attach_prepared)
            else:
                self._attach()
        except HoldfastError as problem:
            self._refused(problem)

    def _attach_prepared(self) -> None:
        try:
            self._attach()
        except HoldfastError as problem:
            self._refused(problem)

    def _attach(self) -> None:
        session, message = self._session, self._message
        if session.is_closing or self._manager.sessions.get(session.id) is not session:
            self._request.failed(Closed("the session was closed meanwhile; connect again"))
            return
        session.open_receiver(message.receiver, self._place)
        holding = (self._target.subject, session.id, message.receiver, self._held, self._ahead, message.keeps)
        self._target.tell(Holding(*holding))
        self._target.messages.when_told(partial(self._attach_told, self._target.links_made))

    def _attach_told(self, link: int) -> None:
        """What it holds is known to the message manager, if that is still the same."""
        session, message = self._session, self._message
        if link != self._target.links_made:
            self._request.failed(LinkLost("the message manager has another primary; attach again"))
            return
        token = self._target.next_token(self._attached, self._not_attached)
        selector = message.selector if message.kind == "queue" and message.selector.strip() else ""
        made = command.Attach(
            session.id,
            message.receiver,
            *self._place,
            self._target.subject,
            token,
            selector,
            message.is_owner,
            message.take_over,
        )
        self._target.submit(made, token)

    def _attached(self, made_at: int) -> None:
        """Answer, with the positions that the client said it holds and that others have finished, or hold, by now. A client that
        attaches again sees by `made_at` whether it is still the same subscription."""
        answer: dict[str, Any] = {"subscription": self._place.subscription, "made_at": made_at}
        lost = self._target.take_lost(self._session.id, self._message.receiver)
        if lost:
            answer["lost"] = lost.to_bytes()
        self._request.answered(answer)

    def _not_attached(self, problem: HoldfastError) -> None:
        message = self._message
        if isinstance(problem, NoSuchSubscription) and self._may_try_again:  # a new primary ended it before its first receiver
            self._may_try_again = False
            self._subscribe()
            return
        self._session.receivers.pop(message.receiver, None)
        self._target.tell(NotAttached(self._session.id, message.receiver))
        if message.is_shared and not message.is_durable:
            self._target.append(command.Unsubscribe(*self._place))  # refused where others receive from it
        self._refused(problem)

    def _refused(self, problem: HoldfastError) -> None:
        if isinstance(problem, SubscriptionInUse):
            self._target.messages.list_holders(*self._place, partial(self._refused_by, problem))
        else:
            self._request.failed(problem)

    def _refused_by(self, problem: SubscriptionInUse, holders: Sequence[HoldingSession]) -> None:
        if self._is_holder_away(problem, holders):
            problem = SubscriptionInUse(problem.sentence, **{**problem.fields, "is_holder_away": True})
        self._request.failed(problem)

    def _is_holder_away(self, problem: SubscriptionInUse, holders: Sequence[HoldingSession]) -> bool:
        """Everyone who receives from it has lost the link, has not come back since a restart, or is gone by now."""
        was_there = bool(holders) or "destination" in problem.fields  # the machine found a receiver, which is detached meanwhile
        return was_there and all(self._is_away(each) for each in holders)

    def _is_away(self, holding: HoldingSession) -> bool:
        """A session of another client manager is away if the message manager says so."""
        here = self._manager.sessions.get(holding.session)
        if here is None:
            return holding.is_away or not self._manager.is_clustered
        return here.away_since_ms is not None


def _check_queue(message: frame.Attach) -> None:
    if message.subscription:
        raise WrongKind(
            f"a queue has no subscriptions; receive from {message.destination!r} without a name", destination=message.destination
        )
    if message.match != "name" or message.is_shared or message.no_local or message.take_over:
        raise WrongKind("patterns, shared, no_local and take_over are for topics; receive from a queue without them")


def _check_subscription(message: frame.Attach) -> None:
    is_named = bool(message.subscription)
    if message.limits is not None:
        Limits(*message.limits).check()
    if message.take_over and (message.is_owner or message.is_shared or not is_named):
        raise BadSetting(
            "only a durable subscription for one receiver is taken over, and not to be read by place; leave take_over out",
            setting="take_over",
        )
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
