"""The plain twin of the client, for programs without a loop: the same names, the same arguments, nothing to await.

    with holdfast.blocking.connect("file:./events") as client:
        client.queue("orders").send({"sku": 7})
        with client.queue("orders").receive() as incoming:
            for event in incoming:
                event.confirm()

A client may be used from any thread; a receiver or a pipeline by one thread at a time. What each call does is said at its twin.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, Unpack

from holdfast.blocking.background import shared_background
from holdfast.blocking.browser import Browser
from holdfast.blocking.dead import DeadEvents
from holdfast.blocking.destination import Destination, Pipeline, Queue, Topic
from holdfast.blocking.reading import Reading
from holdfast.blocking.recipient import Incoming, ReceivedEvent
from holdfast.blocking.sessions import ClientSession, InSession
from holdfast.blocking.staging import Stage, Staging
from holdfast.client import client as _client
from holdfast.client import sessions as _sessions
from holdfast.client.administration import DestinationSettings
from holdfast.client.checks import ConfirmMode
from holdfast.client.subscribing import Match

__all__ = [
    "Browser",
    "Client",
    "ClientSession",
    "Destination",
    "Incoming",
    "Pipeline",
    "Queue",
    "Reading",
    "ReceivedEvent",
    "Stage",
    "Topic",
    "connect",
]


class Client(InSession, Staging):
    def __init__(self, url: str, *, name: str = "", timeout: float = _client.TIMEOUT_S, password: str | None = None) -> None:
        self._client = _client.Client(url, name=name, timeout=timeout, password=password)
        self._background = shared_background()

    def open(self) -> Self:
        self._background.run(self._client.open())
        return self

    def close(self) -> None:
        self._background.run(self._client.close())

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _twin(self) -> _sessions.InSession:
        return self._client

    def session(self, confirm: ConfirmMode = "event", *, name: str = "") -> ClientSession:
        return ClientSession(self._background, self._client.session(confirm, name=name))

    def reading(
        self,
        destination: str,
        subscription: str = "",
        *,
        match: Match | None = None,
        selector: str | None = None,
        timeout: float | None = None,
    ) -> Reading:
        twin = self._client.reading(destination, subscription, match=match, selector=selector, timeout=timeout)
        return Reading(self._background, twin)

    def create_queue(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        self._background.run(self._client.create_queue(name, timeout=timeout, **settings))

    def create_topic(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        self._background.run(self._client.create_topic(name, timeout=timeout, **settings))

    def configure(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        self._background.run(self._client.configure(name, timeout=timeout, **settings))

    def delete(self, name: str, *, timeout: float | None = None) -> None:
        self._background.run(self._client.delete(name, timeout=timeout))

    def destinations(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        return self._background.run(self._client.destinations(timeout=timeout))

    def describe(self, name: str, *, timeout: float | None = None) -> dict[str, Any]:
        return self._background.run(self._client.describe(name, timeout=timeout))

    def create_subscription(
        self,
        topic: str | None,
        name: str,
        *,
        shared: bool = False,
        no_local: bool = False,
        selector: str | None = None,
        regex: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self._background.run(
            self._client.create_subscription(
                topic, name, shared=shared, no_local=no_local, selector=selector, regex=regex, timeout=timeout
            )
        )

    def delete_subscription(
        self, topic: str | None, name: str, *, regex: str | None = None, timeout: float | None = None
    ) -> None:
        self._background.run(self._client.delete_subscription(topic, name, regex=regex, timeout=timeout))

    def subscriptions(self, topic: str | None, *, regex: str | None = None, timeout: float | None = None) -> list[dict[str, Any]]:
        return self._background.run(self._client.subscriptions(topic, regex=regex, timeout=timeout))

    def temporary_queue(self, *, timeout: float | None = None) -> Queue:
        return Queue(self._background, self._background.run(self._client.temporary_queue(timeout=timeout)))

    def temporary_topic(self, *, timeout: float | None = None) -> Topic:
        return Topic(self._background, self._background.run(self._client.temporary_topic(timeout=timeout)))

    def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        return self._background.run(self._client.status(timeout=timeout))

    @property
    def dead(self) -> DeadEvents:
        return DeadEvents(self._background, self._client.dead)

    @property
    def is_linked(self) -> bool:
        return self._client.is_linked

    @property
    def is_blocked(self) -> bool:
        return self._client.is_blocked

    @property
    def blocked_reason(self) -> str:
        return self._client.blocked_reason

    def unblocked(self, timeout: float | None = None) -> None:
        self._background.run(self._client.unblocked(timeout))


def connect(url: str, *, name: str = "", timeout: float = _client.TIMEOUT_S, password: str | None = None) -> Client:
    """As `holdfast.connect`, to be used as `with`."""
    return Client(url, name=name, timeout=timeout, password=password)
