"""Dialers make links: to a server over TCP, with TLS or without, or to a node in this process.

A server on the same machine is reached over its local socket, once it has told its name over TCP: see `nearer`. Nothing may be
between the two, and no login: it would be asked for twice.

A password is never sent over a link that others could read, unless the URL allows it. An embedded node is opened and closed with
its client; `open` says what is wrong with its folder.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.client.url import FileUrl, MemoryUrl, ServerUrl, Url
from holdfast.errors import BadUrl
from holdfast.wire.frame import Welcome
from holdfast.wire.link import Link

if TYPE_CHECKING:
    import ssl

    from holdfast.node.embedded import Embedded

# One host of several must not use up the time for all.
DIAL_TIMEOUT_S = 5.0


Host = tuple[str, int]
Shuffled = Callable[[Sequence[Host]], Sequence[Host]]


def _shuffled(hosts: Sequence[Host]) -> Sequence[Host]:
    return random.sample(hosts, len(hosts))


class Dialer(Protocol):
    @property
    def where(self) -> str:
        """The place it dials, in words."""

    @property
    def knows_others(self) -> bool:
        """Whether the next link may be to another server than the last."""

    async def open(self) -> None: ...

    async def dial(self, timeout: float) -> Link:
        """Make a new link. Unreachable if none can be made now."""

    async def close(self) -> None: ...


class ServerDialer:
    """Tries the hosts in turn, beginning with the one after the last tried. Each client has an order of its own: so clients of
    one URL are spread evenly, also when one of the hosts is lost."""

    def __init__(self, url: ServerUrl, shuffled: Shuffled | None = None) -> None:
        self._url = url
        self._hosts = (shuffled or _shuffled)(url.hosts)
        self._tls: ssl.SSLContext | None = None
        self._turn = 0

    @property
    def knows_others(self) -> bool:
        return len(self._hosts) > 1

    @property
    def where(self) -> str:
        return " or ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self._url.hosts)

    async def open(self) -> None:
        if self._url.is_tls:
            from holdfast.wire import tls

            files = (self._url.ca, self._url.certificate, self._url.key)
            self._tls = tls.client_context(*(Path(each) if each else None for each in files))

    async def dial(self, timeout: float) -> Link:
        from holdfast.wire import tcp

        host, port = self._hosts[self._turn % len(self._hosts)]
        self._turn += 1
        self._check_private(host)
        link = await tcp.dial((host, port), min(timeout / len(self._url.hosts), DIAL_TIMEOUT_S), self._tls)
        try:
            self._check_private(link.peer.rpartition(":")[0])
        except BadUrl:
            link.close()
            raise
        return link

    def _check_private(self, host: str) -> None:
        """BadUrl if others could read our password on its way to this address. A name is judged once it is resolved."""
        if self._url.is_tls or self._url.is_insecure or not self._url.credentials.password:
            return
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return
        if not (getattr(address, "ipv4_mapped", None) or address).is_loopback:
            raise BadUrl(
                f"the password would travel to {host} in the clear; write holdfasts:// for TLS, "
                "or add ?insecure=yes if nobody else is on the way",
                host=host,
            )

    async def close(self) -> None:
        pass


class EmbeddedDialer:
    """Opens a node in this process. The node layer is imported only then, to keep `import holdfast` light."""

    def __init__(self, url: FileUrl | MemoryUrl) -> None:
        self._url = url
        self._node: Embedded | None = None

    @property
    def knows_others(self) -> bool:
        return False

    @property
    def where(self) -> str:
        return self._url.folder if isinstance(self._url, FileUrl) else f"memory:{self._url.name}"

    async def open(self) -> None:
        from holdfast.node import embedded

        if isinstance(self._url, FileUrl):
            self._node = await embedded.open_file(self._url.folder, **dict(self._url.options))
        else:
            self._node = await embedded.open_memory(self._url.name, **dict(self._url.options))

    async def dial(self, timeout: float) -> Link:
        assert self._node is not None
        return await self._node.dial()

    async def close(self) -> None:
        if self._node is not None:
            node, self._node = self._node, None
            await node.close()


def dialer_for(url: Url) -> Dialer:
    return ServerDialer(url) if isinstance(url, ServerUrl) else EmbeddedDialer(url)


async def nearer(link: Link, welcome: Welcome) -> Link | None:
    """Make a link to the server that has welcomed us over this one, over its local socket; None if it is on another machine."""
    own = getattr(link, "address", "")  # links within a process have none
    if not (welcome.local and own and own == welcome.heard_from):
        return None
    from holdfast.wire import tcp

    return await tcp.dial_local(welcome.local)
