"""The servers of a domain, as an engine knows them: by the links of their listeners, and by what these say.

    current     its listener says so, and was heard within FRESH_SECONDS: it is expected to answer
    behind …    it is linked, and is not waited for
    silent      nothing was heard for so long, or the link is gone

The engine keeps nothing of this: an engine that starts hears it from all listeners within a heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.continuity.link.answer_server import ListenerLink
from holdfast.continuity.link.frame import Hello, Running, State, Traced
from holdfast.continuity.machines.membership import Membership

# Several heartbeats: a listener that is busy for a moment stays current.
FRESH_SECONDS = 2.0
# A listener that does not say in time whether a trace is under way is not waited for.
TRACED_SECONDS = 1.0
SERVERS_KEPT = 256


class Server:
    """A server and the link of its listener."""

    def __init__(self, link: ListenerLink, hello: Hello, now: float) -> None:
        self.link = link
        self.name = hello.server
        self.site = hello.site
        self.role = hello.role
        self.store = hello.store
        self.state = State("joining", 0, 0, 0)
        self.heard_at = now
        self.firsts = 0  # answers of it that were the first
        self.bytes_before: int | None = None  # what it had received when that was counted last

    def is_current(self, now: float) -> bool:
        return self.role == "server" and self.state.state == "current" and now - self.heard_at < FRESH_SECONDS


class Question:
    """A question to several listeners, answered when one has found something, or all have answered."""

    def __init__(self, asked: list[str]) -> None:
        self.found = ""
        self.done = asyncio.Event()
        self._left = set(asked)
        if not asked:
            self.done.set()

    def hear(self, server: str, found: str) -> None:
        self._left.discard(server)
        self.found = self.found or found
        if self.found or not self._left:
            self.done.set()


class Servers:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._servers: dict[str, Server] = {}
        self._bytes_passed = 0
        self._questions = 0
        self._asked: dict[str, Question] = {}
        self.members = Membership()  # the newest that any listener has told
        self.newest_place = 0  # that any listener has heard of
        self.membership = 0  # the number of the newest membership that any listener knows
        self._current: list[Server] = []
        self._fresh_until = 0.0  # as long as this, those are current
        self.kinds: dict[str, dict[str, int]] = {}  # what was held against each server, and how often (26)

    def hold_against(self, kinds: Mapping[str, str]) -> None:
        """Count what is held against servers. Past SERVERS_KEPT names that are new are not counted."""
        for server, kind in kinds.items():
            if server in self.kinds or len(self.kinds) < SERVERS_KEPT:
                counted = self.kinds.setdefault(server, {})
                counted[kind] = counted.get(kind, 0) + 1

    def __iter__(self) -> Iterator[Server]:
        return iter(self._servers.values())

    def __len__(self) -> int:
        return len(self._servers)

    def get(self, name: str) -> Server | None:
        return self._servers.get(name)

    def enter(self, link: ListenerLink) -> Server:
        """A listener has come. An older link of the same server is closed: its listener has dialled again."""
        assert link.hello is not None
        former = self._servers.get(link.hello.server)
        if former is not None:
            former.link.end("the listener has dialled again")
        server = self._servers[link.hello.server] = Server(link, link.hello, self._clock())
        if former is not None:
            server.firsts = former.firsts
        self._count_anew()
        return server

    def leave(self, link: ListenerLink) -> Server | None:
        """A link is gone: the server it was of, unless another link has taken its place."""
        for name, server in self._servers.items():
            if server.link is link:
                gone = self._servers.pop(name)
                self._count_anew()
                return gone
        return None

    def hear(self, link: ListenerLink, state: State) -> Server | None:
        """A listener says how it is. The server, if it has ceased to be current with this."""
        server = self._servers.get(link.hello.server) if link.hello is not None else None
        if server is None or server.link is not link:
            return None
        if state.members and state.membership >= self.members.number:
            self.members = Membership.decode(state.members)
        now = self._clock()
        was_current = server.is_current(now)
        server.state, server.heard_at = state, now
        self._count_anew()
        return server if was_current and not server.is_current(now) else None

    def bytes_passed(self) -> int:
        """Bytes of events that have passed, by the listener that saw most since this was asked last."""
        seen = [each.state.bytes_passed - each.bytes_before for each in self if each.bytes_before is not None]
        for each in self:
            each.bytes_before = each.state.bytes_passed
        self._bytes_passed += max(seen, default=0)
        return self._bytes_passed

    def _count_anew(self) -> None:
        """A listener has come, gone, or said how it is: this is seldom, and what it says is asked for with every request."""
        states = [server.state for server in self._servers.values()]
        self.newest_place = max((state.received for state in states), default=0)
        self.membership = max((state.membership for state in states), default=0)
        self._fresh_until = 0.0

    def current(self) -> list[Server]:
        """The servers that are expected to answer. Do not change the list."""
        now = self._clock()
        if now >= self._fresh_until:
            self._current = [server for server in self._servers.values() if server.is_current(now)]
            self._fresh_until = min((server.heard_at + FRESH_SECONDS for server in self._current), default=0.0)
        return self._current

    def shadows(self) -> list[str]:
        """Servers that get everything and never answer (17)."""
        return [server.name for server in self._servers.values() if server.role == "shadow" and server.state.state == "current"]

    async def running(self, trace: str) -> str:
        """The transaction of a trace that is under way at any server, by what all linked listeners say; "" for none.

        The listener of the server that asks its own domain has the transaction under way, whichever engine took it. Nothing is
        appended before it has answered, so that all servers see the same: no request.
        """
        self._questions += 1
        number = str(self._questions)
        question = self._asked[number] = Question([each.name for each in self])
        for each in self:
            each.link.send(Traced(number, trace))
        try:
            async with asyncio.timeout(TRACED_SECONDS):
                await question.done.wait()
        except TimeoutError:
            pass
        finally:
            del self._asked[number]
        return question.found

    def heard_running(self, server: str, told: Running) -> None:
        question = self._asked.get(told.number)
        if question is not None:
            question.hear(server, told.transaction)

    def silent(self) -> list[Server]:
        """Servers that call themselves current and were not heard for too long."""
        now = self._clock()
        return [each for each in self._servers.values() if each.state.state == "current" and now - each.heard_at >= FRESH_SECONDS]

    def describe(self) -> list[dict[str, Any]]:
        """Each server, for a roll call."""
        return [
            {
                "server": each.name, "site": each.site, "role": each.role, "state": each.state.state,
                "finished": each.state.finished, "lag": max(0, self.newest_place - each.state.finished), "first": each.firsts,
            }
            for each in self
        ]  # fmt: skip
