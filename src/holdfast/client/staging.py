"""Stages: events that are stored now, seen by nobody, and published later, once, by whoever knows that they are right (D3).

    stage = client.stage("job-7/part-3/attempt-1")            a name of its own for each attempt
    await stage.send("orders", {"sku": 7})
    staged = await stage.seal()                               durable: outlives this client, and restarts of the server

    published = await client.publish("job-7", 12, [staged, …])
    published.is_new                                          False: number 12 of "job-7", or a higher one, was published before

All that is published becomes visible at one moment, in the order of the stages and of what was sent into each; or nothing does.
The scope remembers its highest number: to publish again after a crash, or because the answer was lost, is safe and changes
nothing. (A server remembers 10,000 scopes; then the one that was used least recently is forgotten.)

What is staged takes space until it is published or dropped; the server gives up a stage in which nothing came for an hour (its
`--stage-idle-ms`). Several parts of a stage are under way at a time; after a lost link they are sent again, and count once.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from holdfast.client import checks
from holdfast.client.destination import check_name
from holdfast.client.gathering import Gathering, Kind
from holdfast.client.outgoing import EventFields, prepare
from holdfast.client.staging_window import Window
from holdfast.destination import command
from holdfast.destination.name import check_stage
from holdfast.errors import BadName, BadSetting, Blocked, Closed, HoldfastError, LinkLost, TimedOut
from holdfast.event import batch as batches
from holdfast.event.identifier import Counter
from holdfast.session.session import stages_of
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.client.session import Session

# When there was no room for a part it is tried again after this; each time twice as long, at most so long.
BLOCKED_AGAIN_S = 0.1
BLOCKED_AGAIN_S_MAX = 2.0
# What is gathered for all destinations together; past it the oldest gathering goes, full or not.
GATHERED_BYTES_MAX = 4 << 20

Bytes = bytes | memoryview


class Staged(NamedTuple):
    """A sealed stage: what `publish` takes. It may travel to another process."""

    name: str
    parts: int
    events: int


class Published(NamedTuple):
    """`is_new` is False where this number of its scope, or a higher one, had been published before; also by this very call, when
    its first answer was lost with its link."""

    is_new: bool
    events: int  # that became visible now
    last: int  # the highest number that the scope has published, this call included


class Stage:
    """Made by `client.stage(name)`. One task uses it at a time."""

    def __init__(self, session: Session, name: str, timeout: float | None) -> None:
        check_stage(name)
        self.name = name
        self._session = session
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._window: Window = session.staging
        self._gatherings: dict[str, Gathering] = {}
        self._gathered = 0  # bytes
        self._under_way: set[asyncio.Task[None]] = set()
        self._error: HoldfastError | None = None
        self._parts = 0
        self._events = 0
        self._is_sealed = False

    @property
    def source(self) -> str:
        """Of events that name none: the client's."""
        return self._session.source

    @property
    def ids(self) -> Counter:
        """Ids that nobody else has, for batches that are made by the caller."""
        return self._session.ids

    async def send(
        self, destination: str, data: Any = None, *, kind: Kind = "queue", **fields: Unpack[EventFields]
    ) -> None:  # fmt: skip
        """Stage one event, data with fields or an `Event`. Waits only when too much is under way."""
        self._check_open()
        event = prepare(data, fields)
        found = self._gatherings.get(check_name(destination))
        if found is not None and (found.priority, found.delay_ms, found.kind) != (event.priority, event.delay_ms, kind):
            await self._flush(found)
            found = None
        if found is None:
            found = self._gatherings[destination] = Gathering(
                destination, destination, _checked(kind), event.priority, event.delay_ms, 0
            )
        before = found.size
        found.add(event)
        self._gathered += found.size - before
        if found.is_full or self._gathered > GATHERED_BYTES_MAX:
            await self._flush(found if found.is_full else next(iter(self._gatherings.values())))

    async def _flush(self, gathering: Gathering) -> None:
        """What was gathered for a destination becomes a part."""
        del self._gatherings[gathering.destination]
        self._gathered -= gathering.size
        made = gathering.to_batch(self._session.source, self._session.ids, time.time_ns() // 1_000_000)
        try:
            await self._put(gathering.destination, gathering.kind, made, gathering.count)
        except BaseException as problem:  # earlier sends were told that it would go
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
        if destination in self._gatherings:  # what was sent before comes before
            await self._flush(self._gatherings[destination])
        await self._put(destination, _checked(kind), batch, events)

    async def _put(self, destination: str, kind: Kind, batch: Bytes, events: int) -> None:
        deadline = self._session.connection.deadline(self._timeout)
        await self._window.enter(len(batch), deadline)
        self._parts += 1
        self._events += events
        made = command.Part(stages_of(self._session.id), self.name, self._parts, destination)
        try:
            encoded = command.encode(made, batch)
        except HoldfastError as problem:
            self._window.leave(len(batch))
            self._error = self._error or problem
            raise
        task = self._session.connection.loop.create_task(self._deliver(destination, kind, encoded, len(batch)))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _deliver(self, destination: str, kind: Kind, encoded: bytes, size: int) -> None:
        """Send a part until it is durable or refused."""
        try:
            await self._receipted(destination, kind, encoded, self._session.connection.deadline(self._timeout))
        except HoldfastError as problem:
            self._error = self._error or problem
        finally:
            self._window.leave(size)

    async def _receipted(self, destination: str, kind: Kind, encoded: bytes, deadline: float) -> None:
        session, is_again, pause_s = self._session, False, BLOCKED_AGAIN_S
        while self._error is None:
            await session.until_ready(deadline)
            await self._until_free(destination, deadline)
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

    async def _until_free(self, destination: str, deadline: float) -> None:
        """Wait while the server is short of room, or the destination at its high water. Blocked when that takes too long."""
        connection, flow = self._session.connection, self._session.producer.flow
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
        """Wait until everything is durable. Raises what a part was refused with: then the stage cannot be published; drop it."""
        if not self._is_sealed:
            self._check_open()
            for gathering in list(self._gatherings.values()):
                await self._flush(gathering)
            await asyncio.gather(*self._under_way)
            self._check_open()
            self._is_sealed = True
        return Staged(self.name, self._parts, self._events)

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._is_sealed:
            raise Closed(f"stage {self.name!r} is sealed; publish it, and begin another")
        checks.same_loop(self._session.connection.loop)
        self._session.check_open()


class Staging(ABC):
    """The part of a client that stages and publishes."""

    @abstractmethod
    def _opened(self) -> Session:
        """The session of an open client; Closed when there is none."""

    def stage(self, name: str, *, timeout: float | None = None) -> Stage:
        """A new stage. The name is the caller's, new for each attempt; `timeout` is for everything in it that waits."""
        return Stage(self._opened(), name, timeout)

    async def publish(
        self, scope: str, number: int, stages: Iterable[Staged], *, timeout: float | None = None
    ) -> Published:  # fmt: skip
        """Let everything in these stages become visible, unless the scope has published this number, or a higher one, before.

        NotPublished: something is missing; nothing changed, and the stages are still there. LinkLost: no answer came in time;
        publish again, which does it once.
        """
        named = [(name, parts) for name, parts, _ in stages]
        if type(number) is not int or not isinstance(scope, str):
            raise BadSetting(f"a scope is text and its number whole, not {scope!r:.40} and {number!r:.40}", setting="number")
        answer = await self._ask(lambda token: frame.Publish(token, scope, number, named), timeout)
        return Published(answer["is_new"], answer["events"], answer["last"])

    async def drop_stages(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        """These will not be published: let them go. What is not there, or was published, is passed over."""
        if isinstance(names, str):
            raise BadName(f"drop_stages takes a list of names, not {names!r:.40}; put it into brackets")
        wanted = {"names": list(names)}
        for name in wanted["names"]:
            check_stage(name)
        await self._ask(lambda token: frame.Manage(token, "drop_stages", wanted), timeout)

    async def _ask(self, make: Callable[[int], frame.Message], timeout: float | None) -> Any:
        session = self._opened()
        return await session.ask_again(make, checks.seconds(timeout, session.connection.timeout))


def _checked(kind: Kind) -> Kind:
    if kind not in ("queue", "topic"):
        raise BadSetting(f"events are sent to a queue or a topic, not to a {kind!r:.40}", setting="kind")
    return kind
