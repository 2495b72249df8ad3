"""Transactions: events that are sent and confirmed together, all or nothing.

    async with client.queue("orders").receive() as incoming:
        async for order in incoming:
            async with client.transaction() as tx:
                await tx.queue("invoices").send({"for": order.id})
                await tx.topic("log").send("invoiced")
                await tx.confirm(order)

Leaving without an exception commits; with one, or after `await tx.rollback()`, nothing of it has happened. What is sent is
stored at once but visible to nobody before the commit, and of all destinations it becomes visible at one moment; a small
transaction is one round trip and one sync.

Rolling back gives back everything that the receivers were handed whose events were confirmed in it, looked at or not: of a queue
to any recipient, of a subscription to the same one. To keep transactions that have nothing to do with each other apart, use a
session (`client.session()`) with receivers of its own for each.

Receivers are opened outside: what a receiver holds that is closed before the commit goes to others, and the transaction is
aborted. Raises TransactionAborted when nothing of it happened, LinkLost when the commit was sent and nobody knows. A commit that
is cancelled may still take effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from holdfast.client import checks, recovery
from holdfast.client.browser import BrowsedEvent
from holdfast.client.destination import check_many, check_name
from holdfast.client.gathering import Gathering, Kind
from holdfast.client.outgoing import EventFields, Outgoing, prepare
from holdfast.client.received import Received
from holdfast.client.stream import Progress, Source, add_stream
from holdfast.destination.command import RANGES_MAX
from holdfast.errors import HoldfastError, OutcomeUnknown, Refused, TooLarge, TransactionAborted
from holdfast.event.position import Ranges
from holdfast.wire.frame import SettledPart

if TYPE_CHECKING:
    from holdfast.client.recipient import Incoming
    from holdfast.client.session import Session


class _Confirmed:
    """What is confirmed of what one receiver holds."""

    def __init__(self, incoming: Incoming) -> None:
        self.incoming = incoming
        self.generation = incoming.generation
        self.positions: list[tuple[int, int]] = []

    @property
    def ranges(self) -> Ranges:
        return Ranges.gather(self.positions)


class TransactionDestination:
    """A queue or topic, as one sends to it within a transaction. Made by `tx.queue(name)` and `tx.topic(name)`."""

    def __init__(self, transaction: Transaction, name: str, kind: Kind) -> None:
        self.name = check_name(name)
        self._transaction = transaction
        self._kind: Kind = kind

    async def send(self, data: Any = None, **fields: Unpack[EventFields]) -> None:
        """Send one event with the transaction. Waits only when too much of it is unsent."""
        await self._transaction.put(self.name, self._kind, prepare(data, fields))

    async def send_many(self, events: Iterable[Any]) -> None:
        """Send many with the transaction, each data or an `Event`."""
        check_many(events)
        for event in events:
            await self.send(event)

    async def send_stream(self, content: Source, /, *, progress: Progress | None = None, **fields: Unpack[EventFields]) -> None:
        """Send a large event with the transaction; see `Destination.send_stream`."""
        await self._transaction.put_stream(self.name, self._kind, content, progress, fields)


class Transaction:
    """Made by `client.transaction()`. One task uses it at a time."""

    def __init__(self, session: Session, timeout: float | None) -> None:
        self._session = session
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._assembly = session.parts.new()
        self._gatherings: dict[str, Gathering] = {}
        self._confirmed: dict[int, _Confirmed] = {}
        self._end = ""

    # --- what belongs to it ------------------------------------------------------------------------------------------

    def queue(self, name: str) -> TransactionDestination:
        """A queue to send to within this transaction."""
        return TransactionDestination(self, name, "queue")

    def topic(self, name: str) -> TransactionDestination:
        """A topic to send to within this transaction."""
        return TransactionDestination(self, name, "topic")

    async def put(self, destination: str, kind: Kind, event: Outgoing) -> None:
        self._check_open()
        found = self._gatherings.get(destination)
        if found is not None and (found.priority, found.delay_ms, found.kind) != (event.priority, event.delay_ms, kind):
            self._seal(found)
            found = None
        if found is None:
            found = self._gatherings[destination] = Gathering(destination, destination, kind, event.priority, event.delay_ms, 0)
        found.add(event)
        if found.is_full:
            self._seal(found)
            await self._session.parts.room(self._assembly, self._timeout)

    def _seal(self, gathering: Gathering) -> None:
        """What was gathered for a destination becomes a part."""
        del self._gatherings[gathering.destination]
        made = gathering.to_batch(self._session.source, self._session.ids, time.time_ns() // 1_000_000)
        self._assembly.add(made, gathering.destination, gathering.kind)

    async def put_stream(
        self, destination: str, kind: Kind, source: Source, progress: Progress | None, fields: EventFields
    ) -> None:
        self._check_open()
        if destination in self._gatherings:  # what was sent before comes before
            self._seal(self._gatherings[destination])
        small = await add_stream(self._session, self._assembly, destination, kind, source, progress, fields, self._timeout)
        if small is not None:
            await self.put(destination, kind, small)

    async def confirm(self, event: Received) -> None:
        """Confirm an event with the transaction. From now on nothing else can be decided on it, unless this is rolled back."""
        self._check_open()
        if not isinstance(event, Received) or isinstance(event, BrowsedEvent):
            raise Refused(f"a transaction confirms events that were received, not {type(event).__name__}; receive it first")
        incoming: Incoming = event.handed.incoming
        if incoming.session is not self._session:
            raise Refused("this event was received in another session than the transaction's; begin the transaction there")
        if not event.decide_in_transaction():
            return
        incoming.lock(event.position, event.handed.generation)
        found = self._confirmed.setdefault(incoming.receiver, _Confirmed(incoming))
        if found.generation != incoming.generation:
            raise TransactionAborted("what this transaction confirmed before was given back meanwhile; roll it back")
        found.positions.append((event.position, event.position))

    def _check_open(self) -> None:
        if self._end:
            raise Refused(f"this transaction {self._end}; begin a new one")
        checks.same_loop(self._session.connection.loop)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """All of it happens now, or TransactionAborted says why nothing of it did. LinkLost: it may have happened."""
        self._check_open()
        self._end = "is being committed"
        try:
            settled = self._settled()
            for gathering in list(self._gatherings.values()):
                self._seal(gathering)
            if self._assembly.parts or settled:
                await self._assembly.commit(settled, self._timeout)
        except (OutcomeUnknown, asyncio.CancelledError):
            self._end = "may have been committed"
            self._assembly.when_decided(self._heard_late)
            raise
        except BaseException:
            self._end = ""
            await self.rollback()
            raise
        self._end = "was committed"
        self._unlock()

    def _unlock(self) -> None:
        for confirmed in self._confirmed.values():
            confirmed.incoming.unlock(confirmed.ranges, confirmed.generation)

    def _heard_late(self, problem: BaseException | None) -> None:
        """The answer came after the program was told that nobody knows: what it confirmed is finished, or comes again."""
        if problem is None:
            self._unlock()
        elif isinstance(problem, TransactionAborted):
            self._session.connection.spawn(self._give_back())

    async def _give_back(self) -> None:
        with contextlib.suppress(HoldfastError):  # what is not given back now goes back when its receiver is closed
            await self._recover()

    def _settled(self) -> list[SettledPart]:
        settled = []
        for receiver, confirmed in self._confirmed.items():
            incoming, ranges = confirmed.incoming, confirmed.ranges
            if confirmed.generation != incoming.generation:
                raise TransactionAborted(
                    f"nothing of this transaction happened: what it confirms of {incoming.destination!r} was given back before; "
                    "begin a new one"
                )
            settled.append(SettledPart(receiver, ranges.to_bytes(), incoming.delivered_up_to))
        if sum(len(confirmed.ranges) for confirmed in self._confirmed.values()) > RANGES_MAX:
            raise TooLarge(f"a transaction confirms at most {RANGES_MAX} ranges of events at once; commit more often")
        return settled

    async def rollback(self) -> None:
        """Nothing of it happens; what its receivers were handed is given back, and comes again."""
        self._check_open()
        self._end = "was rolled back"
        self._gatherings.clear()
        await self._assembly.abandon(self._timeout)
        await self._recover()

    async def _recover(self) -> None:
        used = [each.incoming for each in self._confirmed.values() if each.generation == each.incoming.generation]
        if used:
            await recovery.recover(self._session, self._timeout, used)

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
