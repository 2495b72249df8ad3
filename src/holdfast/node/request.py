"""What a client asks for with a token, and the command or question each request becomes.

    OpenProducer, ForgetProducer, Attach, Settle, DetachReceiver, CloseSession, Manage

Each is answered exactly once: when the command it became is applied, or at once with the refusal. Nothing here changes state;
commands do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from holdfast.bus.message import Holding
from holdfast.channel.channel import Receipt
from holdfast.destination import command, name
from holdfast.errors import BadSetting, HoldfastError, NoSuchDestination, ProtocolError, WrongKind
from holdfast.event.position import Ranges
from holdfast.session.session import ReceiverPlace, Session
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

QUESTIONS = ("describe", "list", "status", "subscriptions")
# A hundred years, as for the delays of events.
DELAY_MS_MAX = 100 * 365 * 86_400 * 1000
SEQUENCE_MAX = 1 << 62
Maker = Callable[[str, int], command.Command]


class Request:
    """One request under way: who asked, and how to tell them."""

    def __init__(
        self, manager: ClientManager, session: Session, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]
    ) -> None:
        self._manager = manager
        self._session = session
        self._answered = answered
        self._failed = failed

    def begin(self, message: frame.Message) -> None:
        answer = _ANSWERS.get(type(message))
        if answer is None:
            raise ProtocolError(f"a client does not send {type(message).__name__} frames")
        try:
            answer(self, message)
        except ProtocolError:
            raise
        except HoldfastError as problem:
            self._failed(problem)

    def _submit(self, make: Maker, answered: Callable[[Any], None] | None = None) -> None:
        token = self._manager.next_token(answered or self._answered, self._failed)
        self._manager.submit(make(self._manager.subject, token), token)

    def _open_producer(self, message: frame.OpenProducer) -> None:
        session = self._session
        check_number(message.first_sequence)
        producer = message.producer or self._manager.new_producer()
        session.open_producer(producer, message.is_durable)
        if message.producer:
            self._submit(
                lambda origin, token: command.OpenProducer(
                    producer, session.id, message.is_durable, origin, token, message.first_sequence
                )
            )
            return
        # A new producer has no past: it may send as soon as its opening is durable, even while the channel is being replayed
        # (A6).
        opening = self._manager.append(command.OpenProducer(producer, session.id, message.is_durable))
        opening.add_done_callback(lambda done: self._producer_opened(producer, done))

    def _producer_opened(self, producer: str, done: asyncio.Future[Receipt]) -> None:
        problem = done.exception() if not done.cancelled() else None
        if isinstance(problem, HoldfastError):
            self._failed(problem)
        elif not done.cancelled():
            self._answered({"producer": producer, "last_sequence": 0, "receipts": []})

    def _forget_producer(self, message: frame.ForgetProducer) -> None:
        """Forgetting what is not open is fine: it is asked for again when the answer was lost."""
        session, producer = self._session, message.producer
        if producer not in session.producers:
            self._answered(None)
            return

        def forgotten(value: Any) -> None:
            session.producers.pop(producer, None)
            self._answered(value)

        self._submit(lambda origin, token: command.ForgetProducer(producer, origin, token), forgotten)

    def _attach(self, message: frame.Attach) -> None:
        session, receiver = self._session, message.receiver
        held = read_ranges(message.held)
        subscription = message.subscription
        if message.kind == "queue" and subscription:
            raise WrongKind(
                f"a queue has no subscriptions; receive from {message.destination!r} without a name",
                destination=message.destination,
            )
        if message.destination != name.DEAD:
            check_destination(self._manager, message.destination, message.kind)
        if message.kind == "topic":
            is_durable = bool(subscription)
            # Names that clients give have no leading underscore: a durable subscription is never mistaken for this.
            subscription = subscription or f"_{session.id}-{receiver}"
            name.check_subscription(subscription, is_durable)
            self._manager.append(
                command.Subscribe(message.destination, subscription, is_durable, "" if is_durable else session.id)
            )
        session.open_receiver(receiver, ReceiverPlace(message.destination, subscription))
        self._manager.tell_messages(Holding(self._manager.subject, session.id, receiver, held))
        self._submit(
            lambda origin, token: command.Attach(session.id, receiver, message.destination, subscription, origin, token),
            lambda _: self._answered({"subscription": subscription}),
        )

    def _settle(self, message: frame.Settle) -> None:
        if not 0 <= message.delay_ms <= DELAY_MS_MAX:
            raise ProtocolError(f"a delay of {message.delay_ms} ms is not possible; give one up to {DELAY_MS_MAX}")
        place = self._session.receiver(message.receiver)
        where = (place.destination, place.subscription, self._session.id, read_ranges(message.ranges).to_bytes())

        def make(origin: str, token: int) -> command.Command:
            if message.verdict == "confirm":
                return command.Confirm(*where, message.delivered_up_to, origin, token)
            if message.verdict == "release":
                not_before = self._manager.now_ms() + message.delay_ms if message.delay_ms > 0 else 0
                return command.Release(*where, not_before, message.is_counted, origin, token)
            return command.Reject(*where, message.reason, origin, token)

        self._submit(make)

    def _detach_receiver(self, message: frame.DetachReceiver) -> None:
        session, receiver = self._session, message.receiver
        place = session.receiver(receiver)
        now = self._manager.now_ms()
        session.receivers.pop(receiver)
        self._submit(lambda origin, token: command.Detach(session.id, receiver, now, 0, origin, token))
        if place.subscription.startswith("_"):  # a non-durable one was made for this receiver alone
            self._manager.append(command.Unsubscribe(place.destination, place.subscription))

    def _close_session(self, message: frame.CloseSession) -> None:
        session, now = self._session, self._manager.now_ms()

        def gone(value: Any) -> None:
            self._answered(value)
            self._manager.forget_session(session)

        self._submit(lambda origin, token: command.Detach(session.id, 0, now, 0, origin, token), gone)

    def _manage(self, message: frame.Manage) -> None:
        if message.action in QUESTIONS:
            self._manager.ask(message.action, message.arguments, self._manager.next_token(self._answered, self._failed))
            return
        make = _COMMANDS.get(message.action)
        if make is None:
            known = ", ".join(sorted({*QUESTIONS, *_COMMANDS}))
            raise BadSetting(f"there is no action {message.action!r}; there are: {known}", action=message.action)
        self._submit(make(message.arguments))


def check_destination(manager: ClientManager, destination: str, kind: Literal["queue", "topic"]) -> None:
    """Refuse what cannot be used, before anything is accepted; create what does not exist, if that is allowed.

    While the channel is still being replayed, what exists is not known yet: then "create it if it is not there" goes ahead of
    the batch.
    """
    known = manager.messages.directory.catalog.destinations.get(destination)
    found = known.kind if known is not None else manager.being_created(destination)
    if found == kind and destination != name.DEAD:
        return
    name.check_destination(destination)
    if found is not None:
        raise WrongKind(
            f"{destination!r} is a {found}, not a {kind}; use client.{found}({destination!r})", destination=destination
        )
    if not manager.settings.is_create_on_first_use:
        raise NoSuchDestination(
            f"there is no {kind} {destination!r}, and none is created on first use here; create it first", destination=destination
        )
    manager.create_on_first_use(destination, kind)


def check_number(sequence: int) -> None:
    """The number of a batch: one more must still be a number."""
    if sequence > SEQUENCE_MAX:
        raise ProtocolError(f"no producer has sent {sequence} batches; its client is broken", sequence=str(sequence))


def read_ranges(data: bytes) -> Ranges:
    try:
        return Ranges.from_bytes(data)
    except ValueError as problem:
        raise ProtocolError(f"ranges that cannot be read: {problem}") from problem


def _create(given: dict[str, Any]) -> Maker:
    kind = given.get("kind")
    if kind not in ("queue", "topic"):
        raise BadSetting(f"a destination is a queue or a topic, not {kind!r}", kind=str(kind))
    limit = given.get("redelivery_limit", 0)
    if not isinstance(limit, int) or limit < 0:
        raise BadSetting(f"redelivery_limit is a number of deliveries, 0 for no limit, not {limit!r}", setting="redelivery_limit")
    settings = command.Settings(redelivery_limit=limit)
    created = _text(given, "name")
    return lambda origin, token: command.Create(created, kind, settings, False, origin, token)


def _delete(given: dict[str, Any]) -> Maker:
    deleted = _text(given, "name")
    return lambda origin, token: command.Delete(deleted, origin, token)


def _subscribe(given: dict[str, Any]) -> Maker:
    topic, subscription = _text(given, "topic"), _text(given, "name")
    return lambda origin, token: command.Subscribe(topic, subscription, True, "", origin, token)


def _unsubscribe(given: dict[str, Any]) -> Maker:
    topic, subscription = _text(given, "topic"), _text(given, "name")
    return lambda origin, token: command.Unsubscribe(topic, subscription, origin, token)


def _text(given: dict[str, Any], argument: str) -> str:
    value = given.get(argument)
    if not isinstance(value, str):
        raise BadSetting(f"{argument} must be given, as text", setting=argument)
    return value


_COMMANDS: dict[str, Callable[[dict[str, Any]], Maker]] = {
    "create": _create,
    "delete": _delete,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
}

_ANSWERS: dict[type[frame.Message], Any] = {
    frame.OpenProducer: Request._open_producer,
    frame.ForgetProducer: Request._forget_producer,
    frame.Attach: Request._attach,
    frame.Settle: Request._settle,
    frame.DetachReceiver: Request._detach_receiver,
    frame.CloseSession: Request._close_session,
    frame.Manage: Request._manage,
}
