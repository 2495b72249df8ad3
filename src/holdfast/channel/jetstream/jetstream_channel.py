"""A channel on JetStream: one stream, whose sequence numbers are the entry numbers.

Three sources tell which entry is durable: an acknowledgement, an entry that was read, and a question once a second. The servers
hand out and acknowledge only entries that a majority of the copies has synced. If the three contradict each other, the stream has
lost its end (`machines/tail_judge`): nothing is accepted or read any more, and the leader is asked to step down.
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
from holdfast.channel.jetstream.copies import Copies
from holdfast.channel.jetstream.direct_get import DirectGet
from holdfast.channel.jetstream.durability import check_servers
from holdfast.channel.jetstream.entries import Entries
from holdfast.channel.jetstream.machines.copy_judge import Found
from holdfast.channel.jetstream.machines.stretches import Stretches
from holdfast.channel.jetstream.machines.tail_judge import TailJudge
from holdfast.channel.jetstream.nats_errors import FOREIGN, damaged_tail, translate
from holdfast.channel.jetstream.reader import Reader
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.channel.jetstream.snapshots import Snapshots
from holdfast.channel.jetstream.stream_space import StreamSpace
from holdfast.errors import BadSetting, Closed, HoldfastError, NoSuchPosition, TooLarge

log = logging.getLogger(__name__)

# Other programs append too, so the stream is asked how full it is before they fill it. A question a second costs next to nothing.
ASK_INTERVAL_S = 1.0
# The connection is left in good order within this time, or not.
LEAVE_S = 2.0

Result = TypeVar("Result")


class JetStreamChannel:
    """Implements `channel.Channel`. Use `await JetStreamChannel.open(name, settings)`."""

    def __init__(self, connection: Client, names: Names, settings: JetStreamSettings, readers: list[Reader]) -> None:
        self._connection = connection
        self._readers = readers
        self._names = names
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._id = ""
        self._first = 1
        self._leader = ""
        self._appended_bytes = 0
        self._read_bytes = 0
        self._read_up_to = 0
        self._unchecked: tuple[str, ...] = ()
        self._refusal: HoldfastError | None = None  # once the servers cannot be trusted any more
        self._watchers: list[Callable[[Pressure], None]] = []
        self._took: Callable[[float], None] = lambda seconds: None
        self._heard_s = self._loop.time()
        self._judge = TailJudge()
        self._space = StreamSpace(names, settings, self._tell_watchers)
        self._stretches = Stretches(settings.stretch_bytes)
        self._direct = DirectGet(connection, names)
        self._copies = Copies(connection, names, settings, lambda number: self._entries.check_held(number))
        self._entries = Entries(connection, names, settings, self._direct, self._copies.suspect)
        self._snapshots = Snapshots(connection, names, settings)
        self._context = context = connection.jetstream(timeout=settings.timeout_s)
        self._appender = Appender(
            connection, names, settings, self._judge, self._on_accepted, self._on_damaged_tail,
            lambda: stream.raise_limit(context, names, settings),
        )  # fmt: skip
        self._state_task: asyncio.Task[None] | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, name: str, settings: JetStreamSettings) -> JetStreamChannel:
        """Open the channel. BadSetting if the servers would not keep our promises; Unreachable or TimedOut if they are silent."""
        names = Names(name)
        readers: list[Reader] = []
        channels: list[JetStreamChannel] = []
        connection = await stream.connect(settings, lambda: _lose_connection(channels), lambda: _renew(readers))
        try:
            prepared = await stream.prepare(connection, names, settings)
            channel = cls(connection, names, settings, readers)
            await channel._start(prepared)
            channels.append(channel)
        except BaseException:
            await connection.close()
            raise
        return channel

    def on_connection_lost(self) -> None:
        self._appender.on_connection_lost()
        self._direct.connection_lost()

    async def _start(self, prepared: stream.Prepared) -> None:
        info, self._unchecked = prepared
        self._id = f"{self._names.stream}@{info.created.timestamp() if info.created else 0:.6f}"
        await self._ask("opening the channel", self._entries.learn_released())
        self._heard(info, 0)
        self._stretches = Stretches(self._settings.stretch_bytes, self._first)
        self._read_up_to = self.durable  # entries from before the opening are not new
        await self._direct.start()
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
        return self._judge.known

    @property
    def damaged_copies(self) -> dict[str, str]:
        """Servers whose copy was found to be damaged, and what is wrong with it."""
        return dict(self._copies.damaged)

    @property
    def bytes_appended(self) -> int:
        """Bytes appended since the opening: those of all programs if this one reads the channel, otherwise its own."""
        return max(self._appended_bytes, self._read_bytes)

    @property
    def pressure(self) -> Pressure:
        return self._space.pressure

    def oldest_stretch(self) -> Stretch | None:
        """Return the oldest stretch of `stretch_bytes`. The servers free entries one by one; this is what upkeep works on."""
        return self._stretches.oldest(self._first, self.pressure.used_bytes)

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        self._watchers.append(changed)

    def watch_appends(self, took: Callable[[float], None]) -> None:
        """Call `took` with the seconds from each append to its acknowledgement."""
        self._took = took

    def unanswered(self, seconds: float) -> str:
        """Why nothing can be appended, as far as is known: the servers cannot be trusted, or have not answered for so long. It is
        "" when they have."""
        if self._refusal is not None:
            return self._refusal.sentence
        silent_s = self._loop.time() - self._heard_s
        if max(silent_s, self._appender.waiting_s) < seconds:
            return ""
        return f"the NATS servers have not answered for {max(silent_s, self._appender.waiting_s):.0f} s"

    def _tell_watchers(self, pressure: Pressure) -> None:
        for changed in self._watchers:
            self._loop.call_soon(changed, pressure)

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        refusal = self._refusal_of(len(command), purpose)
        if refusal is None:
            return self._appender.append(bytes(command), purpose)
        future: asyncio.Future[Receipt] = self._loop.create_future()
        future.set_exception(refusal)
        return future

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        self.append(command, purpose).add_done_callback(partial(tell_outcome, on_outcome))

    def _refusal_of(self, length: int, purpose: Purpose) -> HoldfastError | None:
        if self._is_closed:
            return _closed()
        if self._refusal is not None:
            return self._refusal
        if length > COMMAND_BYTES_MAX:
            return TooLarge(
                f"a command of {length} bytes is over the limit of {COMMAND_BYTES_MAX}; send smaller batches", length=length
            )
        return self._space.take(length, purpose.reserve)

    def _on_accepted(self, number: int, length: int, seconds: float) -> None:
        self._appended_bytes += length
        self._heard_s = self._loop.time()
        self._took(seconds)
        self._stretches.note(number, length + self._names.record_overhead_bytes)

    def _on_read(self, run: Sequence[Found]) -> list[Entry]:
        for each in run:
            if wrong := self._judge.saw(each.number, each.checksum):
                raise self._on_damaged_tail(wrong)
            self._stretches.note(each.number, len(each.command) + self._names.record_overhead_bytes)
        entries = [Entry(each.number, each.command) for each in run]
        self._read_bytes += sum(len(command) for number, command in entries if number > self._read_up_to)
        self._read_up_to = max(self._read_up_to, entries[-1].number)
        self._entries.remember(entries)
        return entries

    # --- what the servers say ------------------------------------------------------------------------------------------

    async def _ask_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(ASK_INTERVAL_S)
            try:
                await self._learn_state()
                await self._check_those_that_were_down()
            except HoldfastError as problem:  # appends and reads report it; here it is only tried again
                log.debug("channel %s: %s", self._names.channel, problem)
            except Exception as problem:  # a fault of ours: if this task ended, nobody would ask again
                log.error("channel %s: asking for its state failed: %r", self._names.channel, problem)

    async def _learn_state(self) -> None:
        known = self._judge.known
        info = await self._ask("asking for the state of the stream", self._context.stream_info(self._names.stream))
        self._heard(info, known)
        await self._ask("lowering the limit of the stream", stream.lower_limit(self._context, info, self._settings))

    def _heard(self, info: api.StreamInfo, known_when_asked: int) -> None:
        state = info.state
        self._heard_s = self._loop.time()
        self._leader = (info.cluster.leader if info.cluster else None) or "(the only one)"
        if wrong := self._judge.heard_last(state.last_seq, known_when_asked, is_led=stream.is_led(info, self._settings)):
            self._on_damaged_tail(wrong)
        held_from = state.first_seq if state.messages else state.last_seq + 1
        self._first = max(self._first, held_from)
        self._space.heard(state.bytes, self._appender.open_bytes)

    async def _check_those_that_were_down(self) -> None:
        if not self._unchecked:
            return
        try:
            self._unchecked = (await check_servers(self._unchecked, ASK_INTERVAL_S, self._settings.monitor_tls)).silent
        except BadSetting as problem:
            self._refuse_all(problem)

    def _on_damaged_tail(self, wrong: str) -> HoldfastError:
        """Stop accepting and reading, and ask the leader to step down: another server may have the whole."""
        problem = self._refuse_all(damaged_tail(self._names.stream, self._leader, wrong))
        stepping = self._connection.publish(f"$JS.API.STREAM.LEADER.STEPDOWN.{self._names.stream}", b"")
        self._loop.create_task(stepping).add_done_callback(lambda done: done.cancelled() or done.exception())
        return problem

    def _refuse_all(self, problem: HoldfastError) -> HoldfastError:
        if self._refusal is None:
            self._refusal = problem
            log.error("channel %s: %s", self._names.channel, problem)
            self._loop.call_soon(self._appender.stop, problem)
            _renew(self._readers)
        return self._refusal

    # --- reading -------------------------------------------------------------------------------------------------------

    async def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        self._check_trusted()
        if start < 1:
            raise NoSuchPosition(f"there is no entry {start}; entries are numbered from 1", entry=start)
        reader = Reader(self._connection, self._names, self._entries, self._direct, self._check_trusted)
        self._readers.append(reader)
        runs = reader.runs(start)
        try:
            async for run in runs:
                yield self._on_read(run)
        finally:
            self._readers.remove(reader)
            await runs.aclose()

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Return the commands. A message always comes whole, whatever `front` says."""
        self._check_open()
        for number in numbers:
            if not 1 <= number <= self.durable:
                raise NoSuchPosition(
                    f"entry {number} is not held; this channel holds {self._first}..{self.durable}", entry=number
                )
        return await self._entries.fetch(numbers, bytes_max)

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        return None if self._is_closed else self._entries.recent(numbers, bytes_max)

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        self._check_open()
        if not 0 <= at <= self.durable:
            raise NoSuchPosition(f"no snapshot can be saved as of entry {at}: the newest durable is {self.durable}", entry=at)
        await self._ask("saving a snapshot", self._snapshots.save(at, chunks, self._stretches.saved(at)))

    async def load_snapshot(self) -> Snapshot | None:
        self._check_open()
        loaded = await self._ask("loading the snapshot", self._snapshots.load())
        if loaded is None:
            return None
        snapshot, stretches = loaded
        self._stretches.adopt(stretches)
        return snapshot

    async def release(self, below: int) -> None:
        """Release entries, but none after the older of the two snapshots that are kept."""
        self._check_open()
        end = min(below, self.durable + 1)
        if end > self._first:
            end = await self._ask("releasing entries", self._snapshots.releasable(end))
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
        self._direct.connection_lost()
        await self._appender.close()
        await self._copies.close()
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._connection.close()
        except TimeoutError:
            log.warning("channel %s: its connection was not closed within %s s", self._names.channel, LEAVE_S)

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()

    def _check_trusted(self) -> None:
        self._check_open()
        if self._refusal is not None:
            raise self._refusal


def _renew(readers: list[Reader]) -> None:
    for reader in readers:
        reader.renew()


def _lose_connection(channels: list[JetStreamChannel]) -> None:
    for channel in channels:
        channel.on_connection_lost()


def _closed() -> Closed:
    return Closed("the channel was closed by this program; open it again")
