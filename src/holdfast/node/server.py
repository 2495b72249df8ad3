"""The server: a node that takes its links over TCP, until it is told to stop.

It accepts as soon as the journal's tail is found, while its machines still replay (A6). A boot Recorder's events are put into
the channel before the claim, so that they are delivered before everything else (A7).

SIGHUP makes it read its users file and its certificate again; if they are broken, it logs that and keeps those it has. Without
users and certificate it logs that there is nothing to reload, and goes on.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import ssl
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from holdfast.channel.channel import Appendable, Buffer, Channel, Purpose
from holdfast.destination import command
from holdfast.destination.settings import of_first_use
from holdfast.errors import BadSetting, HoldfastError, Unavailable
from holdfast.event.selector import selector
from holdfast.node import supervision
from holdfast.node.clients.client_manager import ClientManager
from holdfast.node.clock import Clock, SystemClock
from holdfast.node.clustered.cluster_settings import ClusterSettings
from holdfast.node.login.login import Login
from holdfast.node.login.security import Security
from holdfast.node.node import Node
from holdfast.node.settings import NodeSettings, size_text
from holdfast.wire import tcp

log = logging.getLogger("holdfast.server")

# A node whose cluster cannot be reached tries again after this.
JOIN_AGAIN_S = 0.5
# A server that is asked to stop while it opens is given so long; a replay that is cut off is done again at the next start.
OPENING_S_MAX = 2.0


class BootContents(Protocol):
    """The contents of a boot Recorder: its events as ready commands, in order."""

    @property
    def producer(self) -> str: ...

    def first_for(self, incarnation: str) -> int:
        """The least sequence it may still hold for this channel; lower ones are durable, here or elsewhere."""

    def commands(self) -> Iterator[tuple[int, str, Literal["queue", "topic"], Buffer]]:
        """Sequence, destination, its kind, and the command."""

    def release(self, through: int, incarnation: str) -> None:
        """Everything up to this sequence is durable in the channel with this incarnation."""

    def close(self) -> None: ...


class Beside(Protocol):
    async def close(self) -> None: ...


class Served(Protocol):
    """The node that a server shows to clients: one that is alone, or one of a cluster."""

    settings: NodeSettings
    clients: ClientManager

    @property
    def channel(self) -> Appendable: ...

    @property
    def failure(self) -> HoldfastError | None:
        """Why it cannot go on."""

    async def failed(self) -> None:
        """Return when it cannot go on, never otherwise."""

    async def leave(self) -> None:
        """Have others go on in its place, as far as there are any, while its clients are still served."""

    def take_users(self, path: Path, text: str) -> None:
        """The users file of this server was read again."""

    async def close(self) -> None: ...


class Server:
    def __init__(
        self, node: Served, listener: tcp.Listener, security: Security, tls: ssl.SSLContext | None, data: Path, version: str
    ) -> None:
        self.node = node
        self._listener = listener
        self._security = security
        self._tls = tls
        self._data = data
        self._version = version
        self._beside: list[Beside] = []
        log.info("starts: %s", self._described())

    @classmethod
    async def open(
        cls,
        settings: NodeSettings,
        data: Path,
        host: str,
        port: int,
        boot: Callable[[], BootContents] | None = None,
        security: Security | None = None,
        version: str = "",
        cluster: ClusterSettings | None = None,
        *,
        is_essential_replaced: bool = False,
    ) -> Server:
        """Open the node in a folder, and listen. `version` is that of Holdfast, for the log; `cluster` that of the node, if it is
        one of a cluster; `is_essential_replaced`: whose essential settings are then those of this node."""
        security, clock = security or Security(), SystemClock()
        security.check(host, has_users=cluster is not None)  # the cluster may have users
        users, tls = security.load_users(), security.load_tls()
        _raise_file_limit()
        gc.freeze()  # what is loaded by now stays for good: the collector need not visit it again
        before_claim = None if boot is None else partial(_import_boot, boot, clock)
        if cluster is None:
            node: Served = await Node.open(data, settings, clock, before_claim)
        else:
            node = await _join(cluster, data, settings, clock, security, is_essential_replaced=is_essential_replaced)
        try:
            if cluster is None:
                node.clients.login = Login(users) if users is not None else None
            security.check(host, has_users=node.clients.login is not None)
            listener = await tcp.listen(host, port, node.clients.accept, refused=node.clients.refused, tls=tls)
            node.clients.local = listener.local
        except OSError as problem:
            await node.close()
            raise Unavailable(
                f"cannot listen on {host}:{port} ({problem.strerror}); stop what uses the port, or choose another with --listen"
            ) from problem
        except BaseException:
            await node.close()
            raise
        return cls(node, listener, security, tls, data, version)

    def _described(self) -> str:
        """A line for the log: version, data folder, addresses, and how the server is protected."""
        pressure = self.node.channel.pressure
        parts = (
            f"holdfast {self._version} ({self.node.settings.name})",
            f"data in {self._data.absolute()}",
            f"journal {size_text(pressure.used_bytes)} of {size_text(pressure.size_bytes)} used",
            f"listening on {', '.join(_address_text(each) for each in self._listener.addresses)}",
            f"TLS {'on' if self._tls is not None else 'off'}",
            f"users {'on' if self.node.clients.login is not None else 'off'}",
        )
        return "; ".join(parts)

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._tls

    def close_before(self, part: Beside) -> None:
        """Close this part before the server itself: it shows the server to others."""
        self._beside.append(part)

    @property
    def port(self) -> int:
        return self._listener.port

    def reload(self) -> None:
        """Read the users file and the certificate again, for logins and connections to come."""
        if self._security.users is None and self._tls is None:
            log.info("nothing to reload: this server has neither users nor a certificate")
            return
        try:
            text = self._security.load_users_text()
            if self._tls is not None:
                self._security.renew_tls(self._tls)
        except HoldfastError as problem:
            log.error("not reloaded, the users and certificate read before stay in force: %s", problem)
            return
        if text is not None and self._security.users is not None:
            self.node.take_users(self._security.users, text)
        log.info("reloaded users and certificate")

    async def close(self) -> None:
        log.info("stops: %s", self._described())
        for part in self._beside:
            await part.close()
        await self.node.leave()
        await self._listener.close()
        await self.node.close()


async def _join(
    cluster: ClusterSettings,
    data: Path,
    settings: NodeSettings,
    clock: Clock,
    security: Security,
    *,
    is_essential_replaced: bool,
) -> Served:
    try:
        from holdfast.node.clustered.cluster_node import ClusterNode
        from holdfast.node.clustered.configuration.shared_documents import GivenUsers
    except ImportError as problem:
        raise BadSetting(
            f"a cluster needs packages that are not installed ({problem.name}); install them: pip install 'holdfast[cluster]'"
        ) from problem
    await asyncio.to_thread(data.mkdir, parents=True, exist_ok=True)
    text = security.load_users_text()
    given = GivenUsers(security.users, text) if security.users is not None and text is not None else None
    while True:  # a whole cluster that was killed starts in any order: a node waits for NATS
        try:
            return await ClusterNode.open(
                data, cluster, settings, clock=clock, users=given, is_essential_replaced=is_essential_replaced
            )
        except Unavailable as problem:
            log.warning("node %s cannot join cluster %s yet, and tries again: %s", settings.name, cluster.name, problem)
            await asyncio.sleep(JOIN_AGAIN_S)


async def run_until_signal(opening: Coroutine[Any, Any, Server], ready: Callable[[Server], None]) -> None:
    """Serve until SIGTERM or SIGINT, or until the message manager cannot go on; then raise what stopped it.

    A signal that comes while the server opens counts as soon as it is open, but after a few seconds at the latest: a node whose
    cluster is not there would wait for ever.
    """
    loop = asyncio.get_running_loop()
    stop_asked, reload_asked = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    loop.add_signal_handler(signal.SIGHUP, reload_asked.set)
    asked = supervision.start(_until(stop_asked), "waiting for a signal")
    server = await _opened(opening, asked)
    if server is None:
        return
    # Made now, so that the first client with a selector need not wait for it.
    preparing = supervision.start(asyncio.to_thread(selector.prepare), "making the parser of selectors")
    failing = supervision.start(server.node.failed(), "waiting for a failure")
    try:
        loop.add_signal_handler(signal.SIGHUP, server.reload)
        if reload_asked.is_set():
            server.reload()  # the files may have changed since they were read
        ready(server)
        await asyncio.wait({failing, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        preparing.cancel()
        failing.cancel()
        asked.cancel()
        await server.close()
    if server.node.failure is not None:
        raise server.node.failure


async def _opened(opening: Coroutine[Any, Any, Server], asked: asyncio.Task[None]) -> Server | None:
    """The server; None if it does not open soon after it was asked to stop."""
    task = supervision.awaited(opening)
    await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        await asyncio.wait({task}, timeout=OPENING_S_MAX)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def _import_boot(boot: Callable[[], BootContents], clock: Clock, channel: Channel) -> None:
    """Append everything that a boot Recorder holds; what is in the channel already is dropped by its sequence (rule 6)."""
    try:
        contents = boot()
    except HoldfastError as problem:
        log.error("the boot recorder is left alone: %s", problem)
        return
    try:
        first = contents.first_for(channel.id)
        opening = command.OpenProducer(contents.producer, is_durable=True, first_sequence=first)
        await channel.append(command.encode(opening), Purpose.UPKEEP)
        last = 0
        appended = []
        for sequence, destination, kind, recorded in contents.commands():
            create = command.Create(destination, kind, of_first_use(kind), is_implicit=True, is_unconfigured=True)
            channel.append(command.encode(create), Purpose.UPKEEP)
            appended.append(channel.append(_accepted(recorded, clock.now_us()), Purpose.EVENTS))
            last = sequence
        await asyncio.gather(*appended)
        if last:
            contents.release(last, channel.id)
            log.info("took %d events from the boot recorder", len(appended))
    finally:
        contents.close()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _address_text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _accepted(recorded: Buffer, at_us: int) -> bytes:
    made, payload = command.decode(recorded)
    assert isinstance(made, command.BatchCommand)
    return command.accepted(made, payload, at_us)


def _raise_file_limit() -> None:
    """Allow as many connections as the machine can have, not as few as its shell sets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
