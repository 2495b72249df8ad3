"""The message manager of the same process, as a client manager sees it: answered from the state as applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from holdfast.channel.channel import Buffer
from holdfast.destination.command import BatchCommand
from holdfast.destination.state.queue import Queue
from holdfast.node.message_manager_view import (
    DestinationNews,
    Holding,
    MessageManagerView,
    RememberedSession,
    Staged,
    TemporaryDestination,
)
from holdfast.node.messages.destination_flow import fullness
from holdfast.node.messages.message_manager import MessageManager


class LocalView(MessageManagerView):
    """`MessageManagerView` says what each method answers."""

    def __init__(self, manager: MessageManager) -> None:
        self._manager = manager
        self._directory = manager.directory

    @property
    def name(self) -> str:
        return self._manager.name

    @property
    def is_primary(self) -> bool:
        return self._manager.is_primary

    # --- asked and answered later ------------------------------------------------------------------------------------

    def when_primary(self, then: Callable[[], None]) -> None:
        self._manager.when_primary(then)

    def when_caught_up(self, then: Callable[[], None], known: int = 0) -> None:
        self._manager.when_caught_up(then, known)

    def when_told(self, then: Callable[[], None]) -> None:
        then()

    def learn_destinations(self, then: Callable[[], None]) -> bool:
        return False

    def apply_now(self) -> None:
        self._manager.hurry()

    def recall_session(self, session: str, then: Callable[[RememberedSession | None], None]) -> None:
        self._manager.when_primary(lambda: then(self._remembered(session)))

    def _remembered(self, session: str) -> RememberedSession | None:
        found = self._directory.sessions().get(session)
        if found is None:
            return None
        return RememberedSession(dict(found.receivers), list(found.producers), found.client_manager)

    def list_sessions(self, then: Callable[[Set[str]], None]) -> None:
        then(self._directory.sessions().keys())

    def list_holders(self, destination: str, subscription: str, then: Callable[[Sequence[Holding]], None]) -> None:
        queue = self._directory.catalog.queues.get((destination, subscription))
        holders = [holder for holder, _ in queue.receivers] if queue is not None else []
        then([Holding(holder[0], self._manager.deliverer.is_away(holder)) for holder in holders])

    def prepare_take_over(self, destination: str, subscription: str, session: str, then: Callable[[], None]) -> None:
        def prepare() -> None:
            self._manager.deliverer.prepare_take_over((destination, subscription), session)
            then()

        self._manager.when_primary(prepare)

    async def read_fragment(self, session: str, receiver: int, position: int, index: int) -> Buffer:
        return await self._fragment(self._directory.fragment(session, receiver, position, index))

    async def read_fragment_in(self, destination: str, subscription: str, position: int, index: int) -> Buffer:
        queue = self._directory.catalog.queue(destination, subscription)
        return await self._fragment(self._directory.fragment_in(queue.backlog, position, index))

    async def _fragment(self, entry: int) -> Buffer:
        channel = self._manager.channel
        (found,) = channel.recent([entry], 1) or await channel.fetch([entry])
        return self._directory.batch_in(found, entry)

    def list_destinations(self, since: int, then: Callable[[DestinationNews], None]) -> None:
        catalog = self._directory.catalog
        names = catalog.changed_since(since)
        told = [
            (name, self.kind_of(name) or "", self.is_deduplicating(name))
            for name in (catalog.destinations if names is None else names)
        ]
        then(DestinationNews(catalog.version, names is None or not since, told))

    # --- destinations ------------------------------------------------------------------------------------------------

    def kind_of(self, destination: str) -> str | None:
        found = self._directory.catalog.destinations.get(destination)
        return found.kind if found is not None else None

    def is_deduplicating(self, destination: str) -> bool:
        return destination in self._directory.deduplications

    def is_gone(self, destination: str) -> bool:
        return self.is_primary and self.kind_of(destination) is None

    def wait_for_selectors(self, batch: BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        return self._directory.catalog.has_selectors and self._manager.ask_first(batch, payload, then)

    def find_temporary(self, destination: str) -> TemporaryDestination | None:
        found = self._directory.catalog.destinations.get(destination)
        if found is None or not found.owner:
            return None
        return TemporaryDestination(found.kind, found.owner, 0 if isinstance(found, Queue) else len(found.subscriptions))

    def waiting_in(self, destination: str) -> int:
        found = self._directory.catalog.destinations.get(destination)
        return fullness(found)[0] if found is not None else 0

    def is_waiting(self, destination: str, subscription: str, position: int) -> bool:
        return self._directory.backlog((destination, subscription)).is_waiting(position)

    # --- sessions and producers --------------------------------------------------------------------------------------

    def knows_session(self, session: str) -> bool:
        return session in self._directory.sessions()

    def temporaries_of_session(self, session: str) -> int:
        found = self._directory.sessions().get(session)
        return len(found.destinations) if found is not None else 0

    def temporaries_of_user(self, user: str) -> int:
        return self._directory.catalog.temporaries_of(user)

    def durable_producers_of(self, user: str) -> int:
        return self._directory.producers.durable_of(user)

    def has_durable_producer(self, producer: str) -> bool:
        found = self._directory.producers.find(producer)
        return found is not None and found.is_durable

    # --- assemblies --------------------------------------------------------------------------------------------------

    def assembly_bytes(self, session: str, assembly: str) -> int | None:
        found = self._directory.assemblies.find(session, assembly)
        return found.bytes if found is not None else None

    def has_part(self, session: str, assembly: str, number: int) -> bool:
        found = self._directory.assemblies.find(session, assembly)
        return found is not None and found.has(number)

    def open_assemblies(self, session: str) -> int:
        return self._directory.assemblies.open_of(session)

    def staged(self) -> Staged:
        totals = self._directory.assemblies.staged
        return Staged(totals.stages, totals.parts, totals.bytes)
