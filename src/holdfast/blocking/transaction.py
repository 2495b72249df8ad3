"""Transactions without a loop: `with client.transaction() as tx: tx.queue("invoices").send(…); tx.confirm(event)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from holdfast.blocking.hand_over import waiting_for
from holdfast.blocking.incoming import Incoming
from holdfast.client.assembly.sent_batch import SentBatch
from holdfast.client.receiving.receiver import Receiver
from holdfast.client.sending.outgoing import EventFields
from holdfast.client.transaction import Transaction as AsyncTransaction
from holdfast.client.transaction import TransactionDestination as AsyncDestination
from holdfast.errors import Closed
from holdfast.node.background import Background


class TransactionDestination:
    """A queue or topic within a transaction."""

    def __init__(self, background: Background, destination: AsyncDestination) -> None:
        self.name = destination.name
        self._background = background
        self._twin = destination

    send = waiting_for(AsyncDestination.send)
    send_stream = waiting_for(AsyncDestination.send_stream)
    send_batch = waiting_for(AsyncDestination.send_batch)

    def send_many(self, events: Iterable[Any], **fields: Unpack[EventFields]) -> None:
        """Send many with the transaction, with fields for all. They are taken from the iterable in this thread."""
        for portion in self._twin.portions(events, fields):
            self._background.run(self._twin.put(portion))


class Transaction:
    """All or nothing. Used inside `with`, by one thread at a time."""

    def __init__(self, background: Background, make: Callable[[], AsyncTransaction]) -> None:
        self._background = background
        self._make = make
        self._transaction: AsyncTransaction | None = None

    def __enter__(self) -> Self:
        self._transaction = self._background.run(self._begun())
        return self

    async def _begun(self) -> AsyncTransaction:
        return await self._make().__aenter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._background.run(self._twin.__aexit__(kind, error, trace))

    @property
    def _twin(self) -> AsyncTransaction:
        if self._transaction is None:
            raise Closed("the transaction has not begun; use it inside `with client.transaction() as tx`")
        return self._transaction

    def queue(self, name: str) -> TransactionDestination:
        """A queue to send to within this transaction."""
        return TransactionDestination(self._background, self._twin.queue(name))

    def topic(self, name: str) -> TransactionDestination:
        """A topic to send to within this transaction."""
        return TransactionDestination(self._background, self._twin.topic(name))

    @property
    def sent(self) -> tuple[SentBatch, ...]:
        """After the commit: where its events are, batch by batch."""
        return self._twin.sent

    def demand(self, incoming: Incoming) -> None:
        """Commit only while this receiver is attached: TransactionAborted once another has taken its subscription over, or the
        server has given it up. So a program that was replaced, and does not know it yet, changes nothing."""
        self._background.run(self._demanded(incoming._opened()))

    async def _demanded(self, receiver: Receiver) -> None:
        self._twin.demand_receiver(receiver)

    stored = waiting_for(AsyncTransaction.stored)
    confirm = waiting_for(AsyncTransaction.confirm)
    commit = waiting_for(AsyncTransaction.commit)
    rollback = waiting_for(AsyncTransaction.rollback)
