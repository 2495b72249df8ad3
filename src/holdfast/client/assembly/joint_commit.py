"""A joint commit: the assemblies of one transaction in several channels, committed together (ADR 25).

    parts of all lanes are durable ─▶ CommitAll, over any lane ─▶ decided: all of it happened, or nothing did

The client manager that is asked prepares the transaction at every message manager and decides it at the first. Nobody knows the
outcome when the link is lost meanwhile. Then it is asked again, by the sessions and assemblies that name it, at whatever client
manager there is next, and answered with what was decided. This goes on after the program was told LinkLost, so that what it
confirms is given back, or is held no more. When a session is forgotten by then, a commit is still told; what is not remembered
any more stays unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.client.receipt import EventIds, Receipts, naming
from holdfast.errors import Closed, HoldfastError, LinkLost, OutcomeUnknown, TransactionAborted, Unavailable
from holdfast.wire import frame
from holdfast.wire.frame import Participant, SettledPart

if TYPE_CHECKING:
    from holdfast.client.assembly.assembly import Assembly
    from holdfast.client.assembly.part_outbox import PartOutbox
    from holdfast.client.link.questions import Questions

# Asked again after this, when there is no link, or the server does not know the outcome.
ASK_AGAIN_S = 0.1


class JointPart(NamedTuple):
    """What a transaction does in one channel."""

    outbox: PartOutbox  # of the session there
    assembly: Assembly
    settled: list[SettledPart]

    @property
    def lane(self) -> Questions:
        return self.outbox.session


class JointCommit:
    def __init__(self, parts: Sequence[JointPart], timeout: float) -> None:
        self._parts = sorted(parts, key=lambda each: each.lane.channel)
        self._timeout = timeout
        self._connection = parts[0].lane.connection
        # What a session confirms, it confirms as long as it is the same one.
        self._confirming = {each.lane: each.lane.id for each in parts if each.settled}
        self._asked = 0  # so often
        self._deciding: asyncio.Task[None] | None = None

    async def commit(self) -> None:
        """Commit. TransactionAborted: nothing happened anywhere. LinkLost: it was asked, and nobody knows yet."""
        deciding = self._deciding = self._connection.loop.create_task(self._decide())
        deciding.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody has to wait for it
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(deciding)
        except TimeoutError as problem:
            raise await self._too_late() from problem
        except OutcomeUnknown as problem:
            raise naming(problem, EventIds(self._events())) from problem

    def when_decided(self, heard: Callable[[BaseException | None], None]) -> None:
        """Call `heard` when the answer comes after all: with None, or with the reason why nothing happened."""
        if self._deciding is not None:
            self._deciding.add_done_callback(lambda done: None if done.cancelled() else heard(done.exception()))

    async def _too_late(self) -> HoldfastError:
        if self._asked:
            lost = LinkLost(
                f"the commit was sent and not answered within {self._timeout:g} s; whether it took effect is not known, "
                "it is asked again as soon as there is a link"
            )
            return naming(lost, EventIds(self._events()))
        assert self._deciding is not None
        self._deciding.cancel()
        self._abandon()
        reason = self._connection.problem_text
        return TransactionAborted(
            f"nothing of this happened: it could not be sent within {self._timeout:g} s ({reason}); begin again"
        )

    def _events(self) -> Receipts:
        """The events of all its parts."""
        every = Receipts()
        for part in self._parts:
            every.join(part.assembly.events)
        return every

    # --- deciding ----------------------------------------------------------------------------------------------------

    async def _decide(self) -> None:
        try:
            await self._until_durable()
        except HoldfastError as problem:
            self._abandon()
            raise _aborted(problem) from problem
        participants = [
            Participant(each.lane.channel, each.lane.id, each.assembly.name, each.assembly.parts, each.settled)
            for each in self._parts
        ]
        try:
            await self._ask(participants)
        finally:
            for each in self._parts:
                each.outbox.forget(each.assembly)

    async def _until_durable(self) -> None:
        """Wait until all parts are receipted in their channels: a Prepare must not overtake them."""
        for each in self._parts:
            each.outbox.remember(each.assembly)
        for each in self._parts:
            await each.outbox.receipted(each.assembly, self._timeout)
            await each.lane.until_ready(self._connection.deadline(self._timeout))
        for each in self._parts:
            each.assembly.check()
            if self._confirming.get(each.lane, each.lane.id) != each.lane.id:
                raise TransactionAborted("the link was lost for so long that the server forgot the session; begin again")

    async def _ask(self, participants: list[Participant]) -> None:
        while True:
            try:
                await self._asker().ask(lambda token: self._question(token, participants), self._timeout)
                return
            except TransactionAborted as problem:
                if self._asked == 1 or not problem.fields.get("is_session_gone"):
                    raise
                # What became of a session that is gone is not remembered for ever.
                raise _unknown(problem) from problem
            except (OutcomeUnknown, Unavailable):
                await asyncio.sleep(ASK_AGAIN_S)
            except Closed as problem:
                raise (_unknown(problem) if self._asked else _aborted(problem)) from problem

    def _asker(self) -> Questions:
        """Any lane will do: one that can ask now."""
        lanes = [each.lane for each in self._parts]
        return next((each for each in lanes if each.is_ready), next((each for each in lanes if not each.is_closed), lanes[0]))

    def _question(self, token: int, participants: list[Participant]) -> frame.CommitAll:
        self._asked += 1
        return frame.CommitAll(token, participants)

    def _abandon(self) -> None:
        for each in self._parts:
            each.outbox.abandon_later(each.assembly)


def _unknown(cause: HoldfastError) -> LinkLost:
    return LinkLost(f"the commit was sent, and whether it took effect is not known: no answer came, and {cause.sentence}")


def _aborted(cause: HoldfastError) -> HoldfastError:
    if isinstance(cause, TransactionAborted):
        return cause
    aborted = TransactionAborted(f"nothing of this transaction happened: {cause.sentence}", **cause.fields)
    aborted.__cause__ = cause
    return aborted
