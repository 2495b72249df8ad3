"""The sessions of users at one engine: their sequence numbers, their turns, and the newest place each has seen.

A session is opened before its first request: two listeners say that they have it in their durable queues (C3). Memory:
SESSIONS_MAX sessions; the one that was used longest ago is forgotten first, and is opened again when it comes back.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

SESSIONS_MAX = 100_000


class Session:
    __slots__ = ("confirmed", "is_open", "lock", "needed", "opened", "place", "sending", "sequence")

    def __init__(self) -> None:
        self.sequence = 0
        self.place = 0  # the newest that its user saw
        self.is_open = False
        self.confirmed: set[str] = set()  # servers whose listeners have it
        self.needed = 0
        self.opened: asyncio.Future[None] | None = None
        self.lock: asyncio.Lock | None = None
        self.sending: asyncio.Future[Any] | None = None  # done when the newest request that no task waits for has its receipt

    @property
    def may_send(self) -> bool:
        """No request of it is being sent."""
        return (self.sending is None or self.sending.done()) and (self.lock is None or not self.lock.locked())


class Sessions:
    def __init__(self) -> None:
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, name: str) -> Session:
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = Session()
            if len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
        else:
            self._sessions.move_to_end(name)
        return session

    def next(self, name: str) -> int:
        """The next sequence number of a session; 0 for requests without one."""
        if not name:
            return 0
        session = self.get(name)
        session.sequence += 1
        return session.sequence

    def seen(self, name: str, server: str) -> None:
        """The listener of a server has this session in its durable queue."""
        session = self._sessions.get(name)
        if session is not None:
            session.confirmed.add(server)
            if session.opened is not None and len(session.confirmed) >= session.needed and not session.opened.done():
                session.opened.set_result(None)

    async def wait_for(self, session: Session, needed: int, timeout: float) -> None:
        """Wait until so many listeners have the session. TimeoutError when they do not say so in time."""
        session.needed = needed
        if len(session.confirmed) < needed:
            session.opened = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(timeout):
                await session.opened
        session.is_open = True

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """The requests of one session go one after the other."""
        if not name:
            yield
            return
        session = self.get(name)
        session.lock = session.lock or asyncio.Lock()
        async with session.lock:
            if session.sending is not None and not session.sending.done():
                await asyncio.wait((session.sending,))
            yield
