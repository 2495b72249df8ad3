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
ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.client.client import Client
from holdfast.client.program import run as run_program
from holdfast.errors import BadSetting, Closed
from holdfast.worker.handler import Handler
from holdfast.worker.retry import RetryPolicy
from holdfast.worker.service import Service

log = logging.getLogger("holdfast.worker")

Function = TypeVar("Function", bound=Callable[..., Any])
Hook = Callable[..., Any]

RETRIES = 10
BACKOFF_S = (1.0, 60.0)
GRACE_S = 30.0
URL_VARIABLE = "HOLDFAST_URL"


class Worker:
    """Handlers, and the client they work with."""

    def __init__(self, url: str | None = None, *, name: str = "", grace: float = GRACE_S) -> None:
        """`url`: where the events are; without it, HOLDFAST_URL says so when the worker starts. `grace`: seconds that handlers
        have to finish when the worker is told to stop."""
        if not isinstance(grace, int | float) or not grace >= 0:
            raise BadSetting(f"grace={grace!r} is not a number of seconds", setting="grace")
        self.url = url
        self.name = name
        self.grace = float(grace)
        self.handlers: list[Handler] = []
        self.on_start_hooks: list[Hook] = []
        self.on_stop_hooks: list[Hook] = []
        self._client: Client | None = None
        self._services: list[Service] = []
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None

    # --- declaring ---------------------------------------------------------------------------------------------------

    def queue(
        self,
        name: str,
        *,
        concurrency: int = 1,
        retries: int | None = RETRIES,
        backoff: tuple[float, float] = BACKOFF_S,
        timeout: float | None = None,
        transactional: bool = False,
        selector: str | None = None,
        credit: int | None = None,
    ) -> Callable[[Function], Function]:
        """Handle the events of a queue: `concurrency` at a time, each tried `retries` times more, with pauses that double from
        the first to the second of `backoff` (seconds), and for at most `timeout` seconds each."""
        options = {"selector": selector, "credit": credit}
        return self._declare(name, "queue", concurrency, retries, backoff, timeout, transactional, options)

    def topic(
        self,
        name: str,
        *,
        subscription: str | None = None,
        shared: bool | None = None,
        concurrency: int = 1,
        retries: int | None = RETRIES,
        backoff: tuple[float, float] = BACKOFF_S,
        timeout: float | None = None,
        transactional: bool = False,
        selector: str | None = None,
        credit: int | None = None,
    ) -> Callable[[Function], Function]:
        """Handle the events of a topic, or of all topics that a wildcard names.

        With a `subscription` nothing is missed while no worker runs, and all processes of the worker share it (`shared=False`:
        one process at a time). Without one, events count from now on, for each process by itself.
        """
        is_shared = subscription is not None if shared is None else shared
        if transactional and concurrency > 1 and not is_shared:
            raise BadSetting(
                "a transactional handler of a topic has a receiver for each slot; give it a subscription, which they share, or "
                "concurrency=1",
                setting="concurrency",
            )
        options = {"selector": selector, "credit": credit, "subscription": subscription, "shared": is_shared}
        return self._declare(name, "topic", concurrency, retries, backoff, timeout, transactional, options)

    def _declare(
        self,
        name: str,
        kind: str,
        concurrency: int,
        retries: int | None,
        backoff: tuple[float, float],
        timeout: float | None,
        transactional: bool,
        options: dict[str, Any],
    ) -> Callable[[Function], Function]:
        if not isinstance(name, str):
            raise BadSetting(f'a handler is declared with a name, as in @worker.{kind}("orders")', setting="worker")
        retry = RetryPolicy.of(retries, backoff)
        given = {key: value for key, value in options.items() if value is not None or key == "subscription"}

        def declare(function: Function) -> Function:
            self.handlers.append(Handler(function, name, kind, concurrency, retry, timeout, transactional, given))
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

    def run(self) -> None:
        """Work until SIGTERM or Ctrl-C, then finish what is in hand within the grace, and return."""
        run_program(self.serve())

    async def serve(self) -> None:
        """As `run`, in a loop that is running."""
        stop = asyncio.Event()
        with _told_by_signals(stop):
            told, starting = asyncio.create_task(stop.wait()), asyncio.create_task(self.start())
            try:
                await asyncio.wait({told, starting}, return_when=asyncio.FIRST_COMPLETED)
                if not starting.done():
                    return
                await starting
                log.info("works on %s", ", ".join(f"{each.kind} {each.destination!r}" for each in self.handlers))
                ended = [asyncio.create_task(service.ended()) for service in self._services]
                await asyncio.wait({told, *ended}, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.cancel()
            finally:
                told.cancel()
                starting.cancel()
                await asyncio.wait({starting})
                await self.stop()

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """Work while an ASGI application runs: `FastAPI(lifespan=worker.lifespan)`."""
        async with self:
            yield

    async def start(self) -> None:
        """Open the client, call the hooks, and begin to take events."""
        if self._client is not None:
            raise Closed("the worker runs already")
        if not self.handlers:
            raise BadSetting(
                "the worker has no handlers; declare some with @worker.queue(…) or @worker.topic(…)", setting="worker"
            )
        url = self.url or os.environ.get(URL_VARIABLE)
        if not url:
            raise BadSetting(f"the worker has no URL; give it one, or set {URL_VARIABLE}", setting="url")
        client = Client(url, name=self.name)
        await client.open()
        self._client = client
        try:
            plain = sum(each.concurrency for each in self.handlers if not each.is_async)
            self._threads = concurrent.futures.ThreadPoolExecutor(max(1, plain), thread_name_prefix="holdfast-worker")
            await self._call(self.on_start_hooks)
            for handler in self.handlers:
                service = Service(handler, client, self._in_thread)
                self._services.append(service)
                await service.start()
        except BaseException:
            try:
                await self.stop()
            except Exception:  # what failed first says more
                log.exception("the worker could not be started, nor stopped in good order")
            raise

    async def stop(self) -> None:
        """Finish what is in hand within the grace, give back the rest, call the hooks, and close the client."""
        client, self_services = self._client, self._services
        if client is None:
            return
        self._services = []
        try:
            await asyncio.gather(*(service.stop(self.grace) for service in self_services))
            await self._call(self.on_stop_hooks)
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False)
            await client.close()
            self._client = None

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

    def _in_thread(self, function: Callable[..., Any], arguments: list[Any]) -> Awaitable[Any]:
        assert self._threads is not None, "handlers run between start and stop"
        context = contextvars.copy_context()  # of the handler: its span, for one
        return asyncio.get_running_loop().run_in_executor(self._threads, context.run, _call, function, arguments)


def _call(function: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except StopIteration as problem:  # no future takes it, and nobody would hear that the function has ended
        raise RuntimeError("the handler raised StopIteration") from problem


class _told_by_signals:  # noqa: N801 (used as a function is)
    """SIGTERM and SIGINT tell a worker to stop; as they were afterwards. The same once more ends the program at once. (Ctrl-C
    reaches all processes of a terminal, and their parent then sends SIGTERM: these two are one.)"""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._heard: list[signal.Signals] = []
        self._told: set[signal.Signals] = set()

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or no signals here
                self._loop.add_signal_handler(number, self._tell, number)
                self._heard.append(number)

    def _tell(self, number: signal.Signals) -> None:
        if number in self._told:
            self._forget()
            os.kill(os.getpid(), number)
            return
        if not self._told:
            log.info("told to stop: finishing what is in hand")
        self._told.add(number)
        self._stop.set()

    def __exit__(self, *exc: object) -> None:
        self._forget()

    def _forget(self) -> None:
        for number in self._heard:
            self._loop.remove_signal_handler(number)
        self._heard.clear()
