"""The claim of a listener on its server: two listeners before one server would call it twice with every request.

    start      ask the listeners that are attached: one that calls the same server is the earlier one, and stays
    then       ask once more, telling the claim: of two that were started together, the one whose name comes first stays

The first question is asked before anything is called, and ends when all have answered. A listener that was stopped claims
nothing, so its server may get a listener of another name.

Servers are the same if their addresses are written alike, and mean the same from both listeners:

    127.0.0.1, localhost    on one machine, in one network of it: containers have their own
    a Unix socket           on one machine, with one view of its files
    another host            at one site: two sites may each have a host of that name

A handler in the process of its listener is nobody else's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping
from typing import Any

from holdfast.client.client import Client
from holdfast.continuity import roll_call
from holdfast.continuity.domain import SERVERS, Domain
from holdfast.continuity.errors import ServerTaken
from holdfast.continuity.listener.durable.store_folder import boot_id
from holdfast.continuity.listener.server.http_caller import Address, HttpCaller, parse_address
from holdfast.errors import HoldfastError, Refused

log = logging.getLogger("holdfast.continuity")

# A listener answers within milliseconds. One that was killed is attached for a while, and does not.
WAIT_SECONDS = 0.5
_HERE = frozenset(("localhost", "::1", "0.0.0.0", "::"))
_NETWORK, _FILES = "/proc/self/ns/net", "/proc/self/ns/mnt"


class ServerClaim:
    """`calls` names the server, alike at all listeners; it is empty for a handler. `lost` fails when another listener stays."""

    def __init__(self, client: Client, domain: Domain, server: str, site: str, call: Any) -> None:
        self._client = client
        self._domain = domain
        self._server = server
        self._url = call.url if isinstance(call, HttpCaller) else call if isinstance(call, str) else ""
        self.calls = server_called(parse_address(self._url), site) if self._url else ""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def check(self) -> None:
        """ServerTaken if a listener of another name calls this server."""
        try:
            others = await self._others({})
        except Refused as problem:
            log.warning("server %s: nobody can say whether another listener calls it, too: %s", self._server, problem)
        else:
            if others:
                raise self._taken(others[0])

    async def settle(self) -> None:
        """Tell the claim. It is lost if a listener whose name comes first has one."""
        with contextlib.suppress(HoldfastError):  # told by `check`, or Holdfast is away
            others = await self._others({"server": self._server, "calls": self.calls})
            if others and others[0] < self._server:
                self._lose(others[0])

    def heard(self, question: Mapping[str, Any]) -> None:
        """Another listener tells its claim."""
        if self.calls and question.get("calls") == self.calls and str(question.get("server", "")) < self._server:
            self._lose(str(question["server"]))

    async def _others(self, question: dict[str, Any]) -> list[str]:
        """The names of the other listeners that call this server, as far as they answer."""
        if not self.calls:
            return []
        found = await self._client.subscriptions(self._domain.requests)
        names = (each["name"] for each in found if each["receivers"] and each["name"].startswith(SERVERS))
        attached = {name.removeprefix(SERVERS) for name in names} - {self._server}
        if not attached:
            return []
        told = await roll_call.ask(self._client, self._domain.name, WAIT_SECONDS, question=question, until=attached)
        return [each["name"] for each in told if each["name"] in attached and each.get("calls") == self.calls]

    def _lose(self, other: str) -> None:
        if not self.lost.done():
            self.lost.set_exception(self._taken(other))

    def _taken(self, other: str) -> ServerTaken:
        return ServerTaken(
            f"listener {other!r} calls {self._url} already, and each server has one listener: it would do every request twice; "
            "stop that one, or name another --server. If it is another server behind the same name, say --site for both",
            server=self._server, other=other,
        )  # fmt: skip


def server_called(address: Address, site: str) -> str:
    """The name of a server: another one for each that is not the same."""
    if address.path:
        return f"{_machine(_FILES)} {os.path.abspath(address.path)}"
    if address.host in _HERE or address.host.startswith("127."):
        return f"{_machine(_NETWORK)} {address.port}"
    return f"{site} {address.host}:{address.port}"


def _machine(view: str) -> str:
    """This start of the machine, and what a process sees of it."""
    return f"{boot_id().hex()} {os.stat(view).st_ino}"
