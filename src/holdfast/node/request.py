"""What a client asks for with a token, and the command or question each request becomes.

    OpenProducer, ForgetProducer, Attach, Settle, DetachReceiver, CloseSession, Manage, Commit, Abandon, Publish

Each is answered exactly once: when the command it became is applied, or at once with the refusal. Nothing here changes state;
commands do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.channel.channel import Receipt
from holdfast.destination import command, name
from holdfast.errors import AccessDenied, BadSetting, HoldfastError, ProtocolError
from holdfast.event.position import Ranges
from holdfast.node import staging
from holdfast.node.actions import COMMANDS, Maker, no_such_action
from holdfast.node.administration import QUESTIONS
from holdfast.node.attachment import Attachment
from holdfast.node.confirming import ConfirmingUpTo
from holdfast.node.permission import check_request, visible
from holdfast.node.readers import ASKED_BY_CLIENTS
from holdfast.session.session import ReceiverPlace, Session, owner_of
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.client_manager import ClientManager

# A hundred years, as for the delays of events.
DELAY_MS_MAX = 100 * 365 * 86_400 * 1000
SEQUENCE_MAX = 1 << 62


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
            check_request(self._session, message)
            answer(self, message)
        except ProtocolError:
            raise
        except AccessDenied as problem:
            self._let_go(message)
            self._failed(problem)
        except HoldfastError as problem:
            self._failed(problem)

    def _let_go(self, message: frame.Message) -> None:
        """A receiver that may not attach again, because the rules have changed, gives back what it holds."""
        if isinstance(message, frame.Attach) and message.receiver in self._session.receivers:
            place = self._session.receivers.pop(message.receiver)
            self._manager.append(command.Detach(self._session.id, message.receiver, self._manager.now_ms(), 0))
            self._drop_own_subscription(place)

    def _submit(self, make: Maker, answered: Callable[[Any], None] | None = None, payload: bytes = b"") -> None:
        token = self._manager.next_token(answered or self._answered, self._failed)
        self._manager.submit(make(self._manager.subject, token), token, payload)

    def _open_producer(self, message: frame.OpenProducer) -> None:
        session = self._session
        check_number(message.first_sequence)
        user = owner_of(session.id)
        producer = message.producer or self._manager.new_producer(user)
        if owner_of(producer) not in ("", user):
            raise AccessDenied(f"producer {producer!r} belongs to another user; open one of your own", producer=producer)
        session.open_producer(producer, message.is_durable)
        if message.producer:
            self._submit(
                lambda origin, token: command.OpenProducer(
                    producer, session.id, message.is_durable, origin, token, message.first_sequence, session.client
                )
            )
            return
        # A new producer has no past: it may send as soon as its opening is durable, even while the channel is being replayed
        # (A6).
        opening = self._manager.append(command.OpenProducer(producer, session.id, message.is_durable, client=session.client))
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
        held = read_ranges(message.held)
        Attachment(self._manager, self._session, message, self._answered, self._failed).begin(held)

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
                return command.Release(*where, not_before, message.is_counted, origin, token, self._manager.now_ms())
            return command.Reject(*where, message.reason, origin, token, self._manager.now_ms())

        self._submit(make)

    def _detach_receiver(self, message: frame.DetachReceiver) -> None:
        session, receiver = self._session, message.receiver
        place = session.receiver(receiver)
        now = self._manager.now_ms()
        session.receivers.pop(receiver)
        self._submit(lambda origin, token: command.Detach(session.id, receiver, now, 0, origin, token))
        self._drop_own_subscription(place)

    def _drop_own_subscription(self, place: ReceiverPlace) -> None:
        if place.subscription.startswith("_"):  # a non-durable one was made for this receiver alone
            self._manager.append(command.Unsubscribe(place.destination, place.subscription))

    def _commit(self, message: frame.Commit) -> None:
        for each in message.settled:
            read_ranges(each.ranges)
        session = self._session
        # A receiver that is gone is left to the machine: if this was committed before, its answer is the same.
        settled = [
            command.Settled(*session.receivers.get(each.receiver, ("", "")), each.ranges, each.delivered_up_to)
            for each in message.settled
        ]
        self._submit(
            lambda origin, token: command.Commit(
                session.id, message.assembly, message.parts, settled, session.client, origin, token
            )
        )

    def _abandon(self, message: frame.Abandon) -> None:
        session = self._session
        self._submit(lambda origin, token: command.Abandon(session.id, message.assembly, 0, origin, token))

    def _publish(self, message: frame.Publish) -> None:
        make, payload = staging.publish(self._session, message)
        self._submit(make, payload=payload)

    def _close_session(self, message: frame.CloseSession) -> None:
        session, now = self._session, self._manager.now_ms()
        session.is_closing = True

        def gone(value: Any) -> None:
            self._answered(value)
            self._manager.forget_session(session)

        self._submit(lambda origin, token: command.Detach(session.id, 0, now, 0, origin, token), gone)

    def _manage(self, message: frame.Manage) -> None:
        if message.action == "confirm_up_to":
            ConfirmingUpTo(self._manager, self._session, self._answered, self._failed).begin(message.arguments)
            return
        if message.action in (*QUESTIONS, *ASKED_BY_CLIENTS):
            answered = self._answered_visible if message.action == "list" else self._answered
            self._manager.ask(message.action, message.arguments, self._manager.next_token(answered, self._failed))
            return
        if message.action == "temporary":
            self._create_temporary(message.arguments)
            return
        if message.action == "drop_stages":
            make, payload = staging.drop(self._session, message.arguments)
            self._submit(make, payload=payload)
            return
        if message.action == "delete":
            self._check_own(message.arguments.get("name"))
        prepare = COMMANDS.get(message.action)
        if prepare is None:
            raise no_such_action(message.action)
        self._submit(prepare(message.arguments, self._manager.now_ms()))

    def _create_temporary(self, given: dict[str, Any]) -> None:
        """A temporary destination is named here, belongs to this session, and goes with it."""
        kind, session = given.get("kind"), self._session
        if kind not in ("queue", "topic"):
            raise BadSetting(f"a temporary destination is a queue or a topic, not {kind!r}", kind=str(kind))
        made = name.temporary(kind, self._manager.new_producer(""))
        self._submit(
            lambda origin, token: command.Create(made, kind, origin=origin, token=token, session=session.id),
            lambda _: self._answered({"name": made}),
        )

    def _check_own(self, destination: Any) -> None:
        """Who made a temporary destination may delete it, and nobody else."""
        if not isinstance(destination, str) or not name.is_temporary(destination):
            return
        found = self._manager.messages.directory.catalog.destinations.get(destination)
        if found is not None and found.owner != self._session.id:
            raise AccessDenied(
                f"temporary {found.kind} {destination!r} belongs to another client; leave it to that one", destination=destination
            )

    def _answered_visible(self, page: dict[str, Any]) -> None:
        self._answered({**page, "destinations": visible(self._session, page["destinations"])})


def check_number(sequence: int) -> None:
    """The number of a batch: one more must still be a number."""
    if sequence > SEQUENCE_MAX:
        raise ProtocolError(f"no producer has sent {sequence} batches; its client is broken", sequence=str(sequence))


def read_ranges(data: bytes) -> Ranges:
    try:
        return Ranges.from_bytes(data)
    except ValueError as problem:
        raise ProtocolError(f"ranges that cannot be read: {problem}") from problem


_ANSWERS: dict[type[frame.Message], Any] = {
    frame.OpenProducer: Request._open_producer,
    frame.ForgetProducer: Request._forget_producer,
    frame.Attach: Request._attach,
    frame.Settle: Request._settle,
    frame.DetachReceiver: Request._detach_receiver,
    frame.CloseSession: Request._close_session,
    frame.Manage: Request._manage,
    frame.Commit: Request._commit,
    frame.Abandon: Request._abandon,
    frame.Publish: Request._publish,
}
