"""Logins: they decide whose a link is, before it is welcomed.

    Hello ─▶ in line, if its address has too many under way ─▶ verified ─▶ Welcome
                                                                └─ wrong ─▶ held back (1 s and more) ─▶ Goodbye login-failed

A login fails in one way only, whether there is such a user or not: with the same sentence, after the same work, after a second at
least. An attempt counts until its answer is due, even if its link is gone by then: hanging up early gains nothing.

The line of attempts is bounded (`access.login_line`), and no more of a name or password is kept than could be right.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Iterable

from holdfast.access.back_off import BackOff
from holdfast.access.login_line import LoginLine
from holdfast.access.users import NAME_LENGTH_MAX, User, Users
from holdfast.errors import HoldfastError, LoginFailed, Unavailable
from holdfast.node import supervision
from holdfast.node.login.passwords import LENGTH_MAX, Verifier
from holdfast.node.logs.notices import STRANGERS_INTERVAL_S, Notices, folded
from holdfast.wire.frame import Hello

log = logging.getLogger("holdfast.login")

# The network part of an IPv6 address. Its owner can choose the rest freely.
NETWORK_BITS_V6 = 64

Outcome = User | HoldfastError


class Attempt:
    """One Hello, and whom to tell the outcome."""

    def __init__(self, hello: Hello, peer: str, names: Iterable[str], decided: Callable[[Outcome], None]) -> None:
        self.user = hello.user[: NAME_LENGTH_MAX + 1]  # one character too many, so that it stays wrong
        self.password = hello.password[: LENGTH_MAX + 1]
        self.peer = peer
        self.names = tuple(names)
        self.address = network_of(peer)
        self.decided = decided

    @property
    def size_bytes(self) -> int:
        return sum(len(text.encode()) for text in (self.user, self.password, *self.names))


class Login:
    def __init__(self, users: Users) -> None:
        self.users = users
        self.failures = 0
        self._verifier = Verifier()
        self._back_off = BackOff()
        self._line: LoginLine[Attempt] = LoginLine()
        self._notices = Notices(STRANGERS_INTERVAL_S)
        self._under_way: set[asyncio.Task[None]] = set()

    def begin(self, attempt: Attempt) -> None:
        """Decide later, and call `attempt.decided` once."""
        if self._back_off.may_begin(attempt.address):
            self._start(attempt)
        elif not self._line.join(attempt, attempt.size_bytes):
            attempt.decided(Unavailable("too many logins wait for their turn; try again later"))

    def hung_up(self, attempt: Attempt) -> None:
        """The link of an attempt is gone. If it waits in line, it need not begin."""
        self._line.leave(attempt)

    def close(self) -> None:
        self._line.clear()
        self._notices.stop()
        for task in self._under_way:
            task.cancel()
        self._verifier.close()

    def _start(self, attempt: Attempt) -> None:
        self._back_off.begin(attempt.address)
        task = supervision.start(self._decide(attempt), f"the login from {attempt.peer}", lambda _: attempt.decided(_not_now()))
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
                attempt.decided(LoginFailed("user or password is wrong, or no user here has this certificate"))
            else:
                line = folded(f"{user.name} logged in from {attempt.peer}")
                self._notices.say(log, logging.INFO, f"{attempt.address} as {user.name}", line)
                attempt.decided(user)
        finally:
            self._back_off.end(attempt.address)
            self._take_next()

    async def _verified(self, attempt: Attempt) -> User | None:
        """The user, or None. It is looked up again after the verification, because the file may have changed meanwhile."""
        if not attempt.password:
            return self._of_certificate(attempt)
        user = self.users.by_name.get(attempt.user)
        is_right = await self._verifier.is_right(user.password if user is not None else "", attempt.password)
        attempt.password = ""  # an answer that is held back does not need it
        return user if is_right and user is not None and self.users.by_name.get(user.name) == user else None

    def _of_certificate(self, attempt: Attempt) -> User | None:
        user = self.users.of_certificate(attempt.names)
        return user if user is not None and attempt.user in ("", user.name) else None

    def _report(self, attempt: Attempt) -> None:
        """Count and log a failed login. An unknown name is not written down: people type passwords into the wrong field."""
        self.failures += 1
        who = attempt.user if attempt.user in self.users.by_name else "somebody unknown" if attempt.user else "nobody"
        shown = f", certificate of {', '.join(attempt.names)}" if attempt.names else ""
        line = folded(f"login of {who} from {attempt.peer} failed{shown}")
        self._notices.say(log, logging.WARNING, f"{attempt.address} {who}", line)

    def _take_next(self) -> None:
        attempt = self._line.next(lambda waiting: self._back_off.may_begin(waiting.address))
        if attempt is not None:
            self._start(attempt)


def _not_now() -> Unavailable:
    return Unavailable("this login could not be decided; try again, and report it with the server's log")


def network_of(peer: str) -> str:
    """The key by which attempts are counted: an IPv4 address, or the network of an IPv6 one."""
    host = peer.rpartition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address, NETWORK_BITS_V6), strict=False))
    return host
