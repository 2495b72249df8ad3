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
import os
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.client.client import Client, connect
from holdfast.client.url import without_password
from holdfast.errors import HoldfastError, NoReply, Unavailable
from holdfast.relay import definition_file
from holdfast.relay.definition import RelayDefinition, checked
from holdfast.relay.errors import Restored
from holdfast.relay.line.line import Line
from holdfast.relay.line.together import until_one_ends
from holdfast.relay.replies import Replies

log = logging.getLogger("holdfast.relay")

PAUSE_FIRST_S = 0.2
PAUSE_LONGEST_S = 10.0
# How often a relay looks how much waits upstream, and tells how it catches up.
LAG_EVERY_S = 2.0
PROGRESS_EVERY_S = 10.0
CATCHING_UP_MIN = 10_000
# A relay that runs answers at once.
ANSWER_S = 3.0


class Relay:
    def __init__(self, definition: RelayDefinition) -> None:
        self.definition = checked(definition)
        self._stopping = asyncio.Event()
        self._local: Client | None = None
        self._upstreams: dict[str, Client] = {}  # those that are connected
        self._lines: dict[str, Line] = {}
        self._problems: dict[str, str] = {}  # of upstreams that cannot be reached
        self._replies: Replies | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def from_file(cls, file: str | Path) -> Self:
        """A relay as a TOML file defines it: see `definition_file`."""
        return cls(definition_file.read(Path(file)))

    async def open(self) -> Self:
        """Open the local journal, and begin."""
        definition = self.definition
        password = os.environ.get(definition.password_env) if definition.password_env else None
        self._local = await connect(definition.local, name=f"relay {definition.name}", password=password).open()
        self._replies = Replies(definition.replies, self._local, self._upstreams)
        self._start("replies", self._replies.run())
        can_ask: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answering = self._start("answers about itself", self._answer(self._local, can_ask))
        await asyncio.wait({can_ask, answering}, return_when=asyncio.FIRST_COMPLETED)
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
        await self._tidy(name, client)
        lines = [
            Line(line, route, self.definition, local, client)
            for line, route in self.definition.lines().items()
            if route.upstream == name
        ]
        self._lines |= {line.name: line for line in lines}
        await until_one_ends(
            **{f"route {line.name}": self._work(line) for line in lines},
            **{f"lag of {line.name}": self._tell_lag(line) for line in lines},
        )

    async def _tidy(self, name: str, client: Client) -> None:
        """Delete subscriptions of recipients that are named no more (mode `each`), and tell of those of routes that are gone."""
        for each in await client.subscriptions():
            line = self.definition.line_of(each["name"])
            if line is None or line in self.definition.lines():
                continue
            pattern = each.get("pattern")
            topic, regex = (None, pattern) if each.get("match") == "regex" and pattern else (pattern or each.get("topic"), None)
            if self.definition.is_of_former_recipient(line):
                await client.delete_subscription(topic, each["name"], regex=regex, force=True, missing_ok=True)
                log.info("recipient %s is no longer named: its subscription at %s is deleted", line, name)
            elif self.definition.routes.get(line) is None:
                log.warning(
                    "there is no route %s any more, and its subscription at %s holds %d events; if nobody needs them: "
                    "holdfast subscription delete '%s' %s --force",
                    line, name, each.get("waiting", 0), topic or regex, each["name"],
                )  # fmt: skip

    async def _connected(self, name: str) -> Client:
        upstream = self.definition.upstreams[name]
        password = os.environ.get(upstream.password_env) if upstream.password_env else None
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                return await connect(upstream.url, name=f"relay {self.definition.name}", password=password).open()
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
        loop = asyncio.get_running_loop()
        told_s, most = 0.0, 0
        while True:
            await asyncio.sleep(LAG_EVERY_S)
            try:
                waiting = line.figures.waiting_upstream = await line.lag()
            except HoldfastError:
                line.figures.waiting_upstream = None
                continue
            most = max(most, waiting) if waiting >= CATCHING_UP_MIN else 0
            if most and loop.time() - told_s >= PROGRESS_EVERY_S:
                told_s, rate = loop.time(), line.figures.rate
                left = f", {waiting / rate:,.0f} s left" if rate else ""
                log.info("route %s catches up: %s events wait upstream, %.0f events/s%s", line.name, f"{waiting:,}", rate, left)

    # --- what it says about itself -----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """How each route fares: lag, rate, mode, counts, and what holds it back."""
        replies = self._replies
        return {
            "relay": self.definition.name,
            "local": without_password(self.definition.local),
            "routes": [self._described(name) for name in self.definition.lines()],
            "replies_passed": replies.passed if replies is not None else 0,
            "replies_unheard": replies.unheard if replies is not None else 0,
        }

    def _described(self, name: str) -> dict[str, Any]:
        route, line = self.definition.lines()[name], self._lines.get(name)
        told = {"route": name, "from": route.upstream, "source": route.source, "to": route.to or route.source, "mode": route.mode}
        if line is None:
            return {**told, "held_back": self._problems.get(route.upstream, "connecting")}
        return {**told, **line.figures.described()}

    async def _answer(self, local: Client, can_ask: asyncio.Future[None]) -> None:
        """Answer those who ask how the relay fares: `holdfast relay status`."""
        async with local.session(name="relay status") as session, session.subscribe(ask_topic(self.definition.name)) as incoming:
            can_ask.set_result(None)
            async for event in incoming:
                event.confirm()
                try:
                    await event.reply(self.status())
                except HoldfastError as problem:
                    log.info("who asked for the status is gone: %s", problem)


def ask_topic(relay: str) -> str:
    return f"relay.{relay}.ask"


async def ask_status(client: Client, relay: str, timeout: float = ANSWER_S) -> dict[str, Any]:
    """Ask a relay, over its journal, how it fares. Unavailable if it does not answer."""
    try:
        answer = await client.topic(ask_topic(relay)).request(timeout=timeout)
    except NoReply as problem:
        raise Unavailable(
            f"relay {relay!r} does not answer: it does not run, or cannot reach its journal at {client.url}; start it with "
            "holdfast relay --config"
        ) from problem
    found: dict[str, Any] = answer.data
    return found
