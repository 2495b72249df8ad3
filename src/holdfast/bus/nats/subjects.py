"""The subjects of the bus on NATS: `hf.CLUSTER.` and what ADR 24 lists."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from holdfast.bus.bus import CLIENT_MANAGERS, NODES

_NODE = "node."
_CLIENT_MANAGER = "client_manager."
_MESSAGE_MANAGER = "message_manager."
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class Route(NamedTuple):
    """Where a subject of the bus leads: to a client manager or message manager by link, to all on NATS, or within the process.

    A client manager may have subjects for its parts, behind its start: `client_manager.START.PART`. They share its links."""

    kind: str  # "client", "manager", "all" or "local"
    name: str


def route_of(subject: str) -> Route:
    if subject.startswith(_CLIENT_MANAGER):
        return Route("client", subject.removeprefix(_CLIENT_MANAGER).partition(".")[0])
    if subject.startswith(_MESSAGE_MANAGER):
        return Route("manager", subject.removeprefix(_MESSAGE_MANAGER))
    if subject in (CLIENT_MANAGERS, NODES) or subject.startswith(_NODE):
        return Route("all", subject)
    return Route("local", subject)


class Subjects:
    def __init__(self, cluster: str) -> None:
        self._prefix = f"hf.{token(cluster)}"

    def of_client(self, start: str) -> str:
        return f"{self._prefix}.cm.{token(start)}"

    def of_manager(self, name: str) -> str:
        return f"{self._prefix}.mm.{token(name)}"

    def of_all(self, subject: str) -> str:
        """Of a subject that goes to all who listen: client managers, nodes, or one node."""
        if subject == CLIENT_MANAGERS:
            return f"{self._prefix}.cms"
        if subject == NODES:
            return f"{self._prefix}.nodes"
        return f"{self._prefix}.node.{token(subject.removeprefix(_NODE))}"


def token(name: str) -> str:
    """A name as one token of a subject: letters that mean something to NATS travel as = and two digits for each byte."""
    return _ODD.sub(lambda found: "".join(f"={byte:02X}" for byte in found[0].encode()), name) or "="


def text_of_token(token: str) -> str:
    """The name that became this token."""
    return "" if token == "=" else unquote(token.replace("=", "%"))
