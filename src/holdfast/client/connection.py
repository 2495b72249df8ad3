"""A client's connection: the sessions of a client, over one link at a time.

It carries the client's own session and any number of others, up to a bound. Each is resumed by itself and is ready by itself:
none waits for another. Whoever needs a link waits for its session to be ready, with a deadline. How a link is made, and made
again when it is lost, is told in `linking`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.dialer import Dialer
from holdfast.client.linking import Linking
from holdfast.client.request_reply import Requests
from holdfast.client.session import Session
from holdfast.client.url import Credentials
from holdfast.errors import Closed, HoldfastError, LinkLost, Refused, TimedOut
from holdfast.wire.conversation import State
from holdfast.wire.frame import MAGIC, VERSIONS, Buffer, Frame, Hello, Message, PressureChanged

# Sessions beside the client's own. A server takes more, so that those of a moment find room too.
SESSIONS_MAX = 255
# What a frame has room for.
NUMBER_MAX = (1 << 16) - 1


class Connection:
    def __init__(self, dialer: Dialer, name: str, source: str, timeout: float, credentials: Credentials | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.timeout = timeout
        self.pressure: PressureChanged | None = None
        self._under_pressure: list[asyncio.Future[None]] = []
        self.client = secrets.token_hex(16)  # the same on all links: whose events "not my own" means
        self._dialer = dialer
        login = credentials or Credentials()
        self._linking = Linking(self, dialer, Hello(MAGIC, list(VERSIONS), name, login.user, login.password, self.client))
        self._closed: HoldfastError | None = None
        self._number = 0
        self._routes: dict[int, Session] = {}  # by the number of a session on the link
        self._tasks: set[asyncio.Task[None]] = set()
        self.session = Session(self, name, source)
        self.sessions = [self.session]
        self.requests = Requests(self.session)

    # --- what the session needs --------------------------------------------------------------------------------------

    def deadline(self, timeout: float) -> float:
        return self.loop.time() + timeout

    @property
    def problem_text(self) -> str:
        return self._linking.problem_text

    @property
    def has_link(self) -> bool:
        return self._linking.link is not None

    def say(self, number: int, message: Message, body: Buffer = b"") -> None:
        """Send a frame; dropped without a link, as on a link that is about to be lost."""
        linking = self._linking
        if linking.link is not None and linking.conversation.state is not State.ENDED:
            linking.conversation.say(number, message)
            linking.link.send(Frame(number, message, body))

    def push(self) -> None:
        """Send what was said now, not at the end of the turn."""
        if self._linking.link is not None:
            self._linking.link.flush()

    def say_now(self, number: int, message: Message, body: Buffer) -> None:
        """Send a frame within this call, not at the end of the turn."""
        linking = self._linking
        if linking.link is not None and linking.conversation.state is not State.ENDED:
            linking.conversation.say(number, message)
            linking.link.send_now(Frame(number, message, body))

    def check_open(self) -> None:
        """Closed after the client was closed."""
        if self._closed is not None:
            raise self._closed

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def next_number(self, session: Session) -> int:
        """A number on the link for a session: what is heard under it is told to that one."""
        while True:
            self._number = self._number % NUMBER_MAX + 1
            if self._number not in self._routes:
                self._routes[self._number] = session
                return self._number

    def free_number(self, number: int) -> None:
        self._routes.pop(number, None)

    # --- sessions beside the client's own ----------------------------------------------------------------------------

    def new_session(self, name: str, confirm: ConfirmMode = "event", is_resumable: bool = True) -> Session:
        """One more conversation over the same link. Ready when the server has opened it: wait for that."""
        self.check_open()
        if len(self.sessions) > SESSIONS_MAX:
            raise Refused(f"{SESSIONS_MAX} sessions are open on this client's link; close some, or connect another client")
        made = Session(self, name, self.session.source, confirm, is_resumable)
        self.sessions.append(made)
        if self._linking.window:
            self.spawn(self._resume(made))
        return made

    def drop_session(self, session: Session, error: HoldfastError) -> None:
        """It is closed: whoever still waits for it hears why."""
        if session in self.sessions:
            self.sessions.remove(session)
            self.free_number(session.number)
            session.fail(error)

    def resume_others(self) -> None:
        """All but the client's own, on a new link."""
        for session in self.sessions[1:]:
            self.spawn(self._resume(session))

    async def _resume(self, session: Session) -> None:
        """Beside the others. What ends the link ends it for all; what the server refuses ends this session alone."""
        link = self._linking.link
        try:
            await session.resume(self._linking.window, self.deadline(self.timeout))
        except LinkLost as problem:
            if link is not None and link is self._linking.link:
                self._linking.give_up(problem)
        except HoldfastError as problem:
            self.drop_session(session, problem)

    # --- opening and closing -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """The first link. Raises what waiting would not change, Unreachable otherwise."""
        deadline = self.deadline(self.timeout)
        try:
            await self._dialer.open()
            self.spawn(self._linking.keep())
            await self.session.until_ready(deadline)
        except BaseException:
            await self._end(Closed("the client could not be opened"))
            raise

    async def close(self, is_done: bool = True) -> None:
        if self._closed is not None:
            return
        checks.same_loop(self.loop)
        await asyncio.gather(*(each.close(self.closing_timeout(each), is_done) for each in self.sessions))
        await self._end(Closed("the client was closed by this program; connect again to go on"))

    def closing_timeout(self, session: Session) -> float:
        """How long closing may wait for the server: not at all without a link."""
        return min(self.timeout, 5.0) if session.is_ready else 0

    async def _end(self, error: HoldfastError) -> None:
        self._closed = error
        for session in self.sessions:
            session.fail(error)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._linking.end()
        await self._dialer.close()

    # --- hearing -----------------------------------------------------------------------------------------------------

    def received(self, frame: Frame) -> None:
        try:
            reply = self._linking.conversation.hear(frame)
            if reply is not None:
                self.say(0, reply)
            elif frame.session:
                session = self._routes.get(frame.session)
                if session is not None:  # otherwise it was closed while this was on its way
                    session.received(frame.message, frame.body)
            else:
                self._linking.received(frame.message)
            if isinstance(frame.message, PressureChanged):
                self._feel(frame.message)
        except HoldfastError as problem:
            self._linking.give_up(problem)

    def link_lost(self) -> None:
        self._feel(None)
        lost = LinkLost("the link was lost after this was sent and before it was answered; it may have been done")
        for session in self.sessions:
            session.link_lost(lost)

    def _feel(self, pressure: PressureChanged | None) -> None:
        """The server is short of room, or is not any more; a new link begins without."""
        self.pressure = pressure
        if pressure is None or not pressure.is_short:
            for future in self._under_pressure:
                if not future.done():
                    future.set_result(None)
            self._under_pressure.clear()

    async def unblocked(self, timeout: float) -> None:
        """Wait until the server is not short of room."""
        try:
            async with asyncio.timeout(timeout):
                while self.pressure is not None and self.pressure.is_short:
                    future: asyncio.Future[None] = self.loop.create_future()
                    self._under_pressure.append(future)
                    await future
        except TimeoutError as problem:
            reason = self.pressure.reason if self.pressure is not None else ""
            raise TimedOut(f"the server is still short of room after {timeout:g} s ({reason}); wait longer") from problem
