"""Transactions: events that are sent and confirmed together, all or nothing.

    async with client.queue("orders").receive() as incoming:
        async for order in incoming:
            async with client.transaction() as tx:
                await tx.queue("invoices").send({"for": order.id})
                await tx.topic("log").send("invoiced")
                await tx.confirm(order)

Leaving without an exception commits. With an exception, or after `await tx.rollback()`, nothing of it has happened. Events are
stored at once, but nobody sees them before the commit; then they become visible in all destinations at one moment. A small
transaction is one round trip and one sync.

Rolling back affects every receiver whose events were confirmed in the transaction: it gives back all that it was handed, seen
by the program or not. Events of a queue go to any recipient, those of a subscription to the same one. To keep independent
transactions apart, use a session (`client.session()`) with its own receivers for each.

Open receivers outside the transaction: if a receiver is closed before the commit, its events go to others, and the transaction
is aborted. Raises TransactionAborted when nothing of it happened; LinkLost, with the ids of the events, when the commit was
sent and no answer came. Where a server has several message managers, what it sends and confirms may be at any of them: it
happens at all, or at none (ADR 25). A cancelled commit may still take effect. An event that its destination has accepted before
(`deduplicate`) is left out, and the rest of the transaction happens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from holdfast.client import checks, tracing
from holdfast.client.assembly.joint_commit import JointCommit, JointPart
from holdfast.client.assembly.sent_batch import PassedBatch, SentBatch
from holdfast.client.assembly.stream_sender import Progress, Source, add_stream
from holdfast.client.checks import check_many, check_name
from holdfast.client.reading.browser import BrowsedEvent
from holdfast.client.receiving.attachment import recovery
from holdfast.client.receiving.received_event import Received
from holdfast.client.sending.batch_builder import BatchBuilder, Kind
from holdfast.client.sending.encoded_run import EncodedRun
from holdfast.client.sending.event_encoder import EventEncoder, Portion
from holdfast.client.sending.outgoing import EventFields, prepare
from holdfast.destination.command import RANGES_MAX
from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, TooLarge, TransactionAborted, Unavailable
from holdfast.event import position
from holdfast.event.position import Ranges
from holdfast.wire.frame import SettledPart

if TYPE_CHECKING:
    from holdfast.client.assembly.assembly import Assembly
    from holdfast.client.connection.session import Session
    from holdfast.client.receiving.incoming import Incoming
    from holdfast.client.receiving.receiver import Receiver


class _Confirmed:
    """The events of one receiver that the transaction confirms."""

    def __init__(self, incoming: Receiver) -> None:
        self.incoming = incoming
        self.generation = incoming.verdicts.generation
        self.positions: list[tuple[int, int]] = []

    @property
    def ranges(self) -> Ranges:
        return Ranges.gather(self.positions)


class TransactionDestination:
    """A queue or topic within a transaction. Made by `tx.queue(name)` and `tx.topic(name)`."""

    def __init__(self, transaction: Transaction, name: str, kind: Kind) -> None:
        self.name = check_name(name)
        self._transaction = transaction
        self._kind: Kind = kind

    async def send(self, data: Any = None, **fields: Unpack[EventFields]) -> None:
        """Send one event with the transaction. Waits only while too much of it is unsent."""
        if tracing.is_recording():
            fields = cast(EventFields, tracing.carried(data, fields))
        await self._transaction.put(self.name, self._kind, prepare(data, fields, self._transaction.now_ms))

    async def send_many(self, events: Iterable[Any], **fields: Unpack[EventFields]) -> None:
        """Send many with the transaction, each data or an `Event`, with fields for all; see `Destination.send_many`."""
        for portion in self.portions(events, fields):
            await self.put(portion)

    def portions(self, events: Iterable[Any], fields: EventFields) -> Iterator[Portion]:
        """Encode events for `put`, in any thread."""
        check_many(events)
        return EventEncoder(fields, self._transaction.now_ms).portions(events)

    async def put(self, portion: Portion) -> None:
        """Send what was encoded with the transaction. Waits only while too much of it is unsent."""
        await self._transaction.put(self.name, self._kind, portion)

    async def send_batch(self, batch: bytes | memoryview) -> None:
        """Send a batch as it is with the transaction (`incoming.encoded()`): its events keep ids, times and all else. Waits only
        while too much is unsent."""
        await self._transaction.put_batch(self.name, self._kind, PassedBatch(batch))

    async def send_stream(
        self,
        content: Source,
        /,
        *,
        progress: Progress | None = None,
        hops: int = 0,
        origin: int = 0,
        **fields: Unpack[EventFields],
    ) -> None:
        """Send a large event with the transaction; see `Destination.send_stream`. One that is passed on says how often it was,
        and where it began (`holdfast.event.hops`)."""
        await self._transaction.put_stream(self.name, self._kind, content, progress, fields, (hops, origin))


class Transaction:
    """Made by `client.transaction()`. One task uses it at a time."""

    def __init__(self, session: Session, timeout: float | None) -> None:
        self._session = session
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._assemblies: dict[Session, Assembly] = {}  # one in each channel that it touches, by the session there
        self._lanes: dict[str, Session] = {}  # by destination, where there are several channels
        self._builders: dict[str, BatchBuilder] = {}
        self._sent: list[tuple[Session, int, str, int]] = []  # the session and number of a part, its destination, its events
        self._confirmed: dict[Receiver, _Confirmed] = {}
        self._end = ""
        self._kept: list[Received] | None = None
        self._deciding: Assembly | JointCommit | None = None
        self._is_replay = False  # of dead events

    def keep_events(self) -> None:
        """On a rollback, leave the events that it confirms with the program, which then decides on them anew."""
        self._kept = []

    @property
    def is_open(self) -> bool:
        """It was neither committed nor rolled back."""
        return not self._end

    def now_ms(self) -> int:
        """The server's time."""
        return self._session.connection.server_time.now_ms()

    # --- its events --------------------------------------------------------------------------------------------------

    def queue(self, name: str) -> TransactionDestination:
        """A queue to send to within this transaction."""
        return TransactionDestination(self, name, "queue")

    def topic(self, name: str) -> TransactionDestination:
        """A topic to send to within this transaction."""
        return TransactionDestination(self, name, "topic")

    async def put(self, destination: str, kind: Kind, event: Portion) -> None:
        self._check_open()
        if self._session.lanes is not None:
            self._lanes[destination] = await self._session.at(destination)
        found = self._builders.get(destination)
        if found is not None and not found.takes(kind, event):
            self._seal(found)
            found = None
        if found is None:
            found = self._builders[destination] = BatchBuilder(destination, destination, kind, event.priority, event.delay_ms, 0)
        if isinstance(event, EncodedRun):
            found.add_run(event)
        else:
            found.add(event)
        if found.is_full:
            self._seal(found)
            await self._room(self._lanes.get(destination, self._session))

    def _assembly(self, lane: Session) -> Assembly:
        """Its assembly in the channel of this session."""
        found = self._assemblies.get(lane)
        if found is None:
            found = self._assemblies[lane] = lane.parts.new()
            found.is_replay = self._is_replay
        return found

    async def _room(self, lane: Session) -> None:
        await lane.parts.room(self._assembly(lane), self._timeout)

    def _seal(self, builder: BatchBuilder) -> None:
        """Make a part of the batch of a destination."""
        del self._builders[builder.destination]
        made = builder.to_batch(self._session.source, self._session.ids)
        builder.let_bodies_go()
        self._add(builder, made, builder.destination, builder.kind)

    def _add(self, of: BatchBuilder | PassedBatch, batch: bytes | memoryview, destination: str, kind: Kind) -> None:
        """Make a part of a batch; `of` knows the ids of its events."""
        lane = self._lanes.get(destination, self._session)
        assembly = self._assemblies.get(lane) or self._assembly(lane)
        assembly.events.extend(of, 0, of.count)
        self._sent.append((lane, assembly.add(batch, destination, kind), destination, of.count))

    async def put_batch(self, destination: str, kind: Kind, passed: PassedBatch) -> None:
        self._check_open()
        lane = self._lanes[destination] = await self._session.at(destination)
        if destination in self._builders:  # events that were sent before come before
            self._seal(self._builders[destination])
        self._add(passed, passed.data, destination, kind)
        await self._room(lane)

    @property
    def sent(self) -> tuple[SentBatch, ...]:
        """After the commit: where its events are, batch by batch, in the order of sending."""
        return tuple(
            SentBatch(where, position.of(self._assembly(lane).entries.get(number, 0)), count, lane.channel)
            for lane, number, where, count in self._sent
        )

    async def put_stream(
        self,
        destination: str,
        kind: Kind,
        source: Source,
        progress: Progress | None,
        fields: EventFields,
        passed: tuple[int, int] = (0, 0),
    ) -> None:
        """`passed`: its hops and its origin."""
        self._check_open()
        lane = self._lanes[destination] = await self._session.at(destination)
        if destination in self._builders:  # events that were sent before come before
            self._seal(self._builders[destination])
        assembly = self._assembly(lane)
        small = await add_stream(lane.parts, assembly, destination, kind, source, progress, fields, self._timeout, passed)
        if small is not None:
            await self.put(destination, kind, small)
        else:
            self._sent.append((lane, assembly.parts, destination, 1))

    async def stored(self) -> tuple[SentBatch, ...]:
        """Wait until all that was sent so far is durable, though nobody sees it before the commit: where it will be, batch by
        batch, as they will be placed. A program can put these positions into a further event of the same transaction.

        Unavailable if that is not known, because the link was lost meanwhile: roll back, and begin again.
        """
        self._check_open()
        for builder in list(self._builders.values()):
            self._seal(builder)
        for lane, assembly in self._assemblies.items():
            await lane.parts.receipted(assembly, self._timeout)
        if not all(each.first for each in self.sent):
            raise Unavailable("the link was lost meanwhile, and where the events are is not known; roll back, and begin again")
        return self.sent

    async def confirm(self, event: Received) -> None:
        """Confirm an event with the transaction. No other verdict on it is possible, unless the transaction is rolled back."""
        self._check_open()
        if not isinstance(event, Received) or isinstance(event, BrowsedEvent):
            raise Refused(f"a transaction confirms events that were received, not {type(event).__name__}; receive it first")
        incoming: Receiver = event.slice.origin
        if incoming.session not in self._session.together:
            raise Refused("this event was received in another session than the transaction's; begin the transaction there")
        if not event.decide_in_transaction():
            return
        incoming.verdicts.lock(event.position, event.slice.generation)
        found = self._confirmed.setdefault(incoming, _Confirmed(incoming))
        if found.generation != incoming.verdicts.generation:
            raise TransactionAborted("what this transaction confirmed before was given back meanwhile; roll it back")
        found.positions.append((event.position, event.position))
        if self._kept is not None:
            self._kept.append(event)

    def demand(self, incoming: Incoming) -> None:
        """Commit only while this receiver is attached: TransactionAborted once another has taken its subscription over, or the
        server has given it up. So a program that was replaced, and does not know it yet, changes nothing."""
        self.demand_receiver(incoming._alone())  # what a program has stands for it

    def demand_receiver(self, receiver: Receiver) -> None:
        """The same, with what the blocking twin has."""
        self._check_open()
        if receiver.session not in self._session.together:
            raise Refused("this receiver is of another session than the transaction's; begin the transaction there")
        self._confirmed.setdefault(receiver, _Confirmed(receiver))

    def _check_open(self) -> None:
        if self._end:
            raise Refused(f"this transaction {self._end}; begin a new one")
        checks.same_loop(self._session.connection.loop)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Make all of it happen. TransactionAborted says why nothing of it happened; LinkLost: it may have happened."""
        self._check_open()
        self._end = "is being committed"
        try:
            settled = self._settled()
            for builder in list(self._builders.values()):
                self._seal(builder)
            await self._decide(settled)
        except (OutcomeUnknown, asyncio.CancelledError):
            self._end = "may have been committed"
            if self._deciding is not None:
                self._deciding.when_decided(self._heard_late)
            raise
        except BaseException:
            self._end = ""
            await self.rollback()
            raise
        self._end = "was committed"
        self._unlock()

    async def _decide(self, settled: dict[Session, list[SettledPart]]) -> None:
        """Commit with one command, if all of it is in one channel; otherwise at all its message managers together."""
        every = [JointPart(lane.parts, self._assembly(lane), settled.get(lane, [])) for lane in {**self._assemblies, **settled}]
        parts = [each for each in every if each.assembly.parts or each.settled]
        if len(parts) == 1:
            self._deciding = alone = parts[0].assembly
            await alone.commit(parts[0].settled, self._timeout)
        elif parts:
            self._deciding = joint = JointCommit(parts, self._timeout)
            await joint.commit()

    def _unlock(self) -> None:
        for confirmed in self._confirmed.values():
            confirmed.incoming.verdicts.unlock(confirmed.ranges, confirmed.generation)

    def _heard_late(self, problem: BaseException | None) -> None:
        """The answer came after the program was told LinkLost: confirmed events are finished, or come again."""
        if problem is None:
            self._unlock()
        elif isinstance(problem, TransactionAborted):
            self._session.connection.spawn(self._give_back())

    async def _give_back(self) -> None:
        with contextlib.suppress(HoldfastError):  # events that are not given back now go back when their receiver is closed
            await self._recover()

    def _settled(self) -> dict[Session, list[SettledPart]]:
        settled: dict[Session, list[SettledPart]] = {}
        for incoming, confirmed in self._confirmed.items():
            ranges = confirmed.ranges
            if confirmed.generation != incoming.verdicts.generation:
                raise TransactionAborted(
                    f"nothing of this transaction happened: what it confirms of {incoming.destination!r} was given back before; "
                    "begin a new one"
                )
            told = (ranges.to_bytes(), incoming.outbox.verdicts.highest, incoming.buffer.handed_last())
            settled.setdefault(incoming.session, []).append(SettledPart(incoming.number, *told))
        if sum(len(confirmed.ranges) for confirmed in self._confirmed.values()) > RANGES_MAX:
            raise TooLarge(f"a transaction confirms at most {RANGES_MAX} ranges of events at once; commit more often")
        return settled

    async def rollback(self) -> None:
        """Make nothing of it happen. Events that its receivers were handed are given back, and come again."""
        self._check_open()
        self._end = "was rolled back"
        self._builders.clear()
        if self._kept is not None:
            self._confirmed.clear()
            for event in self._kept:
                event.decide_anew()
        for assembly in self._assemblies.values():
            await assembly.abandon(self._timeout)
        await self._recover()

    async def _recover(self) -> None:
        used = [
            each.incoming
            for each in self._confirmed.values()
            if each.positions and each.generation == each.incoming.verdicts.generation
        ]
        for lane in dict.fromkeys(each.session for each in used):
            await recovery.recover(lane, self._timeout, used)

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._end:
            return
        if error is None:
            await self.commit()
            return
        with contextlib.suppress(HoldfastError):  # the program's own exception says more
            await self.rollback()
