"""The client without a loop: what `holdfast.blocking.connect` gives."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from holdfast.blocking.client_session import ClientSession, SessionMethods
from holdfast.blocking.destination import Queue, Topic
from holdfast.blocking.hand_over import waiting_for
from holdfast.blocking.reading import Reading
from holdfast.client.assembly.stage import Stage as AsyncStage
from holdfast.client.checks import ConfirmMode
from holdfast.client.client import Client as AsyncClient
from holdfast.client.dead import DeadEvents as AsyncDeadEvents
from holdfast.client.reading.place_reader import ReadingOptions
from holdfast.event.identifier import Counter
from holdfast.node.background import Background, shared_background


def connect(url: str | None = None, *, name: str = "", timeout: float | None = None, password: str | None = None) -> Client:
    """As `holdfast.connect`, to be used as `with`."""
    return Client(url, name=name, timeout=timeout, password=password)


class DeadEvents:
    """`client.dead`. `progress` is called in the background's thread."""

    def __init__(self, background: Background, dead: AsyncDeadEvents) -> None:
        self._background = background
        self._twin = dead

    list = waiting_for(AsyncDeadEvents.list)
    show = waiting_for(AsyncDeadEvents.show)
    replay = waiting_for(AsyncDeadEvents.replay)
    purge = waiting_for(AsyncDeadEvents.purge)


class Stage:
    """Made by `client.stage(name)`. One thread uses it at a time."""

    def __init__(self, background: Background, stage: AsyncStage) -> None:
        self.name = stage.name
        self._background = background
        self._twin = stage

    @property
    def source(self) -> str:
        """The source of events that name none."""
        return self._twin.source

    @property
    def ids(self) -> Counter:
        """Ids that nobody else has, for batches that are made by the caller."""
        return self._twin.ids

    send = waiting_for(AsyncStage.send)
    send_batch = waiting_for(AsyncStage.send_batch)
    seal = waiting_for(AsyncStage.seal)


class Client(SessionMethods):
    """A client of one place of events. Made by `connect`, used inside `with`."""

    _twin: AsyncClient

    def __init__(
        self, url: str | None = None, *, name: str = "", timeout: float | None = None, password: str | None = None
    ) -> None:
        super().__init__(shared_background(), AsyncClient(url, name=name, timeout=timeout, password=password))

    def open(self) -> Self:
        self._background.run(self._twin.open())
        return self

    close = waiting_for(AsyncClient.close)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def session(self, confirm: ConfirmMode = "event", *, name: str = "", resume: str = "") -> ClientSession:
        """A session beside the client's own, over the same link: `with client.session(confirm="client") as session: …`."""
        return ClientSession(self._background, self._twin.session(confirm, name=name, resume=resume))

    def reading(self, destination: str, subscription: str = "", **options: Unpack[ReadingOptions]) -> Reading:
        """A subscription, or a queue, read by place. Options: `ReadingOptions`."""
        return Reading(self._background, self._twin.reading(destination, subscription, **options))

    create_queue = waiting_for(AsyncClient.create_queue)
    create_topic = waiting_for(AsyncClient.create_topic)
    ensure_queue = waiting_for(AsyncClient.ensure_queue)
    ensure_topic = waiting_for(AsyncClient.ensure_topic)
    configure = waiting_for(AsyncClient.configure)
    delete = waiting_for(AsyncClient.delete)
    purge = waiting_for(AsyncClient.purge)
    empty = waiting_for(AsyncClient.empty)
    destinations = waiting_for(AsyncClient.destinations)
    log_lines = waiting_for(AsyncClient.log_lines)
    describe = waiting_for(AsyncClient.describe)
    create_subscription = waiting_for(AsyncClient.create_subscription)
    ensure_subscription = waiting_for(AsyncClient.ensure_subscription)
    delete_subscription = waiting_for(AsyncClient.delete_subscription)
    subscriptions = waiting_for(AsyncClient.subscriptions)
    status = waiting_for(AsyncClient.status)
    cluster_configuration = waiting_for(AsyncClient.cluster_configuration)
    configure_cluster = waiting_for(AsyncClient.configure_cluster)
    cluster_check = waiting_for(AsyncClient.cluster_check)
    cluster_status = waiting_for(AsyncClient.cluster_status)
    cluster_drain = waiting_for(AsyncClient.cluster_drain)
    transactions = waiting_for(AsyncClient.transactions)
    cluster_takeover = waiting_for(AsyncClient.cluster_takeover)
    outcomes = waiting_for(AsyncClient.outcomes)
    unblocked = waiting_for(AsyncClient.unblocked)
    publish = waiting_for(AsyncClient.publish)
    drop_stages = waiting_for(AsyncClient.drop_stages)

    def temporary_queue(self, *, timeout: float | None = None) -> Queue:
        return Queue(self._background, self._background.run(self._twin.temporary_queue(timeout=timeout)))

    def temporary_topic(self, *, timeout: float | None = None) -> Topic:
        return Topic(self._background, self._background.run(self._twin.temporary_topic(timeout=timeout)))

    def stage(self, name: str, *, timeout: float | None = None) -> Stage:
        return Stage(self._background, self._twin.stage(name, timeout=timeout))

    @property
    def dead(self) -> DeadEvents:
        return DeadEvents(self._background, self._twin.dead)

    @property
    def incarnation(self) -> str:
        return self._twin.incarnation

    @property
    def channels(self) -> Sequence[str]:
        return self._twin.channels

    @property
    def is_linked(self) -> bool:
        return self._twin.is_linked

    @property
    def is_blocked(self) -> bool:
        return self._twin.is_blocked

    @property
    def blocked_reason(self) -> str:
        return self._twin.blocked_reason
