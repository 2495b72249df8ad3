"""Sessions: several conversations of one client, over its one link.

    async with client.session(confirm="client") as session:
        async with session.queue("orders").receive() as incoming:
            ...
        await session.recover()

A session has a producer, receivers and an order of its own: what one sends keeps its order, whatever others send; one whose
receiver stands still, or which waits for a receipt, leaves the others free. After a lost link each is resumed by itself. A
client has a session of its own, which its `queue`, `topic` and `subscribe` use; more are for parts of a program that should not
know of each other.

Leaving a session closes its receivers, each as its confirm mode says, waits for the receipts of what was sent, and lets the
server forget the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.client import checks, recovery
from holdfast.client.browser import PAGE_EVENTS, Browser
from holdfast.client.checks import ConfirmMode
from holdfast.client.confirming import receiver_for
from holdfast.client.destination import Queue, Topic, check_subscription
from holdfast.client.granting import CREDIT_BYTES, CREDIT_EVENTS
from holdfast.client.recipient import Incoming
from holdfast.client.session import Session
from holdfast.client.subscribing import key_of, subscription
from holdfast.client.transaction import Transaction
from holdfast.errors import BadSetting, Closed

if TYPE_CHECKING:
    from holdfast.client.connection import Connection

NAME_LENGTH_MAX = 255


def checked_name(name: str, whose: str) -> str:
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise BadSetting(
            f"a {whose}'s name {name!r:.40} is not printable text of at most {NAME_LENGTH_MAX} characters; choose another",
            setting="name",
        )
    return name


class InSession(ABC):
    """What is done within a session: sending, receiving, recovering. A client does it in its own."""

    @abstractmethod
    def _opened(self) -> Session:
        """The session, if it is open; Closed when there is none."""

    def queue(self, name: str) -> Queue:
        """The queue of this name; created at first use where the server's settings allow it."""
        return Queue(self._opened(), name)

    def topic(self, name: str) -> Topic:
        """The topic of this name; created at first use where the server's settings allow it."""
        return Topic(self._opened(), name)

    def subscribe(
        self,
        topic: str | None = None,
        name: str | None = None,
        *,
        regex: str | None = None,
        durable: bool | None = None,
        shared: bool = False,
        no_local: bool = False,
        selector: str | None = None,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
        confirm: ConfirmMode | None = None,
    ) -> Incoming:
        r"""Receive from a topic, or from all topics whose names match a wildcard or a regular expression, now and later.

            client.subscribe("alerts.eu")                          what is sent from now on
            client.subscribe("alerts.eu", "audit")                 durable: remembers while nobody receives
            client.subscribe("alerts.eu", "pool", shared=True)     each event to one of its receivers
            client.subscribe("alerts.>", "pager", selector="level > 3")
            client.subscribe(regex=r"alerts\.(eu|us)\..*")

        An event of a pattern says in `event.destination` to which topic it was sent. With a `selector`, only what matches is
        ever kept for the subscription; with `no_local`, nothing that this client sends. What kinds there are is told in
        `holdfast.client.subscribing`. A durable subscription that is there with another selector, or with one where none is given
        now, is made anew, and what waited in it is gone; one that is not shared has one receiver at a time, a second one is
        refused with SubscriptionInUse.
        """
        session = self._opened()
        wanted = subscription(topic, name, durable=durable, shared=shared, no_local=no_local, selector=selector, regex=regex)
        receiver = receiver_for(session, confirm)
        return receiver(session, wanted.topic, "topic", wanted.subscription, credit, credit_bytes, timeout, wanted.asked)

    def browse(
        self,
        topic: str | None,
        name: str,
        *,
        regex: str | None = None,
        selector: str | None = None,
        page: int = PAGE_EVENTS,
        timeout: float | None = None,
    ) -> Browser:
        """Look at what waits in a subscription, of a topic or of a pattern, without taking it. (A queue has `browse` itself.)"""
        return Browser(self._opened(), key_of(topic, regex), check_subscription(name), selector, page, timeout)

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """All or nothing: `async with client.transaction() as tx: await tx.queue("invoices").send(…); await tx.confirm(event)`.

        `timeout` is for its commit, and for everything in it that waits.
        """
        return Transaction(self._opened(), timeout)

    async def recover(self, *, timeout: float | None = None) -> None:
        """Begin again with the oldest event that was handed out and has no verdict.

        Everything the session was handed and has not decided on is delivered again, in order: what the program had looked at as
        redelivered, counted once more; what it had not, as if for the first time. Where several recipients compete for a queue,
        it may go to another. Verdicts on events from before are refused from now on: they will come again.
        """
        session = self._opened()
        checks.same_loop(session.connection.loop)
        await recovery.recover(session, checks.seconds(timeout, session.connection.timeout))


class ClientSession(InSession):
    """A session beside the client's own. Made by `client.session()`, used inside `async with`."""

    def __init__(self, connection: Connection, name: str, confirm: ConfirmMode) -> None:
        self.name = checked_name(name, "session")
        self._confirm = checks.confirm_mode(confirm)
        self._connection = connection
        self._session: Session | None = None

    async def open(self) -> Self:
        """Returns when the server knows the session. Unreachable when there is no link in time."""
        if self._session is not None:
            raise Closed("a session is opened once; ask the client for another")
        connection = self._connection
        checks.same_loop(connection.loop)
        session = self._session = connection.new_session(self.name, self._confirm)
        try:
            await session.until_ready(connection.deadline(connection.timeout))
        except BaseException:
            connection.drop_session(session, Closed("the session could not be opened"))
            raise
        return self

    async def close(self, *, is_done: bool = True) -> None:
        """Close its receivers, wait for the receipts of what was sent, and end it."""
        session, connection = self._session, self._connection
        if session is None or session.is_closed:
            return
        checks.same_loop(connection.loop)
        await session.close(connection.closing_timeout(session), is_done)
        connection.drop_session(session, Closed("the session was closed by this program; ask the client for another"))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close(is_done=error is None)

    def _opened(self) -> Session:
        if self._session is None:
            raise Closed(
                "the session is not open; use it inside `async with client.session() as session` (`with`, in holdfast.blocking)"
            )
        self._session.check_open()
        return self._session
