"""A client's connection: the sessions of a client, over one link at a time.

It carries the client's own session and others, up to a bound. Each is resumed and ready by itself: none waits for another. A call
that needs a link waits for its session to be ready, with a deadline. `link_keeper` makes the link, and makes it again when it is
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.connection.link_keeper import LinkKeeper
from holdfast.client.connection.request_reply import Requests
from holdfast.client.connection.session import Session
from holdfast.client.link.dialer import Dialer, dialer_for
from holdfast.client.link.server_time import ServerTime
from holdfast.client.link.waiters import Waiters
from holdfast.client.sending.batch_forwarder import BatchForwarder, HeldFor
from holdfast.client.url import Credentials, credentials_of, parse_with_password
from holdfast.errors import Closed, HoldfastError, LinkLost, Refused, TimedOut, Unreachable
from holdfast.wire.conversation import State
from holdfast.wire.frame import MAGIC, VERSIONS, Buffer, Frame, Hello, Message, PressureChanged
from holdfast.wire.link import Link

log = logging.getLogger("holdfast.client")

# How long a call waits that is given no timeout; and the first link for a server that answers, so that a mistyped port is noticed
# soon.
TIMEOUT_S = 30.0
ANSWER_S = 3.0
# Sessions beside the client's own. A server takes more, so that short-lived ones find room too.
SESSIONS_MAX = 255
# How long a session waits for its message manager, on a link that lives: for ever.
RESUME_S_MAX = 365 * 86_400.0
# A link that is to be left waits so long for answers.
LEAVE_S_MAX = 1.0
# The largest number that a frame has room for.
NUMBER_MAX = (1 << 16) - 1


class Connection:
    def __init__(self, dialer: Dialer, name: str, source: str, timeout: float, credentials: Credentials | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.timeout = timeout
        self.pressure: PressureChanged | None = None
        self._under_pressure = Waiters()
        self.client = secrets.token_hex(16)  # the same on all links: `no_local` leaves out its events
        self._dialer = dialer
        login = credentials or Credentials()
        greeting = Hello(MAGIC, list(VERSIONS), name, login.user, login.password, self.client)
        self._keeper = LinkKeeper(self, dialer, greeting, login.missing)
        self.server_time = ServerTime()
        self._closed: HoldfastError | None = None
        self._number = 0
        self._routes: dict[int, Session] = {}  # by the number of a session on the link
        self._tasks: set[asyncio.Task[None]] = set()
        self.session = Session(self, name, source)
        self.sessions = [self.session]
        self.link_number = 1  # counts the links, those too that were never ready
        self.requests = Requests(self.session)

    # --- as sessions see it ------------------------------------------------------------------------------------------

    def deadline(self, timeout: float) -> float:
        return self.loop.time() + timeout

    @property
    def problem_text(self) -> str:
        return self._keeper.problem_text

    @property
    def incarnation(self) -> str:
        """Of the server's channel, as it told in its newest greeting; "" before the first, or if it does not tell."""
        return self._keeper.incarnation

    @property
    def channels(self) -> Sequence[str]:
        """Those of the server's message managers; none where there is one alone."""
        return self._keeper.channels

    @property
    def has_link(self) -> bool:
        return self._keeper.link is not None

    def say(self, number: int, message: Message, body: Buffer = b"") -> None:
        """Send a frame; dropped without a link, as on a link that is about to be lost."""
        keeper = self._keeper
        if keeper.link is not None and keeper.conversation.state is not State.ENDED:
            keeper.conversation.say(number, message)
            keeper.link.send(Frame(number, message, body))

    def push(self) -> None:
        """Send all frames now, not at the end of the turn."""
        if self._keeper.link is not None:
            self._keeper.link.flush()

    def say_now(self, number: int, message: Message, body: Buffer) -> None:
        """Send a frame within this call, not at the end of the turn."""
        keeper = self._keeper
        if keeper.link is not None and keeper.conversation.state is not State.ENDED:
            keeper.conversation.say(number, message)
            keeper.link.send_now(Frame(number, message, body))

    def check_open(self) -> None:
        """Closed after the client was closed."""
        if self._closed is not None:
            raise self._closed

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work that nobody waits for; an error of it is one line of the log."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        problem = None if task.cancelled() else task.exception()
        if problem is not None and not isinstance(problem, Closed):
            log.error("%s of the client failed: %r", task.get_coro(), problem)

    def next_number(self, session: Session) -> int:
        """Give a session a number on the link: frames with that number go to it."""
        while True:
            self._number = self._number % NUMBER_MAX + 1
            if self._number not in self._routes:
                self._routes[self._number] = session
                return self._number

    def free_number(self, number: int) -> None:
        self._routes.pop(number, None)

    # --- sessions beside the client's own ----------------------------------------------------------------------------

    def new_session(
        self,
        name: str,
        confirm: ConfirmMode = "event",
        is_resumable: bool = True,
        channel: str = "",
        resume: Mapping[str, str] | None = None,
    ) -> Session:
        """Add a session over the same link, in the place of the one to `resume`, by its ids in each channel. It is ready when the
        server has opened it: wait for that."""
        self.check_open()
        if sum(not each.is_lane for each in self.sessions) > SESSIONS_MAX:
            raise Refused(f"{SESSIONS_MAX} sessions are open on this client's link; close some, or connect another client")
        former = dict(resume or {})
        made = Session(self, name, self.session.source, confirm, is_resumable, None, channel or next(iter(former), ""))
        made.id, made.former = former.get(made.channel, ""), former
        made.is_inherited = bool(made.id)
        return self._add(made)

    def new_lane(self, home: Session, channel: str) -> Session:
        """Add the lane of a session in another channel."""
        made = Session(self, home.name, home.source, home.confirm, home.is_resumable, home, channel)
        made.id = home.former.pop(channel, "")
        made.is_inherited = bool(made.id)
        return self._add(made)

    def _add(self, made: Session) -> Session:
        self.sessions.append(made)
        if self._keeper.window:
            self.spawn(self._resume(made))
        return made

    def drop_session(self, session: Session, error: HoldfastError) -> None:
        """Take out a closed session: all that still waits for it fails with this error."""
        if session in self.sessions:
            self.sessions.remove(session)
            self.free_number(session.number)
            session.fail(error)

    def resume_others(self, *, with_own: bool = False) -> None:
        """Resume all sessions but the client's own on a new link; `with_own`: that one too."""
        for session in self.sessions[0 if with_own else 1 :]:
            self.spawn(self._resume(session))

    def forget_sessions(self) -> None:
        """Resume none of the sessions: the server's channel is another one than they were opened in."""
        for session in self.sessions:
            session.forget()

    def suspended(self, session: Session) -> None:
        """The server knows no longer what a session holds: go on with it as after a lost link, on this one. Frames under its old
        number are of before."""
        session.link_lost(_lost())
        self.free_number(session.number)
        session.number = self.next_number(session)
        self.spawn(self._resume(session))

    def leave(self) -> None:
        """Go to another host, as the server asks: nothing more is asked on this link, and it ends when all is answered."""
        for session in self.sessions:
            session.hold()
        self.spawn(self._leave(self._keeper.link))

    async def _leave(self, link: Link | None) -> None:
        unanswered = [question for session in self.sessions for question in session.unanswered]
        if unanswered:
            await asyncio.wait(unanswered, timeout=LEAVE_S_MAX)
        if link is not None and link is self._keeper.link:
            self._keeper.give_up(Unreachable(f"{link.peer} sent its clients elsewhere; linking to another host"))

    async def _resume(self, session: Session) -> None:
        """Resume one beside the others. A lost link ends it for all; a refusal ends this session alone. Where there are several
        message managers, one that is away holds up its own sessions, and not the link."""
        link = self._keeper.link
        try:
            await session.resume(self._keeper.window, self.deadline(RESUME_S_MAX if self.channels else self.timeout))
        except LinkLost as problem:
            if link is not None and link is self._keeper.link:
                self._keeper.give_up(problem)
        except HoldfastError as problem:
            if session is self.session:
                self._keeper.give_up(problem)
            else:
                self.drop_session(session, problem)

    # --- opening and closing -----------------------------------------------------------------------------------------

    async def open(self, answer_s: float | None = None) -> None:
        """Make the first link. Raises at once an error that waiting would not change, otherwise Unreachable in time: after
        `answer_s` when no server answers at all."""
        try:
            await self._dialer.open()
            deadline = self.deadline(self.timeout)
            self.spawn(self._keeper.keep())
            await self._keeper.until_answered(answer_s or self.timeout)
            await self.session.until_ready(deadline)
        except BaseException:
            await self._end(Closed("the client could not be opened"))
            raise

    async def close(self, is_done: bool = True) -> None:
        if self._closed is not None:
            return
        checks.same_loop(self.loop)
        try:
            await asyncio.gather(*(each.close(self.closing_timeout(each), is_done) for each in self.sessions))
        finally:  # also when closing is cancelled: a folder must not stay taken
            await self._end(Closed("the client was closed by this program; connect again to go on"))

    def closing_timeout(self, session: Session) -> float:
        """How long closing may wait for the server: without a link, not at all. A lane may just be opened."""
        return min(self.timeout, 5.0) if session.is_ready or (session.is_lane and self.has_link) else 0

    async def _end(self, error: HoldfastError) -> None:
        self._closed = error
        for session in self.sessions:
            session.fail(error)
        for task in list(self._tasks):
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            self._keeper.end()
            await self._dialer.close()

    # --- hearing -----------------------------------------------------------------------------------------------------

    def received(self, frame: Frame) -> None:
        try:
            reply = self._keeper.conversation.hear(frame)
            if reply is not None:
                self.say(0, reply)
            if frame.session:
                session = self._routes.get(frame.session)
                if session is not None:  # otherwise it was closed meanwhile
                    session.received(frame.message, frame.body)
            else:
                self._keeper.received(frame.message)
            if isinstance(frame.message, PressureChanged):
                self._note_pressure(frame.message)
        except HoldfastError as problem:
            self._keeper.give_up(problem)

    def link_lost(self) -> None:
        self._note_pressure(None)
        self.link_number += 1
        for session in self.sessions:
            session.link_lost(_lost())

    def _note_pressure(self, pressure: PressureChanged | None) -> None:
        """Note whether the server is short of room; a new link begins with None."""
        self.pressure = pressure
        if pressure is None or not pressure.is_short:
            self._under_pressure.wake()

    async def unblocked(self, timeout: float) -> None:
        """Wait until the server is not short of room."""
        deadline = self.deadline(timeout)
        try:
            while self.pressure is not None and self.pressure.is_short:
                await self._under_pressure.wait(deadline)
        except TimeoutError as problem:
            reason = self.pressure.reason if self.pressure is not None else ""
            raise TimedOut(f"the server is still short of room after {timeout:g} s ({reason}); wait longer") from problem


def _lost() -> LinkLost:
    return LinkLost("the link was lost after this was sent and before it was answered; it may have been done")


@contextlib.asynccontextmanager
async def open_forwarding(
    url: str, producer: str, held_for: HeldFor, timeout: float, name: str = "", answer_s: float | None = None
) -> AsyncIterator[BatchForwarder]:
    """Open a connection to a URL for the commands of one durable producer; `held_for` tells the first for an incarnation."""
    parsed = parse_with_password(url)
    connection = Connection(dialer_for(parsed), name, "", timeout, credentials_of(parsed))
    forwarding = BatchForwarder(connection.session, producer, held_for)
    connection.session.producer = forwarding  # type: ignore[assignment]  # nobody sends events in this session
    await connection.open(answer_s)
    try:
        yield forwarding
    finally:
        await connection.close()
