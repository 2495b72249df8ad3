"""Forwarding: ready batch commands of a durable producer, sent as they are, each until it is receipted.

Stands in the place of a session's `Producer`. It makes no batches and gives no numbers: the commands carry their sequences, and
whoever recorded them keeps them until `receipted_through` has passed them. After a lost link it asks how far the server has
come, and sends the rest of what is in flight again; the server drops what it has (rule 6).

A refused command stays in flight, so that `receipted_through` never passes it, and ends the forwarding with the reason. One that
was refused because its destination is full is sent again when the server says that it is free.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from holdfast.client.connection import Connection
from holdfast.client.dialer import dialer_for
from holdfast.client.gathering import Kind
from holdfast.client.url import credentials_of, parse_with_password
from holdfast.errors import Blocked, HoldfastError
from holdfast.wire.frame import Buffer, DestinationPressure, OpenProducer, Receipted, Send

if TYPE_CHECKING:
    from holdfast.client.session import Session


class ReadyCommand(NamedTuple):
    """A batch command whose producer is the one that forwards."""

    sequence: int
    kind: Kind
    command: Buffer


class Forwarding:
    def __init__(self, session: Session, producer: str, first_sequence: int) -> None:
        self.producer = producer
        # Everything up to this sequence is durable: at the server, or, before we began, elsewhere.
        self.receipted_through = first_sequence - 1
        # What the server said of itself: it may be further than the recorder believes.
        self.last_sequence = 0
        self._session = session
        self._first_sequence = first_sequence
        self._window = 1
        self._sent_through = first_sequence - 1
        self._in_flight: dict[int, ReadyCommand] = {}
        self._refusals: dict[int, HoldfastError] = {}
        self._full: dict[str, None] = {}  # destinations that are full
        self._held_back: dict[int, str] = {}  # by sequence, for which destination
        self._error: HoldfastError | None = None
        self._changed = asyncio.Event()

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(self, ready: ReadyCommand) -> None:
        """Send when the window has room. Sequences ascend without a gap; what the server has already is passed over."""
        self._raise_error()
        while len(self._in_flight) >= self._window:
            await self._change()
            self._raise_error()
        if ready.sequence <= self._sent_through:
            return
        self._sent_through = ready.sequence
        self._in_flight[ready.sequence] = ready
        if self._session.is_ready:  # without a link it goes when there is one again
            self._say(ready)

    async def receipted_beyond(self, sequence: int) -> int:
        """Wait until more than this is receipted; how far it is then."""
        while self.receipted_through <= sequence:
            self._raise_error()
            await self._change()
        return self.receipted_through

    def _say(self, ready: ReadyCommand) -> None:
        self._session.say(Send(ready.sequence, ready.kind), ready.command)

    def _raise_error(self) -> None:
        """A refusal counts when everything before it is receipted."""
        refusal = self._refusals.get(self.receipted_through + 1)
        if refusal is not None or self._error is not None:
            raise refusal or self._error  # type: ignore[misc]  # one of them it is

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # --- what a session asks of its producer -------------------------------------------------------------------------

    def receipted(self, message: Receipted) -> None:
        self._in_flight.pop(message.token, None)
        self._note_receipts()

    def refused(self, sequence: int, error: HoldfastError) -> None:
        if sequence not in self._in_flight:
            return
        if isinstance(error, Blocked) and "destination" in error.fields:
            self._held_back[sequence] = error.fields["destination"]
            self._send_held_back()
        else:
            self._refusals[sequence] = error
            self._changed.set()

    def told(self, message: DestinationPressure) -> None:
        """A destination is full, or free again."""
        if message.is_blocked:
            self._full[message.destination] = None
        else:
            self._full.pop(message.destination, None)
            self._send_held_back()

    def _send_held_back(self) -> None:
        for sequence in sorted(each for each, destination in self._held_back.items() if destination not in self._full):
            del self._held_back[sequence]
            self._say(self._in_flight[sequence])

    def link_lost(self) -> None:
        """On the next link all that is in flight is sent again, and the server says again what is full."""
        self._full.clear()
        self._held_back.clear()

    def begin_anew(self) -> None:
        """A durable producer outlives its session."""

    async def resume(self, window: int, deadline: float) -> None:
        """Rule 6: ask what arrived, send the rest again in order."""
        answer = await self._session.ask_now(
            lambda token: OpenProducer(token, self.producer, True, self._first_sequence), deadline, self._session.number
        )  # fmt: skip
        self._window = window
        self._refusals.clear()  # what was refused is sent again with the rest
        self.last_sequence = answer["last_sequence"]
        self._sent_through = max(self._sent_through, self.last_sequence)
        for sequence in [each for each in self._in_flight if each <= self.last_sequence]:
            del self._in_flight[sequence]
        self._note_receipts()
        for ready in self._in_flight.values():
            self._say(ready)

    def flush(self, receipted: int | None = None) -> None:
        """Nothing is gathered here."""

    def fail(self, error: HoldfastError) -> None:
        self._error = self._error or error
        self._changed.set()

    async def flushed(self, timeout: float) -> None:
        """What is in flight stays with whoever recorded it: closing does not wait."""

    def _note_receipts(self) -> None:
        self.receipted_through = min(self._in_flight) - 1 if self._in_flight else self._sent_through
        self._changed.set()


@contextlib.asynccontextmanager
async def open_forwarding(
    url: str, producer: str, first_sequence: int, timeout: float, name: str = ""
) -> AsyncIterator[Forwarding]:
    """A connection of its own to a URL, for the commands of one durable producer."""
    parsed = parse_with_password(url)
    connection = Connection(dialer_for(parsed), name, "", timeout, credentials_of(parsed))
    forwarding = Forwarding(connection.session, producer, first_sequence)
    connection.session.producer = forwarding  # type: ignore[assignment]  # this session is never asked to gather
    await connection.open()
    try:
        yield forwarding
    finally:
        await connection.close()
