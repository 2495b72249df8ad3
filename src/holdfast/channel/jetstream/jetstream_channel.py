"""A channel on JetStream: one stream, whose sequence numbers are the entry numbers.

Three sources tell which entry is durable: an acknowledgement, an entry that was read, and a question once a second. The servers
hand out and acknowledge only entries that a majority of the copies has synced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from nats.aio.client import Client
from nats.js import api

from holdfast.channel.channel import (
    COMMAND_BYTES_MAX,
    AtOnce,
    Buffer,
    Entry,
    OnOutcome,
    Pressure,
    Purpose,
    Receipt,
    Snapshot,
    Stretch,
    tell_outcome,
)
from holdfast.channel.jetstream import stream
from holdfast.channel.jetstream.appender import Appender
from holdfast.channel.jetstream.entries import Entries
from holdfast.channel.jetstream.nats_errors import FOREIGN, translate
from holdfast.channel.jetstream.reader import Reader
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.channel.jetstream.snapshots import Snapshots
from holdfast.channel.jetstream.stream_space import StreamSpace
from holdfast.errors import Closed, HoldfastError, NoSuchPosition, TooLarge

log = logging.getLogger(__name__)

# Other programs append too, so the stream is asked how full it is before they fill it. A question a second costs next to nothing.
ASK_INTERVAL_S = 1.0

Result = TypeVar("Result")


class JetStreamChannel:
    """Implements `channel.Channel`. Use `await JetStreamChannel.open(name, settings)`."""

    def __init__(self, connection: Client, names: Names, settings: JetStreamSettings, readers: list[Reader]) -> None:
        self._connection = connection
        self._readers = readers
        self._names = names
        self._loop = asyncio.get_running_loop()
        self._id = ""
        self._first = 1
        self._durable = 0
        self._appended_bytes = 0
        self._read_bytes = 0
        self._read_up_to = 0
        self._watchers: list[Callable[[Pressure], None]] = []
        self._space = StreamSpace(names, settings, self._tell_watchers)
        self._entries = Entries(connection, names, settings)
        self._snapshots = Snapshots(connection, names, settings)
        self._appender = Appender(connection, names, settings, self._on_accepted)
        self._context = connection.jetstream(timeout=settings.timeout_s)
        self._state_task: asyncio.Task[None] | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, name: str, settings: JetStreamSettings) -> JetStreamChannel:
        """Open the channel. BadSetting if the servers would not keep our promises; Unreachable or TimedOut if they are silent."""
        names = Names(name)
        readers: list[Reader] = []
        connection = await stream.connect(settings, lambda: _renew(readers))
        try:
            info = await stream.prepare(connection, names, settings)
            channel = cls(connection, names, settings, readers)
            await channel._start(info)
        except BaseException:
            await connection.close()
            raise
        return channel

    async def _start(self, info: api.StreamInfo) -> None:
        self._id = f"{self._names.stream}@{info.created.timestamp() if info.created else 0:.6f}"
        await self._ask("opening the channel", self._entries.learn_released())
        self._heard(info.state)
        self._read_up_to = self._durable  # entries from before the opening are not new
        await self._appender.start()
        self._state_task = self._loop.create_task(self._ask_now_and_then())

    @property
    def id(self) -> str:
        return self._id

    @property
    def first(self) -> int:
        return self._first

    @property
    def durable(self) -> int:
        return self._durable

    @property
    def bytes_appended(self) -> int:
        """Bytes appended since the opening: those of all programs if this one reads the channel, otherwise its own."""
        return max(self._appended_bytes, self._read_bytes)

    @property
    def pressure(self) -> Pressure:
        return self._space.pressure

    def oldest_stretch(self) -> Stretch | None:
        return None  # the servers free entries one by one

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        self._watchers.append(changed)

    def _tell_watchers(self, pressure: Pressure) -> None:
        for changed in self._watchers:
            self._loop.call_soon(changed, pressure)

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        refusal = self._refusal_of(len(command), purpose)
        if refusal is None:
            return self._appender.append(bytes(command))
        future: asyncio.Future[Receipt] = self._loop.create_future()
        future.set_exception(refusal)
        return future

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        self.append(command, purpose).add_done_callback(partial(tell_outcome, on_outcome))

    def _refusal_of(self, length: int, purpose: Purpose) -> HoldfastError | None:
        if self._is_closed:
            return _closed()
        if length > COMMAND_BYTES_MAX:
            return TooLarge(
                f"a command of {length} bytes is over the limit of {COMMAND_BYTES_MAX}; send smaller batches", length=length
            )
        return self._space.take(length, purpose.reserve)

    def _on_accepted(self, number: int, length: int) -> None:
        self._on_durable(number)
        self._appended_bytes += length

    def _on_read(self, run: Sequence[Entry]) -> None:
        self._on_durable(run[-1].number)
        self._read_bytes += sum(len(command) for number, command in run if number > self._read_up_to)
        self._read_up_to = max(self._read_up_to, run[-1].number)
        self._entries.remember(run)

    def _on_durable(self, number: int) -> None:
        self._durable = max(self._durable, number)

    async def _ask_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(ASK_INTERVAL_S)
            try:
                await self._learn_state()
            except HoldfastError as problem:  # appends and reads report it; here it is only tried again
                log.debug("channel %s: %s", self._names.channel, problem)
            except Exception as problem:  # a fault of ours: if this task ended, nobody would ask again
                log.error("channel %s: asking for its state failed: %r", self._names.channel, problem)

    async def _learn_state(self) -> None:
        info = await self._ask("asking for the state of the stream", self._context.stream_info(self._names.stream))
        self._heard(info.state)

    def _heard(self, state: api.StreamState) -> None:
        self._on_durable(state.last_seq)
        held_from = state.first_seq if state.messages else state.last_seq + 1
        self._first = max(self._first, held_from)
        self._space.heard(state.bytes, self._appender.open_bytes)

    async def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        self._check_open()
        if start < 1:
            raise NoSuchPosition(f"there is no entry {start}; entries are numbered from 1", entry=start)
        reader = Reader(self._connection, self._names, self._entries, self._check_open)
        self._readers.append(reader)
        runs = reader.runs(start)
        try:
            async for run in runs:
                self._on_read(run)
                yield run
        finally:
            self._readers.remove(reader)
            await runs.aclose()

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Return the commands. A message always comes whole, whatever `front` says."""
        self._check_open()
        for number in numbers:
            if not 1 <= number <= self._durable:
                raise NoSuchPosition(
                    f"entry {number} is not held; this channel holds {self._first}..{self._durable}", entry=number
                )
        return await self._entries.fetch(numbers, bytes_max)

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        return None if self._is_closed else self._entries.recent(numbers, bytes_max)

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        self._check_open()
        if not 0 <= at <= self._durable:
            raise NoSuchPosition(f"no snapshot can be saved as of entry {at}: the newest durable is {self._durable}", entry=at)
        await self._ask("saving a snapshot", self._snapshots.save(at, chunks))

    async def load_snapshot(self) -> Snapshot | None:
        self._check_open()
        return await self._ask("loading the snapshot", self._snapshots.load())

    async def release(self, below: int) -> None:
        self._check_open()
        end = min(below, self._durable + 1)
        if end > self._first:
            await self._ask("releasing entries", self._entries.release(end))
            await self._learn_state()

    async def _ask(self, doing: str, question: Awaitable[Result]) -> Result:
        try:
            return await question
        except FOREIGN as problem:
            raise translate(problem, doing) from problem

    async def close(self) -> None:
        """Wait for sent commands, end readers, leave the cluster. Closing twice does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._state_task is not None:
            self._state_task.cancel()
        _renew(self._readers)  # they find that it is closed
        await self._appender.close()
        await self._connection.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()


def _renew(readers: list[Reader]) -> None:
    for reader in readers:
        reader.renew()


def _closed() -> Closed:
    return Closed("the channel was closed by this program; open it again")
