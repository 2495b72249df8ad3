"""The link keeper makes a link, and makes it again when it is lost, for as long as the client is open.

    dial ─▶ greet ─▶ resume the sessions ─▶ ready ─▶ (link lost) ─▶ back off, dial …

The first time, an error that waiting will not change (a bad version, a damaged journal) is raised at once. Later the client goes
on trying, because the server may come back. A receiver that waits for events gets Unreachable when that takes longer than the
client's timeout.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.client.link.dialer import Dialer, nearer
from holdfast.errors import Damaged, HoldfastError, LinkLost, LoginFailed, ProtocolError, Refused, TooLarge, Unreachable, by_code
from holdfast.event.incarnation import is_restored
from holdfast.wire.conversation import Conversation, Role, State, farewell
from holdfast.wire.frame import FRAME_BYTES_MAX, Frame, Goodbye, Hello, Leave, Message, Ping, Pong, Welcome
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.client.connection.connection import Connection

log = logging.getLogger("holdfast.client")

BACK_OFF_MIN_S = 0.05
BACK_OFF_MAX_S = 1.0
# Bytes of an unknown answer that an error shows.
HEARD_SHOWN_MAX = 24


# The first bytes of other servers, and who they are.
_SPEAKERS = (
    (b"HTTP/", "an HTTP server"),
    (b"-ERR", "Redis"),
    (b"-NOAUTH", "Redis"),
    (b"-DENIED", "Redis"),
    (b"INFO {", "a NATS server"),
    (b"AMQP", "an AMQP broker"),
    (b"SSH-", "an SSH server"),
    (b"220 ", "a mail or FTP server"),
    (b"\x15\x03", "a server that speaks TLS (then write holdfasts://)"),
)


def _speaker(heard: bytes) -> str:
    """Guess which server said this; "" if it is unknown."""
    return next((f"it answers as {who} does" for beginning, who in _SPEAKERS if heard.startswith(beginning)), "")


class LinkKeeper:
    def __init__(self, connection: Connection, dialer: Dialer, greeting: Hello, missing: str = "") -> None:
        """`missing`: the part of a login that was not given, in words, for when the server asks for it."""
        self.link: Link | None = None
        self.conversation = Conversation(Role.CLIENT)
        self.problem: HoldfastError | None = None
        self.window = 0  # of batches, from the server's welcome on this link; 0 before it
        self.incarnation = ""  # of the server's channel, from its newest welcome
        self.channels: tuple[str, ...] = ()  # of its message managers; none where there is one alone
        self._connection = connection
        self._loop = connection.loop
        self._dialer = dialer
        self._greeting = greeting
        self._missing = missing
        self._welcomed: asyncio.Future[Welcome] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._answered: asyncio.Future[None] = self._loop.create_future()  # by a server, for the first time
        self._answer_s = connection.timeout
        self._answering: asyncio.Timeout | None = None
        self._was_ready = False
        self._may_be_near = True  # the server's local socket is tried
        self._tick: asyncio.TimerHandle | None = None
        self._link_timer: asyncio.TimerHandle | None = None

    # --- making it ---------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Make links one after another: after a link that lasted at once, after a failure with a pause that grows."""
        back_off_s = BACK_OFF_MIN_S
        self._start_link_timer()
        while True:
            began = self._loop.time()
            try:
                await self._make()
                await self._lost
            except (HoldfastError, OSError) as problem:
                self.give_up(problem if isinstance(problem, HoldfastError) else Unreachable(str(problem)))
                if not self._was_ready and isinstance(problem, Refused | Damaged):
                    self._connection.session.fail_ready(problem)
                    self._note_answer()
                    return
            except Exception as problem:  # a fault of ours, or of the server's: without this task there is no link, ever
                log.error("the link could not be made, and is tried again: %r", problem)
                self.give_up(Unreachable(f"the link could not be made ({problem!r:.200})"))
            if self._was_ready and self._loop.time() - began > BACK_OFF_MAX_S:
                back_off_s = BACK_OFF_MIN_S
                continue
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, BACK_OFF_MAX_S)

    async def until_answered(self, timeout_s: float) -> None:
        """Wait until a server has answered, yes or no. Unreachable, with what was heard instead, when none does in time.

        A busy server may take longer to check a password: it has the client's whole timeout for it.
        """
        self._answer_s = timeout_s
        try:
            async with asyncio.timeout(timeout_s) as self._answering:
                await self._answered
        except TimeoutError:
            raise Unreachable(self._silence()) from None
        finally:
            self._answer_s, self._answering = self._connection.timeout, None

    def _silence(self) -> str:
        waited = f"within {self._answer_s:g} s"
        if self.link is not None:
            return f"{self._dialer.where} took the connection and did not answer {waited}; is it a Holdfast server?"
        if self.problem is None:
            return f"no answer from {self._dialer.where} {waited}; are host and port right?"
        return f"no link to a server {waited}: {self.problem.sentence}"

    def _note_answer(self) -> None:
        if not self._answered.done():
            self._answered.set_result(None)

    async def _make(self) -> None:
        """Dial, greet, resume. Raises whatever goes wrong."""
        deadline = self._connection.deadline(self._connection.timeout)
        link = await self._dialer.dial(self._answer_s)
        if self._answering is not None and self._greeting.password:
            self._answering.reschedule(deadline)
        welcome = await self._greet(link, deadline)
        if self._may_be_near and (near := await nearer(link, welcome)) is not None:
            self._leave(link)
            self._may_be_near = False  # if this fails, the next link is made without it
            link, welcome = near, await self._greet(near, deadline)
            self._may_be_near = True
        if welcome.frame_bytes_max < FRAME_BYTES_MAX:
            raise ProtocolError(
                f"the server takes frames of {welcome.frame_bytes_max} bytes; this client needs {FRAME_BYTES_MAX}"
            )
        self.window = welcome.window
        self.channels = tuple(welcome.channels)
        self._compare(welcome)
        self._warn_of_no_users(welcome)
        # Of several message managers none is needed for a link: the client's own session is resumed beside the others.
        is_beside = bool(self.channels) and self._was_ready
        self._connection.resume_others(with_own=is_beside)
        if not is_beside:
            await self._connection.session.resume(welcome.window, deadline)
        if self._was_ready:
            log.info("linked again to %s (%s)", welcome.node, link.peer)
        self._linked()

    def _leave(self, link: Link) -> None:
        """End a link over which nothing but the greeting was said."""
        link.lost = lambda error: None
        link.received = lambda frame: None
        link.send(Frame(0, farewell(None)))
        link.close()

    async def _greet(self, link: Link, deadline: float) -> Welcome:
        """Use this link, and be welcomed."""
        self._lost = self._loop.create_future()
        self._welcomed = self._loop.create_future()
        self.conversation = Conversation(Role.CLIENT)
        link.received, link.lost = self._connection.received, lambda error: self._link_lost(link, error)
        self.link = link
        self._beat()
        self._connection.server_time.ask()
        self._connection.say(0, self._greeting)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._welcomed
        except TimeoutError as problem:
            raise Unreachable(f"{link.peer} did not answer the greeting in time; is it a Holdfast server?") from problem

    def _compare(self, welcome: Welcome) -> None:
        """Begin all sessions anew where the channel is another one than before: its numbers, and theirs, mean other events."""
        known, self.incarnation = self.incarnation, welcome.incarnation
        if known in ("", welcome.incarnation):
            return
        if is_restored(known, welcome.incarnation):
            log.warning(
                "%s was restored from a backup: sessions begin anew, what they held is discarded, and what is in flight has an "
                "unknown outcome",
                welcome.node,
            )
        self._connection.forget_sessions()

    def _warn_of_no_users(self, welcome: Welcome) -> None:
        """Say once that a password protects nothing here: who gives one expects to be asked."""
        if self._greeting.password and not welcome.has_users and not self._was_ready:
            log.warning(
                "%s has no users: the password of %r was not checked, and everyone who reaches the server may do everything; "
                "start it with --users, or leave the user out of the URL",
                self._dialer.where, self._greeting.user,
            )  # fmt: skip

    @property
    def problem_text(self) -> str:
        return self.problem.sentence if self.problem is not None else "the link is being made"

    def _linked(self) -> None:
        self._was_ready = True
        self.problem = None
        if self._link_timer is not None:
            self._link_timer.cancel()
            self._link_timer = None

    def _start_link_timer(self) -> None:
        self._link_timer = self._loop.call_later(self._connection.timeout, self._tell_unreachable)

    def _tell_unreachable(self) -> None:
        error = Unreachable(f"no link to a server for {self._connection.timeout:g} s; still trying: {self.problem_text}")
        for session in self._connection.sessions:
            session.unreachable(error)

    # --- losing it ---------------------------------------------------------------------------------------------------

    def _link_lost(self, link: Link, error: Exception | None) -> None:
        if link is not self.link:
            return
        said = error if isinstance(error, HoldfastError) else None
        if not self._welcomed.done() and (_speaker(link.heard) or isinstance(said, ProtocolError | TooLarge)):
            what = _speaker(link.heard) or f"it said {link.heard[:HEARD_SHOWN_MAX]!r}"
            said = ProtocolError(f"{self._dialer.where} is not a Holdfast server: {what}; are host and port right?")
        sentence = f"the link to {link.peer} was lost ({error or 'closed by the server'})"
        if self.problem is None or said is not None:
            self.problem = said or Unreachable(sentence)
        if self._was_ready and not self._connection.is_closed:
            log.warning("%s; linking again", sentence)
        self._forget_link(self.problem)

    def give_up(self, problem: HoldfastError) -> None:
        """End the link from our side, with this reason."""
        self.problem = problem
        self._drop_link(problem)

    def end(self) -> None:
        """End the link for good: the client is closed."""
        self._drop_link(None)
        if self._link_timer is not None:
            self._link_timer.cancel()

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
        if self._link_timer is None and not self._connection.is_closed:
            self._start_link_timer()
        if self._tick is not None:
            self._tick.cancel()
        self._connection.link_lost()
        if not self._welcomed.done():
            self._welcomed.set_exception(error or LinkLost("the link was closed during the greeting"))
            self._welcomed.exception()
        if not self._lost.done():
            self._lost.set_result(None)

    # --- frames about the link itself --------------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        if isinstance(message, Ping | Pong | Welcome):
            self._connection.server_time.learn(message.now_ms, is_answer=not isinstance(message, Ping))
        if isinstance(message, Welcome) and not self._welcomed.done():
            self._welcomed.set_result(message)
            self._note_answer()
            self._beat()  # from now on as often as the server asks
        elif isinstance(message, Leave):
            if self._dialer.knows_others or not message.is_wish:
                self._connection.leave()
        elif isinstance(message, Goodbye):
            code = message.code or "unreachable"
            sentence = message.sentence or "the server is closing; linking again"
            if code == LoginFailed.code and self._missing:
                sentence = f"{self._dialer.where} asks for a login: {self._missing} ({sentence})"
            self.give_up(by_code(code, sentence, {}))

    def _beat(self) -> None:
        """Send a heartbeat in time, and notice a silence."""
        if self._tick is not None:
            self._tick.cancel()
        tick = self.conversation.tick(self._loop.time())
        if tick.is_dead:
            silent_s = 3 * self.conversation.heartbeat_ms / 1000
            self.give_up(Unreachable(f"nothing was heard for {silent_s:g} s; the link was given up"))
            return
        for message in tick.to_say:
            self._connection.server_time.ask()
            self._connection.say(0, message)
        self._tick = self._loop.call_later(tick.again_in_s, self._beat)
