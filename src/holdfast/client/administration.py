"""Creating, looking at and deleting destinations and subscriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast.client import checks
from holdfast.client.destination import check_name, check_subscription
from holdfast.client.gathering import Kind
from holdfast.destination.command import Settings
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.session import Session


class Administration(ABC):
    """The part of a client that manages. Every call waits for the answer, `timeout` seconds at most (the client's, if none is
    given).

    LinkLost means that the question was sent and no answer came: look (`describe`, `destinations`) before repeating it.
    """

    @abstractmethod
    def _opened(self) -> Session:
        """The session of an open client; Closed when there is none."""

    async def _manage(self, action: str, timeout: float | None, **arguments: Any) -> Any:
        session = self._opened()
        allowed = checks.seconds(timeout, session.connection.timeout)
        return await session.ask(lambda token: Manage(token, action, arguments), allowed)

    async def create_queue(self, name: str, *, redelivery_limit: int = 0, timeout: float | None = None) -> None:
        """Create a queue. What is delivered again more than `redelivery_limit` times goes to the dead events; 0 for no limit."""
        await self._create(name, "queue", redelivery_limit, timeout)

    async def create_topic(self, name: str, *, redelivery_limit: int = 0, timeout: float | None = None) -> None:
        """Create a topic. The limit holds for each of its subscriptions."""
        await self._create(name, "topic", redelivery_limit, timeout)

    async def _create(self, name: str, kind: Kind, redelivery_limit: int, timeout: float | None) -> None:
        limit = Settings(redelivery_limit).redelivery_limit  # which refuses what is none
        await self._manage("create", timeout, name=check_name(name), kind=kind, redelivery_limit=limit)

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a queue or topic: receivers are closed, what waits in it goes to the dead events."""
        await self._manage("delete", timeout, name=check_name(name))

    async def destinations(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        """The queues and topics there are: name, kind, what waits in each, what is in flight, who receives."""
        return list(await self._manage("list", timeout))

    async def describe(self, name: str, *, timeout: float | None = None) -> dict[str, Any]:
        """One destination: what waits in it, who receives from it."""
        return dict(await self._manage("describe", timeout, name=check_name(name)))

    async def create_subscription(self, topic: str, name: str, *, timeout: float | None = None) -> None:
        """Create a durable subscription, so that events are kept for it before anyone receives."""
        await self._manage("subscribe", timeout, topic=check_name(topic), name=check_subscription(name))

    async def delete_subscription(self, topic: str, name: str, *, timeout: float | None = None) -> None:
        """Delete a durable subscription with what waits in it."""
        await self._manage("unsubscribe", timeout, topic=check_name(topic), name=check_subscription(name))

    async def subscriptions(self, topic: str, *, timeout: float | None = None) -> list[dict[str, Any]]:
        """The subscriptions of a topic."""
        return list(await self._manage("subscriptions", timeout, topic=check_name(topic)))

    async def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        """How the server is: what it has applied, how much room is left, and whether it is short of it (`is_short`, `reason`)."""
        return dict(await self._manage("status", timeout))
