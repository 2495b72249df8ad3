"""The parts of a session's assemblies: sent within a window, kept until receipted, sent again after a lost link.

    put ─▶ waiting ─▶ in flight ─▶ receipted

All assemblies of a session share one window: few bytes of large events wait on the link, so that small events go between them.
What is sent again after a lost link counts once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from holdfast.client.assembly import Assembly, Part
from holdfast.errors import HoldfastError, LinkLost, OutcomeUnknown, TimedOut, Unavailable
from holdfast.wire import frame

if TYPE_CHECKING:
    from holdfast.client.session import Session

# Parts of one session on their way; half of what the server bears.
PARTS_MAX = 16
# Bytes of them: a small event that is sent meanwhile waits for no more than these. Three fragments: one on the wire, one on the
# disk, one on its way back.
BYTES_MAX = 768 << 10
# Assemblies of which something was sent and which are not decided: half of those whose outcome the server remembers.
UNDECIDED_MAX = 32
ABANDON_AGAIN_S = 0.1


class Parts:
    """The parts of all assemblies of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._count = 0
        self._begun: dict[str, Assembly] = {}  # something was sent, and it is not decided
        self._pending: dict[str, Assembly] = {}
        self._waiting: deque[Part] = deque()
        self._in_flight: dict[int, Part] = {}
        self._bytes = 0
        self._waiting_for_room: list[asyncio.Future[None]] = []

    def new(self) -> Assembly:
        self._count += 1
        return Assembly(self, str(self._count))

    def remember(self, assembly: Assembly) -> None:
        """There is something of it to be sent."""
        self._pending[assembly.name] = assembly

    def put(self, part: Part) -> None:
        self._waiting.append(part)
        self.flush()

    async def room(self, assembly: Assembly, timeout: float) -> None:
        """Wait until all its parts are on their way."""
        deadline = self.session.connection.deadline(timeout)
        while assembly.unsent and assembly.error is None:
            future = self.session.connection.loop.create_future()
            self._waiting_for_room.append(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError as problem:
                raise TimedOut(f"nothing could be sent for {timeout:g} s: {self.session.connection.problem_text}") from problem
        assembly.check()

    # --- sending -----------------------------------------------------------------------------------------------------

    def may_begin(self, assembly: Assembly) -> bool:
        return assembly.name in self._begun or len(self._begun) < UNDECIDED_MAX

    def note_begun(self, assembly: Assembly) -> None:
        self._begun[assembly.name] = assembly

    def flush(self) -> None:
        """Send what may go."""
        if not self.session.is_ready:
            return
        held: deque[Part] = deque()
        while self._waiting and self._has_room_for(len(self._waiting[0].command)):
            part = self._waiting.popleft()
            if self.may_begin(part.assembly):
                self._send(part)
            else:
                held.append(part)
        self._waiting.extendleft(reversed(held))

    def _has_room_for(self, size: int) -> bool:
        return not self._in_flight or (len(self._in_flight) < PARTS_MAX and self._bytes + size <= BYTES_MAX)

    def _send(self, part: Part) -> None:
        token, future = self.session.question()
        self._in_flight[token] = part
        self._bytes += len(part.command)
        self.note_begun(part.assembly)
        future.add_done_callback(lambda done: self._answered(token, done))
        self.session.say(frame.Part(token, part.kind, part.bound_for), part.command)
        part.assembly.unsent -= 1
        part.assembly.fragments_in_flight += part.is_fragment
        part.assembly.ask_if_due()

    def _answered(self, token: int, done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, LinkLost) or token not in self._in_flight:
            return
        part = self._in_flight.pop(token)
        self._bytes -= len(part.command)
        part.assembly.fragments_in_flight -= part.is_fragment
        if error is None or isinstance(error, HoldfastError):
            part.assembly.receipted(error or done.result())
        part.assembly.ask_if_due()
        self.flush()
        self._wake()

    def _wake(self) -> None:
        for future in self._waiting_for_room:
            if not future.done():
                future.set_result(None)
        self._waiting_for_room.clear()

    # --- ending ------------------------------------------------------------------------------------------------------

    def drop(self, assembly: Assembly) -> bool:
        """Send no more of it; whether anything of it was sent."""
        self._waiting = deque(part for part in self._waiting if part.assembly is not assembly)
        assembly.unsent = 0
        if assembly.name not in self._begun:
            self.forget(assembly)
            return False
        return True

    def forget(self, assembly: Assembly) -> None:
        """It is decided."""
        self._begun.pop(assembly.name, None)
        self._pending.pop(assembly.name, None)
        for other in list(self._pending.values()):
            other.ask_if_due()
        self.flush()
        self._wake()

    def abandon_later(self, assembly: Assembly) -> None:
        if self.drop(assembly):
            self.session.connection.spawn(self._abandon(assembly))

    async def _abandon(self, assembly: Assembly) -> None:
        while assembly.name in self._begun:
            try:
                await self.session.ask(lambda token: frame.Abandon(token, assembly.name), self.session.connection.timeout)
            except (OutcomeUnknown, Unavailable):
                await asyncio.sleep(ABANDON_AGAIN_S)
                continue
            except HoldfastError:
                pass  # the session is closed, and its assemblies with it
            self.forget(assembly)

    def go_on(self) -> None:
        """On a new link of the same session: what was not receipted goes again, in order, and what was asked is asked again."""
        again = list(self._in_flight.values())
        self._in_flight.clear()
        self._bytes = 0
        wanted = [part for part in again if part.assembly.error is None]
        for part in wanted:
            part.assembly.unsent += 1
        self._waiting.extendleft(reversed(wanted))
        for assembly in list(self._pending.values()):
            assembly.link_is_new()
            assembly.fragments_in_flight = 0
        self.flush()
        for assembly in list(self._pending.values()):
            assembly.ask_if_due()

    def give_up(self, error: HoldfastError) -> None:
        """The session is gone at the server, or closed here."""
        self._waiting.clear()
        self._in_flight.clear()
        self._bytes = 0
        for assembly in [each for each in self._pending.values() if each.parts or each.name in self._begun]:
            assembly.unsent = 0
            assembly.give_up(error)
        self._wake()
