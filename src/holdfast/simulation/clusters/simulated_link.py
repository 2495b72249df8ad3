"""Simulated links between clients and nodes, as TCP makes them: frames arrive in order, or the link is lost.

cut        frames wait; heartbeats of either side may give the link up meanwhile
crash      the other end hears of it after a moment, or, when a whole machine is gone, by its heartbeats only
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from holdfast.errors import Unreachable
from holdfast.simulation.clusters.network import Network
from holdfast.simulation.clusters.process import Process
from holdfast.wire.frame import Frame
from holdfast.wire.in_process_link import LinkEnd
from holdfast.wire.link import Link, report_fault, unset_received

# A node that does not answer is given up after this, at most: then the next one is dialled.
DIAL_S_MAX = 1.0


class SimulatedLink(LinkEnd):
    """One end; `pair` makes two."""

    def __init__(self, network: Network, process: Process, peer: str) -> None:
        super().__init__(peer, process.loop)
        self._network = network
        self._process = process
        self._other: SimulatedLink | None = None

    @property
    def is_open(self) -> bool:
        return not self._is_lost

    def send(self, frame: Frame) -> None:
        if not (self._is_closing or self._is_lost):
            self._bytes_waiting += len(frame.body)
            self._carry(lambda other: other._take(frame))

    def send_now(self, frame: Frame) -> None:
        self.send(frame)

    def flush(self) -> None:
        """Do nothing: every frame is on its way."""

    def close(self) -> None:
        if not (self._is_closing or self._is_lost):
            self._is_closing = True
            self._carry(lambda other: other._lose(None))
            self._loop.call_soon(self._lose, None)

    def reset(self) -> None:
        """Its process is gone: tell the other end."""
        self._carry(lambda other: other._lose(ConnectionResetError("the other end is gone")))

    def _carry(self, work: Callable[[SimulatedLink], None]) -> None:
        other = self._other
        if other is not None:
            self._network.stream(self._process.name, other._process.name, other._process, partial(work, other))

    def _take(self, frame: Frame) -> None:
        if self._is_lost:
            return
        if self.received is unset_received:  # its user has its first turn now
            self._loop.call_soon(self._take, frame)
            return
        try:
            self.received(frame)
        except Exception as problem:
            report_fault(self._peer, problem)
            self.close()
            return
        size = len(frame.body)
        if size:
            self._carry(lambda other: other._taken(size))

    def _taken(self, size: int) -> None:
        self._bytes_waiting -= size
        if not self.is_congested:
            self._wake_drained()

    def _forget_other(self) -> None:
        self._other = None


def pair(network: Network, client: Process, node: Process) -> tuple[SimulatedLink, SimulatedLink]:
    near, far = SimulatedLink(network, client, node.name), SimulatedLink(network, node, client.name)
    near._other, far._other = far, near
    return near, far


class Listener:
    """Where a node takes links: nowhere while it is down."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: Process | None = None
        self.accept: Callable[[Link], object] | None = None
        self.links: list[SimulatedLink] = []

    def take(self, far: SimulatedLink) -> None:
        if self.accept is not None:
            self.links = [each for each in self.links if each.is_open]
            self.links.append(far)
            self.accept(far)


class SimulatedDialer:
    """Dials the nodes in turn, as the dialer of a `holdfast://a,b,c` URL does."""

    def __init__(self, network: Network, client: Process, listeners: list[Listener]) -> None:
        self.made: SimulatedLink | None = None
        self._network = network
        self._client = client
        self._listeners = listeners
        self._turn = 0

    @property
    def where(self) -> str:
        return " or ".join(each.name for each in self._listeners)

    @property
    def knows_others(self) -> bool:
        return len(self._listeners) > 1

    async def open(self) -> None:
        """There is nothing to open."""

    async def dial(self, timeout: float) -> Link:
        listener = self._listeners[self._turn % len(self._listeners)]
        self._turn += 1
        answered: asyncio.Future[SimulatedLink | None] = asyncio.get_running_loop().create_future()

        def answer(link: SimulatedLink | None) -> None:
            if not answered.done():
                answered.set_result(link)
            elif link is not None:
                link.close()  # nobody waits for it any more

        def arrive() -> None:
            node = listener.process
            if node is None or node.is_dead or listener.accept is None:
                self._network.stream(listener.name, self._client.name, self._client, partial(answer, None))
                return
            near, far = pair(self._network, self._client, node)
            node.deliver(listener.take, far)
            self._network.stream(listener.name, self._client.name, self._client, partial(answer, near))

        self._network.stream(self._client.name, listener.name, None, arrive)
        try:
            async with asyncio.timeout(min(timeout, DIAL_S_MAX)):
                link = await answered
        except TimeoutError as problem:
            raise Unreachable(f"{listener.name} does not answer; it is cut off, paused or gone") from problem
        if link is None:
            raise Unreachable(f"{listener.name} refuses connections: nothing runs there")
        return link

    async def close(self) -> None:
        """There is nothing to close."""
