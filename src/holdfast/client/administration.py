"""Creating, looking at and deleting destinations and subscriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from holdfast.client import checks
from holdfast.client.destination import Queue, Topic, check_name, check_subscription
from holdfast.client.gathering import Kind
from holdfast.client.received import milliseconds
from holdfast.client.subscribing import place, subscription
from holdfast.destination.command import Settings
from holdfast.errors import BadSetting
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.session import Session


class DestinationSettings(TypedDict, total=False):
    """What can be set for a destination; 0 means no limit, no delay.

    redelivery_limit       deliveries after the first; what would be delivered once more goes to the dead events
    redelivery_delay       seconds before what was released is delivered again; each time `redelivery_factor` times as long
    redelivery_delay_max   but never longer than so many seconds
    events_max, bytes_max  high water: with so much waiting, producers are held back until it has fallen to `low_percent` of it
    """

    redelivery_limit: int
    redelivery_delay: float
    redelivery_factor: int
    redelivery_delay_max: float
    events_max: int
    bytes_max: int
    low_percent: int


def checked_settings(given: DestinationSettings) -> dict[str, Any]:
    """BadSetting, with what there is, before anything travels."""
    known = DestinationSettings.__annotations__
    for name in given:
        if name not in known:
            raise BadSetting(f"there is no setting {name!r}; there are: {', '.join(known)}", setting=name)
    in_milliseconds = {"redelivery_delay": "redelivery_delay_ms", "redelivery_delay_max": "redelivery_delay_max_ms"}
    checked: dict[str, Any] = {in_milliseconds.get(name, name): value for name, value in given.items()}
    for name in in_milliseconds.values():
        if name in checked:
            checked[name] = milliseconds(checked[name])
    Settings(**checked)
    return dict(given)


class Administration(ABC):
    """The part of a client that manages. Every call waits for the answer, `timeout` seconds at most (the client's, if none is
    given).

    LinkLost means that the question was sent and no answer came: look (`describe`, `destinations`) before repeating it.
    Looking is repeated by itself.
    """

    @abstractmethod
    def _opened(self) -> Session:
        """The session of an open client; Closed when there is none."""

    async def _manage(self, action: str, timeout: float | None, **arguments: Any) -> Any:
        session = self._opened()
        allowed = checks.seconds(timeout, session.connection.timeout)
        return await session.ask(lambda token: Manage(token, action, arguments), allowed)

    async def _look(self, action: str, timeout: float | None, **arguments: Any) -> Any:
        """As `_manage`, for what changes nothing, and so is asked again when the link was lost."""
        session = self._opened()
        allowed = checks.seconds(timeout, session.connection.timeout)
        return await session.ask_again(lambda token: Manage(token, action, arguments), allowed)

    async def create_queue(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        """Create a queue, with what is to be set for it (`DestinationSettings`)."""
        await self._create(name, "queue", settings, timeout)

    async def create_topic(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        """Create a topic. The settings hold for each of its subscriptions; it is as full as the fullest of them."""
        await self._create(name, "topic", settings, timeout)

    async def _create(self, name: str, kind: Kind, settings: DestinationSettings, timeout: float | None) -> None:
        await self._manage("create", timeout, name=check_name(name), kind=kind, **checked_settings(settings))

    async def configure(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        """Change what is set for a queue or topic, for what waits in it too. What is not named stays as it is."""
        await self._manage("configure", timeout, name=check_name(name), **checked_settings(settings))

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a queue or topic: receivers are closed, what waits in it goes to the dead events."""
        await self._manage("delete", timeout, name=check_name(name))

    async def destinations(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        """The queues and topics there are: name, kind, what waits in each, what is in flight, who receives."""
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = await self._look("list", timeout, after=after)
            found += page["destinations"]
            after = page["next"]
        return found

    async def describe(self, name: str, *, timeout: float | None = None) -> dict[str, Any]:
        """One destination: what waits in it, who receives from it, what is set for it, and whether it is blocked."""
        return dict(await self._look("describe", timeout, name=check_name(name)))

    async def create_subscription(
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
        """Create a durable subscription, so that events are kept for it before anyone receives. As with `subscribe`, the topic
        may be a wildcard, and one that is there with another selector is made anew."""
        where, subscribed, asked = subscription(
            topic, check_subscription(name), shared=shared, no_local=no_local, selector=selector, regex=regex
        )
        given = {"match": asked.match, "selector": asked.selector, "shared": shared, "no_local": no_local}
        await self._manage("subscribe", timeout, topic=where, name=subscribed, **given)

    async def delete_subscription(
        self, topic: str | None, name: str, *, regex: str | None = None, timeout: float | None = None
    ) -> None:
        """Delete a durable subscription with what waits in it."""
        where, match = place(topic, regex)
        await self._manage("unsubscribe", timeout, topic=where, match=match, name=check_subscription(name))

    async def subscriptions(
        self, topic: str | None, *, regex: str | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """The subscriptions of a topic, with those of patterns that match it; or those of a pattern."""
        where, match = place(topic, regex)
        return list(await self._look("subscriptions", timeout, topic=where, match=match))

    async def temporary_queue(self, *, timeout: float | None = None) -> Queue:
        """A queue that only this client receives from, named by the server, and gone with this client. Anyone who is told its
        name may send to it."""
        return Queue(self._opened(), await self._temporary("queue", timeout))

    async def temporary_topic(self, *, timeout: float | None = None) -> Topic:
        """A topic that only this client subscribes to, named by the server, and gone with this client."""
        return Topic(self._opened(), await self._temporary("topic", timeout))

    async def _temporary(self, kind: Kind, timeout: float | None) -> str:
        made = await self._manage("temporary", timeout, kind=kind)
        return str(made["name"])

    async def status(self, *, timeout: float | None = None) -> dict[str, Any]:
        """How the server is: what it has applied, how much room is left, and whether it is short of it (`is_short`, `reason`)."""
        return dict(await self._look("status", timeout))
