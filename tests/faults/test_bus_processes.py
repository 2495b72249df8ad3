"""The bus between real processes: a peer is stopped and goes on, is killed, and starts again; a server ends under load."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.bus.bus import client_manager_subject, message_manager_subject
from holdfast.bus.link.link import GRANTS_BYTES
from holdfast.bus.link.outgoing import WAITING_BYTES_MAX
from holdfast.bus.message import Delivered, DeliveredSlice, LinkDown, LinkEnded, LinkMade, PeerCongested
from holdfast.bus.nats.nats_bus import NatsBus
from tests import effort
from tests.contract.buses import MANAGER, OnNats, new_name
from tests.nats_server import NatsServer
from tests.waiting import until

pytestmark = pytest.mark.faults

TOP = Path(__file__).parents[2]
SUBJECT = message_manager_subject(MANAGER)


class Deliveries:
    """A primary that delivers numbers to client managers, and hears which came back."""

    def __init__(self, bus: NatsBus) -> None:
        self.said: list[str] = []
        self.heard: list[object] = []
        self._manager = bus.manager(MANAGER)
        self._manager.listen(SUBJECT, self.heard.append)
        self._manager.lead(1)

    def deliver(self, start: str, count: int, size: int = 100) -> None:
        for number in range(len(self.said), len(self.said) + count):
            slice_ = DeliveredSlice(1 << 16, 1, 0, False, bytes(size))
            self._manager.publish(client_manager_subject(start), Delivered(str(number), 1, [slice_]))
            self.said.append(str(number))

    async def until_echoed(self, count: int) -> None:
        await until(lambda: len(self.echoed) >= count, "so many have come back")

    @property
    def echoed(self) -> list[str]:
        return [each.session for each in self.heard if isinstance(each, LinkDown)]

    @property
    def unacknowledged_bytes(self) -> int:
        assert self._manager.links is not None
        return self._manager.links.unacknowledged_bytes

    def has(self, message: object) -> bool:
        return message in self.heard


@contextmanager
def peer(server: NatsServer, cluster: str, start: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.faults.bus_peer_program", server.url, cluster, start, MANAGER]
    process = subprocess.Popen(command, cwd=TOP)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)


async def test_a_process_that_was_stopped_gets_everything_once_and_in_order(tmp_path: Path) -> None:
    cluster, start = new_name(), new_name()
    with NatsServer(tmp_path / "nats") as server, peer(server, cluster, start) as process:
        bus = await OnNats(server).bus(cluster)
        deliveries = Deliveries(bus)
        await until(lambda: deliveries.has(LinkMade(client_manager_subject(start), 1)), "the peer has a link")

        for _ in range(effort.rounds(short=2, long=20)):
            deliveries.deliver(start, 50)
            process.send_signal(signal.SIGSTOP)
            deliveries.deliver(start, 100, size=100_000)
            await until(lambda: deliveries.has(PeerCongested(client_manager_subject(start), True)), "the peer is congested")
            assert deliveries.unacknowledged_bytes <= GRANTS_BYTES
            process.send_signal(signal.SIGCONT)
            await deliveries.until_echoed(len(deliveries.said))
            deliveries.heard[:] = [each for each in deliveries.heard if not isinstance(each, PeerCongested)]

        assert deliveries.echoed == deliveries.said
        assert [each for each in deliveries.heard if isinstance(each, LinkEnded)] == []
        await bus.close()


async def test_a_process_that_was_killed_is_forgotten_with_what_waits_and_its_successor_served(tmp_path: Path) -> None:
    cluster, start = new_name(), new_name()
    with NatsServer(tmp_path / "nats") as server:
        bus = await OnNats(server).bus(cluster)
        deliveries = Deliveries(bus)
        with peer(server, cluster, start) as process:
            await until(lambda: deliveries.has(LinkMade(client_manager_subject(start), 1)), "the peer has a link")
            process.kill()
            deliveries.deliver(start, (GRANTS_BYTES + WAITING_BYTES_MAX) // 100_000 + 50, size=100_000)
            ended = LinkEnded(client_manager_subject(start), "too much waits to be sent")
            await until(lambda: deliveries.has(ended), "the link is given up")
            assert deliveries.unacknowledged_bytes == 0

        successor = new_name()
        with peer(server, cluster, successor):
            await until(lambda: deliveries.has(LinkMade(client_manager_subject(successor), 1)), "the successor has a link")
            deliveries.said.clear()
            deliveries.deliver(successor, 100)
            await deliveries.until_echoed(len(deliveries.said))

        assert deliveries.echoed == deliveries.said
        await bus.close()


async def test_a_server_that_is_killed_under_load_costs_nothing(tmp_path: Path) -> None:
    cluster, start = new_name(), new_name()
    with NatsServer(tmp_path / "nats") as server, peer(server, cluster, start):
        bus = await OnNats(server).bus(cluster)
        deliveries = Deliveries(bus)
        await until(lambda: deliveries.has(LinkMade(client_manager_subject(start), 1)), "the peer has a link")

        for _ in range(effort.rounds(short=3, long=30)):
            deliveries.deliver(start, 200, size=1_000)
            await deliveries.until_echoed(len(deliveries.echoed) + 1)
            deliveries.deliver(start, 200, size=1_000)
            server.kill()
            deliveries.deliver(start, 200, size=1_000)
            server.start()
            await deliveries.until_echoed(len(deliveries.said))

        assert deliveries.echoed == deliveries.said
        await bus.close()
