"""The servers of a domain, as an engine knows them: by the links of their listeners, and by what these say.

    current     its listener says so, and was heard within FRESH_SECONDS: it is expected to answer
    behind …    it is linked, and is not waited for
    silent      nothing was heard for so long, or the link is gone

The engine keeps nothing of this: an engine that starts hears it from all listeners within a heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from holdfast.continuity.link.answer_server import ListenerLink
from holdfast.continuity.link.frame import Hello, State

# Several heartbeats: a listener that is busy for a moment stays current.
FRESH_SECONDS = 2.0
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

    def is_current(self, now: float) -> bool:
        return self.role == "server" and self.state.state == "current" and now - self.heard_at < FRESH_SECONDS


class Servers:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._servers: dict[str, Server] = {}
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
        return server

    def leave(self, link: ListenerLink) -> Server | None:
        """A link is gone: the server it was of, unless another link has taken its place."""
        for name, server in self._servers.items():
            if server.link is link:
                return self._servers.pop(name)
        return None

    def hear(self, link: ListenerLink, state: State) -> Server | None:
        """A listener says how it is. The server, if it has ceased to be current with this."""
        server = self._servers.get(link.hello.server) if link.hello is not None else None
        if server is None or server.link is not link:
            return None
        now = self._clock()
        was_current = server.is_current(now)
        server.state, server.heard_at = state, now
        return server if was_current and not server.is_current(now) else None

    def current(self) -> list[Server]:
        now = self._clock()
        return [server for server in self._servers.values() if server.is_current(now)]

    def shadows(self) -> list[str]:
        """Servers that get everything and never answer (17)."""
        return [server.name for server in self._servers.values() if server.role == "shadow" and server.state.state == "current"]

    def silent(self) -> list[Server]:
        """Servers that call themselves current and were not heard for too long."""
        now = self._clock()
        return [each for each in self._servers.values() if each.state.state == "current" and now - each.heard_at >= FRESH_SECONDS]

    @property
    def newest_place(self) -> int:
        """The newest place that any listener has heard of."""
        return max((server.state.received for server in self._servers.values()), default=0)

    @property
    def membership(self) -> int:
        """The number of the newest membership that any listener knows."""
        return max((server.state.membership for server in self._servers.values()), default=0)
