"""Embedded mode: a node in the caller's own process, reached over in-process links. `file:` and `memory:` URLs end here.

    memory:        one client's own, in its loop
    memory:NAME    shared by all clients of this process that give this name, in any loop or thread: it lives in the background
    file:DIR       in the loop of the client that opens it first; the other clients of that loop share it

A node in the background (`memory:NAME`, and a folder that a blocking client opened first) can be reached from every loop: the
background lives as long as the process. A node in a program's own loop can be reached from that loop alone, because it stands
still whenever that loop does; a client in another loop is refused with JournalInUse. So is a second process, with the advice to
run a server.

The last client of a node closes it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import BadSetting, JournalInUse, NotAJournal
from holdfast.node import supervision
from holdfast.node.background import shared_background
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings, journal_settings, parse_managers
from holdfast.wire import in_process_link, thread_link
from holdfast.wire.link import Link

Result = TypeVar("Result")
Options = dict[str, str]
# By process (a fork's child has none of its parent's), kind, and name or folder.
Key = tuple[int, str, str]

# The only state of this module: nodes live as long as a client of this process uses them. The lock guards reads and changes.
_shared: dict[Key, _Shared] = {}
_shared_lock = threading.Lock()


class _Shared:
    """A node that several clients may use. All but `loop` and `options` is used in its own loop only."""

    def __init__(self, options: Options, opening: Coroutine[Any, Any, Node]) -> None:
        self.loop = asyncio.get_running_loop()
        self.options = options
        self.opening = supervision.awaited(opening)
        self.users = 0
        self.closed: asyncio.Future[None] | None = None  # set while it is being closed, done when it is


class Embedded:
    """One client's use of a node."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`leave` is run in the node's loop."""
        self._node = node
        self._loop = loop
        self._leave = leave
        self._leaving: asyncio.Task[None] | None = None

    async def dial(self) -> Link:
        here = asyncio.get_running_loop()
        if here is self._loop:
            ours, theirs = in_process_link.pair()
            self._node.clients.accept(theirs)
            return ours
        near, far = thread_link.pair(here, self._loop)
        try:
            await _run_in(self._loop, self._accept(far))
        except BaseException:
            near.close()
            raise
        return near

    async def _accept(self, link: Link) -> None:
        self._node.clients.accept(link)

    async def close(self) -> None:
        """Leave the node, and wait for it. A cancelled wait does not keep the client from leaving: no node stays unused."""
        self._leaving = supervision.start(_run_in(self._loop, self._leave()), "leaving an embedded node")
        await asyncio.shield(self._leaving)


async def open_file(folder: str, **options: str) -> Embedded:
    key = (os.getpid(), "file", os.path.realpath(folder))  # noqa: ASYNC240  # as short as the opening that follows is long
    with _shared_lock:
        found = _shared.get(key)
    if found is None or found.loop is asyncio.get_running_loop():
        return await _join(key, options, lambda: _open_file(folder, options))
    if found.loop.is_closed():
        raise JournalInUse(
            f"the journal in {folder!r} was left open by a client of this process whose event loop has ended; close clients "
            "before their loop ends, best with `async with`, and start this program again",
            folder=folder,
        )
    if found.loop is not shared_background().loop:
        raise JournalInUse(
            f"the journal in {folder!r} is open in another event loop of this process; use that client, in its own loop; or "
            "open it with holdfast.blocking.connect first, which every loop and thread can share; or run a server "
            f"(holdfast serve --data {folder}) and connect to that",
            folder=folder,
        )
    return await _joined_in(found.loop, _join(key, options, lambda: _open_file(folder, options)))


async def open_memory(name: str = "", **options: str) -> Embedded:
    if not name:
        node = await _open_memory(options)
        return Embedded(node, asyncio.get_running_loop(), node.close)
    key = (os.getpid(), "memory", name)
    return await _joined_in(shared_background().loop, _join(key, options, lambda: _open_memory(options)))


async def _open_file(folder: str, options: Options) -> Node:
    sizes = {name: value for name, value in options.items() if name not in ("create_on_use", "managers")}
    # Former recipients were in the process that had the folder before, and are gone with it: none comes back.
    settings = _settings(options, journal=journal_settings(**sizes), start_grace_ms=0)
    _check_parent(Path(folder))
    return await Node.open(Path(folder), settings)


def _check_parent(folder: Path) -> None:
    """NotAJournal where the folder would be made in one that is not there: its path is mistyped more often than meant."""
    parent = folder.absolute().parent
    if not parent.exists():
        raise NotAJournal(
            f"there is no folder {str(parent)!r} for the journal {folder.name!r}; correct the path, or make that folder first",
            folder=str(folder),
        )


async def _open_memory(options: Options) -> Node:
    return await Node.in_memory(_settings(options))


def _settings(options: Options, **others: Any) -> NodeSettings:
    managers = parse_managers(options.get("managers", ""))
    return NodeSettings(is_create_on_first_use=options.get("create_on_use") != "no", managers=managers, **others)


async def _join(key: Key, options: Options, make: Callable[[], Coroutine[Any, Any, Node]]) -> Embedded:
    """Join the node of this key in this loop, opened if it is not. Wait first for one that is being closed."""
    while True:
        with _shared_lock:
            shared = _shared.get(key)
            if shared is None:
                shared = _shared[key] = _Shared(options, make())
            if shared.loop is not asyncio.get_running_loop():
                raise JournalInUse(f"{key[2]!r} was opened by another event loop at the same moment; connect again")
        if shared.closed is None:
            break
        await asyncio.shield(shared.closed)
    if options and options != shared.options:
        raise BadSetting(f"{key[2]!r} is open in this process with other settings; leave them out, or give the same")
    shared.users += 1
    try:
        node = await asyncio.shield(shared.opening)
    except BaseException:
        await _leave(key, shared)
        raise
    return Embedded(node, shared.loop, lambda: _leave(key, shared))


async def _leave(key: Key, shared: _Shared) -> None:
    """Leave a shared node. The last client to leave closes it."""
    shared.users -= 1
    if shared.users:
        return
    shared.closed = shared.loop.create_future()
    try:
        await asyncio.wait({shared.opening})  # a journal that is half opened cannot be given back
        if not shared.opening.cancelled() and shared.opening.exception() is None:
            await shared.opening.result().close()
    finally:
        with _shared_lock:
            _shared.pop(key, None)
        shared.closed.set_result(None)


async def _joined_in(loop: asyncio.AbstractEventLoop, joining: Coroutine[Any, Any, Embedded]) -> Embedded:
    if loop is asyncio.get_running_loop():
        return await joining
    joined = asyncio.run_coroutine_threadsafe(joining, loop)
    try:
        return await asyncio.shield(asyncio.wrap_future(joined))
    except asyncio.CancelledError:
        joined.add_done_callback(_let_go)
        raise


def _let_go(joined: Future[Embedded]) -> None:
    if not joined.cancelled() and joined.exception() is None:
        embedded = joined.result()
        asyncio.run_coroutine_threadsafe(embedded._leave(), embedded._loop)


async def _run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result:
    """Run it in another loop, and wait for it in this one."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
