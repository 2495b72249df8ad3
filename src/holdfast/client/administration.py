"""Administration: create, ensure, configure, describe and delete destinations and subscriptions."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack

from holdfast.client import checks
from holdfast.client.checks import check_name, check_subscription
from holdfast.client.description import (
    ClusterCheck,
    ClusterConfiguration,
    ClusterStatus,
    DestinationDescription,
    Drained,
    Status,
    SubscriptionDescription,
    Takeover,
    TransactionsInDoubt,
    subscriptions_of,
)
from holdfast.client.destination import Queue, Topic
from holdfast.client.receiving.receive_options import SubscriptionTerms, place, subscription
from holdfast.client.sending.batch_builder import Kind
from holdfast.destination.removal import NAMES as LIMIT_NAMES
from holdfast.destination.settings import Settings, duration_ms
from holdfast.errors import BadSetting, HoldfastError, NoSuchDestination, NoSuchSubscription
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

# How often a node that is drained is looked at.
DRAIN_LOOK_S = 0.1
# What `ensure_queue`, `ensure_topic` and `ensure_subscription` found to do.
Ensured = Literal["created", "changed", "unchanged"]


class LogLine(NamedTuple):
    """A line of a program's log, for `log_lines`."""

    level: str  # INFO, WARNING, ERROR or CRITICAL
    logger: str
    text: str
    time_us: int  # since 1970


class DestinationSettings(TypedDict, total=False):
    """The settings of a destination: the options of `create_queue`, `create_topic` and `configure`. 0 means no limit, no delay.

    redelivery_limit       deliveries after the first; then the event goes to the dead events
    redelivery_delay       seconds before a released event is delivered again
    redelivery_factor      each time, that delay is so many times as long
    redelivery_delay_max   the longest delay, in seconds
    events_max, bytes_max  high water: when so much waits, the destination is blocked and producers are held back
    low_percent            low water: it is unblocked when so many percent of the high water wait
    deduplicate            for so long, an event with the same source and id is a repetition: "10m", "90s", or seconds. It is
                           stored once, and its receipt has the position of the first
    """

    redelivery_limit: int
    redelivery_delay: float
    redelivery_factor: int
    redelivery_delay_max: float
    events_max: int
    bytes_max: int
    low_percent: int
    deduplicate: str | float


def checked_settings(given: DestinationSettings) -> dict[str, Any]:
    """Refuse wrong settings before anything travels. BadSetting lists the settings there are."""
    known = DestinationSettings.__annotations__
    for name in given:
        if name not in known:
            raise BadSetting(f"there is no setting {name!r}; there are: {', '.join(known)}", setting=name)
    in_milliseconds = {"redelivery_delay": "redelivery_delay_ms", "redelivery_delay_max": "redelivery_delay_max_ms"}
    checked: dict[str, Any] = {in_milliseconds.get(name, name): value for name, value in given.items()}
    for name in in_milliseconds.values():
        if name in checked:
            checked[name] = checks.milliseconds(checked[name])
    if "deduplicate" in checked:
        checked["deduplicate_ms"] = duration_ms(checked.pop("deduplicate"), "deduplicate")
    Settings(**checked)
    return dict(given)


def _given_limits(terms: SubscriptionTerms) -> dict[str, Any]:
    return {name: value for name, value in terms.items() if name in LIMIT_NAMES}


async def _was_there(deleting: Awaitable[Any], missing_ok: bool, *missing: type[HoldfastError]) -> bool:
    try:
        await deleting
    except missing:
        if not missing_ok:
            raise
        return False
    return True


