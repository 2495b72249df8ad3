"""A session as its parts see it: who asks, whether there is a link, and the questions that wait for their answers, by token.

When a link is lost, the questions that were asked fail with LinkLost, because nobody knows what became of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol

from holdfast.client import checks
from holdfast.client.link.server_time import ServerTime
from holdfast.errors import HoldfastError, LinkLost, OutcomeUnknown, TimedOut, Unavailable, Unreachable
from holdfast.event.identifier import Counter
from holdfast.wire.frame import Buffer, Message, PressureChanged

# Sends use their sequence as token; questions count from far beyond, so that the token of a Failed is never ambiguous.
QUESTIONS_FROM = 1 << 48
# Questions asked and not answered; the server bounds them too.
QUESTIONS_MAX = 1_000
# A question whose outcome the server does not know is asked again after this.
ASK_AGAIN_S = 0.1


class Carrier(Protocol):
    """The connection as a session and its parts see it: it carries frames over the link that there is."""

    loop: asyncio.AbstractEventLoop
    timeout: float
    server_time: ServerTime
    pressure: PressureChanged | None  # as the server said last on this link

    @property
    def incarnation(self) -> str: ...

    @property
    def has_link(self) -> bool: ...

    @property
    def problem_text(self) -> str: ...

    def deadline(self, timeout: float) -> float: ...

    def say(self, number: int, message: Message, body: Buffer = b"") -> None: ...

    def say_now(self, number: int, message: Message, body: Buffer) -> None: ...

    def push(self) -> None: ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...

    def check_open(self) -> None: ...

    async def unblocked(self, timeout: float) -> None: ...


class Questions:
    number: int  # on the link

    def __init__(self, connection: Carrier, source: str) -> None:
        self.connection: Carrier = connection
        self.source = source  # of events that name none
        self.id = ""  # that the server gave
        self.channel = ""  # of its message manager, as positions name it; "" where there is one alone
        self.incarnation = ""  # of this channel: positions of another one mean other events; "" before the first link
        self.ids = Counter(0)  # for events: nobody else has these
        self.counts_from = 0  # verdicts and assemblies are counted from here on: a former process has counted below it
        self.is_ready = False
        self._ready: asyncio.Future[None] = connection.loop.create_future()
        self._closed: HoldfastError | None = None
        self._token = QUESTIONS_FROM
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._asking = asyncio.Semaphore(QUESTIONS_MAX)

    @property
    def is_alone(self) -> bool:
        """Its server has one channel, or none is known yet."""
        return True

    def say(self, message: Message, body: Buffer = b"") -> None:
        self.connection.say(self.number, message, body)

    async def ask(self, make: Callable[[int], Message], timeout: float) -> Any:
        """Ask when there is a link; return the answer. Unreachable: never asked. LinkLost: asked, and no answer came."""
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
        """Ask again and again until the outcome is known: for requests that may be done twice. Unreachable: never asked.
        LinkLost: asked, and no answer came in time. A request that may have been done never fails as if it was not."""
        loop, unanswered = self.connection.loop, None
        deadline = self.connection.deadline(timeout)
        while True:
            try:
                return await self.ask(make, max(deadline - loop.time(), 0.0))
            except OutcomeUnknown as problem:
                if loop.time() >= deadline:
                    raise
                unanswered = problem
                if self.is_ready:  # the server itself does not know the outcome: ask it slowly
                    await asyncio.sleep(min(ASK_AGAIN_S, max(deadline - loop.time(), 0.0)))
            except Unavailable as problem:
                if unanswered is None:
                    raise
                raise unanswered from problem

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
        """Make a token, and the future of its answer."""
        self._token += 1
        future: asyncio.Future[Any] = self.connection.loop.create_future()
        self._questions[self._token] = future
        return self._token, future

    # --- answers -----------------------------------------------------------------------------------------------------

    def _answer(self, token: int, value: Any) -> None:
        future = self._questions.pop(token, None)
        if future is not None and not future.done():
            future.set_result(value)

    def _refuse(self, token: int, error: HoldfastError) -> None:
        future = self._questions.pop(token, None)
        if future is not None and not future.done():
            future.set_exception(error)

    # --- the link ----------------------------------------------------------------------------------------------------

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

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def _check_link(self) -> None:
        if not self.connection.has_link:
            raise LinkLost("the link was lost meanwhile")

    def _be_ready(self) -> None:
        self.is_ready = True
        if not self._ready.done():
            self._ready.set_result(None)

    def _be_unready(self, error: LinkLost) -> None:
        """Fail all questions: the link is lost, and with it the answers."""
        self.is_ready = False
        if self._ready.done() and self._closed is None:
            self._ready = self.connection.loop.create_future()
        questions, self._questions = self._questions, {}
        for future in questions.values():
            if not future.done():
                future.set_exception(LinkLost(error.sentence))
                future.exception()  # no warning when nobody waits for it any more

    def hold(self) -> None:
        """Ask nothing more on this link: it is left when what was asked is answered."""
        if self.is_ready:
            self.is_ready = False
            self._ready = self.connection.loop.create_future()

    @property
    def unanswered(self) -> Iterable[asyncio.Future[Any]]:
        """What was asked, and is not answered."""
        return self._questions.values()

    def fail_ready(self, error: HoldfastError) -> None:
        """Fail those who wait for a link: there will be none."""
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # nobody has to wait for it
