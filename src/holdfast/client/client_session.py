"""Sessions: several conversations of one client, over its one link.

    async with client.session(confirm="client") as session:
        async with session.queue("orders").receive() as incoming:
            ...
        await session.recover()

A session has its own producer, receivers and order: its events keep their order, whatever other sessions send. A session whose
receiver stands still, or that waits for a receipt, does not hold up others. After a lost link each session is resumed by
itself. A client has its own session, which `queue`, `topic` and `subscribe` of the client use. Further sessions are for parts
of a program that work independently.

Leaving a session closes its receivers, each as its confirm mode says, waits for all receipts, and ends the session at the server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode, check_subscription
from holdfast.client.connection import session_ids
from holdfast.client.connection.session import Session
from holdfast.client.destination import Queue, Topic, subscribe
from holdfast.client.reading.browser import BrowseOptions, Browser
from holdfast.client.receiving.attachment import recovery
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.receive_options import SubscribeOptions, key_of
from holdfast.client.transaction import Transaction
from holdfast.errors import BadSetting, Closed

if TYPE_CHECKING:
    from holdfast.client.connection.connection import Connection

NAME_LENGTH_MAX = 255


def checked_name(name: str, whose: str) -> str:
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise BadSetting(
            f"a {whose}'s name {name!r:.40} is not printable text of at most {NAME_LENGTH_MAX} characters; choose another",
            setting="name",
        )
    return name


class SessionMethods(ABC):
    """The methods that a client and a session have in common: sending, receiving, recovering. A client uses its own session."""

    @abstractmethod
    def _opened(self) -> Session:
        """The session. Closed when it is not open."""

    def queue(self, name: str) -> Queue:
        """The queue of this name; created at first use, unless the server runs with --no-create-on-use."""
        return Queue(self._opened(), name)

    def topic(self, name: str) -> Topic:
        """The topic of this name; created at first use, unless the server runs with --no-create-on-use."""
        return Topic(self._opened(), name)

    def subscribe(
        self,
        topic: str | None = None,
        name: str | None = None,
        *,
        regex: str | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Incoming:
        r"""Receive from a topic, or from all topics whose names match a wildcard or a regular expression, now and later.

            client.subscribe("alerts.eu")                          what is sent from now on
            client.subscribe("alerts.eu", "audit")                 durable: remembers while nobody receives
            client.subscribe("alerts.eu", "pool", shared=True)     each event to one of its receivers
            client.subscribe("alerts.>", "pager", selector="level > 3")
            client.subscribe(regex=r"alerts\.(eu|us)\..*")

        Options: `SubscribeOptions`; `holdfast.client.receiving.receive_options` tells which kinds of subscriptions there are.
        `event.destination` says to which topic an event of a pattern was sent.

        If a durable subscription of this name has another selector, or one where none is given now, it is replaced. While
        events wait in it, that is refused with NotEmpty, unless `replace=True` says that they may be lost. Refused with
        SubscriptionInUse: to receive from a shared subscription without `shared`, and a second receiver of one that is not
        shared, unless `take_over=True` says that it takes the place of the first.
        """
        return subscribe(self._opened(), topic, name, regex, options)

    def browse(self, topic: str | None, name: str, *, regex: str | None = None, **options: Unpack[BrowseOptions]) -> Browser:
        """Look at what waits in a subscription, of a topic or of a pattern, without taking it. (A queue has `browse` itself.)
        Options: `BrowseOptions`."""
        return Browser(self._opened(), key_of(topic, regex), check_subscription(name), **options)

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """All or nothing: `async with client.transaction() as tx: await tx.queue("invoices").send(…); await tx.confirm(event)`.

        `timeout` holds for its commit, and for each call in it that waits.
        """
        return Transaction(self._opened(), timeout)

    async def recover(self, *, timeout: float | None = None) -> None:
        """Begin again with the oldest event that was handed out and has no verdict.

        Every event that the session was handed and has not decided on is delivered again, in order. An event that the program had
        seen is counted as redelivered; one that it had not seen comes as if for the first time. Where several recipients compete
        for a queue, another may get it. Later verdicts on events from before are refused: these events come again.
        """
        session = self._opened()
        checks.same_loop(session.connection.loop)
        for each in session.together:
            await recovery.recover(each, checks.seconds(timeout, session.connection.timeout))


class ClientSession(SessionMethods):
    """A session beside the client's own. Made by `client.session()`, used inside `async with`."""

    def __init__(self, connection: Connection, name: str, confirm: ConfirmMode, resume: str = "") -> None:
        self.name = checked_name(name, "session")
        self._resume = session_ids.from_text(resume)
        self._confirm = checks.confirm_mode(confirm)
        self._connection = connection
        self._session: Session | None = None

    @property
    def id(self) -> str:
        """Its id at the server: with it, `client.session(resume=…)` of a later process goes on in its place. Another one after a
        link that was lost for so long that the server forgot the session, and where it uses one channel more of a server with
        several."""
        return session_ids.to_text({each.channel: each.id for each in self._opened().together if each.id})

    async def open(self) -> Self:
        """Open the session at the server. Unreachable when there is no link in time."""
        if self._session is not None:
            raise Closed("a session is opened once; ask the client for another")
        connection = self._connection
        checks.same_loop(connection.loop)
        session = self._session = connection.new_session(self.name, self._confirm, resume=self._resume)
        try:
            await session.until_ready(connection.deadline(connection.timeout))
        except BaseException:
            connection.drop_session(session, Closed("the session could not be opened"))
            raise
        return self

    async def close(self, *, is_done: bool = True) -> None:
        """Close its receivers, wait for all receipts, and end it."""
        session, connection = self._session, self._connection
        if session is None or session.is_closed:
            return
        checks.same_loop(connection.loop)
        await session.close(connection.closing_timeout(session), is_done)
        if session.lanes is not None:
            await session.lanes.close(connection.closing_timeout(session), is_done)
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
