"""The bus of one process of a cluster, as its client manager uses it; `manager` gives that of a message manager.

    publish(message_manager.NAME) ──▶ NAME is led here: in process      otherwise: link ──▶ hf.CLUSTER.mm.NAME
    publish(client_managers, nodes, node.ID) ──▶ hf.CLUSTER.…, to all, this process too
    publish(anything else) ──▶ in process

Messages of one turn of the loop travel together. A message to a manager with which there is no link is lost; the first one begins
a link, and whoever listens on the subject of this client manager hears `LinkMade`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.bus.bus import NODES, OnMessage, client_manager_subject, message_manager_subject
from holdfast.bus.link.client_side import ClientSide
from holdfast.bus.message import Heartbeat, LinkMade
from holdfast.bus.message_codec import MessageCodec
from holdfast.bus.nats.connection import Connection
from holdfast.bus.nats.endpoint import Endpoint
from holdfast.bus.nats.linked_peers import LinkedPeers
from holdfast.bus.nats.manager_bus import ManagerBus
from holdfast.bus.nats.subjects import route_of

# How often the links look at the time.
TICK_S = 0.025


class NatsBus:
    def __init__(self, connection: Connection, cluster: str, start: str, codec: MessageCodec) -> None:
        """`start` names this start of the client manager: it listens on `client_manager.START`."""
        self.subject = client_manager_subject(start)
        self.links = ClientSide(start)
        self.endpoint = Endpoint(connection, cluster, start, codec)
        self._loop = asyncio.get_running_loop()
        self._managers: dict[str, ManagerBus] = {}
        self._towards = LinkedPeers(self.endpoint, self.links.send, message_manager_subject, self._heard_on)
        self._stop_listening = connection.subscribe(self.endpoint.subjects.of_client(start), self._hear)
        self._stop_hearing_nodes = self.endpoint.listen(NODES, self._hear_node)
        self._timer = self._loop.call_later(TICK_S, self._tick)

    @property
    def is_quiet(self) -> bool:
        return self.endpoint.local.is_quiet and self._towards.is_quiet and all(each.is_sent for each in self._managers.values())

    def publish(self, subject: str, message: Any) -> None:
        if not self._publish_outside(subject, message):
            self.endpoint.local.publish(subject, message)

    def hand_over(self, subject: str, message: Any) -> None:
        if not self._publish_outside(subject, message):
            self.endpoint.local.hand_over(subject, message)

    def _publish_outside(self, subject: str, message: Any) -> bool:
        route = route_of(subject)
        if route.kind == "all":
            self.endpoint.publish_to_all(subject, message)
        elif route.kind == "manager" and not self.leads(route.name):
            self.reach(route.name)
            self._towards.post(route.name, self.endpoint.codec.encode(subject, message))
        else:
            return False
        return True

    def listen(self, subject: str, on_message: OnMessage) -> Callable[[], None]:
        return self.endpoint.listen(subject, on_message)

    # --- managers ----------------------------------------------------------------------------------------------------

    def reach(self, name: str) -> None:
        """Begin a link with a message manager of another process, if there is none, and keep one from now on."""
        self._towards.act(self.links.seek(name, self.endpoint.now_ms()))

    def learn_epoch(self, name: str, epoch: int) -> None:
        """The primary of an epoch was heard of, in a heartbeat or a claim: nothing of an older one is taken any more."""
        self._towards.act(self.links.learn_epoch(name, epoch, self.endpoint.now_ms()))

    def manager(self, name: str) -> ManagerBus:
        """The bus of a message manager of this process, primary or backup."""
        made = self._managers.get(name)
        if made is None:
            made = self._managers[name] = ManagerBus(self.endpoint, name, self._led_here, self._led_elsewhere)
        return made

    def leads(self, name: str) -> bool:
        found = self._managers.get(name)
        return found is not None and found.is_leading

    def _led_here(self, name: str, epoch: int) -> None:
        """A message manager of this process became primary: its client manager talks to it in process from now on."""
        self._towards.act(self.links.leave(name, self.endpoint.now_ms()))
        self.learn_epoch(name, epoch)  # what its predecessor still sends is refused
        self._towards.forget(name)
        self.endpoint.local.publish(message_manager_subject(name), LinkMade(self.subject, epoch))
        for subject in self._heard_on(name):
            self.endpoint.local.publish(subject, LinkMade(message_manager_subject(name), epoch))

    def _led_elsewhere(self, name: str, epoch: int) -> None:
        """It is not primary any more: whoever is one has a newer epoch."""
        self.reach(name)
        self.learn_epoch(name, epoch)

    def _heard_on(self, manager: str) -> tuple[str, str]:
        """What becomes of a link is heard on the subject of the client manager, and on that of its part for this manager."""
        return self.subject, f"{self.subject}.{manager}"

    # --- what comes, and time ----------------------------------------------------------------------------------------

    def _hear(self, data: bytes) -> None:
        frame = self.endpoint.read(data)
        if frame is not None:
            self._towards.act(self.links.receive(frame, self.endpoint.now_ms()))

    def _hear_node(self, heartbeat: object) -> None:
        """A primary is found by its heartbeats, also where nobody has told its claim."""
        for copy in heartbeat.copies if isinstance(heartbeat, Heartbeat) else ():
            led = self._managers.get(copy.manager)
            if copy.is_primary and led is not None and led.is_leading and copy.epoch > led.epoch:
                led.resign()  # deposed, and has not read it yet: what it says here is dropped, as what it says elsewhere
            if copy.is_primary and not self.leads(copy.manager):
                self.learn_epoch(copy.manager, copy.epoch)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._towards.act(self.links.tick(self.endpoint.now_ms()))
        for manager in self._managers.values():
            manager.tick()

    async def flush(self) -> None:
        """Return when the server has taken everything so far, subscriptions too."""
        await self.endpoint.connection.flush()

    async def close(self) -> None:
        self._timer.cancel()
        self._stop_listening()
        self._stop_hearing_nodes()
        for manager in self._managers.values():
            manager.resign()
        await self.endpoint.connection.close()
