"""The recipient's side of a receiver, from opening it to leaving it.

    delivered ─▶ handing ─▶ next, async for ─▶ the application ─▶ confirm, release, reject ─▶ noting ─▶ settling ─▶ applied
                    │ granting: credit again, for what is used up                                  held until here

After a lost link the receiver attaches again and says what it holds; verdicts that were not answered are sent again. If the
server gave the session up meanwhile, what was held has gone to others: it is discarded here, and whoever still gives a verdict
on it hears Detached.

Leaving waits until the verdicts are applied. What the application had looked at and left undecided is released as delivered
once more; what it never saw is released as if it had not been delivered.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec

from holdfast.client import checks
from holdfast.client.handing import Handing
from holdfast.client.held import Held
from holdfast.client.verdicts import Settlement
from holdfast.errors import Closed, Detached, HoldfastError, LinkLost, OutcomeUnknown, Refused, SubscriptionInUse
from holdfast.event.position import Ranges
from holdfast.wire.frame import DetachReceiver


class Incoming(Handing):
    """Events as they come in: `async with destination.receive() as incoming: async for event in incoming: …`."""

    # --- opening and leaving -----------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Attach; attaching again after a lost link changes nothing, so it is simply repeated."""
        if self._was_opened:
            raise Closed("a receiver is opened once; receive again for another")
        deadline = self._session.connection.deadline(self._session.connection.timeout)
        while True:
            try:
                await self._session.ask_again(self._attach, deadline - self._loop.time())
                break
            except OutcomeUnknown:
                self._session.detach_later(self.receiver)
                raise
            except SubscriptionInUse as problem:
                await self._until_given_up(problem, deadline)
        self._was_opened, self._end = True, None
        self._session.recipients[self.receiver] = self
        self._credit.count_anew()
        self._credit.grant()
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, give back the rest."""
        if self._session.recipients.get(self.receiver) is not self:
            return
        allowed = checks.seconds(timeout, self._session.connection.timeout)
        was_over, is_detached = self._end is not None, False
        unseen = self.ahead()
        if not was_over:
            self.finish(is_done=True)
        self._end = self._end or Closed("the receiver was closed by this program; receive again to go on")
        self._wake()
        try:
            if not was_over:
                await self._settling.settled(allowed)
                self._release(self._seen(unseen))
                await self._settling.settled(allowed)
                await self._session.ask(lambda token: DetachReceiver(token, self.receiver), allowed)
                is_detached = True
            self._settling.raise_error()
        finally:
            self._generation += 1  # a verdict that comes now is too late
            self._session.recipients.pop(self.receiver, None)
            if not (was_over or is_detached):
                self._session.detach_later(self.receiver)

    def finish(self, *, is_done: bool) -> None:
        """The program leaves; `is_done`: without an error. Whoever decides on its own what that means for events does so here."""

    def _release(self, seen: Held) -> None:
        if seen:
            self._settling.settle(Settlement("release", seen.ranges()))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and self._end is None:
            self.finish(is_done=False)
        try:
            await self.close()
        except HoldfastError:
            if error is None:
                raise

    # --- living through links ----------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """The session was not resumed: what was held has gone to others."""
        self._is_recovered = False
        self._discard(
            Detached(f"the link was lost for so long that what was held of {self.destination!r} went to others; discard it")
        )

    async def resume(self, deadline: float) -> None:
        """Attach again on a new link, with what is held, and credit for what may come.

        Verdicts that were not answered go first: what was released is then nobody's when it is asked who holds what.
        """
        if self._end is not None and not isinstance(self._end, Closed):
            return
        self._settling.send_again()
        try:
            await self._attach_again(deadline)
        except LinkLost:
            raise
        except HoldfastError as problem:
            self.end(problem)
            return
        self._credit.count_anew(self._unused())
        if self._paused is None:
            self._credit.grant()

    def go_on(self) -> None:
        """The whole session is resumed: what was noted and used up meanwhile may be said."""
        if self._paused is None:
            self._credit.grant_due()
        self.flush()

    # --- recovering: see `recovery` ----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return not self._has_ended()

    def _has_ended(self) -> bool:
        return self._end is not None

    async def give_back(self, deadline: float) -> None:
        """Release what was looked at and is undecided, and wait until that, and every verdict, is applied."""
        seen = self._seen(self.ahead())
        for first, last in self._settling.decided():
            seen.remove(first, last)
        self._release(seen)
        await self._settling.settled(max(0.0, deadline - self._loop.time()))

    async def attach_anew(self, deadline: float) -> None:
        """Say that nothing is held: what was handed over and not looked at goes back too, and no more comes without credit."""
        if self._has_ended():
            return
        await self._session.ask_again(
            lambda token: msgspec.structs.replace(self._attach(token), held=Ranges().to_bytes()), deadline - self._loop.time()
        )
        if self._has_ended():  # closed meanwhile, by the program or the server: nobody will receive here
            self._session.detach_later(self.receiver)
            return
        self._is_recovered = True
        self._discard(Refused("the session was recovered before this verdict; the event is delivered again"))
        self._credit.count_anew()
