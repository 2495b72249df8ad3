"""The client: what `holdfast.connect` gives.

    async with holdfast.connect("file:./events") as client:
        receipt = await client.queue("orders").send({"sku": 7}, type="order.placed")

One client has one link at a time, and over it a session of its own and those it is asked for (`client.session()`). It is used
from the loop it was opened in; threads use `holdfast.blocking`.
"""

from __future__ import annotations

import os
import socket
from types import TracebackType
from typing import Self

from holdfast.client import checks
from holdfast.client.administration import Administration
from holdfast.client.checks import ConfirmMode
from holdfast.client.connection import Connection
from holdfast.client.dead import DeadEvents
from holdfast.client.dialer import dialer_for
from holdfast.client.reading import Reading
from holdfast.client.session import Session
from holdfast.client.sessions import ClientSession, InSession, checked_name
from holdfast.client.staging import Staging
from holdfast.client.subscribing import Match
from holdfast.client.url import credentials_of, parse_with_password, without_password
from holdfast.errors import Closed

TIMEOUT_S = 30.0


def connect(url: str, *, name: str = "", timeout: float = TIMEOUT_S, password: str | None = None) -> Client:
    """A client of the events at `url`: `file:DIR`, `memory:`, `memory:NAME`, `holdfast://[USER@]HOST[:PORT][,HOST…]`, or the same
    with `holdfasts://` for TLS.

    To be used as `async with`. `name` says who this program is: it is the source of its events unless they say otherwise.
    `timeout` is for every call that waits and is given none of its own. `password` is the user's of the URL, if it is neither
    written there nor in the environment as HOLDFAST_PASSWORD.
    """
    return Client(url, name=name, timeout=timeout, password=password)


class Client(InSession, Administration, Staging):
    """A client of one place of events. Made by `connect`, used inside `async with`, in the loop that opened it."""

    def __init__(self, url: str, *, name: str = "", timeout: float = TIMEOUT_S, password: str | None = None) -> None:
        parsed = parse_with_password(url, password)
        self._dialer = dialer_for(parsed)
        self._credentials = credentials_of(parsed)
        self.url = without_password(url)
        self.name = checked_name(name, "client")
        self.timeout = checks.seconds(timeout, TIMEOUT_S)
        self._connection: Connection | None = None

    async def open(self) -> Self:
        """The first link. Unreachable when no server answers in time; what is wrong with a folder or a version is said at
        once."""
        if self._connection is not None:
            raise Closed("a client is opened once; connect again for another")
        source = self.name or f"{socket.gethostname()}/{os.getpid()}"
        self._connection = Connection(self._dialer, self.name, source, self.timeout, self._credentials)
        await self._connection.open()
        return self

    async def close(self) -> None:
        """Close the receivers, wait for the receipts of what was sent, then end the sessions and, if it is embedded, the node."""
        await self._close(is_done=True)

    async def _close(self, is_done: bool) -> None:
        """`is_done`: the program leaves without an error."""
        if self._connection is not None:
            await self._connection.close(is_done)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close(is_done=error is None)

    def _opened(self) -> Session:
        if self._connection is None:
            raise Closed(
                "the client is not open; use it inside `async with holdfast.connect(…)`, or `with holdfast.blocking.connect(…)`"
            )
        self._connection.check_open()
        return self._connection.session

    def session(self, confirm: ConfirmMode = "event", *, name: str = "") -> ClientSession:
        """A session beside the client's own, over the same link: `async with client.session(confirm="client") as session: …`.

        It has `queue`, `topic`, `subscribe` … as a client has. `confirm` is the mode of its receivers, unless they are given
        their own: "event" (each event by its verdict), "auto" (each when the next is asked for), "client" (a confirm of one
        confirms all that the session was handed), "duplicates-ok" (as auto, told to the server seldom).
        """
        return ClientSession(self._opened().connection, name or self.name, confirm)

    def reading(
        self,
        destination: str,
        subscription: str = "",
        *,
        match: Match | None = None,
        selector: str | None = None,
        timeout: float | None = None,
    ) -> Reading:
        """What waits in a subscription, of a topic or of a pattern, read by place: see `holdfast.client.reading`.

            reading = client.reading("alerts.*", "lake", match="glob")
            async with reading.owner():
                extent = await reading.extent(events_max=100_000)

        `match` says how the destination is meant: "name", "glob" or "regex"; without it, what has wildcards is a glob. `selector`
        is for a subscription that its owner makes; one that is there is used as it is, and must have this one, if one is given.
        Without a subscription the destination is a queue: it may be looked at so, and has no owner.
        """
        return Reading(self._opened, destination, subscription, match, selector, timeout)

    @property
    def dead(self) -> DeadEvents:
        """The events that could not be delivered: `list`, `show`, `replay`, `purge`."""
        return DeadEvents(self._opened)

    @property
    def is_linked(self) -> bool:
        """There is a link, and the session is in use over it."""
        return self._connection is not None and self._connection.session.is_ready

    @property
    def is_blocked(self) -> bool:
        """The server is short of room: it draws on its reserve, and will refuse events when that is used up."""
        pressure = self._connection.pressure if self._connection is not None else None
        return pressure is not None and pressure.is_short

    async def unblocked(self, timeout: float | None = None) -> None:
        """Wait until the server is not short of room; at once when it is not. TimedOut when that takes longer."""
        connection = self._opened().connection
        checks.same_loop(connection.loop)
        await connection.unblocked(checks.seconds(timeout, connection.timeout))

    @property
    def blocked_reason(self) -> str:
        """Why, in words; "" when it is not blocked."""
        pressure = self._connection.pressure if self._connection is not None else None
        return pressure.reason if pressure is not None and pressure.is_short else ""
