"""A small engine for tests of listeners: registers in the topic, sends requests, and keeps the parts that listeners send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

import holdfast
from holdfast.client.client import Client
from holdfast.continuity import register, request
from holdfast.continuity.answer import Part
from holdfast.continuity.domain import Domain
from holdfast.continuity.link.answer_server import AnswerServer, ListenerLink
from holdfast.continuity.link.frame import Answered, Message, Resume, Seen, State
from holdfast.continuity.request import Content, Headers, Request
from tests.waiting import until


class AskingEngine:
    """Speaks with all listeners of a domain. `parts` are by transaction, then by server."""

    def __init__(self, client: Client, domain: Domain, name: str = "e", start: str = "s1") -> None:
        self.client = client
        self.domain = domain
        self.name, self.start = name, start
        self.parts: dict[str, dict[str, list[Part]]] = {}
        self.states: dict[str, State] = {}
        self.seen: list[str] = []
        self.links: dict[str, ListenerLink] = {}
        self.by_event = 0
        self._count = 0
        self.server = AnswerServer(self, domain.name, name, start)

    # --- the hall of the answer server ---------------------------------------------------------------------------------

    def came(self, link: ListenerLink) -> None:
        assert link.hello is not None
        self.links[link.hello.server] = link

    def heard(self, link: ListenerLink, message: Message) -> None:
        assert link.hello is not None
        if isinstance(message, Answered):
            self._take(link.hello.server, message.part)
        elif isinstance(message, State):
            self.states[link.hello.server] = message
        elif isinstance(message, Seen):
            self.seen.append(message.session)

    def went(self, link: ListenerLink) -> None:
        assert link.hello is not None
        self.states.pop(link.hello.server, None)

    def _take(self, server: str, part: Part) -> None:
        self.parts.setdefault(part.transaction, {}).setdefault(server, []).append(part)

    # --- for tests -----------------------------------------------------------------------------------------------------

    async def join(self, port: int = 0, *, address: str = "") -> None:
        """Listen, and register. `address`: another one is registered than the engine listens at."""
        host, port = await self.server.listen("127.0.0.1", port)
        self.replies = await self.client.temporary_queue()
        told = {"engine": self.name, "start": self.start, "address": address or f"{host}:{port}", "reply_to": self.replies.name}
        await self.client.topic(self.domain.requests).send(told, type=request.ENGINE)

    async def hear_events(self) -> None:
        """Take answers that come by event."""
        async with self.replies.receive() as incoming:
            async for event in incoming:
                self._take(str(event.properties["server"]), msgspec.msgpack.decode(bytes(event.body), type=Part))
                self.by_event += 1
                await event.confirm()

    async def send(
        self, target: str = "/", body: bytes = b"", *, key: str = "", session: str = "", method: str = "POST",
        headers: Headers | None = None,
    ) -> str:  # fmt: skip
        """Send a request; its transaction number."""
        self._count += 1
        number = f"{self.start}-{self._count}"
        digest = request.digest_of(method, target, headers or [], body, frozenset())
        asked = Request(
            transaction=number, domain=self.domain.name, session=session, sequence=self._count, key=key or f"key-{number}",
            digest=digest, engine=self.name, start=self.start, content=Content(method, target, headers or [], body),
        )  # fmt: skip
        await self.client.topic(self.domain.requests).send(request.data_of(asked), **request.fields_of(asked))
        return number

    async def until_current(self, *servers: str) -> None:
        for server in servers:
            await until(lambda server=server: self._state(server) == "current", f"{server} is current")  # type: ignore[misc]

    def _state(self, server: str) -> str:
        return self.states[server].state if server in self.states else "gone"

    async def answer(self, number: str, server: str = "one") -> Part:
        """The last part of a server's answer, when it is there."""
        await until(lambda: any(part.outcome != "failed" for part in self._parts(number, server)), f"{server} answered {number}")
        return next(part for part in reversed(self._parts(number, server)) if part.outcome != "failed")

    def ask_again(self, number: str, server: str = "one") -> None:
        """Ask for an answer that has not come: a kill may have taken it on its way. Engines do so every second."""
        if not self._parts(number, server):
            self.links[server].send(Resume(number, 0))

    def _parts(self, number: str, server: str) -> list[Part]:
        return self.parts.get(number, {}).get(server, [])


@asynccontextmanager
async def asking_engine(url: str, domain: Domain, *, address: str = "") -> AsyncIterator[AskingEngine]:
    """A domain, made anew, and an engine of it."""
    async with holdfast.connect(url) as client:
        await register.create(client, domain)
        engine = AskingEngine(client, domain)
        await engine.join(address=address)
        hearing = asyncio.create_task(engine.hear_events())
        try:
            yield engine
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            await engine.server.close()
