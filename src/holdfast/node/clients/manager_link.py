"""The way from a client manager to one message manager: appender, bus and view in one place (ADR 22).

    client manager ──▶ managers["m1"] ──▶ channel of m1        commands, which must not be lost
                                      ──▶ bus, subject of m1   credit, questions
                                      ──▶ view of m1           checks before an append
                                      ◀── bus, own subject     deliveries, answers

A session belongs to one message manager, and all that it says goes this way. The own subject names the message manager: so
tokens, entries and positions that come back are of this channel, and of no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from holdfast.bus.bus import Bus, message_manager_subject
from holdfast.bus.message import Question, Reply, WatermarksAsked
from holdfast.channel.channel import Appendable, Purpose, Receipt
from holdfast.cluster.places import Places
from holdfast.destination import command
from holdfast.destination.settings import of_first_use
from holdfast.destination.stamp import Stamp
from holdfast.errors import HoldfastError, LinkLost
from holdfast.event.position import Ranges
from holdfast.node.administration.actions import with_revision
from holdfast.node.administration.touched import Arguments
from holdfast.node.clients.assembly_requests import BegunStages
from holdfast.node.clients.client_flow import AppliedReceipts
from holdfast.node.clients.destination_checks import Kind
from holdfast.node.clients.fair_share import FairShare
from holdfast.node.clock import Clock
from holdfast.node.login.allowance import Allowances
from holdfast.node.message_manager_view import MessageManagerView
from holdfast.node.settings import NodeSettings

# They change which destinations there are, or how they take events: their answers come when this client manager knows it, too.
_CHANGING = (command.Create, command.Ensure, command.Delete, command.Configure)


class Waiting(NamedTuple):
    """Functions that take the answer to a command or question, and one that asks again."""

    answered: Callable[[Any], None]
    failed: Callable[[HoldfastError], None]
    again: Callable[[], None] | None = None


class ManagerLink:
    def __init__(
        self,
        name: str,
        messages: MessageManagerView,
        channel: Appendable,
        bus: Bus,
        subject: str,
        clock: Clock,
        settings: NodeSettings,
        places: Places | None,
        start: str = "",
    ) -> None:
        """`name` is that of the channel in positions: "" where there is one alone. `subject` is the own one of this link. `start`
        names this start of the client manager in a cluster: commands are stamped with it (ADR 25)."""
        self.links_made = 0  # so many links with a primary have begun
        self._start = start
        self.name = name
        self.messages = messages
        self.channel = channel
        self.subject = subject
        self.settings = settings
        self.places = places
        self.clock = clock
        self.fair_share = FairShare(channel, clock, messages.wait_for_selectors)
        self.allowances = Allowances(settings, messages)
        self.begun_stages = BegunStages(messages)
        self.applied_receipts = AppliedReceipts(messages.apply_now)
        self.given_up: set[str] = set()  # sessions that cannot be resumed any more, although their Detach is not applied yet
        self._bus = bus
        self._messages_subject = message_manager_subject(messages.name)
        self._token = 0
        self._waiting: dict[int, Waiting] = {}
        # Destinations created on first use whose command is not applied yet.
        self._created: dict[str, Kind] = {}
        self._when_created: dict[str, list[Callable[[], None]]] = {}
        self._not_created: dict[str, HoldfastError] = {}  # while those who wait for it are told
        # Positions that receivers that attach again hold no longer, until their Attach is answered.
        self._lost: dict[tuple[str, int], Ranges] = {}
        self.tell(WatermarksAsked(subject))

    def use_settings(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.allowances.use(settings)

    @property
    def told_incarnation(self) -> str:
        """That of its channel, where there are several; the greeting tells that of one alone."""
        return self.channel.id if self.name else ""

    def link_made(self) -> None:
        """A link with its primary begins: what was told before may be lost, and what was not answered is asked again. A command
        that was applied before is answered again, by its stamp."""
        self.links_made += 1
        self.applied_receipts.forget()
        self.tell(WatermarksAsked(self.subject))
        lost = LinkLost("the message manager has another primary; this may have been done: look before you repeat it")
        for token, each in list(self._waiting.items()):
            if each.again is not None:
                each.again()
            else:
                del self._waiting[token]
                each.failed(lost)

    # --- beside the channel ------------------------------------------------------------------------------------------

    def tell(self, message: object) -> None:
        self._bus.publish(self._messages_subject, message)

    def hand_over(self, message: object) -> None:
        """Tell it at once, where that overtakes nothing, instead of at the next turn of the bus."""
        self._bus.hand_over(self._messages_subject, message)

    def ask(self, action: str, asked: Arguments, token: int) -> None:
        self.ask_for(token, Question(self.subject, token, action, asked, self.channel.durable))

    def ask_for(self, token: int, message: object) -> None:
        """Tell a message that is answered under this token."""
        self._again(token, partial(self.tell, message))
        self.tell(message)

    def _again(self, token: int, again: Callable[[], None]) -> None:
        if (waiting := self._waiting.get(token)) is not None:
            self._waiting[token] = waiting._replace(again=again)

    def next_token(self, answered: Callable[[Any], None], failed: Callable[[HoldfastError], None]) -> int:
        """Return a token for a command or question whose answer will come over the bus."""
        self._token += 1
        self._waiting[self._token] = Waiting(answered, failed)
        return self._token

    def replied(self, message: Reply) -> None:
        """The answer to a command or question came."""
        if not message.token:  # about a batch, which has no token
            self.applied_receipts.applied(*message.value)
            return
        waiting = self._waiting.pop(message.token, None)
        if waiting is None:
            return
        if message.error is not None:
            waiting.failed(message.error)
        else:
            waiting.answered(message.value)

    def note_lost(self, session: str, receiver: int, lost: Ranges) -> None:
        self._lost[session, receiver] = lost

    def take_lost(self, session: str, receiver: int) -> Ranges | None:
        """Take the positions that a receiver said it holds when it attached, and that are finished or with others."""
        return self._lost.pop((session, receiver), None)

    # --- into the channel --------------------------------------------------------------------------------------------

    def append(self, made: command.Command, payload: bytes = b"") -> asyncio.Future[Receipt]:
        """Append a command whose answer nobody waits for. If it fails, the command that follows it fails too, and says why."""
        future = self.channel.append(command.encode(made, payload), Purpose.UPKEEP)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    def submit(self, made: command.Command, token: int, payload: bytes = b"") -> None:
        """Append a command that is answered when it is applied; if it cannot be appended, it is answered now. An Attach is not
        repeated for another primary: its client says again what it holds, and attaches again."""
        made = with_revision(made, self.places)
        if isinstance(made, _CHANGING) and (waiting := self._waiting.get(token)) is not None:
            self._waiting[token] = waiting._replace(answered=partial(self._changed, waiting.answered))
        if self._start and not isinstance(made, command.Attach):
            self._again(token, partial(self._append, made, token, payload))
        self._append(made, token, payload)

    def _changed(self, answered: Callable[[Any], None], value: Any) -> None:
        if not self.messages.learn_destinations(partial(answered, value)):
            answered(value)

    def _append(self, made: command.Command, token: int, payload: bytes) -> None:
        # Tokens count up, and so the first that waits is the least.
        stamp = Stamp(self._start, token, next(iter(self._waiting), token)) if self._start else None
        try:
            future = self.channel.append(command.encode(made, payload, stamp), Purpose.UPKEEP)
        except HoldfastError as problem:
            self._not_appended(token, problem)
            return
        future.add_done_callback(partial(self._appended, token))

    def _appended(self, token: int, done: asyncio.Future[Receipt]) -> None:
        self.messages.apply_now()
        if not done.cancelled() and (problem := done.exception()) is not None:
            self._not_appended(token, problem)

    def _not_appended(self, token: int, problem: BaseException) -> None:
        waiting = self._waiting.pop(token, None)
        if waiting is not None and isinstance(problem, HoldfastError):
            waiting.failed(problem)

    def must_learn(self, destination: str, then: Callable[[], None], is_used: bool = True) -> bool:
        """Whether others are asked about a destination that is not known here: the message manager in another process, and the
        table of places. `then` is called when they have answered. `is_used`: it may be created by that."""
        if self.messages.kind_of(destination) is not None or destination in self._created:
            return False
        is_created = is_used and self.settings.is_create_on_first_use
        look = partial(self._learn_place, destination, is_created, then)
        return self.messages.learn_destinations(look) or (
            self.places is not None and self.places.learn(destination, is_created, then)
        )

    def _learn_place(self, destination: str, is_created: bool, then: Callable[[], None]) -> None:
        """The message manager has told its destinations: if this is none of them, it is created with the newest revision."""
        is_known = self.messages.kind_of(destination) is not None
        if is_known or self.places is None or not self.places.learn(destination, is_created, then):
            then()

    def being_created(self, destination: str) -> Kind | None:
        return self._created.get(destination)

    def must_wait(self, destination: str, then: Callable[[], None]) -> bool:
        """Whether what is meant for a destination waits until it is created; then `then` is called. In a cluster a command that
        was lost on its way is repeated, and may stand behind later ones: an event would be there before its destination."""
        if not self._start or destination not in self._created:
            return False
        self._when_created.setdefault(destination, []).append(then)
        return True

    def create_on_first_use(self, destination: str, kind: Kind) -> None:
        """Append a Create command ("if it is not there"), ahead of the batch or Attach that is about to be appended. Raise why it
        was refused, to those who waited for it."""
        if destination in self._not_created:
            raise self._not_created[destination]
        self._created[destination] = kind
        token = self.next_token(partial(self._creation_ended, destination), partial(self._creation_failed, destination))
        settings = of_first_use(kind)
        create = command.Create(destination, kind, settings, True, self.subject, token, is_unconfigured=True)
        self.submit(create, token)

    def _creation_ended(self, destination: str, _: object = None) -> None:
        self._created.pop(destination, None)
        for then in self._when_created.pop(destination, ()):
            then()

    def _creation_failed(self, destination: str, problem: HoldfastError) -> None:
        self._not_created[destination] = problem
        self._creation_ended(destination)
        del self._not_created[destination]
