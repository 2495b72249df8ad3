"""The parts of a session's assemblies: sent within a window, kept until receipted, sent again after a lost link.

    put ─▶ waiting ─▶ in flight ─▶ receipted

All assemblies of a session share one window: few bytes of large events wait on the link, so that small events go between them.
A part that is sent again after a lost link counts once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from holdfast.client.assembly.assembly import Assembly, Part
from holdfast.client.link.outbox import Outbox
from holdfast.client.link.questions import Questions
from holdfast.errors import HoldfastError, LinkLost, OutcomeUnknown, TimedOut, Unavailable
from holdfast.wire import frame

# Parts of one session in flight; half of what the server bears.
PARTS_MAX = 16
# Bytes of them: a small event that is sent meanwhile waits for no more than these. Three fragments: one on the wire, one on the
# disk, one whose receipt is on the wire.
BYTES_MAX = 768 << 10
# Assemblies that have begun and are not decided: half of those whose outcome the server remembers.
UNDECIDED_MAX = 32
ABANDON_AGAIN_S = 0.1


class PartOutbox:
    """The parts of all assemblies of one session."""

    def __init__(self, session: Questions) -> None:
        self.session = session
        self._count = 0
        self._begun: dict[str, Assembly] = {}  # something was sent, and it is not decided
        self._pending: dict[str, Assembly] = {}
        self._outbox: Outbox[int, Part] = Outbox(PARTS_MAX, BYTES_MAX)

    def new(self) -> Assembly:
        self._count = max(self._count, self.session.counts_from) + 1
        return Assembly(self, str(self._count))

    def remember(self, assembly: Assembly) -> None:
        """Note that it has something to send."""
        self._pending[assembly.name] = assembly

    def put(self, part: Part) -> None:
        self._outbox.waiting.append(part)
        self.flush()

    async def room(self, assembly: Assembly, timeout: float) -> None:
        """Wait until all its parts are in flight."""
        deadline = self.session.connection.deadline(timeout)
        while assembly.unsent and assembly.error is None:
            try:
                await self._outbox.changed.wait(deadline)
            except TimeoutError as problem:
                raise TimedOut(f"nothing could be sent for {timeout:g} s: {self.session.connection.problem_text}") from problem
        assembly.check()

    async def receipted(self, assembly: Assembly, timeout: float) -> None:
        """Wait until all its parts are durable. Raises the refusal of one."""
        deadline = self.session.connection.deadline(timeout)
        while assembly.receipts < assembly.parts and assembly.error is None:
            try:
                await self._outbox.changed.wait(deadline)
            except TimeoutError as problem:
                raise TimedOut(f"nothing was receipted for {timeout:g} s: {self.session.connection.problem_text}") from problem
        assembly.check()

    # --- sending -----------------------------------------------------------------------------------------------------

    def may_begin(self, assembly: Assembly) -> bool:
        return assembly.name in self._begun or len(self._begun) < UNDECIDED_MAX

    def note_begun(self, assembly: Assembly) -> None:
        self._begun[assembly.name] = assembly

    def flush(self) -> None:
        """Send all that may go."""
        if not self.session.is_ready:
            return
        outbox, held = self._outbox, []
        while outbox.waiting and outbox.has_room(len(outbox.waiting[0].command)):
            part = outbox.waiting.popleft()
            if self.may_begin(part.assembly):
                self._send(part)
            else:
                held.append(part)
        outbox.go_first(held)

    def _send(self, part: Part) -> None:
        token, future = self.session.question()
        self._outbox.sent(token, part, len(part.command))
        self.note_begun(part.assembly)
        future.add_done_callback(lambda done: self._answered(token, done))
        self.session.say(frame.Part(token, part.kind, part.bound_for), part.command)
        part.assembly.unsent -= 1
        part.assembly.fragments_in_flight += part.is_fragment
        part.assembly.ask_if_due()

    def _answered(self, token: int, done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        part = None if isinstance(error, LinkLost) else self._outbox.answered(token)
        if part is None:
            return
        part.assembly.fragments_in_flight -= part.is_fragment
        if error is None or isinstance(error, HoldfastError):
            part.assembly.receipted(part, error or done.result())
        part.assembly.ask_if_due()
        self.flush()

    # --- ending ------------------------------------------------------------------------------------------------------

    def drop(self, assembly: Assembly) -> bool:
        """Send no more of it; return whether anything of it was sent."""
        waiting = self._outbox.waiting
        self._outbox.waiting = deque(part for part in waiting if part.assembly is not assembly)
        assembly.unsent = 0
        if assembly.name not in self._begun:
            self.forget(assembly)
            return False
        return True

    def forget(self, assembly: Assembly) -> None:
        """Forget it: it is decided."""
        self._begun.pop(assembly.name, None)
        self._pending.pop(assembly.name, None)
        for other in list(self._pending.values()):
            other.ask_if_due()
        self.flush()
        self._outbox.changed.wake()

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
        """Go on, on a new link of the same session: send parts without a receipt again, in order, and ask for commits again."""
        wanted = [part for part in self._outbox.take_back() if part.assembly.error is None]
        for part in wanted:
            part.is_again = True
            part.assembly.unsent += 1
        self._outbox.go_first(wanted)
        for assembly in list(self._pending.values()):
            assembly.link_is_new()
            assembly.fragments_in_flight = 0
        self.flush()
        for assembly in list(self._pending.values()):
            assembly.ask_if_due()

    def begin_anew(self, error: HoldfastError, *, may_repeat: bool) -> None:
        """Go on in a new session: the server does not know the old one. It was away for long, or it died before it knew of it.

        Assemblies of which the server has receipted nothing begin once more, if `may_repeat`; the others end with this error.
        """
        lost = [each for each in self._pending.values() if not (may_repeat and each.may_be_repeated)]
        for assembly in [each for each in lost if each.parts or each.name in self._begun]:
            self.drop(assembly)
            assembly.give_up(error)
        self._begun.clear()
        for part in (*self._outbox.in_flight.values(), *self._outbox.waiting):
            if part.assembly.error is None:
                part.move_to(self.session.id)

    def give_up(self, error: HoldfastError) -> None:
        """End all assemblies: the session is closed."""
        self._outbox.clear()
        for assembly in [each for each in self._pending.values() if each.parts or each.name in self._begun]:
            assembly.unsent = 0
            assembly.give_up(error)
