"""Requests of a session: frames with a token, and the command or question that each becomes.

    OpenProducer, ForgetProducer, Attach, Settle, DetachReceiver, CloseSession, Commit, Abandon, Publish
    Manage ──▶ `manage_requests`        CommitAll ──▶ `joint`

Each is answered exactly once: when the command it became is applied, or at once with the refusal. Nothing here changes state;
commands do.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.bus.message import HandedOn
from holdfast.channel.channel import Receipt
from holdfast.destination import command, name
from holdfast.destination.state.dead import CODES
from holdfast.errors import AccessDenied, HoldfastError, ProtocolError
from holdfast.event.position import Ranges
from holdfast.node import supervision
from holdfast.node.administration.actions import Maker
from holdfast.node.administration.gathering import gathered
from holdfast.node.administration.touched import Arguments
from holdfast.node.clients import assembly_requests
from holdfast.node.clients.joint.joint_requests import commit_all, publish_all
from holdfast.node.clients.manage_requests import manage
from holdfast.node.clients.receiver_opening import ReceiverOpening
from holdfast.node.login.allowance import Ended
from holdfast.node.login.permission import check_attach
from holdfast.session.session import Session, owner_of
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.node.clients.client_manager import ClientManager
    from holdfast.node.clients.manager_link import ManagerLink

# Begins something at a message manager: told how to answer, and how to refuse.
Begin = Callable[["ManagerLink", Callable[[Any], None], Callable[[HoldfastError], None]], None]

# A hundred years, as for the delays of events.
DELAY_MS_MAX = 100 * 365 * 86_400 * 1000
SEQUENCE_MAX = 1 << 62


class Request:
    """One request under way: who asked, and how to tell them."""

    def __init__(
        self, manager: ClientManager, session: Session, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]
    ) -> None:
        self.manager = manager
        self.target = manager.managers[session.channel]
        self.targets: Sequence[ManagerLink] = (self.target,)  # several, where the answers of all are gathered
        self.session = session
        self.answered = answered
        self.failed = failed

    def begin(self, message: frame.Message) -> None:
        """Carry it out. ProtocolError for a frame that no client sends; every other refusal goes to the client that asked."""
        answer = _ANSWERS.get(type(message))
        if answer is None:
            raise ProtocolError(f"a client does not send {type(message).__name__} frames")
        try:
            answer(self, message)
        except ProtocolError:
            raise
        except AccessDenied as problem:
            self._let_go(message)
            self.failed(problem)
        except HoldfastError as problem:
            self.failed(problem)
        except Exception as problem:  # a fault of ours, met before anything was appended: it costs this request
            supervision.report(f"a {type(message).__name__} request", problem)
            self.failed(supervision.as_refusal(problem))

    def _let_go(self, message: frame.Message) -> None:
        """End a receiver that may not attach again, because the rules have changed."""
        if isinstance(message, frame.Attach) and message.receiver in self.session.receivers:
            self.manager.let_go(self.session, message.receiver)

    def submit(self, make: Maker, answered: Callable[[Any], None] | None = None, payload: bytes = b"") -> None:
        """Append the command that `make` makes; it is answered when it is applied."""

        def submit(target: ManagerLink, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]) -> None:
            token = target.next_token(answered, failed)
            target.submit(make(target.subject, token), token, payload)

        self._of_all(partial(gathered, ""), submit, answered or self.answered)

    def ask(self, action: str, asked: Arguments, answered: Callable[[Any], None] | None = None) -> None:
        """Ask the message manager a question of administration."""

        def ask(target: ManagerLink, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]) -> None:
            target.ask(action, asked, target.next_token(answered, failed))

        self._of_all(partial(gathered, action), ask, answered or self.answered)

    def ask_each(self, action: str, asked: Arguments, answered: Callable[[dict[str, Any]], None]) -> None:
        """Ask each of its message managers, and tell their answers by name."""

        def ask(target: ManagerLink, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]) -> None:
            target.ask(action, asked, target.next_token(answered, failed))

        self._of_all(dict, ask, answered)

    def _of_all(self, gather: Callable[[dict[str, Any]], Any], begin: Begin, answered: Callable[[Any], None]) -> None:
        """Begin it at each of its message managers, and answer when all have answered: with the first refusal, if any."""
        if len(self.targets) == 1:
            begin(self.targets[0], answered, self.failed)
            return
        answers: dict[str, Any] = {}
        refusals: list[HoldfastError] = []

        def told(name: str, value: Any) -> None:
            answers[name] = value
            if len(answers) < len(self.targets):
                return
            if refusals:
                self.failed(refusals[0])
            else:
                answered(gather({each.name: answers[each.name] for each in self.targets}))

        def refused(name: str, problem: HoldfastError) -> None:
            refusals.append(problem)
            told(name, None)

        for target in self.targets:
            begin(target, partial(told, target.name), partial(refused, target.name))

    def settled(self, target: ManagerLink, session: str, parts: Sequence[frame.SettledPart]) -> list[command.Settled]:
        """What a session confirms in a transaction, by the places of its receivers. One that is gone is left to the machine: if
        this was committed before, the answer is the same."""
        found = self.manager.sessions.get(session)
        places = found.receivers if found is not None and found.channel == target.name else {}
        for each in parts:
            _note_handed(target, session, each.receiver, each.handed, read_ranges(each.ranges))
        return [command.Settled(*places.get(each.receiver, ("", "")), each.ranges, each.delivered_up_to) for each in parts]

    def guarded(self, do: Callable[..., None]) -> Callable[..., None]:
        """The same function, for a later turn: what it refuses goes to the client that asked."""

        def guarded(*given: Any) -> None:
            try:
                do(*given)
            except HoldfastError as problem:
                self.failed(problem)

        return guarded

    def when_known(self, destination: str, do: Callable[[], None], is_used: bool = True) -> None:
        """Do it; for a destination of a message manager of another process when it is known here, for a temporary one when the
        channel is replayed, because before that nobody knows whose it is."""
        messages, known = self.target.messages, self.guarded(do)
        if self.target.must_learn(destination, known, is_used):
            return
        if messages.is_primary or not name.is_temporary(destination):
            do()
        else:
            messages.when_primary(known)


# --- producers -----------------------------------------------------------------------------------------------------------


def _open_producer(request: Request, message: frame.OpenProducer) -> None:
    manager, session = request.manager, request.session
    check_number(message.first_sequence)
    user = owner_of(session.id)
    producer = message.producer or manager.new_producer(user)
    if owner_of(producer) not in ("", user):
        raise AccessDenied(f"producer {producer!r} belongs to another user; open one of your own", producer=producer)
    if message.producer:
        _open_known_producer(request, message, user)
        return
    ended = _begin_producer(request, message, producer)
    session.open_producer(producer, is_open=True)
    # A new producer has no past: it may send as soon as its opening is durable, even while the channel is being replayed (A6).
    made = command.OpenProducer(producer, session.id, message.is_durable, client=session.client, user=user)
    opening = request.target.append(made)

    def opened(done: asyncio.Future[Receipt]) -> None:
        ended()
        problem = done.exception() if not done.cancelled() else None
        if isinstance(problem, HoldfastError):
            request.failed(problem)
        elif not done.cancelled():
            request.answered({"producer": producer, "last_sequence": 0, "receipts": []})

    opening.add_done_callback(opened)


def _begin_producer(request: Request, message: frame.OpenProducer, producer: str) -> Ended:
    """Keep a place for a producer in the session; return what to call when it is opened, or refused."""
    request.session.open_producer(producer, is_open=False)
    try:
        return request.target.allowances.begin_producer(request.session.id, message)
    except HoldfastError:
        request.session.drop_unopened(producer)
        raise


def _open_known_producer(request: Request, message: frame.OpenProducer, user: str) -> None:
    """Open a producer that may exist. Its owner is known when this is applied: nothing is sent under it before."""
    target, session, producer = request.target, request.session, message.producer
    ended = _begin_producer(request, message, producer)

    def opened(value: Any) -> None:
        ended()
        session.open_producer(producer, is_open=True)
        request.answered(value)

    def refused(problem: HoldfastError) -> None:
        ended()
        session.drop_unopened(producer)
        request.failed(problem)

    token = target.next_token(opened, refused)
    whose = (producer, session.id, message.is_durable, target.subject, token, message.first_sequence)
    target.submit(command.OpenProducer(*whose, session.client, user), token)


def _forget_producer(request: Request, message: frame.ForgetProducer) -> None:
    """Forget a producer. One that is not open is answered at once: the request comes again when its answer was lost."""
    session, producer = request.session, message.producer
    if not session.producers.get(producer):
        request.answered(None)
        return

    def forgotten(value: Any) -> None:
        session.producers.pop(producer, None)
        request.answered(value)

    request.submit(lambda origin, token: command.ForgetProducer(producer, origin, token), forgotten)


# --- receivers and their verdicts ----------------------------------------------------------------------------------------


def _attach(request: Request, message: frame.Attach) -> None:
    held, ahead = read_ranges(message.held), None if message.ahead is None else read_spans(message.ahead)
    check_attach(request.session, message)
    request.session.check_reattached(message.receiver)
    opening = ReceiverOpening(request, message, held, ahead)
    request.when_known(message.destination, opening.begin)


def _settle(request: Request, message: frame.Settle) -> None:
    if not 0 <= message.delay_ms <= DELAY_MS_MAX:
        raise ProtocolError(f"a delay of {message.delay_ms} ms is not possible; give one up to {DELAY_MS_MAX}")
    if not (0 <= message.number <= SEQUENCE_MAX and 0 <= message.events <= SEQUENCE_MAX):
        raise ProtocolError(f"no receiver has given verdict {message.number} on {message.events} events; its client is broken")
    if message.death and message.death not in CODES:
        raise ProtocolError(f"no event dies of {message.death!r:.40}; there are {', '.join(CODES)}")
    manager, session = request.manager, request.session
    check_channel(session, message.channel)
    place = session.receiver(message.receiver)
    ranges = read_ranges(message.ranges)
    where = (place.destination, place.subscription, session.id, ranges.to_bytes())
    which = (message.receiver, message.number, message.events)
    _note_handed(request.target, session.id, message.receiver, message.handed, ranges)

    def make(origin: str, token: int) -> command.Command:
        if message.verdict == "confirm":
            return command.Confirm(*where, message.delivered_up_to, origin, token, 0, which)
        if message.verdict == "release":
            not_before = manager.now_ms() + message.delay_ms if message.delay_ms > 0 else 0
            told = (message.wait, command.OFTEN_MS, message.reason[: command.RELEASE_REASON_LENGTH_MAX])
            return command.Release(*where, not_before, message.is_counted, origin, token, manager.now_ms(), which, *told)
        return command.Reject(*where, message.reason, origin, token, manager.now_ms(), message.death or message.code, which)

    request.submit(make)


def _note_handed(target: ManagerLink, session: str, receiver: int, handed: int, ranges: Ranges) -> None:
    """Tell how far a receiver has handed events to its program. A client that does not say has handed those it decided on."""
    reached = handed or (ranges.last if ranges else 0)
    if reached:
        target.hand_over(HandedOn(session, receiver, reached))


def _detach_receiver(request: Request, message: frame.DetachReceiver) -> None:
    manager, session, receiver = request.manager, request.session, message.receiver
    place, now = session.receiver(receiver), manager.now_ms()
    session.receivers.pop(receiver)
    request.submit(lambda origin, token: command.Detach(session.id, receiver, now, 0, origin, token))
    manager.drop_own_subscription(session, place)


# --- assemblies and the end ----------------------------------------------------------------------------------------------


def _commit(request: Request, message: frame.Commit) -> None:
    session, now = request.session, request.manager.now_ms()
    settled = request.settled(request.target, session.id, message.settled)
    what = (session.id, message.assembly, message.parts, settled, session.client)
    request.submit(lambda origin, token: command.Commit(*what, origin, token, now))


def _abandon(request: Request, message: frame.Abandon) -> None:
    session = request.session
    request.submit(lambda origin, token: command.Abandon(session.id, message.assembly, 0, origin, token))


def _publish(request: Request, message: frame.Publish) -> None:
    if request.manager.places is not None:
        publish_all(request, message)
        return
    make, payload = assembly_requests.publish(request.session, message, request.manager.now_ms())
    request.submit(make, payload=payload)


def _close_session(request: Request, message: frame.CloseSession) -> None:
    manager, session, now = request.manager, request.session, request.manager.now_ms()
    session.is_closing = True

    def gone(value: Any) -> None:
        request.answered(value)
        manager.forget_session(session)

    request.submit(lambda origin, token: command.Detach(session.id, 0, now, 0, origin, token), gone)


_ANSWERS: dict[type[frame.Message], Callable[[Request, Any], None]] = {
    frame.OpenProducer: _open_producer,
    frame.ForgetProducer: _forget_producer,
    frame.Attach: _attach,
    frame.Settle: _settle,
    frame.DetachReceiver: _detach_receiver,
    frame.CloseSession: _close_session,
    frame.Manage: manage,
    frame.Commit: _commit,
    frame.CommitAll: commit_all,
    frame.Abandon: _abandon,
    frame.Publish: _publish,
}


# --- what a frame says, checked ------------------------------------------------------------------------------------------


def check_channel(session: Session, channel: str) -> None:
    """ProtocolError for positions of another channel than that of the session: they would be other events here."""
    if channel != session.channel and channel:
        raise ProtocolError(f"these positions are of channel {channel!r:.40}, and the session of {session.channel!r}")


def check_number(sequence: int) -> None:
    """ProtocolError for the number of a batch after which there is no next one."""
    if sequence > SEQUENCE_MAX:
        raise ProtocolError(f"no producer has sent {sequence} batches; its client is broken", sequence=str(sequence))


def read_ranges(data: bytes) -> Ranges:
    try:
        return Ranges.from_bytes(data)
    except ValueError as problem:
        raise ProtocolError(f"ranges that cannot be read: {problem}") from problem


def read_spans(data: bytes) -> list[tuple[int, int]]:
    """Pairs of positions, in an order of their own."""
    if len(data) % 16:
        raise ProtocolError("what is ahead of a program is said in pairs of positions; its client is broken")
    ends = iter(array("Q", data))
    return list(zip(ends, ends, strict=True))
