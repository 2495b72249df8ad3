"""Stages: events that are stored now, seen by nobody, and published later, once, by a program that knows they are right (D3).

    stage = client.stage("job-7/part-3/attempt-1")            a name of its own for each attempt
    await stage.send("orders", {"sku": 7})
    staged = await stage.seal()                               durable: outlives this client, and restarts of the server

    published = await client.publish("job-7", 12, [staged, …])
    published.is_new                                          False: number 12 of "job-7", or a higher one, was published before

All that is published becomes visible at one moment, in the order of the stages and of what was sent into each; or nothing does.
Where a server has several message managers, a stage may hold events for any of them. It is then at each of these, and published
at all of them, or at none (ADR 25).

The scope remembers its highest number: to publish again after a crash, or because the answer was lost, is safe and changes
nothing. (A server remembers 10,000 scopes; then the one that was used least recently is forgotten.)

A stage takes space until it is published or dropped; the server gives up a stage to which nothing came for an hour (its
`--stage-idle-ms`). Several parts of a stage are in flight at a time; after a lost link they are sent again, and count once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from holdfast.client import checks
from holdfast.client.checks import check_name
from holdfast.client.link.outbox import Outbox
from holdfast.client.sending.batch_builder import BatchBuilder, Kind
from holdfast.client.sending.blocked_destinations import BlockedDestinations
from holdfast.client.sending.outgoing import EventFields, prepare
from holdfast.destination import command
from holdfast.destination.name import check_stage
from holdfast.errors import BadName, BadSetting, Blocked, Closed, HoldfastError, LinkLost, Refused, TimedOut
from holdfast.event import batch as batches
from holdfast.event.identifier import Counter
from holdfast.session.session import stages_of
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

# Parts of all stages of a session in flight. The server bears twice as many parts of a session; the other half is for its
# transactions and large events (`part_outbox`).
PARTS_MAX = 16
# Bytes of them: enough that the next parts are on the wire while the disk has one. All else that the session sends waits for no
# more than these.
BYTES_MAX = 4 << 20
# A part for which there was no room is sent again after this; each time twice as long, up to a maximum.
BLOCKED_AGAIN_S = 0.1
BLOCKED_AGAIN_S_MAX = 2.0
# Bytes gathered for all destinations together; past it the oldest builder goes, full or not.
GATHERED_BYTES_MAX = 4 << 20

Bytes = bytes | memoryview


class Staged(NamedTuple):
    """A sealed stage, to be published. It may travel to another process."""

    name: str
    parts: int
    events: int
    channel: str = ""  # of the message manager where it is; "" where there is one alone
    places: tuple[tuple[str, int], ...] = ()  # where it is at several: each channel, and its parts there


class Published(NamedTuple):
    """The answer to `publish`. `is_new` is False where this number of its scope, or a higher one, was published before; also by
    this very call, when its first answer was lost with its link."""

    is_new: bool
    events: int  # that became visible now
    last: int  # the highest number that the scope has published, this call included


class Stage:
    """Made by `client.stage(name)`. One task uses it at a time."""

    def __init__(self, stages: Stages, name: str, timeout: float | None) -> None:
        check_stage(name)
        session = stages.session
        self.name = name
        self._session = session
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._builders: dict[str, BatchBuilder] = {}
        self._gathered = 0  # bytes
        self._error: HoldfastError | None = None
        self._parts: dict[Stages, int] = {}  # how many, in each channel
        self._events = 0
        self._is_sealed = False

    @property
    def source(self) -> str:
        """The source of events that name none: the client's."""
        return self._session.source

    @property
    def ids(self) -> Counter:
        """Unique ids, for batches that the caller makes."""
        return self._session.ids

    async def send(
        self, destination: str, data: Any = None, *, kind: Kind = "queue", **fields: Unpack[EventFields]
    ) -> None:  # fmt: skip
        """Stage one event, data with fields or an `Event`. Waits only when too much is in flight."""
        self._check_open()
        event = prepare(data, fields, self._session.connection.server_time.now_ms)
        found = self._builders.get(check_name(destination))
        if found is not None and not found.takes(kind, event):
            await self._flush(found)
            found = None
        if found is None:
            found = self._builders[destination] = BatchBuilder(
                destination, destination, _checked(kind), event.priority, event.delay_ms, 0
            )
        before = found.size
        found.add(event)
        self._gathered += found.size - before
        if found.is_full or self._gathered > GATHERED_BYTES_MAX:
            await self._flush(found if found.is_full else next(iter(self._builders.values())))

    async def _flush(self, builder: BatchBuilder) -> None:
        """Make a part of the events gathered for a destination."""
        del self._builders[builder.destination]
        self._gathered -= builder.size
        made = builder.to_batch(self._session.source, self._session.ids)
        try:
            await self._put(builder.destination, builder.kind, made, builder.count)
        except BaseException as problem:  # earlier sends have returned: the stage is not whole
            interrupted = Closed(
                f"sending into stage {self.name!r} was interrupted, and it is not whole; drop it, and begin another"
            )
            self._error = self._error or (problem if isinstance(problem, HoldfastError) else interrupted)
            raise

    async def send_batch(self, destination: str, kind: Kind, batch: Bytes, events: int) -> None:
        """Stage a batch that is made already (`holdfast.event.batch`), of so many events. Waits as `send` does."""
        self._check_open()
        check_name(destination)
        if len(batch) < batches.FIXED_LENGTH or batches.count_of(batch) != events:
            raise BadSetting(f"this is not a batch of {events} events; encode it with holdfast.event.batch", setting="batch")
        if destination in self._builders:  # earlier events go first
            await self._flush(self._builders[destination])
        await self._put(destination, _checked(kind), batch, events)

    async def _put(self, destination: str, kind: Kind, batch: Bytes, events: int) -> None:
        lane: Session = await self._session.at(destination)
        stages, deadline = lane.stages, self._session.connection.deadline(self._timeout)
        try:
            await stages.outbox.room(len(batch), deadline)
        except TimeoutError as problem:
            raise TimedOut("too much is in flight, and no receipt came in time; nothing was sent") from problem
        number = self._parts[stages] = self._parts.get(stages, 0) + 1
        self._events += events
        made = command.Part(stages_of(self._session.id), self.name, number, destination)
        try:
            encoded = command.encode(made, batch)
        except HoldfastError as problem:
            self._error = self._error or problem
            raise
        task = self._session.connection.loop.create_task(self._deliver(stages, destination, kind, encoded))
        stages.outbox.sent(task, self, len(batch))
        task.add_done_callback(stages.outbox.answered)

    async def _deliver(self, stages: Stages, destination: str, kind: Kind, encoded: bytes) -> None:
        """Send a part until it is durable or refused."""
        try:
            await self._receipted(stages, destination, kind, encoded, self._session.connection.deadline(self._timeout))
        except HoldfastError as problem:
            self._error = self._error or problem
        except Exception as problem:  # a fault of ours: the stage must not be sealed without this part
            self._error = self._error or Refused(f"a part of stage {self.name!r} could not be sent: {problem!r}; drop the stage")

    async def _receipted(self, stages: Stages, destination: str, kind: Kind, encoded: bytes, deadline: float) -> None:
        session, is_again, pause_s = stages.session, False, BLOCKED_AGAIN_S
        while self._error is None:
            await session.until_ready(deadline)
            await self._until_free(stages.flow, destination, deadline)
            token, future = session.question()
            session.say(frame.Part(token, kind, "", is_again), encoded)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
                return
            except LinkLost:
                is_again = True
            except Blocked:
                if session.connection.loop.time() + pause_s >= deadline:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, BLOCKED_AGAIN_S_MAX)
            except TimeoutError as problem:
                why = f"a part of stage {self.name!r} was not receipted in {self._timeout:g} s; drop the stage, and begin another"
                raise TimedOut(why) from problem

    async def _until_free(self, flow: BlockedDestinations, destination: str, deadline: float) -> None:
        """Wait while the server is short of room, or the destination at its high water. Blocked when that takes too long."""
        connection = self._session.connection
        try:
            if connection.pressure is not None and connection.pressure.is_short:
                await connection.unblocked(max(deadline - connection.loop.time(), 0.001))
            if flow.is_blocked(destination):
                await flow.unblocked(destination, max(deadline - connection.loop.time(), 0.001))
        except TimedOut as problem:
            if flow.is_blocked(destination):
                raise flow.refusal(destination, self._timeout) from None
            raise Blocked(f"no room to stage anything within {self._timeout:g} s: {problem.sentence}") from None

    async def seal(self) -> Staged:
        """Wait until everything is durable. Raises the refusal of a part: then the stage cannot be published; drop it."""
        if not self._is_sealed:
            self._check_open()
            for builder in list(self._builders.values()):
                await self._flush(builder)
            sending = [task for stages in self._parts for task, stage in stages.outbox.in_flight.items() if stage is self]
            await asyncio.gather(*sending)
            self._check_open()
            self._is_sealed = True
        every = sorted((stages.session.channel, parts) for stages, parts in self._parts.items()) or [(self._session.channel, 0)]
        parts = sum(each for _, each in every)
        return Staged(self.name, parts, self._events, every[0][0], tuple(every) if len(every) > 1 else ())

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_sealed:
            raise Closed(f"stage {self.name!r} is sealed; publish it, and begin another")
        checks.same_loop(self._session.connection.loop)
        self._session.check_open()


