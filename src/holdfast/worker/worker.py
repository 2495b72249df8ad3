"""The worker: functions become handlers of queues and topics.

    worker = holdfast.Worker("holdfast://localhost")

    @worker.queue("orders", concurrency=8, retries=5, backoff=(1, 60), timeout=30)
    async def place(order: Order) -> None: …

    @worker.topic("prices.*", subscription="audit")
    def note(event: holdfast.ReceivedEvent) -> None: …

    worker.run()

`holdfast work module:worker` runs it from the command line, in several processes if asked to. In FastAPI or Starlette:
`FastAPI(lifespan=worker.lifespan)`. In a program of one's own: `async with worker: …`.

`async def` handlers run in the loop, plain functions in threads. `attempt` tells what becomes of an event, `service` how a worker
ends, `signals` who tells it to.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.client.client import Client
from holdfast.client.program import run as run_program
from holdfast.client.url import URL_VARIABLE
from holdfast.errors import BadSetting, Closed, TimedOut, Unreachable
from holdfast.worker.handler import Handler
from holdfast.worker.retry import JITTER, Kinds, RetryPolicy
from holdfast.worker.service import CANCELLED_S, PAUSE_FIRST_S, PAUSE_LONGEST_S, InHand, Service
from holdfast.worker.signals import Backstop, Signals
from holdfast.worker.threads import Threads

log = logging.getLogger("holdfast.worker")

Function = TypeVar("Function", bound=Callable[..., Any])
Hook = Callable[..., Any]

RETRIES = 10
BACKOFF_S = (1.0, 60.0)
GRACE_S = 30.0
# How long the rest of the end may take: the hooks, the last verdicts, the close of the client.
END_S = 30.0


class Worker:
    """Handlers, and the client they work with."""

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "",
        grace: float = GRACE_S,
        wait: bool = True,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`url`: where the events are; without it, HOLDFAST_URL says so when the worker starts. `grace`: seconds that handlers
        have to finish when the worker is told to stop. `wait`: `run` and `serve` wait for a server that does not answer yet;
        otherwise, and in `async with worker`, that is Unreachable. `dice`: numbers from 0 to 1 for the
        jitter of pauses; a test hands in its own."""
        if not isinstance(grace, int | float) or not grace >= 0:
            raise BadSetting(f"grace={grace!r} is not a number of seconds", setting="grace")
        self.url = url
        self.name = name
        self.grace = float(grace)
        self.wait = wait
        self.dice = dice
        self.handlers: list[Handler] = []
        self.on_start_hooks: list[Hook] = []
        self.on_stop_hooks: list[Hook] = []
        # Handlers that were still at work after the grace, when the worker was stopped last.
        self.left: list[InHand] = []
        self._client: Client | None = None
        self._is_starting = False
        self._services: list[Service] = []
        self._threads = Threads()
        self._ending = asyncio.Lock()
        self._leaving: dict[asyncio.Task[None], Client] = {}  # clients that stay open for handlers that were left

    # --- declaring ---------------------------------------------------------------------------------------------------

    def queue(
        self,
        name: str,
        *,
        concurrency: int = 1,
        retries: int | None = RETRIES,
        backoff: tuple[float, float] = BACKOFF_S,
        jitter: float = JITTER,
        retry_on: type[BaseException] | Kinds | None = None,
        reject_on: type[BaseException] | Kinds | None = None,
        timeout: float | None = None,
        transactional: bool = False,
        selector: str | None = None,
        credit: int | None = None,
    ) -> Callable[[Function], Function]:
        """Handle the events of a queue: `concurrency` at a time, each tried `retries` times more, with pauses that double from
        the first to the second of `backoff` (seconds), each shortened by up to the share `jitter` at random, and for at most
        `timeout` seconds each. Exceptions of the kinds `reject_on` are not tried again, or all but those of `retry_on`."""
        retry = RetryPolicy.of(retries, backoff, jitter, retry_on, reject_on)
        options = {"selector": selector, "credit": credit}
        return self._declare(name, "queue", concurrency, retry, timeout, transactional, options)

    def topic(
        self,
        name: str,
        *,
        subscription: str | None = None,
        shared: bool | None = None,
        concurrency: int = 1,
        retries: int | None = RETRIES,
        backoff: tuple[float, float] = BACKOFF_S,
        jitter: float = JITTER,
        retry_on: type[BaseException] | Kinds | None = None,
        reject_on: type[BaseException] | Kinds | None = None,
        timeout: float | None = None,
        transactional: bool = False,
        selector: str | None = None,
        credit: int | None = None,
    ) -> Callable[[Function], Function]:
        """Handle the events of a topic, or of all topics that a wildcard names.

        With a `subscription` nothing is missed while no worker runs, and all processes of the worker share it (`shared=False`:
        one process at a time). Without one, events count from now on, for each process by itself. The rest is as for `queue`.
        """
        retry = RetryPolicy.of(retries, backoff, jitter, retry_on, reject_on)
        is_shared = subscription is not None if shared is None else shared
        if transactional and concurrency > 1 and not is_shared:
            raise BadSetting(
                "a transactional handler of a topic has a receiver for each slot; give it a subscription, which they share, or "
                "concurrency=1",
                setting="concurrency",
            )
        options = {"selector": selector, "credit": credit, "subscription": subscription, "shared": is_shared}
        return self._declare(name, "topic", concurrency, retry, timeout, transactional, options)

    def _declare(
        self,
        name: str,
        kind: str,
        concurrency: int,
        retry: RetryPolicy,
        timeout: float | None,
        transactional: bool,
        options: dict[str, Any],
    ) -> Callable[[Function], Function]:
        if not isinstance(name, str):
            raise BadSetting(f'a handler is declared with a name, as in @worker.{kind}("orders")', setting="worker")
        given = {key: value for key, value in options.items() if value is not None or key == "subscription"}

        def declare(function: Function) -> Function:
            handler = Handler(function, name, kind, concurrency, retry, timeout, transactional, given, self.dice)
            self.handlers.append(handler)
            return function

        return declare

    def on_start(self, hook: Function) -> Function:
        """Call a function before the first event, with the client if it takes one."""
        self.on_start_hooks.append(hook)
        return hook

    def on_stop(self, hook: Function) -> Function:
        """Call a function after the last event, with the client if it takes one."""
        self.on_stop_hooks.append(hook)
        return hook

    # --- running -----------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The client, for handlers and hooks; Closed while the worker does not run."""
        if self._client is None:
            raise Closed("the worker does not run; use its client in handlers and hooks, or inside `async with worker`")
        return self._client

    def run(self, *, ready: Callable[[], None] | None = None) -> None:
        """Work until SIGTERM or Ctrl-C, then finish what is in hand within the grace, and return. `left` says what was not.

        `ready` is called once it takes events. Where a handler or a hook keeps it from returning for half a minute more, it ends
        the process, with exit code 6.
        """
        backstop = Backstop(self.grace + CANCELLED_S + END_S, self._at_work)
        try:
            run_program(self._serve(backstop.arm, ready))
        finally:
            backstop.cancel()

    async def serve(self) -> None:
        """As `run`, in a loop that is running, which it does not end."""
        await self._serve(None, None)

    def _at_work(self) -> str:
        works = [f"{each.handler} is at work on event {each.event_id}" for service in self._services for each in service.in_hand]
        return ", ".join(works) or "a hook or a thread still runs"

    async def _serve(self, arm: Callable[[], None] | None, ready: Callable[[], None] | None) -> None:
        stop = asyncio.Event()

        def tell() -> None:
            log.info("told to stop: finishing what is in hand")
            stop.set()

        with Signals(tell, arm):
            told, starting = asyncio.create_task(stop.wait()), asyncio.create_task(self._start(is_patient=self.wait))
            try:
                await asyncio.wait({told, starting}, return_when=asyncio.FIRST_COMPLETED)
                if not starting.done():
                    return
                await starting
                log.info("works on %s", ", ".join(f"{each.kind} {each.destination!r}" for each in self.handlers))
                if ready is not None:
                    ready()
                ended = [asyncio.create_task(service.ended()) for service in self._services]
                done, _ = await asyncio.wait({told, *ended}, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.cancel()
                for each in done - {told}:
                    if not each.cancelled():  # then somebody stops it
                        each.result()
            finally:
                told.cancel()
                starting.cancel()
                await asyncio.wait({starting})
                await self.stop()
                if arm is not None:
                    await self._close_folders()

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """Work while an ASGI application runs: `FastAPI(lifespan=worker.lifespan)`."""
        async with self:
            yield

    async def start(self) -> None:
        """Open the client, call the hooks, and begin to take events. Unreachable when no server answers."""
        await self._start(is_patient=False)

    async def _start(self, *, is_patient: bool) -> None:
        if self._client is not None or self._is_starting:
            raise Closed("the worker runs already; stop it first, or make another Worker")
        if not self.handlers:
            raise BadSetting(
                "the worker has no handlers; declare some with @worker.queue(…) or @worker.topic(…)", setting="worker"
            )
        url = self.url or os.environ.get(URL_VARIABLE)
        if not url:
            raise BadSetting(f"the worker has no URL; give it one, or set {URL_VARIABLE}", setting="url")
        self._is_starting = True
        try:
            self._client = client = await self._open(url, is_patient)
        finally:
            self._is_starting = False
        self._services, self._threads, self._ending, self.left = [], Threads(), asyncio.Lock(), []
        try:
            await self._call(self.on_start_hooks)
            for handler in self.handlers:
                service = Service(handler, client, self._threads)
                self._services.append(service)
                await service.start()
        except BaseException:
            try:
                await self.stop()
            except Exception:  # what failed first says more
                log.exception("the worker could not be started, nor stopped in good order")
            raise

    async def _open(self, url: str, is_patient: bool) -> Client:
        """Open the client. A patient worker tries until a server answers, with the pauses of a lost receiver."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                return await Client(url, name=self.name).open()
            except (Unreachable, TimedOut) as problem:
                if not is_patient:
                    raise
                log.warning("the worker waits for its server, and tries again in %g s: %s", pause_s, problem)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LONGEST_S)

    async def stop(self) -> None:
        """Finish what is in hand within the grace, give back the rest, call the hooks, and close the client.

        A plain function that is still at work then is left: `left` names it, and the client stays open until it returns. Nobody
        else has its event meanwhile. Stopping what does not run does nothing.
        """
        async with self._ending:  # a second call waits for the first
            if self._client is not None:
                await self._stop(self._client)

    async def _stop(self, client: Client) -> None:
        services = self._services
        try:
            await asyncio.gather(*(service.stop(self.grace) for service in services))
            self.left = [each for service in services for each in service.in_hand]
            await self._call(self.on_stop_hooks)
        finally:
            self._threads.close()
            try:
                if any(service.in_hand for service in services):
                    self._leave(services, client)
                else:
                    await client.close()
            finally:
                self._client = None

    def _leave(self, services: list[Service], client: Client) -> None:
        leaving = asyncio.create_task(_see_out(services, client), name="handlers that were left")
        self._leaving[leaving] = client
        leaving.add_done_callback(self._leaving.pop)

    async def _close_folders(self) -> None:
        """Close journals in good order before their loop ends: nobody has their events until another loop opens them."""
        for leaving, client in list(self._leaving.items()):
            if client.url.startswith("file:"):
                leaving.cancel()
                await client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    async def _call(self, hooks: list[Hook]) -> None:
        for hook in hooks:
            taken = [self.client] if inspect.signature(hook).parameters else []
            done = hook(*taken)
            if inspect.isawaitable(done):
                await done


async def _see_out(services: list[Service], client: Client) -> None:
    """Close the client when the handlers that were left have returned. A loop that ends before lets go of all at once."""
    await asyncio.gather(*(service.see_out() for service in services))
    await client.close()
