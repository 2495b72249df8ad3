"""The server: a node that takes its links over TCP, until it is told to stop.

It accepts as soon as the journal's tail is found, while its machines still replay (A6). A boot Recorder's events are put into
the channel before the claim, so that they are delivered before everything else (A7).

SIGHUP makes it read its users file and its certificate again; if they are broken, it says so and keeps those it has.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import ssl
from collections.abc import Callable
from pathlib import Path

from holdfast.channel.channel import Buffer, Purpose
from holdfast.destination import command
from holdfast.errors import HoldfastError, Unavailable
from holdfast.node.boot import BootContents
from holdfast.node.login import Login
from holdfast.node.node import Node
from holdfast.node.security import Security
from holdfast.node.settings import NodeSettings
from holdfast.wire import tcp

log = logging.getLogger("holdfast.server")


class Server:
    def __init__(
        self,
        settings: NodeSettings,
        data: Path,
        host: str,
        port: int,
        boot: Callable[[], BootContents] | None = None,
        security: Security | None = None,
    ) -> None:
        self._settings = settings
        self._data = data
        self._host = host
        self._port = port
        self._boot = boot
        self._security = security or Security()
        self._tls: ssl.SSLContext | None = None
        self._listener: tcp.Listener | None = None
        self.node: Node | None = None

    async def start(self) -> None:
        self._security.check(self._host)
        users, self._tls = self._security.load_users(), self._security.load_tls()
        _raise_file_limit()
        gc.freeze()  # what is loaded by now stays for good: the collector need not look at it again
        self.node = await Node.open(self._data, self._settings)
        try:
            self.node.clients.login = Login(users) if users is not None else None
            await self.node.start(self._import_boot if self._boot is not None else None)
            self._listener = await tcp.listen(self._host, self._port, self.node.clients.accept, tls=self._tls)
        except OSError as problem:
            await self.node.close()
            raise Unavailable(
                f"cannot listen on {self._host}:{self._port} ({problem.strerror}); "
                "stop what uses the port, or choose another with --listen"
            ) from problem
        except BaseException:
            await self.node.close()
            raise

    @property
    def port(self) -> int:
        assert self._listener is not None
        return self._listener.port

    def reload(self) -> None:
        """Take over what has changed in the users file and the certificate, for logins and connections to come."""
        assert self.node is not None
        try:
            users = self._security.load_users()
            if self._tls is not None:
                self._security.renew_tls(self._tls)
        except HoldfastError as problem:
            log.error("not reloaded, what was read before stays in force: %s", problem)
            return
        if users is not None:
            self.node.clients.use_users(users)
        log.info("reloaded users and certificate")

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        if self.node is not None:
            await self.node.close()

    async def run(self, ready: Callable[[Server], None]) -> None:
        """Serve until SIGTERM or SIGINT, or until the message manager cannot go on; then raise what stopped it."""
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        await self.start()
        if self._security.users is not None or self._tls is not None:
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        assert self.node is not None
        ready(self)
        failing = asyncio.create_task(self.node.messages.failed())
        asked = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait({failing, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            failing.cancel()
            asked.cancel()
            await self.stop()
        if self.node.messages.failure is not None:
            raise self.node.messages.failure

    async def _import_boot(self) -> None:
        """Everything a boot Recorder holds goes into the channel; what is there already is dropped by its sequence (rule 6)."""
        assert self._boot is not None and self.node is not None
        channel = self.node.channel
        try:
            contents = self._boot()
        except HoldfastError as problem:
            log.error("the boot recorder is left alone: %s", problem)
            return
        try:
            opening = command.OpenProducer(contents.producer, is_durable=True, first_sequence=contents.first)
            await channel.append(command.encode(opening), Purpose.UPKEEP)
            last = 0
            pending = []
            for sequence, destination, kind, recorded in contents.commands():
                channel.append(command.encode(command.Create(destination, kind, is_implicit=True)), Purpose.UPKEEP)
                pending.append(channel.append(_accepted(recorded, self.node.clients.clock.now_us()), Purpose.EVENTS))
                last = sequence
            await asyncio.gather(*pending)
            if last:
                contents.release(last)
                log.info("took %d events from the boot recorder", len(pending))
        finally:
            contents.close()


def _accepted(recorded: Buffer, at_us: int) -> bytes:
    made, payload = command.decode(recorded)
    assert isinstance(made, command.BatchCommand)
    return command.accepted(made, payload, at_us)


def _raise_file_limit() -> None:
    """As many connections as the machine allows, not as many as its shell happens to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
