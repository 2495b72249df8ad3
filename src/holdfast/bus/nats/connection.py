"""The connection of a bus to NATS: with `connecting` the only place that knows nats-py.

    publish, subscribe ──▶ orders, in turn ──▶ nats-py ──▶ server
                           dropped while there is no connection: links send again, heartbeats are made anew

It notices a dead server within about two seconds, and never stops looking for another. What a subscription has not handled yet is
bounded far above what links grant; past it nats-py drops, which is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from nats.aio.client import Client
from nats.aio.msg import Msg

from holdfast.bus.nats.connecting import FOREIGN, connect, said, within
from holdfast.errors import HoldfastError, TimedOut, Unreachable

log = logging.getLogger("holdfast.bus")

OnData = Callable[[bytes], None]
_Order = tuple[str, bytes] | Callable[[], Awaitable[None]]

# What a subscription may have received and not handled: several times what links grant (8 MiB).
SUBSCRIPTION_BYTES_MAX = 48 << 20
SUBSCRIPTION_MESSAGES_MAX = 256 << 10
# Orders that wait for nats-py; past it what is published is dropped.
ORDERS_BYTES_MAX = 48 << 20
# So many messages are handled before everyone else has a turn of the loop.
MESSAGES_A_TURN = 32


class Answer(NamedTuple):
    data: bytes
    headers: Mapping[str, str]


class Connection(Protocol):
    def publish(self, subject: str, data: bytes) -> None:
        """Send to all who have subscribed, in order, if there is a connection."""

    def subscribe(self, subject: str, on_data: OnData) -> Callable[[], None]:
        """Call `on_data` with what comes on a subject, until the returned function is called."""

    async def flush(self) -> None:
        """Return when the server has taken everything so far, subscriptions too."""

    async def close(self) -> None: ...


class NatsConnection:
    def __init__(self, client: Client, timeout_s: float) -> None:
        """Take over a client of nats-py (`open`)."""
        self.dropped = 0  # messages that were published without a connection
        self._client = client
        self._timeout_s = timeout_s
        self._orders: deque[_Order] = deque()
        self._orders_bytes = 0
        self._is_ordered = asyncio.Event()
        self._is_closed = False
        self._carrying_out = asyncio.create_task(self._carry_out())

    @classmethod
    async def open(cls, servers: Sequence[str], *, timeout_s: float = 5.0, **connect_options: Any) -> NatsConnection:
        """Connect to one of the servers (`nats://host:port`); `connect_options` are handed to nats-py: user, password, tls, …"""
        options: dict[str, Any] = {
            "ping_interval": 1,
            "max_outstanding_pings": 2,
            "reconnect_time_wait": 0.05,
            "max_reconnect_attempts": -1,
            "pending_size": -1,  # nothing is kept for the time of a reconnection
            **connect_options,
        }
        return cls(await connect(servers, timeout_s, options), timeout_s)

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    def publish(self, subject: str, data: bytes) -> None:
        if not self._client.is_connected or self._orders_bytes > ORDERS_BYTES_MAX:
            self.dropped += 1
            return
        self._orders_bytes += len(data)
        self._order((subject, data))

    def subscribe(self, subject: str, on_data: OnData) -> Callable[[], None]:
        subscription = _Subscription(self._client, subject, on_data)
        self._order(subscription.begin)

        def stop() -> None:
            subscription.is_over = True
            self._order(subscription.end)

        return stop

    async def flush(self) -> None:
        flushed = asyncio.get_running_loop().create_future()

        async def flush() -> None:
            try:
                await self._client.flush(timeout=self._timeout_s)  # type: ignore[arg-type] # a number of seconds
            except FOREIGN as problem:
                flushed.set_exception(_unreachable(problem))
            else:
                flushed.set_result(None)

        self._order(flush)
        await flushed

    async def ask(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None = None, *, timeout_s: float | None = None
    ) -> Answer:
        """Ask whoever answers on a subject. Unreachable: nobody was asked. TimedOut: nobody answered in time."""
        limit_s = timeout_s or self._timeout_s
        try:
            answer = await within(limit_s, self._client.request(subject, data, limit_s, headers=dict(headers or {})))
        except TimeoutError as problem:
            raise TimedOut(f"{subject}: the cluster did not answer in time; repeat it") from problem
        except FOREIGN as problem:
            raise _unreachable(problem) from problem
        return Answer(answer.data, answer.headers or {})

    async def ask_many(self, subject: str, data: bytes, *, timeout_s: float | None = None) -> list[Answer]:
        """Ask, and gather answers up to one with a status, which ends them. Those that came by then where there is none in time;
        TimedOut if there are none."""
        inbox, answers, ended = self._client.new_inbox(), list[Answer](), asyncio.Event()

        async def hear(message: Msg) -> None:
            headers = message.headers or {}
            if "Status" in headers:
                ended.set()
            else:
                answers.append(Answer(message.data, headers))

        async def ask() -> None:
            subscription = await self._client.subscribe(inbox, cb=hear)
            try:
                await self._client.publish(subject, data, reply=inbox)
                await ended.wait()
            finally:
                await subscription.unsubscribe()

        try:
            await within(timeout_s or self._timeout_s, ask())
        except TimeoutError as problem:
            if not answers:
                raise TimedOut(f"{subject}: the cluster did not answer in time; repeat it") from problem
        except FOREIGN as problem:
            raise _unreachable(problem) from problem
        return answers

    async def close(self) -> None:
        self._is_closed = True
        self._carrying_out.cancel()
        await asyncio.wait({self._carrying_out}, timeout=self._timeout_s)
        with contextlib.suppress(*FOREIGN):
            await within(self._timeout_s, self._client.close())

    def _order(self, order: _Order) -> None:
        self._orders.append(order)
        self._is_ordered.set()

    async def _carry_out(self) -> None:
        while not self._is_closed:
            await self._is_ordered.wait()
            self._is_ordered.clear()
            while self._orders and not self._is_closed:
                order = self._orders.popleft()
                try:
                    if isinstance(order, tuple):
                        self._orders_bytes -= len(order[1])
                        await self._client.publish(*order)
                    else:
                        await order()
                except FOREIGN as problem:
                    self.dropped += 1
                    log.debug("not published: %s", said(problem))


class _Subscription:
    """A subscription at the server. It is made anew by nats-py after each reconnection."""

    def __init__(self, client: Client, subject: str, on_data: OnData) -> None:
        self.is_over = False
        self._client = client
        self._subject = subject
        self._on_data = on_data
        self._made: Any = None
        self._handled = 0

    async def begin(self) -> None:
        if not self.is_over:
            self._made = await self._client.subscribe(
                self._subject,
                cb=self._handle,
                pending_bytes_limit=SUBSCRIPTION_BYTES_MAX,
                pending_msgs_limit=SUBSCRIPTION_MESSAGES_MAX,
            )

    async def end(self) -> None:
        if self._made is not None:
            await self._made.unsubscribe()

    async def _handle(self, message: Msg) -> None:
        if self.is_over:
            return
        try:
            self._on_data(message.data)
        except Exception as problem:  # the next message is handled all the same
            log.error("a message on %s failed: %r", self._subject, problem)
            log.debug("a message on %s failed", self._subject, exc_info=problem)
        self._handled += 1
        if self._handled % MESSAGES_A_TURN == 0:
            await asyncio.sleep(0)


def _unreachable(problem: Exception) -> HoldfastError:
    return Unreachable(f"the cluster cannot be reached ({said(problem)}); the connection is tried again by itself, repeat later")
