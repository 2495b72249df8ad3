"""A domain in one process, for tests: servers that are told what to answer, a listener before each, and an engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import holdfast
from holdfast.client.client import Client
from holdfast.continuity import register
from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.domain import Domain
from holdfast.continuity.engine.application import Application
from holdfast.continuity.engine.engine import Engine
from holdfast.continuity.listener.listener import Listener
from holdfast.continuity.request import Content
from tests.listening import listening
from tests.waiting import until

NAMES = ("one", "two", "three")


class Told(NamedTuple):
    status_code: int
    headers: dict[str, str]
    text: str


class HttpClient:
    """A client of an engine's application, without sockets."""

    def __init__(self, engine: Engine) -> None:
        self._application = Application(engine)

    async def get(self, path: str, headers: dict[str, str] | None = None) -> Told:
        return await self._ask("GET", path, b"", headers or {})

    async def post(self, path: str, content: bytes = b"", headers: dict[str, str] | None = None) -> Told:
        return await self._ask("POST", path, content, headers or {})

    async def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Told:
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw, "client": None}
        await self._application(scope, receive, send)
        told = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
        assert len(dict(told)) == len(told), f"a header came twice: {told}"
        return Told(sent[0]["status"], dict(told), b"".join(each.get("body", b"") for each in sent[1:]).decode())


class Teller:
    """A server in process: counts its writes, tells the count, and keeps what it was asked. Reads count nothing."""

    def __init__(self) -> None:
        self.asked: list[Content] = []
        self.reads = 0
        self.reads_go_on = asyncio.Event()
        self.reads_go_on.set()
        self.running = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._done = 0
        self.status = 200
        self.lie = b""
        self.headers: list[tuple[bytes, bytes]] = []

    @property
    def targets(self) -> list[str]:
        return [each.target for each in self.asked]

    async def __call__(self, content: Content) -> Answer:
        if content.method == "GET":
            self.reads += 1
            await self.reads_go_on.wait()
            return self._answer(self._done)
        self.asked.append(content)
        self.running += 1
        await self.go_on.wait()
        self.running -= 1
        self._done = len(self.asked)
        return self._answer(self._done)

    def _answer(self, count: int) -> Answer:
        body = b"%d%s" % (count, self.lie)
        return Answer(Head(self.status, list(self.headers), len(body)), body)


class Continuing:
    """A domain that is served: `http` is a client of its engine."""

    def __init__(self, client: Client, domain: Domain, engine: Engine, listeners: dict[str, Listener]) -> None:
        self.client = client
        self.domain = domain
        self.engine = engine
        self.listeners = listeners
        self.http = HttpClient(engine)

    async def until_current(self, *names: str) -> None:
        await until(lambda: current_at(self.engine) == sorted(names), f"{names} are current")

    async def until_even(self) -> None:
        """Wait until all listeners have finished what any of them has received."""

        def are_even() -> bool:
            newest = max(each.events.place for each in self.listeners.values())
            return all(each.requests.order.finished >= newest for each in self.listeners.values())

        await until(are_even, "all servers are even")

    async def events(self, seen: list[tuple[str, Any]], topic: str, name: str = "seen") -> asyncio.Task[None]:
        """Note the events of a topic from now on: type and data."""
        await self.client.ensure_subscription(topic, name)

        async def note() -> None:
            async with self.client.subscribe(topic, name) as incoming:
                async for event in incoming:
                    is_json = event.head.datacontenttype == "application/json"
                    seen.append((event.type, event.data if is_json else event.id))
                    await event.confirm()

        return asyncio.create_task(note())


def current_at(engine: Engine) -> list[str]:
    return sorted(each.name for each in engine.servers.current())


@asynccontextmanager
async def continuing(url: str, domain: Domain, folder: Path, *calls: Any, **options: Any) -> AsyncIterator[Continuing]:
    """A domain, made anew; a listener for each call, named one, two, three; an engine to which all of them are current."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(holdfast.connect(url))
        await register.create(client, domain)
        listeners = {}
        for name, call in zip(NAMES, calls, strict=False):
            listeners[name] = await stack.enter_async_context(listening(url, call, folder / name, server=name, **options))
        engine = await stack.enter_async_context(Engine(url, domain.name))
        made = Continuing(client, domain, engine, listeners)
        stack.callback(_let_go, calls)
        await made.until_current(*NAMES[: len(calls)])
        yield made


def _let_go(calls: tuple[Any, ...]) -> None:
    """A server that is held at the end of a test is let go: its listener waits for the call in hand."""
    for call in calls:
        if isinstance(call, Teller):
            call.go_on.set()
            call.reads_go_on.set()


def hold(*tellers: Teller) -> Callable[[], None]:
    """Hold these servers in their next call; what is returned lets them go on."""
    for each in tellers:
        each.go_on.clear()

    def release() -> None:
        for each in tellers:
            each.go_on.set()

    return release
