"""The channel of one simulated node: what it appends to the servers, and how far it has read.

    append ─▶ send window ─▶ packet ─▶ servers ─▶ packet ─▶ receipt        sent again when no answer comes, with the same id
    read   ◀─ how far the servers have told                                late, or after a question when that was lost

What is sent when is decided by the machine of the real channel (`channel.jetstream.machines.send_window`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from holdfast.channel.channel import (
    AtOnce,
    Buffer,
    Entry,
    OnOutcome,
    Pressure,
    Purpose,
    Receipt,
    Snapshot,
    Stretch,
    all_recent,
    older_snapshot,
    tell_outcome,
)
from holdfast.channel.jetstream.machines.send_window import Limits, SendWindow
from holdfast.errors import Closed, LinkLost, NoSuchPosition, TimedOut, Unreachable
from holdfast.simulation.clusters.channel_servers import ChannelServers
from holdfast.simulation.clusters.network import SERVERS, Network
from holdfast.simulation.clusters.process import Process

MIB = 1 << 20
LIMITS = Limits(count_max=256, bytes_max=4 * MIB, fragments_bytes_max=MIB, attempt_s=2.0, give_up_s=20.0)
ASK_INTERVAL_S = 1.0
QUESTION_S = 5.0
RUN_ENTRIES_MAX = 256
RECENT_ENTRIES = 64
ROOM = Pressure(1 << 40, 1 << 40, 1 << 40, is_short=False, size_bytes=1 << 40, ordinary_bytes=1 << 40)

Result = TypeVar("Result")


class SimulatedChannel:
    """Implements `channel.Channel`. Made and used within the process of its node."""

    def __init__(self, servers: ChannelServers, network: Network, process: Process) -> None:
        self._servers = servers
        self._network = network
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._window = SendWindow(LIMITS)
        self._sending: dict[int, tuple[bytes, asyncio.Future[Receipt]]] = {}
        self._tokens = 0
        self._prefix = f"{process.name}.{process.world.now_us}"
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._durable = self._told = servers.last
        self._bytes = 0
        self._is_closed = False
        self._answered_s = self._loop.time()
        self._news = asyncio.Event()
        servers.follow(self._tell)
        self._asking = self._loop.call_later(ASK_INTERVAL_S, self._ask_last)

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._servers.id

    @property
    def first(self) -> int:
        return self._servers.first

    @property
    def durable(self) -> int:
        return self._durable

    @property
    def bytes_appended(self) -> int:
        return self._bytes

    @property
    def pressure(self) -> Pressure:
        return ROOM

    def unanswered(self, seconds: float) -> str:
        """That the servers have not answered for so long; "" when they have."""
        return "the servers do not answer" if self._loop.time() - self._answered_s > seconds else ""

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        """There is always room."""

    def oldest_stretch(self) -> Stretch | None:
        return None

    # --- appending ---------------------------------------------------------------------------------------------------

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if self._is_closed:
            future.set_exception(_closed())
            return future
        self._tokens += 1
        self._sending[self._tokens] = bytes(command), future
        self._window.put(self._tokens, len(command), purpose is Purpose.FRAGMENTS, self._loop.time())
        self._send_soon()
        return future

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        self.append(command, purpose).add_done_callback(partial(tell_outcome, on_outcome))

    def _send_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        while (token := self._window.next_to_send(self._loop.time())) is not None:
            command, future = self._sending[token]
            if future.cancelled():
                self._window.forget(token)
                del self._sending[token]
                continue
            self._network.packet(self._process.name, SERVERS, None, partial(self._arrive, token, command), "appends")
        self._watch_time()

    def _arrive(self, token: int, command: bytes) -> None:
        """At the servers."""

        def answer(number: int | None) -> None:
            self._network.packet(SERVERS, self._process.name, self._process, partial(self._answered, token, number))

        self._servers.take(self._process.name, f"{self._prefix}.{token}", command, answer)

    def _answered(self, token: int, number: int | None) -> None:
        if token not in self._sending:
            return
        if not number:
            self._window.not_taken(token, self._loop.time())
            self._watch_time()
            return
        self._window.accepted(token)
        command, future = self._sending.pop(token)
        self._bytes += len(command)
        self._durable = max(self._durable, number)
        if not future.done():
            future.set_result(Receipt(number, 3, True))
        self._send_soon()

    def _watch_time(self) -> None:
        at = self._window.wake_at()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at is None else self._loop.call_at(at, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        for token, may_be_stored in self._window.expire(self._loop.time()):
            _, future = self._sending.pop(token)
            if not future.done():
                future.set_exception(
                    LinkLost("the command was sent, and not acknowledged; it may have happened")
                    if may_be_stored
                    else Unreachable("the cluster had no leader that could take it; nothing happened, repeat later")
                )
        if self._window.wants_another_server:
            self._window.turned_away()
        self._send_soon()

    # --- reading -----------------------------------------------------------------------------------------------------

    def _tell(self, number: int) -> None:
        """At the servers: an entry was stored."""
        if not self._process.is_dead:
            self._network.packet(SERVERS, self._process.name, self._process, partial(self._hear, number))

    def _hear(self, number: int) -> None:
        if number > self._told:
            self._told = number
            self._durable = max(self._durable, number)
            self._news.set()

    def _ask_last(self) -> None:
        """Now and then, because what the servers told may be lost."""
        self._asking = self._loop.call_later(ASK_INTERVAL_S, self._ask_last)
        self._network.packet(self._process.name, SERVERS, None, self._tell_last)

    def _tell_last(self) -> None:
        """At the servers."""
        self._network.packet(SERVERS, self._process.name, self._process, self._hear_last)

    def _hear_last(self) -> None:
        self._answered_s = self._loop.time()
        self._hear(self._servers.last)

    async def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        number = start
        while True:
            self._check_open()
            if number < self._servers.first:
                raise NoSuchPosition(f"entry {number} was released; the oldest held is {self._servers.first}", entry=number)
            if number <= self._told:
                end = min(self._told + 1, number + RUN_ENTRIES_MAX)
                run = [Entry(each, self._servers.entries[each - 1]) for each in range(number, end)]
                number = end
                yield run
            else:
                self._news.clear()
                await self._news.wait()

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        self._check_open()
        for number in numbers:
            if not 1 <= number <= self._durable:
                raise NoSuchPosition(f"entry {number} is not held", entry=number)

        def look() -> list[Buffer] | NoSuchPosition:
            if any(number < self._servers.first for number in numbers):
                return NoSuchPosition("an entry was released")
            return all_recent((self._servers.entries[number - 1] for number in numbers), bytes_max or 1 << 60) or []

        found = await self._ask(look)
        if isinstance(found, NoSuchPosition):
            raise found
        return found

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        oldest = max(self._servers.first, self._told - RECENT_ENTRIES)
        if self._is_closed or any(not oldest <= number <= self._told for number in numbers):
            return None
        return all_recent((self._servers.entries[number - 1] for number in numbers), bytes_max)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        self._check_open()
        saved = Snapshot(at, [bytes(chunk) for chunk in chunks])
        if not await self._ask(lambda: self._servers.save(saved)):
            raise older_snapshot(at, self._servers.snapshots[-1].at)

    async def load_snapshot(self) -> Snapshot | None:
        self._check_open()
        return await self._ask(lambda: self._servers.snapshots[-1] if self._servers.snapshots else None)

    async def release(self, below: int) -> None:
        self._check_open()
        await self._ask(lambda: self._servers.release(min(below, self._durable + 1)))

    async def _ask(self, look: Callable[[], Result]) -> Result:
        """What the servers say to a question; TimedOut when they do not."""
        answered: asyncio.Future[Result] = self._loop.create_future()
        name = self._process.name

        def hear(result: Result) -> None:
            if not answered.done():
                answered.set_result(result)

        def at_servers() -> None:
            if self._servers.has_majority and not self._servers.is_paused:
                self._network.stream(SERVERS, name, self._process, partial(hear, look()), "questions")

        self._network.stream(name, SERVERS, None, at_servers, "questions")
        try:
            async with asyncio.timeout(QUESTION_S):
                return await answered
        except TimeoutError as problem:
            raise TimedOut("the servers of the channel do not answer; repeat later") from problem

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._asking.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for _, future in self._sending.values():
            if not future.done():
                future.set_exception(_closed())
        self._sending.clear()
        self._news.set()

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()


def _closed() -> Closed:
    return Closed("the channel was closed by this program; open it again")
