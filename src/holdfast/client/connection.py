"""A client's connection: one link at a time, made again for as long as the client is open.

    dial ─▶ greet ─▶ resume the sessions ─▶ ready ─▶ (link lost) ─▶ back off, dial …

It carries the client's own session and any number of others, up to a bound. Each is resumed by itself and is ready by itself:
none waits for another. Whoever needs a link waits for its session to be ready, with a deadline. The first time, an answer that
will not change by waiting (a bad version, a damaged journal) is raised at once; later the client goes on trying, because a
server may be on its way back.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from typing import Any

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.dialer import Dialer
from holdfast.client.request_reply import Requests
from holdfast.client.session import Session
from holdfast.client.url import Credentials
from holdfast.errors import (
    Closed,
    Damaged,
    HoldfastError,
    LinkLost,
    ProtocolError,
    Refused,
    TimedOut,
    TooLarge,
    Unreachable,
    by_code,
)
from holdfast.wire.conversation import Conversation, Role, State, farewell
from holdfast.wire.frame import FRAME_BYTES_MAX, MAGIC, VERSIONS, Buffer, Frame, Goodbye, Hello, Message, PressureChanged, Welcome
from holdfast.wire.link import Link

log = logging.getLogger("holdfast.client")

BACK_OFF_MIN_S = 0.05
BACK_OFF_MAX_S = 1.0
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
        self._name = name
        self._credentials = credentials or Credentials()
        self._link: Link | None = None
        self._conversation = Conversation(Role.CLIENT)
        self._welcomed: asyncio.Future[Welcome] = self.loop.create_future()
        self._lost: asyncio.Future[None] = self.loop.create_future()
        self._problem: HoldfastError | None = None
        self._closed: HoldfastError | None = None
        self._was_ready = False
        self._window = 0  # of batches, as the server's welcome said on this link; 0 while there was none
        self._number = 0
        self._routes: dict[int, Session] = {}  # by the number of a session on the link
        self._tick: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.session = Session(self, name, source)
        self._sessions = [self.session]
        self.requests = Requests(self.session)

    # --- what the session needs --------------------------------------------------------------------------------------

    def deadline(self, timeout: float) -> float:
        return self.loop.time() + timeout

    @property
    def problem_text(self) -> str:
        return self._problem.sentence if self._problem is not None else "the link is being made"

    @property
    def has_link(self) -> bool:
        return self._link is not None

    def say(self, number: int, message: Message, body: Buffer = b"") -> None:
        """Send a frame; dropped without a link, as on a link that is about to be lost."""
        if self._link is not None and self._conversation.state is not State.ENDED:
            self._conversation.say(number, message)
            self._link.send(Frame(number, message, body))

    def push(self) -> None:
        """Send what was said now, not at the end of the turn."""
        if self._link is not None:
            self._link.flush()

    def say_now(self, number: int, message: Message, body: Buffer) -> None:
        """Send a frame within this call, not at the end of the turn."""
        if self._link is not None and self._conversation.state is not State.ENDED:
            self._conversation.say(number, message)
            self._link.send_now(Frame(number, message, body))

    def check_open(self) -> None:
        """Closed after the client was closed."""
        if self._closed is not None:
            raise self._closed

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
        if len(self._sessions) > SESSIONS_MAX:
            raise Refused(f"{SESSIONS_MAX} sessions are open on this client's link; close some, or connect another client")
        made = Session(self, name, self.session.source, confirm, is_resumable)
        self._sessions.append(made)
        if self._window:
            self.spawn(self._resume(made))
        return made

    def drop_session(self, session: Session, error: HoldfastError) -> None:
        """It is closed: whoever still waits for it hears why."""
        if session in self._sessions:
            self._sessions.remove(session)
            self.free_number(session.number)
            session.fail(error)

    async def _resume(self, session: Session) -> None:
        """Beside the others. What ends the link ends it for all; what the server refuses ends this session alone."""
        link = self._link
        try:
            await session.resume(self._window, self.deadline(self.timeout))
        except LinkLost as problem:
            if link is not None and link is self._link:
                self._problem = problem
                self._drop_link(problem)
        except HoldfastError as problem:
            self.drop_session(session, problem)

    # --- opening and closing -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """The first link. Raises what waiting would not change, Unreachable otherwise."""
        deadline = self.deadline(self.timeout)
        try:
            await self._dialer.open()
            self.spawn(self._keep_linked())
            await self.session.until_ready(deadline)
        except BaseException:
            await self._end(Closed("the client could not be opened"))
            raise

    async def close(self, is_done: bool = True) -> None:
        if self._closed is not None:
            return
        checks.same_loop(self.loop)
        await asyncio.gather(*(each.close(self.closing_timeout(each), is_done) for each in self._sessions))
        await self._end(Closed("the client was closed by this program; connect again to go on"))

    def closing_timeout(self, session: Session) -> float:
        """How long closing may wait for the server: not at all without a link."""
        return min(self.timeout, 5.0) if session.is_ready else 0

    async def _end(self, error: HoldfastError) -> None:
        self._closed = error
        for session in self._sessions:
            session.fail(error)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._drop_link(None)
        if self._patience is not None:
            self._patience.cancel()
        await self._dialer.close()

    # --- links -------------------------------------------------------------------------------------------------------

    async def _keep_linked(self) -> None:
        """A link that lasted is made again at once; one that failed, or ended at once, after a pause that grows."""
        back_off_s = BACK_OFF_MIN_S
        self._lose_patience_later()
        while True:
            began = self.loop.time()
            try:
                await self._make_link()
                await self._lost
            except (HoldfastError, OSError) as problem:
                self._problem = problem if isinstance(problem, HoldfastError) else Unreachable(str(problem))
                self._drop_link(self._problem)
                if not self._was_ready and isinstance(problem, Refused | Damaged):
                    self.session.fail_ready(problem)
                    return
            if self._was_ready and self.loop.time() - began > BACK_OFF_MAX_S:
                back_off_s = BACK_OFF_MIN_S
                continue
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, BACK_OFF_MAX_S)

    async def _make_link(self) -> None:
        """Dial, greet, resume. Whatever goes wrong is raised."""
        deadline = self.deadline(self.timeout)
        link = await self._dialer.dial(self.timeout)
        self._lost = self.loop.create_future()
        self._welcomed = self.loop.create_future()
        self._conversation = Conversation(Role.CLIENT)
        link.received, link.lost = self._received, lambda error: self._link_lost(link, error)
        self._link = link
        self._beat()
        self.say(0, Hello(MAGIC, list(VERSIONS), self._name, self._credentials.user, self._credentials.password, self.client))
        try:
            async with asyncio.timeout_at(deadline):
                welcome = await self._welcomed
        except TimeoutError as problem:
            raise Unreachable(f"{link.peer} did not answer the greeting in time; is it a Holdfast server?") from problem
        if welcome.frame_bytes_max < FRAME_BYTES_MAX:
            raise ProtocolError(
                f"the server takes frames of {welcome.frame_bytes_max} bytes; this client needs {FRAME_BYTES_MAX}"
            )
        self._window = welcome.window
        for session in self._sessions[1:]:
            self.spawn(self._resume(session))
        await self.session.resume(welcome.window, deadline)
        if self._was_ready:
            log.info("linked again to %s (%s)", welcome.node, link.peer)
        self._linked()

    def _linked(self) -> None:
        self._was_ready = True
        self._problem = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience_later(self) -> None:
        self._patience = self.loop.call_later(self.timeout, self._lose_patience)

    def _lose_patience(self) -> None:
        error = Unreachable(f"no link to a server for {self.timeout:g} s; still trying: {self.problem_text}")
        for session in self._sessions:
            session.unreachable(error)

    def _link_lost(self, link: Link, error: Exception | None) -> None:
        if link is not self._link:
            return
        said = error if isinstance(error, HoldfastError) else None
        if isinstance(said, ProtocolError | TooLarge) and not self._welcomed.done():
            said = ProtocolError(f"{link.peer} does not answer as a Holdfast server does; are host and port right?")
        sentence = f"the link to {link.peer} was lost ({error or 'closed by the server'})"
        if self._problem is None or said is not None:
            self._problem = said or Unreachable(sentence)
        if self._was_ready and self._closed is None:
            log.warning("%s; linking again", sentence)
        self._forget_link(self._problem)

    def _drop_link(self, error: HoldfastError | None) -> None:
        """End the link from our side."""
        link = self._link
        if link is None:
            return
        if self._conversation.state is not State.ENDED:
            self.say(0, farewell(error))
        self._forget_link(error)
        link.close()

    def _forget_link(self, error: HoldfastError | None) -> None:
        self._link = None
        self._feel(None)
        self._window = 0
        if self._patience is None and self._closed is None:
            self._lose_patience_later()
        if self._tick is not None:
            self._tick.cancel()
        lost = LinkLost("the link was lost after this was sent and before it was answered; it may have been done")
        for session in self._sessions:
            session.link_lost(lost)
        if not self._welcomed.done():
            self._welcomed.set_exception(error or LinkLost("the link was closed during the greeting"))
            self._welcomed.exception()
        if not self._lost.done():
            self._lost.set_result(None)

    # --- hearing -----------------------------------------------------------------------------------------------------

    def _received(self, frame: Frame) -> None:
        try:
            reply = self._conversation.hear(frame)
            if reply is not None:
                self.say(0, reply)
            elif frame.session:
                session = self._routes.get(frame.session)
                if session is not None:  # otherwise it was closed while this was on its way
                    session.received(frame.message, frame.body)
            else:
                self._received_of_link(frame.message)
            if isinstance(frame.message, PressureChanged):
                self._feel(frame.message)
        except HoldfastError as problem:
            self._problem = problem
            self._drop_link(problem)

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

    def _received_of_link(self, message: Message) -> None:
        if isinstance(message, Welcome) and not self._welcomed.done():
            self._welcomed.set_result(message)
            self._beat()  # from now on as often as the server asks for
        elif isinstance(message, Goodbye):
            code = message.code or "unreachable"
            self._problem = by_code(code, message.sentence or "the server is closing; linking again", {})
            self._drop_link(self._problem)

    def _beat(self) -> None:
        """Heartbeats: say something in time, and notice a silence."""
        if self._tick is not None:
            self._tick.cancel()
        tick = self._conversation.tick(self.loop.time())
        if tick.is_dead:
            self._problem = Unreachable(
                f"nothing was heard for {3 * self._conversation.heartbeat_ms / 1000:g} s; the link was given up"
            )
            self._drop_link(self._problem)
            return
        for message in tick.to_say:
            self.say(0, message)
        self._tick = self.loop.call_later(tick.again_in_s, self._beat)
