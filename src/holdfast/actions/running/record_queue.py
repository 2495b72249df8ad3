"""A queue that holds one value, as records: the newest ones count, and are replaced within transactions.

The receiver holds every record that waits, unconfirmed. A transaction that brings a whole record confirms all that are older: so
before the commit the old value is there, after it the new one, and never both or none.

A record that was handed to many programs, one after the other, is written anew: the server takes events that come back again
and again for ones that kill their recipients, and makes them wait.

An event that somebody else has sent to the queue is rejected. A record that is ours and cannot be read is a reason to stop: what
it holds would be lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec

from holdfast.client.client import Client
from holdfast.client.client_session import SessionMethods
from holdfast.client.receiving.received_event import Received, ReceivedEvent
from holdfast.client.transaction import Transaction
from holdfast.errors import Damaged, TimedOut

log = logging.getLogger("holdfast.actions")

Value = TypeVar("Value")

# More records than ever wait, so that all can be held.
CREDIT = 1_024
RETURNS_MAX = 8
LOAD_S = 60.0


class RecordQueue:
    def __init__(self, session: SessionMethods, name: str, event_type: str) -> None:
        self.name = name
        self._type = event_type
        self._incoming = session.queue(name).receive(credit=CREDIT)
        self.held: list[ReceivedEvent] = []

    async def open(self, client: Client) -> list[ReceivedEvent]:
        """All records that wait, once nobody else holds any."""
        await client.ensure_queue(self.name, update=True, redelivery_limit=0)
        await self._incoming.open()
        deadline = asyncio.get_running_loop().time() + LOAD_S
        while len(self.held) < (await client.describe(self.name))["waiting"]:
            await self._take(0.05)
            if asyncio.get_running_loop().time() > deadline:
                raise TimedOut(f"the records of queue {self.name!r} are held by another program; end that one")
        return list(self.held)

    @property
    def is_worn(self) -> bool:
        """Whether its records were handed out so often that they should be written anew."""
        return any(event.deliveries >= RETURNS_MAX for event in self.held)

    async def put(self, transaction: Transaction, body: bytes, *, is_whole: bool) -> None:
        """Add a record with the transaction; a whole one replaces all that are here."""
        await self._take(0)
        if is_whole:
            for event in self.held:
                await transaction.confirm(event)
            self.held = []
        await transaction.queue(self.name).send(body, type=self._type, datacontenttype="application/json")

    async def newest(self) -> ReceivedEvent:
        """The record that was put last, as it came back."""
        await self._take(LOAD_S)
        return self.held[-1]

    async def _take(self, timeout: float) -> None:
        """Hold what is here; wait for the first so long."""
        try:
            self._hold(await self._incoming.next(timeout))
            while True:
                self._hold(await self._incoming.next(0))
        except TimedOut:
            return

    def _hold(self, event: ReceivedEvent) -> None:
        if not self._type or event.type == self._type:
            self.held.append(event)
            return
        log.warning("an event of type %r in queue %s is no record, and goes to the dead events", event.type, self.name)
        event.reject(f"it is no record of rules, which have the type {self._type}")

    async def close(self) -> None:
        await self._incoming.close()


def read(decode: Callable[[bytes], Value], event: Received) -> Value:
    """The value of a record. Damaged if it cannot be read."""
    try:
        return decode(bytes(event.body))
    except msgspec.MsgspecError as problem:
        raise Damaged(
            f"a record in {event.destination!r}, position {event.position}, cannot be read ({problem}); use the version of "
            "Holdfast that wrote it, or empty the queue: the rules then begin anew",
            destination=event.destination,
        ) from problem
