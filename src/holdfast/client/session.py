"""A session: a client's conversation with the server, which outlives links.

    questions    everything that is asked and answered (attach, manage, settle …), by token
    producer     what was sent and not receipted
    recipients   what was handed over and not confirmed

When a link is lost, the questions that were asked fail with LinkLost, because nobody knows what became of them; producer and
recipients know how to go on. On the next link the session is resumed first, then the producer asks what arrived and sends the
rest again, then the recipients attach again with what they hold. Only then may the application use the link.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from holdfast.client import checks
from holdfast.client.checks import ConfirmMode
from holdfast.client.parts import Parts
from holdfast.client.producer import Producer
from holdfast.client.staging_window import Window
from holdfast.errors import (
    HoldfastError,
    LinkLost,
    OutcomeUnknown,
    TimedOut,
    TransactionAborted,
    Unavailable,
    Unreachable,
    by_code,
)
from holdfast.event.identifier import Counter
from holdfast.wire.frame import (
    Answered,
    Browsed,
    Buffer,
    CloseSession,
    Deliver,
    DestinationPressure,
    DetachReceiver,
    Failed,
    Fragment,
    Message,
    OpenSession,
    Receipted,
    ReceiverClosed,
    SessionOpened,
)

if TYPE_CHECKING:
    from holdfast.client.connection import Connection
    from holdfast.client.recipient import Incoming

# Sends use their sequence as token; questions count from far beyond, so that a Failed is never ambiguous.
QUESTIONS_FROM = 1 << 48
# Questions asked and not answered; the server bounds them too.
QUESTIONS_MAX = 1_000
# When the server does not know what became of a question, it is asked again after this.
ASK_AGAIN_S = 0.1
# When a receiver could not be detached, it is tried again after this.
DETACH_AGAIN_S = 0.1


class Session:
    def __init__(
        self, connection: Connection, name: str, source: str, confirm: ConfirmMode = "event", is_resumable: bool = True
    ) -> None:
        """One that is not `is_resumable` begins anew on each link: the server gives it up when a link is lost."""
        self.connection = connection
        self.number = connection.next_number(self)
        self.name = name
        self.source = source
        self.id = ""
        self.confirm = confirm
        self._is_resumable = is_resumable
        self.is_ready = False
        self._ready: asyncio.Future[None] = connection.loop.create_future()
        self._closed: HoldfastError | None = None
        self.ids = Counter(0)
        self.producer = Producer(self)
        self.parts = Parts(self)
        self.staging = Window()
        self.recipients: dict[int, Incoming] = {}
        self._token = QUESTIONS_FROM
        self._receiver = 0
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._asking = asyncio.Semaphore(QUESTIONS_MAX)
        self._is_fetching_ids = False
        self.recovering = asyncio.Lock()  # one recovery, or rollback, at a time

    # --- asking ------------------------------------------------------------------------------------------------------

    def say(self, message: Message, body: Buffer = b"") -> None:
        self.connection.say(self.number, message, body)

    async def ask(self, make: Callable[[int], Message], timeout: float) -> Any:
        """Ask when there is a link. Unreachable: never asked. LinkLost: asked, and no answer came."""
        deadline = self.connection.deadline(timeout)
        try:
            async with asyncio.timeout_at(deadline):
                await self._asking.acquire()
        except TimeoutError as problem:
            raise TimedOut(
                f"{QUESTIONS_MAX} questions wait for their answers; this one was not asked, ask fewer at once"
            ) from problem
        try:
            await self.until_ready(deadline)
            return await self.ask_now(make, deadline, self.number)
        finally:
            self._asking.release()

    async def ask_again(self, make: Callable[[int], Message], timeout: float) -> Any:
        """Ask what may be done twice, again and again until it is known what became of it. Unreachable: never asked. LinkLost:
        asked, and no answer came in time. What was asked and may have been done is never said not to have been."""
        loop, unanswered = self.connection.loop, None
        deadline = self.connection.deadline(timeout)
        while True:
            try:
                return await self.ask(make, max(deadline - loop.time(), 0.0))
            except OutcomeUnknown as problem:
                if loop.time() >= deadline:
                    raise
                unanswered = problem
                if self.is_ready:  # there is a link: the server itself does not know, and is not to be pressed
                    await asyncio.sleep(min(ASK_AGAIN_S, max(deadline - loop.time(), 0.0)))
            except Unavailable as problem:
                if unanswered is None:
                    raise
                raise unanswered from problem

    async def until_ready(self, deadline: float) -> None:
        """Wait for a link. Unreachable when there is none in time, Closed when there will be none."""
        self.check_open()
        checks.same_loop(self.connection.loop)
        try:
            async with asyncio.timeout_at(deadline):
                while not self.is_ready:
                    await asyncio.shield(self._ready)
        except TimeoutError as problem:
            raise Unreachable(f"no link to a server in time; nothing was sent: {self.connection.problem_text}") from problem

    def check_open(self) -> None:
        """Closed after the session, or its client, was closed."""
        if self._closed is not None:
            raise self._closed
        self.connection.check_open()

    async def ask_now(self, make: Callable[[int], Message], deadline: float, number: int) -> Any:
        """Ask on the link there is; also while the session is being resumed."""
        self._check_link()
        token, future = self.question()
        message = make(token)
        self.connection.say(number, message)
        try:
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError as problem:
            raise LinkLost(
                f"{type(message).__name__} was sent and not answered in time; it may have been done: look before you repeat it"
            ) from problem
        finally:
            self._questions.pop(token, None)

    def question(self) -> tuple[int, asyncio.Future[Any]]:
        """A token, and the future of its answer."""
        self._token += 1
        future: asyncio.Future[Any] = self.connection.loop.create_future()
        self._questions[self._token] = future
        return self._token, future

    def next_receiver(self) -> int:
        self._receiver += 1
        return self._receiver

    # --- hearing -----------------------------------------------------------------------------------------------------

    def received(self, message: Message, body: Buffer) -> None:
        if isinstance(message, Receipted):
            self._receipted(message)
        elif isinstance(message, Deliver):
            self._deliver(message, body)
        elif isinstance(message, Answered):
            self._answer(message.token, message.value)
        elif isinstance(message, Failed):
            self._fail(message.token, message.error())
        elif isinstance(message, SessionOpened):
            self._answer(message.token, message)
        elif isinstance(message, Browsed):
            self._answer(message.token, (message, body))
        elif isinstance(message, Fragment):
            self._answer(message.token, body)
        elif isinstance(message, DestinationPressure):
            self.producer.told(message)
        elif isinstance(message, ReceiverClosed):
            recipient = self.recipients.get(message.receiver)
            if recipient is not None:
                recipient.end(by_code(message.code, f"receiving from {recipient.destination!r} ended: {message.sentence}", {}))

    def _receipted(self, message: Receipted) -> None:
        if message.token < QUESTIONS_FROM:
            self.producer.receipted(message)
        else:
            self._answer(message.token, message)

    def _deliver(self, message: Deliver, body: Buffer) -> None:
        recipient = self.recipients.get(message.receiver)
        if recipient is not None:
            recipient.delivered(message.slices, body)

    def _answer(self, token: int, value: Any) -> None:
        future = self._questions.pop(token, None)
        if future is not None and not future.done():
            future.set_result(value)

    def _fail(self, token: int, error: HoldfastError) -> None:
        if token < QUESTIONS_FROM:
            self.producer.refused(token, error)
            return
        future = self._questions.pop(token, None)
        if future is not None and not future.done():
            future.set_exception(error)

    # --- living through links ----------------------------------------------------------------------------------------

    async def resume(self, window: int, deadline: float) -> None:
        """Go on, on a new link: first as the same session, then what was sent, then what is held."""
        resumed = self.id if self._is_resumable else ""
        opened: SessionOpened = await self.ask_now(
            lambda token: OpenSession(token, self.name, resumed, self._is_resumable), deadline, self.number
        )
        self.ids = Counter(int.from_bytes(opened.first_id, "big"))
        self.id = opened.session
        if not opened.is_resumed:
            self._begin_anew()
        await self.producer.resume(window, deadline)
        for recipient in list(self.recipients.values()):
            await recipient.resume(deadline)
        self._check_link()
        self.is_ready = True
        if not self._ready.done():
            self._ready.set_result(None)
        self.producer.flush()
        self.parts.go_on()
        for recipient in self.recipients.values():
            recipient.go_on()

    def _begin_anew(self) -> None:
        """The server gave the session up. At once, because the next link may be lost too, and then this one is resumed."""
        self.producer.begin_anew()
        self.parts.give_up(TransactionAborted("the link was lost for so long that the server forgot the session; begin again"))
        for recipient in self.recipients.values():
            recipient.give_up()

    def _check_link(self) -> None:
        if not self.connection.has_link:
            raise LinkLost("the link was lost meanwhile")

    def link_lost(self, error: LinkLost) -> None:
        self.is_ready = False
        self.producer.link_lost()
        if self._ready.done() and self._closed is None:
            self._ready = self.connection.loop.create_future()
        questions, self._questions = self._questions, {}
        for future in questions.values():
            if not future.done():
                future.set_exception(LinkLost(error.sentence))
                future.exception()  # an answer nobody waits for any more is not worth a warning

    def unreachable(self, error: HoldfastError) -> None:
        """There has been no link for longer than the client's timeout: whoever waits for events hears of it."""
        for recipient in self.recipients.values():
            recipient.interrupt(error)

    async def close(self, timeout: float, is_done: bool) -> None:
        """End in good order: receivers are closed, what was sent is receipted, and the server forgets the session.

        `is_done`: the program leaves without an error.
        """
        if self.is_ready and self.recipients:
            await self._close_receivers(timeout, is_done)
        with contextlib.suppress(HoldfastError):
            await self.producer.flushed(timeout)
            if self.is_ready:
                await self.ask(CloseSession, timeout)

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    async def _close_receivers(self, timeout: float, is_done: bool) -> None:
        recipients = [each for each in self.recipients.values() if each.is_open]
        for recipient in recipients:
            recipient.finish(is_done=is_done)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(recipient.close() for recipient in recipients), return_exceptions=True)

    def fail(self, error: HoldfastError) -> None:
        """The session, or the client, is closed: nothing that waits will be answered."""
        self.is_ready = False
        self._closed = self._closed or error
        self.fail_ready(error)
        self.producer.fail(error)
        self.parts.give_up(error)
        for recipient in list(self.recipients.values()):
            recipient.end(error)

    def fail_ready(self, error: HoldfastError) -> None:
        """There will be no link: waiting would not change what is wrong."""
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # heard by whoever waits; nobody has to

    def detach_later(self, receiver: int) -> None:
        """A receiver was not closed in good order: the server would go on holding events for it."""
        self.connection.spawn(self._detach(receiver))

    async def _detach(self, receiver: int) -> None:
        while True:
            try:
                await self.ask(lambda token: DetachReceiver(token, receiver), self.connection.timeout)
            except (OutcomeUnknown, Unavailable):
                await asyncio.sleep(DETACH_AGAIN_S)
                continue
            except HoldfastError:
                pass  # the client is closed, or the server has given it up already
            return

    # --- identifiers -------------------------------------------------------------------------------------------------

    def fetch_ids(self) -> None:
        """Fetch a new start in time: identifiers are counted up from what the server gave, and a count ends."""
        if not self._is_fetching_ids:
            self._is_fetching_ids = True
            self.connection.spawn(self._fetch_ids())

    async def _fetch_ids(self) -> None:
        """A session of a moment, opened for the identifiers it is given."""
        with contextlib.suppress(HoldfastError):
            async with self._passing_session() as first_id:
                self.ids = Counter(first_id)
        self._is_fetching_ids = False

    @contextlib.asynccontextmanager
    async def _passing_session(self) -> AsyncIterator[int]:
        number = self.connection.next_number(self)
        deadline = self.connection.deadline(self.connection.timeout)
        try:
            opened: SessionOpened = await self.ask_now(OpenSession, deadline, number)
            yield int.from_bytes(opened.first_id, "big")
            await self.ask_now(CloseSession, deadline, number)
        finally:
            self.connection.free_number(number)