class Administration(ABC):
    """The part of a client that administers. Each call waits for the answer, `timeout` seconds at most; without it, the client's.

    LinkLost means that the request was sent and no answer came: look (`describe`, `destinations`) before you repeat it. Calls
    that only look, or ensure, are repeated by the client itself.
    """

    @abstractmethod
    def _opened(self) -> Session:
        """The session of an open client; Closed when there is none."""

    async def _manage(self, action: str, timeout: float | None, **arguments: Any) -> Any:
        session = self._opened()
        allowed = checks.seconds(timeout, session.connection.timeout)
        return await session.ask(lambda token: Manage(token, action, arguments), allowed)

    async def _look(self, action: str, timeout: float | None, **arguments: Any) -> Any:
        """As `_manage`, for actions that change nothing the second time: they are asked again when the link was lost."""
        session = self._opened()
        allowed = checks.seconds(timeout, session.connection.timeout)
        return await session.ask_again(lambda token: Manage(token, action, arguments), allowed)

    async def create_queue(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        """Create a queue. Settings: `DestinationSettings`."""
        await self._create(name, "queue", settings, timeout)

    async def create_topic(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        """Create a topic. The settings hold for each of its subscriptions; the topic is as full as the fullest of them."""
        await self._create(name, "topic", settings, timeout)

    async def _create(self, name: str, kind: Kind, settings: DestinationSettings, timeout: float | None) -> None:
        await self._manage("create", timeout, name=check_name(name), kind=kind, **checked_settings(settings))

    async def ensure_queue(
        self, name: str, *, update: bool = False, timeout: float | None = None, **settings: Unpack[DestinationSettings]
    ) -> Ensured:
        """See to it that a queue is there, with these settings. Any number of programs may say so, at any time.

        Returns "created", "changed" or "unchanged". Only the settings given are compared. A queue that came into being on first
        use, and that nobody has configured, takes them. SettingsDiffer, with both values of each, when others were given before;
        with `update=True` they are changed. A new queue has the settings of a first use where none are given: a released event
        comes again after 1 s, then after twice as long each time, up to 60 s.
        """
        return await self._ensure(name, "queue", update, settings, timeout)

    async def ensure_topic(
        self, name: str, *, update: bool = False, timeout: float | None = None, **settings: Unpack[DestinationSettings]
    ) -> Ensured:
        """See to it that a topic is there, with these settings: as `ensure_queue`."""
        return await self._ensure(name, "topic", update, settings, timeout)

    async def _ensure(self, name: str, kind: Kind, update: bool, settings: DestinationSettings, timeout: float | None) -> Ensured:
        given = checked_settings(settings)
        ensured: Ensured = await self._look("ensure", timeout, name=check_name(name), kind=kind, update=update, **given)
        return ensured

    async def configure(self, name: str, *, timeout: float | None = None, **settings: Unpack[DestinationSettings]) -> None:
        """Change settings of a queue or topic. They hold for events that wait in it, too. Others stay as they are."""
        await self._manage("configure", timeout, name=check_name(name), **checked_settings(settings))

    async def delete(self, name: str, *, force: bool = False, missing_ok: bool = False, timeout: float | None = None) -> bool:
        """Delete a queue or topic, and close its receivers. Returns whether it was there.

        NoSuchDestination when it is not there, unless `missing_ok`. NotEmpty, with the count, when events wait in it or are in
        flight; with `force=True` they go to the dead events (those of a temporary one are gone). SubscriptionInUse when a
        subscription of the topic is owned, as by a running Spark query: stop that first.
        """
        deleting = self._manage("delete", timeout, name=check_name(name), force=force)
        return await _was_there(deleting, missing_ok, NoSuchDestination)

    async def purge(self, name: str, *, timeout: float | None = None) -> int:
        """Throw away everything that waits in a queue. Returns how many events that were; they are gone for good.

        Delayed events are among them, and those that recipients hold: what these say about them later does not count. The queue
        keeps its settings and its receivers. WrongKind for a topic: delete and create its subscription instead.
        """
        return int(await self._manage("purge", timeout, name=check_name(name)))

    async def empty(self, name: str, *, timeout: float | None = None) -> int:
        """Give up the requests that wait in `_ADMIN`, the one queue that only the server receives from. They are not carried out,
        and go to the dead events. Returns how many."""
        return int(await self._manage("empty", timeout, name=check_name(name)))

    async def destinations(self, *, prefix: str = "", timeout: float | None = None) -> list[DestinationDescription]:
        """All queues and topics, or those whose names begin with `prefix`: name, kind, events waiting and in flight, number of
        receivers."""
        found: list[DestinationDescription] = []
        after: str | None = prefix[:-1]
        while after is not None and (after < prefix or after.startswith(prefix)):  # names come in their order
            page = await self._look("list", timeout, after=after)
            found += [each for each in page["destinations"] if each["name"].startswith(prefix)]
            after = page["next"]
        return found

    async def describe(self, name: str, *, timeout: float | None = None) -> DestinationDescription:
        """One destination: events waiting, number of receivers, settings, and whether it is blocked; of a topic, its
        subscriptions and those of patterns that match it."""
        described: DestinationDescription = await self._look("describe", timeout, name=check_name(name))
        return described

    async def create_subscription(
        self,
        topic: str | None,
        name: str,
        *,
        regex: str | None = None,
        like: str | None = None,
        timeout: float | None = None,
        **terms: Unpack[SubscriptionTerms],
    ) -> None:
        """Create a durable subscription, so that events are kept for it before anyone receives. Terms: `SubscriptionTerms`.

        As with `subscribe`, the topic may be a wildcard. A subscription that is there on other terms, and in which events wait,
        is replaced only where `replace=True` says so.

        With `like`, it has the terms of that subscription of the same topic, and everything that waits in it now, in flight and
        delayed included, but not its delivery counts: no event is missing, and none is there twice. `replace` is then the only
        other term.
        """
        checks.options(terms, SubscriptionTerms, "create_subscription")
        where, subscribed, asked = subscription(topic, check_subscription(name), terms, regex=regex)
        if like is not None:
            if others := sorted(terms.keys() - {"replace"}):
                raise BadSetting(f"a subscription made like another has its terms; leave out {', '.join(others)}", setting="like")
            copied = {"match": asked.match, "like": check_subscription(like), "replace": asked.replace}
            await self._manage("subscribe_like", timeout, topic=where, name=subscribed, **copied)
            return
        given = {
            "match": asked.match,
            "selector": asked.selector,
            "shared": asked.is_shared,
            "no_local": asked.no_local,
            "replace": asked.replace,
            **_given_limits(terms),
        }
        await self._manage("subscribe", timeout, topic=where, name=subscribed, **given)

    async def ensure_subscription(
        self,
        topic: str | None,
        name: str,
        *,
        regex: str | None = None,
        update: bool = False,
        timeout: float | None = None,
        **terms: Unpack[SubscriptionTerms],
    ) -> Ensured:
        """See to it that a durable subscription is there, on these terms. Returns "created", "changed" or "unchanged".

        Only the terms given are compared: a program that names no selector takes the one there is. SettingsDiffer when they
        differ; with `update=True` they are changed, which makes the subscription anew: NotEmpty while events wait in it, unless
        `replace=True` says that they may be lost. A topic that is not there is created, as on first use.
        """
        checks.options(terms, SubscriptionTerms, "ensure_subscription")
        where, subscribed, asked = subscription(topic, check_subscription(name), terms, regex=regex)
        known = {"selector": asked.selector, "shared": asked.is_shared, "no_local": asked.no_local}
        given: dict[str, Any] = {each: value for each, value in known.items() if each in terms}
        given |= {"match": asked.match, "update": update, "replace": asked.replace, **_given_limits(terms)}
        ensured: Ensured = await self._look("ensure_subscription", timeout, topic=where, name=subscribed, **given)
        return ensured

    async def delete_subscription(
        self,
        topic: str | None,
        name: str,
        *,
        regex: str | None = None,
        force: bool = False,
        missing_ok: bool = False,
        timeout: float | None = None,
    ) -> bool:
        """Delete a durable subscription. Returns whether it was there.

        NoSuchSubscription, or NoSuchDestination for the topic, when it is not there, unless `missing_ok`. NotEmpty, with the
        count, when events wait in it; with `force=True` they are lost.
        """
        where, match = place(topic, regex)
        named = check_subscription(name)
        deleting = self._manage("unsubscribe", timeout, topic=where, match=match, name=named, force=force)
        return await _was_there(deleting, missing_ok, NoSuchDestination, NoSuchSubscription)

    async def subscriptions(
        self, topic: str | None = None, *, regex: str | None = None, timeout: float | None = None
    ) -> list[SubscriptionDescription]:
        """The subscriptions of a topic, with those of patterns that match it; or those of a pattern; or, without either, all."""
        if topic is None and regex is None:
            return await self._all_subscriptions(timeout)
        where, match = place(topic, regex)
        session = self._opened()
        allowed = checks.seconds(timeout, session.connection.timeout)
        return await subscriptions_of(session, {"topic": where, "match": match}, allowed)

    async def _all_subscriptions(self, timeout: float | None) -> list[SubscriptionDescription]:
        found: list[SubscriptionDescription] = []
        after: Sequence[str] | None = ("", "")
        while after is not None:
            page = await self._look("all_subscriptions", timeout, after=after)
            found += page["subscriptions"]
            after = page["next"]
        return found

    async def temporary_queue(self, *, timeout: float | None = None) -> Queue:
        """Create a queue that only this client receives from. The server names it, and deletes it with this client. Anyone who
        knows its name may send to it."""
        return Queue(self._opened(), await self._temporary("queue", timeout))

    async def temporary_topic(self, *, timeout: float | None = None) -> Topic:
        """Create a topic that only this client subscribes to. The server names it, and deletes it with this client."""
        return Topic(self._opened(), await self._temporary("topic", timeout))

    async def _temporary(self, kind: Kind, timeout: float | None) -> str:
        made = await self._manage("temporary", timeout, kind=kind)
        return str(made["name"])

    async def status(self, *, timeout: float | None = None) -> Status:
        """The state of the server: events waiting and since when, how much of the journal is used and what pins its space, which
        destinations are full, and whether it is short of room (`is_short`, `reason`)."""
        told: Status = await self._look("status", timeout)
        return told

    async def cluster_status(self, *, timeout: float | None = None) -> ClusterStatus:
        """The state of the cluster, as the node that answers hears it: nodes, the primary of each message manager, how far its
        backups lag. Refused by a server that is alone."""
        told: ClusterStatus = await self._look("cluster", timeout)
        return told

    async def transactions(self, id: str = "", *, timeout: float | None = None) -> TransactionsInDoubt:
        """Transactions over several message managers that are in doubt: prepared and not decided, or decided and not carried out
        everywhere. With an `id`, that one, also when it has ended, as long as that is remembered."""
        told: TransactionsInDoubt = await self._look("transactions", timeout, id=id)
        return told

    async def cluster_takeover(self, manager: str, *, to: str = "", timeout: float | None = None) -> Takeover:
        """Have a message manager of a cluster taken over by another node, `to` or the first that can, without a failure: who is
        primary now, and how long it took. Unavailable when nobody can take it over: nothing has changed."""
        told: Takeover = await self._manage("cluster_order", timeout, order="takeover", manager=manager, node=to)
        return told

    async def cluster_check(self, *, timeout: float | None = None) -> ClusterCheck:
        """Compare all copies of all message managers of a cluster, each at one entry of its channel, also under load: the digest
        of each copy, which differ, and which did not answer within 5 s. A backup that differs is opened anew."""
        told: ClusterCheck = await self._look("cluster_order", timeout, order="check")
        return told

    async def cluster_configuration(self, *, timeout: float | None = None) -> ClusterConfiguration:
        """What the nodes of the cluster share: settings, users by their names, and what must be equal everywhere."""
        told: ClusterConfiguration = await self._look("cluster_configure", timeout)
        return told

    async def configure_cluster(self, key: str, value: str, *, timeout: float | None = None) -> ClusterConfiguration:
        """Change a setting at all nodes of the cluster; `default` takes it back. With the key `users`, the value is the text of a
        users file. Returns what there is now, and which nodes have it."""
        told: ClusterConfiguration = await self._manage("cluster_configure", timeout, key=key, value=value)
        return told

    async def cluster_drain(self, node: str, *, undo: bool = False, timeout: float | None = None) -> Drained:
        """Empty a node of a cluster, before it is stopped: its clients link to other nodes, and others lead what it led. Returns
        when it is empty, or when the time is up, with what is left. `undo` takes it back. Unavailable, and nothing has changed,
        where no other node takes clients."""
        deadline = self._opened().connection.deadline(checks.seconds(timeout, self._opened().connection.timeout))
        loop = self._opened().connection.loop
        await self._look("cluster_order", timeout, order="undrain" if undo else "drain", node=node)
        while True:
            status = await self.cluster_status(timeout=timeout)
            row = next(each for each in status["nodes"] if each["name"] == node)
            leads = [manager["name"] for manager in status["managers"] if manager["primary"] == node]
            is_done = row["is_drained"] != undo and (undo or not (row["links"] or leads))
            if is_done or not row["is_heard"] or loop.time() >= deadline:
                return {"node": node, "is_drained": row["is_drained"], "links": row["links"], "leads": leads, "is_done": is_done}
            await asyncio.sleep(DRAIN_LOOK_S)

    async def log_lines(self, program: str, lines: Sequence[LogLine], *, timeout: float | None = None) -> bool:
        """Add lines to the topic `_LOG` of the server, for a program that runs beside it: at most 128 at once, each of 4,000
        characters. Returns whether somebody subscribes to it; otherwise they are dropped. The server also drops what comes faster
        than it can be stored, and says so in `_LOG`."""
        taken: bool = await self._manage("log", timeout, program=program, lines=list(lines))
        return taken
