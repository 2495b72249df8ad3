"""The methods of a session without a loop, and sessions beside the client's own."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from holdfast.blocking.destination import Queue, Topic
from holdfast.blocking.hand_over import waiting_for
from holdfast.blocking.incoming import Incoming
from holdfast.blocking.reading import Browser
from holdfast.blocking.transaction import Transaction
from holdfast.client import checks
from holdfast.client.client_session import ClientSession as AsyncClientSession
from holdfast.client.client_session import SessionMethods as AsyncSessionMethods
from holdfast.client.reading.browser import BrowseOptions
from holdfast.client.receiving.receive_options import SubscribeOptions
from holdfast.node.background import Background


class SessionMethods:
    """The methods that a client and a session have in common."""

    def __init__(self, background: Background, twin: AsyncSessionMethods) -> None:
        self._background = background
        self._twin = twin

    def queue(self, name: str) -> Queue:
        """The queue of this name."""
        return Queue(self._background, self._twin.queue(name))

    def topic(self, name: str) -> Topic:
        """The topic of this name."""
        return Topic(self._background, self._twin.topic(name))

    def subscribe(
        self,
        topic: str | None = None,
        name: str | None = None,
        *,
        regex: str | None = None,
        **options: Unpack[SubscribeOptions],
    ) -> Incoming:
        """Receive from a topic, a wildcard or a regular expression. Options: `SubscribeOptions`."""
        checks.options(options, SubscribeOptions, "subscribe")
        twin = self._twin
        return Incoming(self._background, lambda: twin.subscribe(topic, name, regex=regex, **options))

    def browse(self, topic: str | None, name: str, *, regex: str | None = None, **options: Unpack[BrowseOptions]) -> Browser:
        """Look at what waits in a subscription, of a topic or of a pattern, without taking it. Options: `BrowseOptions`."""
        return Browser(self._background, self._twin.browse(topic, name, regex=regex, **options))

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """All or nothing: `with client.transaction() as tx: tx.queue("invoices").send(…); tx.confirm(event)`."""
        twin = self._twin
        return Transaction(self._background, lambda: twin.transaction(timeout=timeout))

    recover = waiting_for(AsyncSessionMethods.recover)


class ClientSession(SessionMethods):
    """A session beside the client's own: `with client.session(confirm="client") as session: …`."""

    _twin: AsyncClientSession

    @property
    def name(self) -> str:
        return self._twin.name

    @property
    def id(self) -> str:
        """Its id at the server: with it, `client.session(resume=…)` of a later process goes on in its place."""
        return self._twin.id

    def open(self) -> Self:
        self._background.run(self._twin.open())
        return self

    def close(self) -> None:
        self._background.run(self._twin.close())

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._background.run(self._twin.close(is_done=error is None))
