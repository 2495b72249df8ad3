"""The dead events: those that could not be delivered. List them, send them again, or throw them away.

    for event in await client.dead.list():
        print(event.position, event.dead[0].reason)
    await client.dead.replay([position])                  once more to its destination, or to another with to="retry"
    await client.dead.replay(queue="orders", code="redelivered", since="1h")
    await client.dead.purge(selector="amount < 10")       finished for good

`queue` is the queue or topic that gave them up, `code` the reason (`dead_filter.CODES`), `since` how long ago at most, or a time.
A selector sees properties and attributes, not data. Replaying is exactly once: one transaction sends the event again and
removes the dead one. The event keeps its id, source, time, data, properties, group and priority; its time to live is gone. An
event that died in one subscription of a topic is sent to the topic again, and so to all its subscriptions; name a destination
with `to` where only one should have it.
"""

from __future__ import annotations

import builtins
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from holdfast.client import checks
from holdfast.client.checks import check_name
from holdfast.client.reading.browser import BrowsedEvent, Browser
from holdfast.client.reading.dead_filter import DeadFilter, Since
from holdfast.client.receiving.large_event import EventStream
from holdfast.client.sending.batch_builder import Kind
from holdfast.client.sending.outgoing import EventFields, Outgoing
from holdfast.client.transaction import Transaction
from holdfast.destination.name import DEAD, check_sendable
from holdfast.errors import BadSetting, NoSuchDestination, NoSuchPosition, Refused, TransactionAborted
from holdfast.event.event import UNREADABLE_TYPE, encode_head
from holdfast.event.position import Ranges
from holdfast.wire.frame import Attach, DetachReceiver, Manage, Settle, SettledPart

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

LIST_MAX = 1_000
# Events that one transaction replays, or one command purges.
AT_ONCE = 16
# Positions have 64 bits.
POSITIONS_END = 1 << 64

Progress = Callable[[int], None]  # called with the number of events done


