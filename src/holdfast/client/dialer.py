"""Where links come from: a server over TCP, or a node in this process.

An embedded node is opened when the client is, and closed with it; whatever is wrong with its folder is said by `open`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.client.url import FileUrl, MemoryUrl, ServerUrl, Url
from holdfast.wire.link import Link

if TYPE_CHECKING:
    from holdfast.node.embedded import Embedded

# One host of several must not use up the patience for all.
DIAL_TIMEOUT_S = 5.0


class Dialer(Protocol):
    async def open(self) -> None: ...

    async def dial(self, timeout: float) -> Link:
        """A new link. Unreachable if there is none to be had now."""

    async def close(self) -> None: ...


class ServerDialer:
    """Tries the hosts in turn, beginning with the one after the last tried."""

    def __init__(self, hosts: tuple[tuple[str, int], ...]) -> None:
        self._hosts = hosts
        self._turn = 0

    async def open(self) -> None:
        pass

    async def dial(self, timeout: float) -> Link:
        from holdfast.wire import tcp

        host = self._hosts[self._turn % len(self._hosts)]
        self._turn += 1
        return await tcp.dial(host, min(timeout, DIAL_TIMEOUT_S))

    async def close(self) -> None:
        pass


class EmbeddedDialer:
    """Opens a node in this process. The node layer is imported only then, to keep `import holdfast` light."""

    def __init__(self, url: FileUrl | MemoryUrl) -> None:
        self._url = url
        self._node: Embedded | None = None

    async def open(self) -> None:
        from holdfast.node import embedded

        if isinstance(self._url, FileUrl):
            self._node = await embedded.open_file(self._url.folder, **dict(self._url.options))
        else:
            self._node = await embedded.open_memory(self._url.name)

    async def dial(self, timeout: float) -> Link:
        assert self._node is not None
        return await self._node.dial()

    async def close(self) -> None:
        if self._node is not None:
            node, self._node = self._node, None
            await node.close()


def dialer_for(url: Url) -> Dialer:
    return ServerDialer(url.hosts) if isinstance(url, ServerUrl) else EmbeddedDialer(url)
