"""The message manager of another process, as a client manager sees it.

    asked and answered later    ViewAsked ──▶ primary ──▶ ViewAnswered; asked again when a new link is made
    destinations                what the primary has told (`KnownDestinations`)
    stages, what waits          the primary's heartbeats
    which destinations are full told to all; what was lost on the way is asked for (`KnownWatermarks`)
    sessions, assemblies        what went through this client manager (`AppendedCommands`)
    everything else             left to the command, which is judged when it is applied

`MessageManagerView` says what each method answers. A question that is asked twice, because a link was lost, is answered once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

from holdfast.bus.bus import CLIENT_MANAGERS, NODES, Bus, message_manager_subject
from holdfast.bus.message import (
    ApplyNowAsked,
    CopyState,
    Heartbeat,
    LinkMade,
    ViewAnswered,
    ViewAsked,
    Watermark,
    WatermarksAsked,
    WatermarksTold,
)
from holdfast.channel.channel import Buffer
from holdfast.destination.command import BatchCommand
from holdfast.errors import HoldfastError, TimedOut
from holdfast.node.message_manager_view import (
    DestinationNews,
    Holding,
    MessageManagerView,
    RememberedSession,
    Staged,
    TemporaryDestination,
)
from holdfast.node.remote.appended_commands import AppendedCommands
from holdfast.node.remote.known_destinations import KnownDestinations
from holdfast.node.remote.known_watermarks import KnownWatermarks

log = logging.getLogger("holdfast.client_manager")

# A fragment is waited for so long: longer than a takeover takes.
FRAGMENT_TIMEOUT_S = 20.0
# A primary that was not heard for longer does not tell which destinations are full.
FRESH_MS_MAX = 1_000


class _Waiting(NamedTuple):
    asked: ViewAsked
    answered: Callable[[Any], None]
    failed: Callable[[HoldfastError], None]


class RemoteView(MessageManagerView):
    def __init__(
        self,
        name: str,
        client_manager: str,
        bus: Bus,
        appended: AppendedCommands,
        durable: Callable[[], int] = lambda: 0,
        steady_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`client_manager` is the subject on which answers are heard; `durable` tells the newest entry that is known here to be
        durable: answers cover it."""
        self.primary_heard: Callable[[], None] = lambda: None  # called with each heartbeat of the primary
        self._steady_ms = steady_ms
        self._heard_ms: int | None = None  # when the primary was heard last
        self._watermarks = KnownWatermarks()
        self._durable = durable
        self._name = name
        self._client_manager = client_manager
        self._bus = bus
        self._destinations = KnownDestinations()
        self._appended = appended
        self._manager_subject = message_manager_subject(name)
        self._epoch = 0
        self._primary: CopyState | None = None  # as its last heartbeat said
        self._when_primary: list[Callable[[], None]] = []
        self._token = 0
        self._waiting: dict[int, _Waiting] = {}
        self._is_hurrying = False
        self._loop = asyncio.get_running_loop()
        self._stop_listening = [
            bus.listen(client_manager, self._hear),
            bus.listen(NODES, self._hear_node),
            bus.listen(CLIENT_MANAGERS, self._hear_level),
        ]

    def stop(self) -> None:
        for stop in self._stop_listening:
            stop()

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_primary(self) -> bool:
        return self._primary is not None

    @property
    def is_fresh(self) -> bool:
        """The primary was heard a moment ago: what it said of full destinations counts."""
        return self._heard_ms is not None and self._steady_ms() - self._heard_ms <= FRESH_MS_MAX

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _hear(self, message: object) -> None:
        if isinstance(message, ViewAnswered) and message.manager == self._name:
            waiting = self._waiting.pop(message.token, None)
            if waiting is None:
                return  # answered before, or nobody waits any more
            if message.error is not None:
                waiting.failed(message.error)
            else:
                waiting.answered(message.value)
        elif isinstance(message, WatermarksTold) and message.manager == self._name:
            self._watermarks.told(message.epoch, message.version)
        elif isinstance(message, LinkMade) and message.peer == self._manager_subject:
            for waiting in list(self._waiting.values()):
                self._bus.publish(self._manager_subject, waiting.asked)

    def _hear_level(self, message: object) -> None:
        if isinstance(message, Watermark) and message.manager == self._name:
            self._watermarks.heard(message.epoch, message.version)

    def _hear_node(self, heartbeat: object) -> None:
        for copy in heartbeat.copies if isinstance(heartbeat, Heartbeat) else ():
            if copy.manager == self._name and copy.epoch >= self._epoch:
                self._hear_copy(copy)

    def _hear_copy(self, copy: CopyState) -> None:
        if copy.epoch > self._epoch:
            self._epoch, self._primary = copy.epoch, None  # the former one is deposed, whoever says so
        if copy.is_primary:
            self._primary, self._heard_ms = copy, self._steady_ms()
            self._learn(copy)
            if self._watermarks.must_ask(copy.epoch, copy.flow_version):
                self._bus.publish(self._manager_subject, WatermarksAsked(self._client_manager))
            self.primary_heard()
            waiting, self._when_primary = self._when_primary, []
            for then in waiting:
                then()

    def _learn(self, primary: CopyState) -> None:
        """Ask which destinations there are, where something has changed."""
        since = self._destinations.begin(primary.epoch, primary.destinations)
        if since is not None:
            learn = self._destinations.learn
            self._ask("list_destinations", [since], lambda news: learn(primary.epoch, DestinationNews(*news)))

    # --- asked and answered later ------------------------------------------------------------------------------------

    def _ask(self, question: str, arguments: list[Any], answered: Callable[[Any], None]) -> int:
        """Ask the primary, now or when there is one; the token of the question."""
        self._token += 1
        asked = ViewAsked(self._client_manager, self._token, question, arguments, self._durable())
        self._waiting[self._token] = _Waiting(
            asked, answered, lambda problem: log.error("%s at %s: %s", question, self._name, problem)
        )
        self._bus.publish(self._manager_subject, asked)
        return self._token

    def when_primary(self, then: Callable[[], None]) -> None:
        if self.is_primary:
            then()
        else:
            self._when_primary.append(then)

    def when_caught_up(self, then: Callable[[], None], known: int = 0) -> None:
        self._ask("when_caught_up", [], lambda _: then())

    def when_told(self, then: Callable[[], None]) -> None:
        self._ask("when_told", [], lambda _: then())

    def learn_destinations(self, then: Callable[[], None]) -> bool:
        epoch = self._epoch

        def learned(news: Any) -> None:
            if epoch != self._epoch:  # the primary counts anew
                self.learn_destinations(then)
                return
            self._destinations.learn(epoch, DestinationNews(*news))
            then()

        token = self._ask("list_destinations", [self._destinations.since(epoch)], learned)
        self._waiting[token] = self._waiting[token]._replace(failed=lambda _: then())
        return True

    def apply_now(self) -> None:
        """Ask once in a turn of the loop: one message covers everything that was appended before it."""
        if not self._is_hurrying:
            self._is_hurrying = True
            self._loop.call_soon(self._hurry)

    def _hurry(self) -> None:
        self._is_hurrying = False
        self._bus.publish(self._manager_subject, ApplyNowAsked())

    def recall_session(self, session: str, then: Callable[[RememberedSession | None], None]) -> None:
        def answered(found: Any) -> None:
            if found is None:
                then(None)
                return
            receivers, producers, *rest = found  # a node of before tells no more
            places = {number: (key, subscription) for number, key, subscription in receivers}
            then(RememberedSession(places, producers, *rest))

        self._ask("recall_session", [session], answered)

    def list_sessions(self, then: Callable[[Set[str]], None]) -> None:
        self._ask("list_sessions", [], lambda found: then(set(found)))

    def list_destinations(self, since: int, then: Callable[[DestinationNews], None]) -> None:
        self._ask("list_destinations", [since], lambda news: then(DestinationNews(*news)))

    def list_holders(self, destination: str, subscription: str, then: Callable[[Sequence[Holding]], None]) -> None:
        self._ask("list_holders", [destination, subscription], lambda found: then([Holding(*each) for each in found]))

    def prepare_take_over(self, destination: str, subscription: str, session: str, then: Callable[[], None]) -> None:
        self._ask("prepare_take_over", [destination, subscription, session], lambda _: then())

    async def read_fragment(self, session: str, receiver: int, position: int, index: int) -> Buffer:
        return await self._read("read_fragment", [session, receiver, position, index])

    async def read_fragment_in(self, destination: str, subscription: str, position: int, index: int) -> Buffer:
        return await self._read("read_fragment_in", [destination, subscription, position, index])

    async def _read(self, question: str, arguments: list[Any]) -> Buffer:
        answer: asyncio.Future[Buffer] = self._loop.create_future()
        token = self._ask(question, arguments, answer.set_result)
        self._waiting[token] = self._waiting[token]._replace(failed=answer.set_exception)
        try:
            async with asyncio.timeout(FRAGMENT_TIMEOUT_S):
                return await answer
        except TimeoutError as problem:
            raise TimedOut(
                f"message manager {self._name} did not answer within {FRAGMENT_TIMEOUT_S:.0f} s; try again"
            ) from problem
        finally:
            self._waiting.pop(token, None)

    # --- destinations ------------------------------------------------------------------------------------------------

    def kind_of(self, destination: str) -> str | None:
        return self._destinations.kind_of(destination)

    def is_deduplicating(self, destination: str) -> bool:
        return self._destinations.is_deduplicating(destination)

    def is_gone(self, destination: str) -> bool:
        return self.is_primary and self.kind_of(destination) is None

    def wait_for_selectors(self, batch: BatchCommand, payload: Buffer, then: Callable[[], None]) -> bool:
        return False

    def find_temporary(self, destination: str) -> TemporaryDestination | None:
        return None

    def waiting_in(self, destination: str) -> int:
        return self._primary.temporary_waiting.get(destination, 0) if self._primary is not None else 0

    def is_waiting(self, destination: str, subscription: str, position: int) -> bool:
        raise AssertionError("the node's own receiver asks this, and only where the primary is")

    # --- sessions and producers --------------------------------------------------------------------------------------

    def knows_session(self, session: str) -> bool:
        return False

    def temporaries_of_session(self, session: str) -> int:
        return self._appended.temporaries_of(session)

    def temporaries_of_user(self, user: str) -> int:
        return 0

    def durable_producers_of(self, user: str) -> int:
        return 0

    def has_durable_producer(self, producer: str) -> bool:
        return False

    # --- assemblies --------------------------------------------------------------------------------------------------

    def assembly_bytes(self, session: str, assembly: str) -> int | None:
        found = self._appended.find(session, assembly)
        return found.bytes if found is not None else None

    def has_part(self, session: str, assembly: str, number: int) -> bool:
        found = self._appended.find(session, assembly)
        return found is not None and number in found.parts

    def open_assemblies(self, session: str) -> int:
        return self._appended.open_of(session)

    def staged(self) -> Staged:
        told = self._primary
        return Staged(told.stages, told.staged_parts, told.staged_bytes) if told is not None else Staged(0, 0, 0)