class Stages:
    """The stages of a session, which share one window."""

    def __init__(self, session: Session, flow: BlockedDestinations) -> None:
        self.session = session
        self.flow = flow
        self.outbox: Outbox[asyncio.Task[None], Stage] = Outbox(PARTS_MAX, BYTES_MAX)  # which task sends a part of which stage

    def new(self, name: str, timeout: float | None) -> Stage:
        return Stage(self, name, timeout)

    async def publish(self, scope: str, number: int, stages: Iterable[Staged], timeout: float | None) -> Published:
        every = [each for staged in stages for each in _places_of(Staged(*staged))]
        named, channels = [each[:2] for each in every], [each[2] for each in every]
        if type(number) is not int or not isinstance(scope, str):
            raise BadSetting(f"a scope is text and its number whole, not {scope!r:.40} and {number!r:.40}", setting="number")
        told = channels if any(channels) else []
        answer = await self._ask(lambda token: frame.Publish(token, scope, number, named, told), timeout)
        return Published(answer["is_new"], answer["events"], answer["last"])

    async def drop(self, names: Iterable[str], timeout: float | None) -> None:
        if isinstance(names, str):
            raise BadName(f"drop_stages takes a list of names, not {names!r:.40}; put it into brackets")
        wanted = {"names": list(names)}
        for name in wanted["names"]:
            check_stage(name)
        lanes = self.session.lanes
        for each in [self] if lanes is None else [lane.stages for lane in lanes.everywhere()]:
            await each._ask(lambda token: frame.Manage(token, "drop_stages", wanted), timeout)

    async def _ask(self, make: Callable[[int], frame.Message], timeout: float | None) -> Any:
        return await self.session.ask_again(make, checks.seconds(timeout, self.session.connection.timeout))


def _places_of(staged: Staged) -> list[tuple[str, int, str]]:
    """A stage in each of its channels: its name, its parts there, the channel."""
    return [(staged.name, parts, channel) for channel, parts in staged.places or ((staged.channel, staged.parts),)]


def _checked(kind: Kind) -> Kind:
    if kind not in ("queue", "topic"):
        raise BadSetting(f"events are sent to a queue or a topic, not to a {kind!r:.40}", setting="kind")
    return kind
