"""An assembly: a transaction or a large event whose parts are sent, then committed or abandoned (rule 10).

    add ─▶ parts (see `part_outbox`) ─▶ commit, asked once all parts are in flight ─▶ answered

Parts and commit travel together: an assembly that fits the window takes one round trip and one sync. After a lost link the commit
is asked again, and answered as the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from holdfast.client.receipt import EventIds, Receipts, naming
from holdfast.client.sending.batch_builder import Kind
from holdfast.destination import command
from holdfast.errors import HoldfastError, LinkLost, OutcomeUnknown, TransactionAborted, Unavailable
from holdfast.wire import frame
from holdfast.wire.frame import SettledPart

if TYPE_CHECKING:
    from holdfast.client.assembly.part_outbox import PartOutbox


class Answer(NamedTuple):
    """The answer to a commit: what it did."""

    events: int
    confirmed: int
    entry: int  # of its first batch
    repeated: int = 0  # where its first event is, when that is a repetition


class Part:
    """One part, as it is sent, and sent again."""

    __slots__ = ("assembly", "bound_for", "command", "is_again", "is_fragment", "kind", "number")

    def __init__(
        self, assembly: Assembly, number: int, kind: Kind, bound_for: str, is_fragment: bool, encoded: bytes
    ) -> None:  # fmt: skip
        self.number = number
        self.is_again = False  # it was sent on a link before
        self.bound_for = bound_for
        self.is_fragment = is_fragment
        self.assembly = assembly
        self.kind: Kind = kind
        self.command = encoded

    def move_to(self, session: str) -> None:
        """It is a part of an assembly of this session from now on."""
        made, payload = command.decode(self.command)
        assert isinstance(made, command.Part)
        self.command = command.encode(replace(made, session=session), payload)


class Assembly:
    """One transaction or large event. Nothing is sent before the first part or the commit."""

    def __init__(self, parts: PartOutbox, name: str) -> None:
        self.name = name
        self.parts = 0
        self.proof = (1, False)  # copies, is synced: certain of all parts
        self.event_id: int | str = 0  # of the large event in it
        self.events = Receipts()  # of all its events, for their ids
        self.entries: dict[int, int] = {}  # where its parts lie, by their numbers; of those that were sent once
        self.is_replay = False  # of dead events: not deduplicated
        self.error: HoldfastError | None = None
        self.unsent = 0
        self.receipts = 0  # parts that are durable
        self.fragments_in_flight = 0
        self._all = parts
        self._settled: list[SettledPart] = []
        self._outcome: asyncio.Future[Answer] | None = None
        self._token = 0
        self._was_asked = False
        self._has_receipt = False

    # --- parts -------------------------------------------------------------------------------------------------------

    def add(
        self, payload: frame.Buffer, destination: str = "", kind: Kind = "queue", *, fragments: tuple[int, int] = (0, 0),
        fragment_bytes: int = 0, large_bytes: int = 0, bound_for: str = "",
    ) -> int:  # fmt: skip
        """Send a part; return its number. Raises the refusal of an earlier part."""
        self.check()
        self._all.remember(self)
        self.parts += 1
        made = command.Part(
            self._all.session.id, self.name, self.parts, destination, fragments, fragment_bytes, large_bytes,
            is_replay=self.is_replay,
        )  # fmt: skip
        self.unsent += 1
        self._all.put(Part(self, self.parts, kind, bound_for, not destination, command.encode(made, payload)))
        return self.parts

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def receipted(self, part: Part, receipt: frame.Receipted | HoldfastError) -> None:
        if isinstance(receipt, HoldfastError):
            self.error = self.error or receipt
            return
        self.proof = (receipt.copies, receipt.is_synced)
        self.receipts += 1
        self._has_receipt = True
        if not part.is_again:  # otherwise this may be the repetition, which does not count
            self.entries[part.number] = receipt.entry

    # --- deciding ----------------------------------------------------------------------------------------------------

    async def commit(self, settled: list[SettledPart], timeout: float) -> Answer:
        """Commit all parts and verdicts. TransactionAborted: nothing happened. LinkLost: it was asked, and nobody knows."""
        try:
            return await self._committed(settled, timeout)
        except OutcomeUnknown as problem:
            raise naming(problem, EventIds(self.events)) from problem

    async def _committed(self, settled: list[SettledPart], timeout: float) -> Answer:
        if self.error is not None:
            await self.abandon(timeout)
            raise self._aborted(self.error) from self.error
        self._all.remember(self)
        self._settled = settled
        self._outcome = self._all.session.connection.loop.create_future()
        self.ask_if_due()
        self._all.session.connection.push()
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._outcome)
        except TimeoutError as problem:
            raise self._too_late(timeout) from problem

    def when_decided(self, heard: Callable[[BaseException | None], None]) -> None:
        """Call `heard` when the answer to the commit comes after all: with None, or with the reason why nothing happened."""
        if self._outcome is not None:
            self._outcome.add_done_callback(lambda done: None if done.cancelled() else heard(done.exception()))

    def _too_late(self, timeout: float) -> HoldfastError:
        if self._was_asked:
            return LinkLost(
                f"the commit was sent and not answered within {timeout:g} s; whether it took effect is not known, "
                "it is asked again as soon as there is a link"
            )
        self._outcome = None
        self._all.abandon_later(self)
        reason = self._all.session.connection.problem_text
        return TransactionAborted(f"nothing of this happened: it could not be sent within {timeout:g} s ({reason}); begin again")

    def ask_if_due(self) -> None:
        """Ask for the commit once all batches are in flight and all fragments, which may be overtaken, have arrived."""
        session = self._all.session
        is_wanted = self._outcome is not None and not self._outcome.done() and not self._token
        if not is_wanted or self.unsent or self.fragments_in_flight or not session.is_ready or not self._all.may_begin(self):
            return
        token, future = session.question()
        self._token, self._was_asked = token, True
        self._all.note_begun(self)
        session.say(frame.Commit(token, self.name, self.parts, self._settled))
        future.add_done_callback(lambda done: self._answered(token, done))

    def _answered(self, token: int, done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, LinkLost) or token != self._token or self._outcome is None:
            return
        if error is None:
            self._decide(Answer(*done.result()))
        elif isinstance(error, TransactionAborted):
            self._decide(self._aborted(self.error) if self.error is not None else error)
        elif isinstance(error, HoldfastError):  # no room for the commit itself, or the disk failed on it
            self._tell(error if isinstance(error, OutcomeUnknown) else self._aborted(error))
            self._all.abandon_later(self)

    @staticmethod
    def _aborted(cause: HoldfastError) -> TransactionAborted:
        aborted = TransactionAborted(f"nothing of this transaction happened: {cause.sentence}", **cause.fields)
        aborted.__cause__ = cause
        return aborted

    def _decide(self, outcome: Answer | BaseException) -> None:
        self._tell(outcome)
        self._all.forget(self)

    def _tell(self, outcome: Answer | BaseException) -> None:
        if self._outcome is None or self._outcome.done():
            return
        if isinstance(outcome, Answer):
            self._outcome.set_result(outcome)
        else:
            self._outcome.set_exception(outcome)
            self._outcome.exception()  # nobody has to wait for it

    async def abandon(self, timeout: float) -> None:
        """Let the server forget its parts, now or as soon as there is a link: it will not be committed."""
        self.error = self.error or TransactionAborted("this was rolled back; begin a new one")
        if not self._all.drop(self):
            return
        try:
            await self._all.session.ask(lambda token: frame.Abandon(token, self.name), timeout)
            self._all.forget(self)
        except (OutcomeUnknown, Unavailable):
            self._all.abandon_later(self)
        except HoldfastError:
            self._all.forget(self)

    # --- links -------------------------------------------------------------------------------------------------------

    @property
    def may_be_repeated(self) -> bool:
        """All its parts are still here, and no commit was asked: it can begin once more in another session."""
        return not self._has_receipt and not self._was_asked and self.error is None

    def link_is_new(self) -> None:
        self._token = 0

    def give_up(self, error: HoldfastError) -> None:
        """End it: its session is gone, and with it all that was not committed."""
        self.error = self.error or error
        if self._was_asked:
            self._decide(
                LinkLost(f"the commit was sent, and whether it took effect is not known: no answer came, and {error.sentence}")
            )
        else:
            self._decide(self._aborted(error))
