"""The client: what `holdfast.connect` gives.

    async with holdfast.connect("file:./events") as client:
        receipt = await client.queue("orders").send({"sku": 7}, type="order.placed")

One client is one session over one link at a time. It is used from the loop it was opened in; threads use `holdfast.blocking`.
"""

from __future__ import annotations

import os
import socket
from types import TracebackType
from typing import Self

from holdfast.client import checks
from holdfast.client.administration import Administration
from holdfast.client.connection import Connection
from holdfast.client.destination import Queue, Topic
from holdfast.client.dialer import dialer_for
from holdfast.client.recipient import CREDIT_BYTES, CREDIT_EVENTS, Incoming
from holdfast.client.session import Session
from holdfast.client.url import parse
from holdfast.errors import BadSetting, Closed

TIMEOUT_S = 30.0
NAME_LENGTH_MAX = 255


def connect(url: str, *, name: str = "", timeout: float = TIMEOUT_S) -> Client:
    """A client of the events at `url`: `file:DIR`, `memory:`, `memory:NAME` or `holdfast://HOST[:PORT][,HOST…]`.

    To be used as `async with`. `name` says who this program is: it is the source of its events unless they say otherwise.
    `timeout` is for every call that waits and is given none of its own.
    """
    return Client(url, name=name, timeout=timeout)


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise BadSetting(
            f"a client's name {name!r:.40} is not printable text of at most {NAME_LENGTH_MAX} characters; choose another",
            setting="name",
        )
    return name


class Client(Administration):
    """A client of one place of events. Made by `connect`, used inside `async with`, in the loop that opened it."""

    def __init__(self, url: str, *, name: str = "", timeout: float = TIMEOUT_S) -> None:
        self._dialer = dialer_for(parse(url))
        self.url = url
        self.name = _checked_name(name)
        self.timeout = checks.seconds(timeout, TIMEOUT_S)
        self._connection: Connection | None = None

    async def open(self) -> Self:
        """The first link. Unreachable when no server answers in time; what is wrong with a folder or a version is said at
        once."""
        if self._connection is not None:
            raise Closed("a client is opened once; connect again for another")
        source = self.name or f"{socket.gethostname()}/{os.getpid()}"
        self._connection = Connection(self._dialer, self.name, source, self.timeout)
        await self._connection.open()
        return self

    async def close(self) -> None:
        """Wait for the receipts of what was sent, then end the session and, if it is embedded, the node."""
        if self._connection is not None:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _opened(self) -> Session:
        if self._connection is None:
            raise Closed(
                "the client is not open; use it inside `async with holdfast.connect(…)`, or `with holdfast.blocking.connect(…)`"
            )
        self._connection.check_open()
        return self._connection.session

    def queue(self, name: str) -> Queue:
        """The queue of this name; created at first use where the server's settings allow it."""
        return Queue(self._opened(), name)

    def topic(self, name: str) -> Topic:
        """The topic of this name; created at first use where the server's settings allow it."""
        return Topic(self._opened(), name)

    def subscribe(
        self,
        topic: str,
        name: str | None = None,
        *,
        credit: int = CREDIT_EVENTS,
        credit_bytes: int = CREDIT_BYTES,
        timeout: float | None = None,
    ) -> Incoming:
        """Receive from a topic: with a name, durably; without, what is sent from now on."""
        return self.topic(topic).subscribe(name, credit=credit, credit_bytes=credit_bytes, timeout=timeout)

    @property
    def is_linked(self) -> bool:
        """There is a link, and the session is in use over it."""
        return self._connection is not None and self._connection.session.is_ready

    @property
    def is_blocked(self) -> bool:
        """The server is short of room: it draws on its reserve, and will refuse events when that is used up."""
        pressure = self._connection.pressure if self._connection is not None else None
        return pressure is not None and pressure.is_short

    @property
    def blocked_reason(self) -> str:
        """Why, in words; "" when it is not blocked."""
        pressure = self._connection.pressure if self._connection is not None else None
        return pressure.reason if pressure is not None and pressure.is_short else ""
