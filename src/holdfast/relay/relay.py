"""The relay: all its routes at work, its replies, and what it says about itself.

    async with Relay(definition) as relay:
        await relay.run()

    from holdfast.relay import Relay
    relay = Relay.from_file("relay.toml")

An upstream that cannot be reached is tried again for ever; the routes of others go on. A local journal that cannot be opened ends
the start. `stop` ends in good order: what is under way is appended or given back, and nothing is lost either way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.client.client import Client
from holdfast.client.url import without_password
from holdfast.errors import HoldfastError, Unavailable
from holdfast.relay import definition_file, gone_routes, report
from holdfast.relay.clients import local_client, upstream_client
from holdfast.relay.definition import RelayDefinition, checked
from holdfast.relay.errors import Restored
from holdfast.relay.gone_routes import GoneRoute
from holdfast.relay.line.line import Line
from holdfast.relay.line.together import until_one_ends
from holdfast.relay.log_forwarder import LogForwarder
from holdfast.relay.machines.catching_up import CatchingUp
from holdfast.relay.replies import Replies

log = logging.getLogger("holdfast.relay")

PAUSE_FIRST_S = 0.2
PAUSE_LONGEST_S = 10.0
# How often a relay looks how much waits upstream, and which subscriptions there are of routes that are gone.
LAG_EVERY_S = 2.0
GONE_EVERY_S = 60.0


class Relay:
    def __init__(self, definition: RelayDefinition) -> None:
        self.definition = checked(definition)
        self._stopping = asyncio.Event()
        self._local: Client | None = None
        self._upstreams: dict[str, Client] = {}  # those that are connected
        self._lines: dict[str, Line] = {}
        self._problems: dict[str, str] = {}  # of upstreams that cannot be reached
        self._gone: dict[str, list[GoneRoute]] = {}  # by upstream
        self._replies: Replies | None = None
        self._log_forwarder: LogForwarder | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def from_file(cls, file: str | Path) -> Self:
        """A relay as a TOML file defines it: see `definition_file`."""
        return cls(definition_file.read(Path(file)))

    async def open(self) -> Self:
        """Open the local journal, and begin."""
        definition = self.definition
        self._local = await local_client(definition).open()
        if not definition.is_embedded:
            self._log_forwarder = LogForwarder(self._local, f"relay {definition.name}")
            self._start("log", self._log_forwarder.run())
        self._replies = Replies(definition.replies, self._local, self._upstreams)
        self._start("replies", self._replies.run())
        can_ask = asyncio.Event()
        self._start("answers about itself", report.answer_for_ever(self._local, definition.name, self.status, can_ask.set))
        await can_ask.wait()
        for name in definition.upstreams:
            self._start(f"upstream {name}", self._keep(name, self._local))
        return self

    def _start(self, what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"relay: {what}")
        self._tasks.append(task)
        return task

    async def run(self) -> None:
        """Go on until `stop`, or until a part of the relay itself fails."""
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({stopping, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in self._tasks:
            if task.done():
                task.result()

    def stop(self) -> None:
        """Let `run` return."""
        self._stopping.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._log_forwarder is not None:
            await self._log_forwarder.finish()
        for client in (*self._upstreams.values(), self._local):
            if client is not None:
                try:
                    await client.close()
                except HoldfastError as problem:
                    log.warning("closing %s: %s", client.url, problem)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # --- upstreams ---------------------------------------------------------------------------------------------------

    async def _keep(self, name: str, local: Client) -> None:
        """Connect to an upstream, and let its lines work."""
        client = await self._connected(name)
        self._upstreams[name] = client
        self._problems.pop(name, None)
        lines = [
            Line(line, route, self.definition, local, client)
            for line, route in self.definition.lines().items()
            if route.upstream == name
        ]
        self._lines |= {line.name: line for line in lines}
        await until_one_ends(
            gone=self._tell_gone(name, client),
            answers=report.answer_for_ever(client, self.definition.name, self.status, lambda: None),
            **{f"route {line.name}": self._work(line) for line in lines},
            **{f"lag of {line.name}": self._tell_lag(line) for line in lines},
        )

    async def _tell_gone(self, name: str, client: Client) -> None:
        """Look again and again for subscriptions of routes that are gone: they hold events for nobody."""
        told: set[str] = set()
        while True:
            try:
                self._gone[name] = await gone_routes.delete_former_recipients(self.definition, name, client)
            except HoldfastError as problem:
                log.info("routes that are gone cannot be looked for at %s: %s", name, problem)
            for each in self._gone.get(name, ()):
                if each.subscription not in told:
                    log.warning("%s", each.sentence())
                    told.add(each.subscription)
            await asyncio.sleep(GONE_EVERY_S)

    async def _connected(self, name: str) -> Client:
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                return await upstream_client(self.definition, name).open()
            except HoldfastError as problem:
                if self._problems.get(name) != problem.sentence:
                    log.warning("upstream %s cannot be used, and is tried again: %s", name, problem)
                self._problems[name] = problem.sentence
                if not isinstance(problem, Unavailable):
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_LONGEST_S)

    async def _work(self, line: Line) -> None:
        """Let a line work. One whose upstream was restored stands still, and the others go on."""
        try:
            await line.run()
        except Restored as problem:
            log.error("route %s is stopped: %s", line.name, problem)
            await self._stopping.wait()

    async def _tell_lag(self, line: Line) -> None:
        """Look how much waits upstream, and tell how a route catches up."""
        loop, catching_up = asyncio.get_running_loop(), CatchingUp()
        while True:
            await asyncio.sleep(LAG_EVERY_S)
            try:
                waiting = line.figures.waiting_upstream = await line.lag()
            except HoldfastError:
                line.figures.waiting_upstream = None
                continue
            if told := catching_up.look(waiting, line.figures.rate, loop.time()):
                log.info("route %s %s", line.name, told)

    # --- what it says about itself -----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """How each route fares: lag, rate, mode, counts, and what holds it back; and what the relay is linked to."""
        replies, local = self._replies, self._local
        return {
            "relay": self.definition.name,
            "local": without_password(self.definition.local),
            "is_linked": local is not None and local.is_linked,
            "upstreams": [self._described_upstream(name) for name in self.definition.upstreams],
            "routes": [self._described(name) for name in self.definition.lines()],
            "gone_routes": [each.described() for gone in self._gone.values() for each in gone],
            "replies_passed": replies.passed if replies is not None else 0,
            "replies_unheard": replies.unheard if replies is not None else 0,
        }

    def _described_upstream(self, name: str) -> dict[str, Any]:
        client, url = self._upstreams.get(name), without_password(self.definition.upstreams[name].url)
        is_linked = client is not None and client.is_linked
        problem = "" if is_linked else self._problems.get(name, "the link was lost" if client is not None else "connecting")
        return {"upstream": name, "url": url, "is_linked": is_linked, "problem": problem}

    def _described(self, name: str) -> dict[str, Any]:
        route, line = self.definition.lines()[name], self._lines.get(name)
        told = {"route": name, "from": route.upstream, "source": route.source, "to": route.to or route.source, "mode": route.mode}
        if line is None:
            problem = self._problems.get(route.upstream, "")
            return {**told, "held_back": problem or "connecting", "last_error": problem}
        return {**told, **line.figures.described()}
