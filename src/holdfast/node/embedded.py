"""Embedded mode: a node in the caller's own process and loop, reached over in-process links. `file:` and `memory:` URLs end here.

`memory:NAME` is shared by all who name it in one process; `memory:` alone belongs to its one client. A folder is owned by one
node at a time: a second process is told that the journal is in use, and to run a server instead.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings, journal_settings
from holdfast.wire import in_process
from holdfast.wire.link import Link

# The only state of this module: named in-memory nodes live as long as a client of this process uses them.
_shared: dict[tuple[int, str], Embedded] = {}


class Embedded:
    def __init__(self, node: Node, key: tuple[int, str] | None = None) -> None:
        self._node = node
        self._key = key
        self._users = 1

    async def dial(self) -> Link:
        ours, theirs = in_process.pair()
        self._node.clients.accept(theirs)
        return ours

    async def close(self) -> None:
        """The last user closes the node."""
        self._users -= 1
        if self._users == 0:
            if self._key is not None:
                _shared.pop(self._key, None)
            await self._node.close()

    def share(self) -> Embedded:
        self._users += 1
        return self


async def open_file(folder: str, **sizes: str) -> Embedded:
    node = await Node.open(Path(folder), NodeSettings(journal=journal_settings(**sizes)))
    return await _started(Embedded(node))


async def open_memory(name: str = "", **settings: Any) -> Embedded:
    if not name:
        return await _started(Embedded(await Node.in_memory(NodeSettings.of(**settings))))
    key = (id(asyncio.get_running_loop()), name)
    if key in _shared:
        return _shared[key].share()
    _shared[key] = Embedded(await Node.in_memory(NodeSettings.of(**settings)), key)
    return await _started(_shared[key])


async def _started(embedded: Embedded) -> Embedded:
    try:
        await embedded._node.start()
    except BaseException:
        await embedded.close()
        raise
    return embedded
