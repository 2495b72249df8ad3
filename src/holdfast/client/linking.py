"""Linking: a link is made, and made again, for as long as the client is open.

    dial ─▶ greet ─▶ resume the sessions ─▶ ready ─▶ (link lost) ─▶ back off, dial …

The first time, an answer that will not change by waiting (a bad version, a damaged journal) is raised at once; later the client
goes on trying, because a server may be on its way back. Whoever waits for events hears of it when that takes longer than the
client's timeout.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.client.dialer import Dialer
from holdfast.errors import Damaged, HoldfastError, LinkLost, ProtocolError, Refused, TooLarge, Unreachable, by_code
from holdfast.wire.conversation import Conversation, Role, State, farewell
from holdfast.wire.frame import FRAME_BYTES_MAX, Goodbye, Hello, Message, Welcome
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.client.connection import Connection

log = logging.getLogger("holdfast.client")

BACK_OFF_MIN_S = 0.05
BACK_OFF_MAX_S = 1.0


class Linking:
    def __init__(self, connection: Connection, dialer: Dialer, greeting: Hello) -> None:
        self.link: Link | None = None
        self.conversation = Conversation(Role.CLIENT)
        self.problem: HoldfastError | None = None
        self.window = 0  # of batches, as the server's welcome said on this link; 0 while there was none
        self._connection = connection
        self._loop = connection.loop
        self._dialer = dialer
        self._greeting = greeting
        self._welcomed: asyncio.Future[Welcome] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._was_ready = False
        self._tick: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None

    # --- making it ---------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """A link that lasted is made again at once; one that failed, or ended at once, after a pause that grows."""
        back_off_s = BACK_OFF_MIN_S
        self._lose_patience_later()
        while True:
            began = self._loop.time()
            try:
                await self._make()
                await self._lost
            except (HoldfastError, OSError) as problem:
                self.give_up(problem if isinstance(problem, HoldfastError) else Unreachable(str(problem)))
                if not self._was_ready and isinstance(problem, Refused | Damaged):
                    self._connection.session.fail_ready(problem)
                    return
            if self._was_ready and self._loop.time() - began > BACK_OFF_MAX_S:
                back_off_s = BACK_OFF_MIN_S
                continue
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, BACK_OFF_MAX_S)

    async def _make(self) -> None:
        """Dial, greet, resume. Whatever goes wrong is raised."""
        deadline = self._connection.deadline(self._connection.timeout)
        link = await self._dialer.dial(self._connection.timeout)
        self._lost = self._loop.create_future()
        self._welcomed = self._loop.create_future()
        self.conversation = Conversation(Role.CLIENT)
        link.received, link.lost = self._connection.received, lambda error: self._link_lost(link, error)
        self.link = link
        self._beat()
        self._connection.say(0, self._greeting)
        try:
            async with asyncio.timeout_at(deadline):
                welcome = await self._welcomed
        except TimeoutError as problem:
            raise Unreachable(f"{link.peer} did not answer the greeting in time; is it a Holdfast server?") from problem
        if welcome.frame_bytes_max < FRAME_BYTES_MAX:
            raise ProtocolError(
                f"the server takes frames of {welcome.frame_bytes_max} bytes; this client needs {FRAME_BYTES_MAX}"
            )
        self.window = welcome.window
        self._connection.resume_others()
        await self._connection.session.resume(welcome.window, deadline)
        if self._was_ready:
            log.info("linked again to %s (%s)", welcome.node, link.peer)
        self._linked()

    @property
    def problem_text(self) -> str:
        return self.problem.sentence if self.problem is not None else "the link is being made"

    def _linked(self) -> None:
        self._was_ready = True
        self.problem = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience_later(self) -> None:
        self._patience = self._loop.call_later(self._connection.timeout, self._lose_patience)

    def _lose_patience(self) -> None:
        error = Unreachable(f"no link to a server for {self._connection.timeout:g} s; still trying: {self.problem_text}")
        for session in self._connection.sessions:
            session.unreachable(error)

    # --- losing it ---------------------------------------------------------------------------------------------------

    def _link_lost(self, link: Link, error: Exception | None) -> None:
        if link is not self.link:
            return
        said = error if isinstance(error, HoldfastError) else None
        if isinstance(said, ProtocolError | TooLarge) and not self._welcomed.done():
            said = ProtocolError(f"{link.peer} does not answer as a Holdfast server does; are host and port right?")
        sentence = f"the link to {link.peer} was lost ({error or 'closed by the server'})"
        if self.problem is None or said is not None:
            self.problem = said or Unreachable(sentence)
        if self._was_ready and not self._connection.is_closed:
            log.warning("%s; linking again", sentence)
        self._forget_link(self.problem)

    def give_up(self, problem: HoldfastError) -> None:
        """End the link from our side, because of this."""
        self.problem = problem
        self._drop_link(problem)

    def end(self) -> None:
        """The client is closed."""
        self._drop_link(None)
        if self._patience is not None:
            self._patience.cancel()

    def _drop_link(self, error: HoldfastError | None) -> None:
        link = self.link
        if link is None:
            return
        if self.conversation.state is not State.ENDED:
            self._connection.say(0, farewell(error))
        self._forget_link(error)
        link.close()

    def _forget_link(self, error: HoldfastError | None) -> None:
        self.link = None
        self.window = 0
        if self._patience is None and not self._connection.is_closed:
            self._lose_patience_later()
        if self._tick is not None:
            self._tick.cancel()
        self._connection.link_lost()
        if not self._welcomed.done():
            self._welcomed.set_exception(error or LinkLost("the link was closed during the greeting"))
            self._welcomed.exception()
        if not self._lost.done():
            self._lost.set_result(None)

    # --- what is said of the link itself -----------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        if isinstance(message, Welcome) and not self._welcomed.done():
            self._welcomed.set_result(message)
            self._beat()  # from now on as often as the server asks for
        elif isinstance(message, Goodbye):
            code = message.code or "unreachable"
            self.give_up(by_code(code, message.sentence or "the server is closing; linking again", {}))

    def _beat(self) -> None:
        """Heartbeats: say something in time, and notice a silence."""
        if self._tick is not None:
            self._tick.cancel()
        tick = self.conversation.tick(self._loop.time())
        if tick.is_dead:
            silent_s = 3 * self.conversation.heartbeat_ms / 1000
            self.give_up(Unreachable(f"nothing was heard for {silent_s:g} s; the link was given up"))
            return
        for message in tick.to_say:
            self._connection.say(0, message)
        self._tick = self._loop.call_later(tick.again_in_s, self._beat)
