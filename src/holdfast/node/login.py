"""Logins: who a link belongs to, decided before it is welcomed.

    Hello ─▶ in line, if its address has too many under way ─▶ verified ─▶ Welcome
                                                                └─ wrong ─▶ held back (1 s and more) ─▶ Goodbye login-failed

A login fails in one way only, whether there is such a user or not: the same sentence, after the same work, no sooner than a
second. An attempt counts until its answer is due, also when its link is gone by then: hanging up early gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import deque
from collections.abc import Callable, Iterable

from holdfast.access.back_off import BackOff
from holdfast.access.users import User, Users
from holdfast.errors import HoldfastError, LoginFailed, Unavailable
from holdfast.node.passwords import Verifier
from holdfast.wire.frame import Hello

log = logging.getLogger("holdfast.login")

# Logins that wait for their turn, of all addresses together.
IN_LINE_MAX = 1_000
# Of an IPv6 address, what its owner cannot choose: the network. The rest is theirs to make up.
NETWORK_BITS_V6 = 64

Outcome = User | HoldfastError


class Attempt:
    """One Hello, and whom to tell."""

    def __init__(self, hello: Hello, peer: str, names: Iterable[str], decided: Callable[[Outcome], None]) -> None:
        self.user = hello.user
        self.password = hello.password
        self.peer = peer
        self.names = tuple(names)
        self.address = network_of(peer)
        self.decided = decided
        self.is_void = False  # its link is gone; it need not begin


class Login:
    def __init__(self, users: Users) -> None:
        self.users = users
        self._verifier = Verifier()
        self._back_off = BackOff()
        self._in_line: deque[Attempt] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    def begin(self, attempt: Attempt) -> None:
        """Decide, later, and tell `attempt.decided` once."""
        if self._back_off.may_begin(attempt.address):
            self._start(attempt)
        elif len(self._in_line) < IN_LINE_MAX:
            self._in_line.append(attempt)
        else:
            attempt.decided(Unavailable("too many logins wait for their turn; try again later"))

    def close(self) -> None:
        self._in_line.clear()
        for task in self._under_way:
            task.cancel()
        self._verifier.close()

    def _start(self, attempt: Attempt) -> None:
        self._back_off.begin(attempt.address)
        task = asyncio.get_running_loop().create_task(self._decide(attempt))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _decide(self, attempt: Attempt) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            user = await self._verified(attempt)
            if user is None:
                due = began + self._back_off.failed(attempt.address, loop.time())
                self._report(attempt)
                await asyncio.sleep(due - loop.time())
                attempt.decided(LoginFailed("user or password is wrong, or the certificate is nobody's here"))
            else:
                log.info("%s logged in from %s", user.name, attempt.peer)
                attempt.decided(user)
        finally:
            self._back_off.end(attempt.address)
            self._take_next()

    async def _verified(self, attempt: Attempt) -> User | None:
        """The user, if it is one; looked up again afterwards, because the file may have changed meanwhile."""
        if not attempt.password:
            return self._of_certificate(attempt)
        user = self.users.by_name.get(attempt.user)
        is_right = await self._verifier.is_right(user.password if user is not None else "", attempt.password)
        return user if is_right and user is not None and self.users.by_name.get(user.name) == user else None

    def _of_certificate(self, attempt: Attempt) -> User | None:
        user = self.users.of_certificate(attempt.names)
        return user if user is not None and attempt.user in ("", user.name) else None

    def _report(self, attempt: Attempt) -> None:
        """A name that is nobody's is not written down: people type passwords into the wrong field."""
        who = attempt.user if attempt.user in self.users.by_name else "somebody unknown" if attempt.user else "nobody"
        shown = f", certificate of {', '.join(attempt.names)}" if attempt.names else ""
        log.warning("login of %s from %s failed%s", who, attempt.peer, shown)

    def _take_next(self) -> None:
        """Whoever has waited longest among those whose address may, and who still waits."""
        self._in_line = deque(attempt for attempt in self._in_line if not attempt.is_void)
        for place, attempt in enumerate(self._in_line):
            if self._back_off.may_begin(attempt.address):
                del self._in_line[place]
                self._start(attempt)
                return


def network_of(peer: str) -> str:
    """What attempts are counted by: an IPv4 address, or the network of an IPv6 one."""
    host = peer.rpartition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address, NETWORK_BITS_V6), strict=False))
    return host
