"""Transactions without a loop: `with client.transaction() as tx: tx.queue("invoices").send(…); tx.confirm(event)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from holdfast.blocking.background import Background
from holdfast.client.destination import check_many
from holdfast.client.outgoing import EventFields
from holdfast.client.received import Received
from holdfast.client.stream import Progress, Source
from holdfast.client.transaction import Transaction as AsyncTransaction
from holdfast.client.transaction import TransactionDestination as AsyncDestination
from holdfast.errors import Closed


class TransactionDestination:
    """A queue or topic, as one sends to it within a transaction."""

    def __init__(self, background: Background, destination: AsyncDestination) -> None:
        self.name = destination.name
        self._background = background
        self._destination = destination

    def send(self, data: Any = None, **fields: Unpack[EventFields]) -> None:
        """Send one event with the transaction."""
        self._background.run(self._destination.send(data, **fields))

    def send_many(self, events: Iterable[Any]) -> None:
        """Send many with the transaction. They are taken from the iterable in this thread."""
        check_many(events)
        self._background.run(self._destination.send_many(list(events)))

    def send_stream(self, content: Source, /, *, progress: Progress | None = None, **fields: Unpack[EventFields]) -> None:
        """Send a large event with the transaction."""
        self._background.run(self._destination.send_stream(content, progress=progress, **fields))


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
        self._background.run(self._opened().__aexit__(kind, error, trace))

    def _opened(self) -> AsyncTransaction:
        if self._transaction is None:
            raise Closed("the transaction has not begun; use it inside `with client.transaction() as tx`")
        return self._transaction

    def queue(self, name: str) -> TransactionDestination:
        """A queue to send to within this transaction."""
        return TransactionDestination(self._background, self._opened().queue(name))

    def topic(self, name: str) -> TransactionDestination:
        """A topic to send to within this transaction."""
        return TransactionDestination(self._background, self._opened().topic(name))

    def confirm(self, event: Received) -> None:
        """Confirm an event with the transaction."""
        self._background.run(self._opened().confirm(event))

    def commit(self) -> None:
        """All of it happens now, or TransactionAborted says why nothing of it did."""
        self._background.run(self._opened().commit())

    def rollback(self) -> None:
        """Nothing of it happens; what its receivers were handed is given back, and comes again."""
        self._background.run(self._opened().rollback())