class DeadEvents:
    """`client.dead`."""

    def __init__(self, opened: Callable[[], Session]) -> None:
        self._opened = opened

    def browse(self, *, selector: str | None = None, timeout: float | None = None) -> Browser:
        """All dead events, oldest death first: `async with client.dead.browse() as events: async for event in events: …`."""
        return Browser(self._opened(), DEAD, "", selector, AT_ONCE, timeout)

    async def list(
        self,
        *,
        selector: str | None = None,
        queue: str | None = None,
        code: str | None = None,
        since: Since | None = None,
        limit: int = LIST_MAX,
        timeout: float | None = None,
    ) -> builtins.list[BrowsedEvent]:
        """The first `limit` dead events. `event.dead` says where, why and when each was given up. Looking changes nothing."""
        wanted = DeadFilter.of(queue, code, since)
        if type(limit) is not int or limit < 1:
            raise BadSetting(f"limit {limit!r} is not a number of events; give 1 or more", setting="limit")
        found: builtins.list[BrowsedEvent] = []
        async with aclosing(self._matching(selector, wanted, timeout)) as events:
            async for event in events:
                found.append(event)
                if len(found) == limit:
                    break
        return found

    async def show(self, position: int, *, channel: str = "", timeout: float | None = None) -> BrowsedEvent:
        """One dead event. NoSuchPosition when there is none at this position. Where there are several message managers, each has
        a position of this number: say the `channel` (`event.channel`). Without it, an event that is the only one is found."""
        session = self._opened()
        _check_position(position)
        if session.lanes is None:
            return await self._show_in(session, position, timeout)
        if channel:
            return await self._show_in(session.lanes.lane(channel), position, timeout)
        found = []
        for lane in session.lanes.everywhere():
            with contextlib.suppress(NoSuchPosition):
                found.append(await self._show_in(lane, position, timeout))
        if len(found) > 1:
            where = ", ".join(event.channel for event in found)
            raise BadSetting(
                f"there are dead events at position {position} of {where}; say which is meant, with channel (--channel)",
                setting="channel",
            )
        if not found:
            raise _no_such_position(position)
        return found[0]

    async def _show_in(self, session: Session, position: int, timeout: float | None) -> BrowsedEvent:
        allowed = checks.seconds(timeout, session.connection.timeout)
        cursor = await session.ask_again(lambda token: Manage(token, "dead_cursor", {"position": position}), allowed)
        async with Browser(session, DEAD, "", None, 1, timeout, cursor=cursor) as events:
            event = await events.next()
        if event is None or event.position != position:
            raise _no_such_position(position)
        return event

    async def replay(
        self,
        positions: Iterable[int] | None = None,
        *,
        channel: str = "",
        selector: str | None = None,
        queue: str | None = None,
        code: str | None = None,
        since: Since | None = None,
        everything: bool = False,
        to: str | None = None,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> int:
        """Send dead events again, to their own destination or to `to`, and remove them. Returns how many.

        Choose them by their positions, with their `channel` where there are several message managers; by a selector, a queue, a
        code and a time; or with `everything=True`. An event that is removed by others meanwhile, or whose head cannot be read, is
        passed over. `progress` is called with the number done.
        """
        if to is not None:
            check_sendable(check_name(to))
        chosen = self._chosen(positions, channel, selector, DeadFilter.of(queue, code, since), everything, timeout)
        return await _run(lambda lane, done: _Replay(lane, to, done, timeout), progress, chosen)

    async def purge(
        self,
        positions: Iterable[int] | None = None,
        *,
        channel: str = "",
        selector: str | None = None,
        queue: str | None = None,
        code: str | None = None,
        since: Since | None = None,
        everything: bool = False,
        progress: Progress | None = None,
        timeout: float | None = None,
    ) -> int:
        """Throw dead events away for good. Choose them as for `replay`. Returns how many."""
        chosen = self._chosen(positions, channel, selector, DeadFilter.of(queue, code, since), everything, timeout)
        return await _run(lambda lane, done: _Purge(lane, done, timeout), progress, chosen)

    def _chosen(
        self,
        positions: Iterable[int] | None,
        channel: str,
        selector: str | None,
        wanted: DeadFilter,
        everything: bool,
        timeout: float | None,
    ) -> AsyncIterator[BrowsedEvent]:
        if sum((positions is not None, selector is not None or not wanted.is_open, everything)) != 1:
            raise BadSetting(
                "say which dead events are meant: their positions; a selector, queue, code or time; or everything=True (--all)",
                setting="positions",
            )
        if isinstance(selector, str) and not selector.strip():  # more often a variable that was not set than all of them
            raise BadSetting(
                "an empty selector would mean all dead events; say everything=True (--all) if that is meant", setting="selector"
            )
        if positions is None:
            return self._matching(selector, wanted, timeout)
        chosen = [positions] if isinstance(positions, int) else builtins.list(positions)
        for position in chosen:
            _check_position(position)
        return self._at(chosen, channel, timeout)

    async def _matching(
        self, selector: str | None, wanted: DeadFilter, timeout: float | None
    ) -> AsyncGenerator[BrowsedEvent, None]:
        async with self.browse(selector=selector, timeout=timeout) as events:
            async for event in events:
                if wanted.passes(event):
                    yield event

    async def _at(self, positions: Sequence[int], channel: str, timeout: float | None) -> AsyncIterator[BrowsedEvent]:
        for position in dict.fromkeys(positions):
            yield await self.show(position, channel=channel, timeout=timeout)


class _Removing(ABC):
    """Removes dead events. Its receiver is attached to the dead queue and takes nothing: an attached receiver may confirm."""

    def __init__(self, session: Session, done: Progress, timeout: float | None) -> None:
        """`done` is called with the number of events that were removed together."""
        self._session = session
        self._tell_done = done
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._receiver = session.next_receiver()
        self._gathered: list[BrowsedEvent] = []

    async def attach(self) -> None:
        await self._session.ask(lambda token: Attach(token, self._receiver, DEAD, "queue"), self._timeout)

    async def detach(self) -> None:
        await self._session.ask(lambda token: DetachReceiver(token, self._receiver), self._timeout)

    async def add(self, event: BrowsedEvent) -> None:
        """Remove it, together with others."""
        self._gathered.append(event)
        if len(self._gathered) == AT_ONCE:
            await self.finish()

    async def finish(self) -> None:
        """Remove those that were added and are not removed yet."""
        events, self._gathered = self._gathered, []
        if events:
            self._tell_done(await self._removed(events))

    @abstractmethod
    async def _removed(self, events: list[BrowsedEvent]) -> int:
        """Remove these events. Returns how many were still there."""


async def _run(
    make: Callable[[Session, Progress], _Removing], progress: Progress | None, chosen: AsyncIterator[BrowsedEvent]
) -> int:
    """Remove the chosen events, those of each channel by one of its own; return how many."""
    total = 0
    by_lane: dict[Session, _Removing] = {}

    def done(count: int) -> None:
        nonlocal total
        total += count
        if progress is not None:
            progress(total)

    try:
        async for event in chosen:
            lane: Session = event.slice.origin.session
            if lane not in by_lane:
                removing = make(lane, done)
                await removing.attach()
                by_lane[lane] = removing
            await by_lane[lane].add(event)
        for each in by_lane.values():
            await each.finish()
    finally:
        for each in by_lane.values():
            await each.detach()
    return total


def _no_such_position(position: int) -> NoSuchPosition:
    return NoSuchPosition(f"no dead event waits at position {position}; `dead.list` shows those that do", position=position)


def _check_position(given: object) -> None:
    if type(given) is not int or not 0 <= given < POSITIONS_END:
        raise BadSetting(f"position {given!r:.40} is not the place of an event; `dead.list` shows them", setting="positions")


def _ranges(events: Sequence[BrowsedEvent]) -> bytes:
    return Ranges.gather((event.position, event.position) for event in events).to_bytes()


class _Purge(_Removing):
    async def _removed(self, events: list[BrowsedEvent]) -> int:
        ranges = _ranges(events)
        found: int = await self._session.ask(
            lambda token: Settle(token, self._receiver, "confirm", ranges, channel=self._session.channel), self._timeout
        )
        return found


class _ReplayTransaction(Transaction):
    """Confirms events that were browsed, not received. An event that is gone by then aborts it."""

    def __init__(self, session: Session, receiver: int, events: Sequence[BrowsedEvent], timeout: float) -> None:
        super().__init__(session, timeout)
        self._is_replay = True
        self._part = SettledPart(receiver, _ranges(events))

    def _settled(self) -> dict[Session, list[SettledPart]]:
        return {self._session: [self._part]}


class _Replay(_Removing):
    def __init__(self, session: Session, to: str | None, done: Progress, timeout: float | None) -> None:
        super().__init__(session, done, timeout)
        self._to = to
        self._kinds: dict[str, Kind] = {}

    async def _removed(self, events: list[BrowsedEvent]) -> int:
        """Send all in one transaction; one by one if one of them is gone meanwhile, or is large: a transaction has room for one
        large event. An event that cannot be read stays dead."""
        events = [event for event in events if event.type != UNREADABLE_TYPE]
        if not events:
            return 0
        if len(events) > 1 and any(event.is_large for event in events):
            return sum([await self._removed([event]) for event in events])
        try:
            await self._send(events)
            return len(events)
        except (TransactionAborted, NoSuchPosition):
            if len(events) == 1:
                if await self._is_gone(events[0]):
                    return 0
                raise
        return sum([await self._removed([event]) for event in events])

    async def _is_gone(self, event: BrowsedEvent) -> bool:
        try:
            await DeadEvents(lambda: self._session).show(event.position, channel=event.channel, timeout=self._timeout)
        except NoSuchPosition:
            return True
        return False

    async def _send(self, events: list[BrowsedEvent]) -> None:
        async with _ReplayTransaction(self._session, self._receiver, events, self._timeout) as transaction:
            for event in events:
                destination = self._to or event.destination
                if destination == DEAD:
                    raise Refused(
                        f"the destination of the event at {event.position} is not known any more; name one with `to`",
                        position=event.position,
                    )
                kind = await self._kind(destination, event)
                if event.is_large:
                    await self._put_large(transaction, destination, kind, event)
                else:
                    await transaction.put(destination, kind, _outgoing(event))

    async def _put_large(self, transaction: Transaction, destination: str, kind: Kind, event: BrowsedEvent) -> None:
        """Read its fragments where they lie and send them again, a few at a time."""
        content = EventStream(self._session, self._receiver, event.position, event.head.large, b"")
        async with content:
            await transaction.put_stream(destination, kind, content, None, _fields(event))

    async def _kind(self, destination: str, event: BrowsedEvent) -> Kind:
        """The kind of a destination. One that is gone is created at first use, as what it was."""
        known = self._kinds.get(destination)
        if known is None:
            try:
                described = await self._session.ask_again(
                    lambda token: Manage(token, "describe", {"name": destination}), self._timeout
                )
                known = described["kind"]
            except NoSuchDestination:
                known = "topic" if self._to is None and event.dead and event.dead[0].subscription else "queue"
            self._kinds[destination] = known
        return known


def _outgoing(event: BrowsedEvent) -> Outgoing:
    """The same event with its id and source in its head, and without its time to live."""
    head = msgspec.structs.replace(event.head, id=event.id, source=event.source, expires_at_ms=0)
    return Outgoing(encode_head(head), bytes(event.body), event.priority, 0, 0, head.group is not None, event.id)


def _fields(event: BrowsedEvent) -> EventFields:
    """The fields of a large event, without its time to live."""
    return {
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time,
        "subject": event.subject,
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
        "properties": dict(event.properties),
        "priority": event.priority,
        "group": event.group,
        "correlation_id": event.correlation_id,
        "reply_to": event.reply_to,
    }
