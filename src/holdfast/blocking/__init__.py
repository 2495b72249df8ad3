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
from typing import Any, Self

from holdfast.blocking.background import shared_background
from holdfast.blocking.destination import Destination, Pipeline, Queue, Topic
from holdfast.blocking.recipient import Incoming, ReceivedEvent
from holdfast.client import client as _client
from holdfast.client.recipient import CREDIT_BYTES, CREDIT_EVENTS

__all__ = ["Client", "Destination", "Incoming", "Pipeline", "Queue", "ReceivedEvent", "Topic", "connect"]


class Client:
    def __init__(self, url: str, *, name: str = "", timeout: float = _client.TIMEOUT_S) -> None:
        self._client = _client.Client(url, name=name, timeout=timeout)
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

    def queue(self, name: str) -> Queue:
        return Queue(self._background, self._client.queue(name))

    def topic(self, name: str) -> Topic:
        return Topic(self._background, self._client.topic(name))

    def subscribe(
        self,
        topic: str,
        name: str | None = None,
        *,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
    ) -> Incoming:
        return self.topic(topic).subscribe(name, credit=credit, credit_bytes=credit_bytes, timeout=timeout)

    def create_queue(self, name: str, *, redelivery_limit: int = 0, timeout: float | None = None) -> None:
        self._background.run(self._client.create_queue(name, redelivery_limit=redelivery_limit, timeout=timeout))

    def create_topic(self, name: str, *, redelivery_limit: int = 0, timeout: float | None = None) -> None:
        self._background.run(self._client.create_topic(name, redelivery_limit=redelivery_limit, timeout=timeout))

    def delete(self, name: str, *, timeout: float | None = None) -> None:
        self._background.run(self._client.delete(name, timeout=timeout))

    def destinations(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        return self._background.run(self._client.destinations(timeout=timeout))

    def describe(self, name: str, *, timeout: float | None = None) -> dict[str, Any]:
        return self._background.run(self._client.describe(name, timeout=timeout))

    def create_subscription(self, topic: str, name: str, *, timeout: float | None = None) -> None:
        self._background.run(self._client.create_subscription(topic, name, timeout=timeout))

    def delete_subscription(self, topic: str, name: str, *, timeout: float | None = None) -> None:
        self._background.run(self._client.delete_subscription(topic, name, timeout=timeout))

    def subscriptions(self, topic: str, *, timeout: float | None = None) -> list[dict[str, Any]]:
        return self._background.run(self._client.subscriptions(topic, timeout=timeout))

    def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        return self._background.run(self._client.status(timeout=timeout))

    @property
    def is_linked(self) -> bool:
        return self._client.is_linked

    @property
    def is_blocked(self) -> bool:
        return self._client.is_blocked

    @property
    def blocked_reason(self) -> str:
        return self._client.blocked_reason


def connect(url: str, *, name: str = "", timeout: float = _client.TIMEOUT_S) -> Client:
    """As `holdfast.connect`, to be used as `with`."""
    return Client(url, name=name, timeout=timeout)
