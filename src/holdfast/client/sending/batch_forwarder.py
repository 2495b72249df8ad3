"""The batch forwarder sends ready batch commands of a durable producer as they are, each until it is receipted.

It takes the place of a session's `Producer`. It makes no batches and gives no numbers: the commands have their sequences, and
their recorder keeps them until `receipted_through` has passed them. After a lost link it asks how far the server has come, and
sends the rest of what is in flight again; the server drops what it has (rule 6).

The incarnation of the server's channel decides which command comes first (`held_for`): a server that was restored from a backup
needs again what it had receipted since. If that changes while it forwards, the forwarding ends, and is opened anew.

A refused command stays in flight, so that `receipted_through` never passes it, and ends the forwarding with the reason. A command
that was refused because its destination is full is sent again when the server says that it is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.client.link.outbox import Outbox
from holdfast.client.link.questions import Questions
from holdfast.client.sending.batch_builder import Kind
from holdfast.errors import Blocked, HoldfastError, Refused, Unavailable
from holdfast.wire.frame import Buffer, DestinationPressure, OpenProducer, Receipted, Send


class ReadyCommand(NamedTuple):
    """A batch command whose producer is the one that forwards."""

    sequence: int
    kind: Kind
    command: Buffer


class Held(NamedTuple):
    """What a recorder holds for a server: all from `first_sequence` on. `is_again`: the server was restored from a backup, and
    may have had some of it before, and may have lost more than is held."""

    first_sequence: int
    is_again: bool = False


# By the incarnation that the server told.
HeldFor = Callable[[str], Held]


class BatchForwarder:
    def __init__(self, session: Questions, producer: str, held_for: HeldFor) -> None:
        self.producer = producer
        # Everything up to this sequence is durable: at the server, or, before we began, elsewhere.
        self.receipted_through = 0
        # How far the server says it is: perhaps further than the recorder believes.
        self.last_sequence = 0
        # Commands that a restored server lost, and that are not held any more.
        self.missing = 0
        self.incarnation = ""
        self._session = session
        self._held_for = held_for
        self._first_sequence = 0  # known when the server has greeted
        self._sent_through = 0
        self._outbox: Outbox[int, ReadyCommand] = Outbox(window=1)
        self._refusals: dict[int, HoldfastError] = {}
        self._full: dict[str, None] = {}  # destinations that are full
        self._held_back: dict[int, str] = {}  # by sequence, for which destination
        self._error: HoldfastError | None = None

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(self, ready: ReadyCommand) -> None:
        """Send when the window has room. Sequences ascend without a gap; those that the server has already are skipped."""
        self._raise_error()
        while not self._outbox.has_room():
            await self._outbox.changed.wait()
            self._raise_error()
        if ready.sequence <= self._sent_through:
            return
        self._sent_through = ready.sequence
        self._outbox.sent(ready.sequence, ready)
        if self._session.is_ready:  # without a link it goes when there is one again
            self._say(ready)

    async def receipted_beyond(self, sequence: int) -> int:
        """Wait until more than this is receipted; return how far it is then."""
        while self.receipted_through <= sequence:
            self._raise_error()
            await self._outbox.changed.wait()
        return self.receipted_through

    async def until_failed(self) -> None:
        """Wait until it cannot go on; `check` raises why."""
        while self._error is None:
            await self._outbox.changed.wait()

    def check(self) -> None:
        """Raise why it cannot go on."""
        self._raise_error()

    def _say(self, ready: ReadyCommand) -> None:
        self._session.say(Send(ready.sequence, ready.kind), ready.command)

    def _raise_error(self) -> None:
        """Raise a refusal only when everything before it is receipted."""
        refusal = self._refusals.get(self.receipted_through + 1)
        if refusal is not None or self._error is not None:
            raise refusal or self._error  # type: ignore[misc]  # one of them it is

    # --- as a session calls its producer -----------------------------------------------------------------------------

    def receipted(self, message: Receipted) -> None:
        self._outbox.answered(message.token)
        self._note_receipts()

    def refused(self, sequence: int, error: HoldfastError) -> None:
        if sequence not in self._outbox.in_flight:
            return
        if isinstance(error, Blocked) and "destination" in error.fields:
            self._held_back[sequence] = error.fields["destination"]
            self._send_held_back()
        else:
            self._refusals[sequence] = error
            self._outbox.changed.wake()

    def note_pressure(self, message: DestinationPressure) -> None:
        """Note that a destination is full, or free again."""
        if message.is_blocked:
            self._full[message.destination] = None
        else:
            self._full.pop(message.destination, None)
            self._send_held_back()

    def _send_held_back(self) -> None:
        for sequence in sorted(each for each, destination in self._held_back.items() if destination not in self._full):
            del self._held_back[sequence]
            self._say(self._outbox.in_flight[sequence])

    def link_lost(self) -> None:
        """Forget what is full: on the next link all that is in flight goes again, and the server says it anew."""
        self._full.clear()
        self._held_back.clear()

    def channel_changed(self) -> None:
        """End the forwarding: the server may have lost what it had receipted. Opened anew, it begins with what is held for it."""
        self.fail(Unavailable("the server is another one, or was restored from a backup; forward again"))

    def begin_anew(self) -> None:
        """Change nothing: a durable producer outlives its session."""

    async def resume(self, window: int, deadline: float) -> None:
        """Ask what arrived, send the rest again in order (rule 6)."""
        self._raise_error()
        if not self._session.is_alone:
            self.fail(
                Refused(
                    "the batches of a recorder are numbered for one channel, and this server has several message managers; "
                    "forward to one that has one alone"
                )
            )
            self._raise_error()
        if not self._first_sequence:
            await self._begin(deadline)
        answer = await self._open(self._first_sequence, deadline)
        self._outbox.window = window
        self._refusals.clear()  # what was refused is sent again with the rest
        self.last_sequence = answer["last_sequence"]
        self._sent_through = max(self._sent_through, self.last_sequence)
        for sequence in [each for each in self._outbox.in_flight if each <= self.last_sequence]:
            self._outbox.answered(sequence)
        self._note_receipts()
        for ready in self._outbox.in_flight.values():
            self._say(ready)

    async def _begin(self, deadline: float) -> None:
        """Learn what is held for this server, and how much of what it lost is not."""
        self.incarnation = self._session.connection.incarnation
        held = self._held_for(self.incarnation)
        if held.is_again:
            known = await self._open(1, deadline)
            self.missing = max(0, held.first_sequence - 1 - known["last_sequence"])
        self._first_sequence = held.first_sequence
        self.receipted_through = self._sent_through = held.first_sequence - 1

    async def _open(self, first_sequence: int, deadline: float) -> dict[str, Any]:
        answer: dict[str, Any] = await self._session.ask_now(
            lambda token: OpenProducer(token, self.producer, True, first_sequence), deadline, self._session.number
        )  # fmt: skip
        return answer

    def flush(self, receipted: int | None = None) -> None:
        """Do nothing: no batches are built here."""

    def fail(self, error: HoldfastError) -> None:
        self._error = self._error or error
        self._outbox.changed.wake()

    async def flushed(self, timeout: float) -> None:
        """Return at once: the recorder still has what is in flight."""

    def _note_receipts(self) -> None:
        in_flight = self._outbox.in_flight
        self.receipted_through = min(in_flight) - 1 if in_flight else self._sent_through
        self._outbox.changed.wake()
