"""The members of a domain, as a listener reads them from the topic: servers, and where the engines are.

It is kept with the records, so that a listener that starts again knows the engines without reading the topic from its beginning.
Memory: ENGINES_MAX engines; the one that was registered longest ago is forgotten first.
"""

from __future__ import annotations

from typing import Any

import msgspec

ENGINES_MAX = 64


class Engine(msgspec.Struct, array_like=True, frozen=True):
    start: str
    address: str
    reply_to: str = ""
    is_tls: bool = False


class Member(msgspec.Struct, array_like=True, frozen=True):
    site: str = ""
    role: str = "server"
    state: str = "joining"


class Members(msgspec.Struct):
    """The membership; `number` counts its changes and is the same at all listeners at the same place."""

    number: int = 0
    servers: dict[str, Member] = {}
    engines: dict[str, Engine] = {}

    def register(self, told: Any) -> str:
        """An engine was registered; its name."""
        name = str(told["engine"])
        self.engines.pop(name, None)
        self.engines[name] = Engine(str(told["start"]), str(told["address"]), str(told["reply_to"]), bool(told.get("tls", False)))
        if len(self.engines) > ENGINES_MAX:
            del self.engines[next(iter(self.engines))]
        return name

    def change(self, told: Any) -> None:
        """A server joins, is current, leaves, or is removed."""
        self.number += 1
        kind, name = str(told["kind"]), str(told.get("server", ""))
        if kind in ("leave", "remove"):
            self.servers.pop(name, None)
        elif kind == "join":
            self.servers[name] = Member(str(told.get("site", "")), str(told.get("role", "server")))
        elif name in self.servers:
            self.servers[name] = msgspec.structs.replace(self.servers[name], state=kind)

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)


def decode(data: bytes | None) -> Members:
    return msgspec.msgpack.decode(data, type=Members) if data else Members()
