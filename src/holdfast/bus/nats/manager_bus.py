"""The bus of a message manager of a process of a cluster. It speaks while it leads: from its own claim on, until it is deposed.

lead(epoch) ──▶ listens on hf.CLUSTER.mm.NAME; client managers begin links with it
publish(client_manager.START) ──▶ of this process: in process      otherwise: link ──▶ hf.CLUSTER.cm.START
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.bus.bus import OnMessage, client_manager_subject, message_manager_subject
from holdfast.bus.link.effect import Effect
from holdfast.bus.link.manager_side import ManagerSide
from holdfast.bus.link.outgoing import Piece
from holdfast.bus.nats.endpoint import Endpoint
from holdfast.bus.nats.linked_peers import LinkedPeers
from holdfast.bus.nats.subjects import route_of

OnEpoch = Callable[[str, int], None]


class ManagerBus:
    def __init__(self, endpoint: Endpoint, name: str, led_here: OnEpoch, led_elsewhere: OnEpoch) -> None:
        """The functions tell the client manager's side when this one begins and ceases to lead, in which epoch."""
        self.links: ManagerSide | None = None
        self.unsaid = 0  # messages that were published while it did not lead
        self._older_refused = 0  # frames of older epochs, in the epochs that it led before
        self._endpoint = endpoint
        self._name = name
        self.epoch = 0  # that it leads, or led last
        self._led_here = led_here
        self._led_elsewhere = led_elsewhere
        self._towards = LinkedPeers(endpoint, self._send, client_manager_subject, lambda _: (message_manager_subject(name),))
        self._stop_listening: Callable[[], None] = lambda: None

    @property
    def is_leading(self) -> bool:
        return self.links is not None

    @property
    def older_refused(self) -> int:
        """Frames of client managers that took a deposed primary for the primary, ever."""
        return self._older_refused + (self.links.older_refused if self.links is not None else 0)

    @property
    def unacknowledged_bytes(self) -> int:
        return self.links.unacknowledged_bytes if self.links is not None else 0

    @property
    def is_quiet(self) -> bool:
        return self._endpoint.local.is_quiet and self._towards.is_quiet

    @property
    def is_sent(self) -> bool:
        return self._towards.is_quiet

    def lead(self, epoch: int) -> None:
        """Its claim of this epoch is applied: it is the primary. No epoch is led twice: the numbers of its links begin anew."""
        assert epoch > self.epoch, f"epoch {epoch} of {self._name} was led before"
        self.resign()
        self.epoch = epoch
        self.links = ManagerSide(self._name, epoch)
        self._stop_listening = self._endpoint.connection.subscribe(self._endpoint.subjects.of_manager(self._name), self._hear)
        self._led_here(self._name, epoch)

    def resign(self) -> None:
        """It is not the primary any more."""
        if self.links is None:
            return
        self._stop_listening()
        self._older_refused += self.links.older_refused
        self.links = None
        self._led_elsewhere(self._name, self.epoch)

    def forget(self, client_manager: str, why: str) -> None:
        """Give up the link with a client manager whose receivers were revoked."""
        if self.links is not None:
            start = route_of(client_manager).name
            self._towards.act(self.links.forget(start, why, self._endpoint.now_ms()))

    def publish(self, subject: str, message: Any) -> None:
        if not self._publish_outside(subject, message):
            self._endpoint.local.publish(subject, message)

    def hand_over(self, subject: str, message: Any) -> None:
        if not self._publish_outside(subject, message):
            self._endpoint.local.hand_over(subject, message)

    def _publish_outside(self, subject: str, message: Any) -> bool:
        route = route_of(subject)
        if route.kind == "local":
            return False
        if self.links is None:
            self.unsaid += 1
        elif route.kind == "all":
            self._endpoint.publish_to_all(subject, message)
        elif route.kind == "client" and route.name != self._endpoint.start:
            self._towards.post(route.name, self._endpoint.codec.encode(subject, message))
        else:
            return False
        return True

    def listen(self, subject: str, on_message: OnMessage) -> Callable[[], None]:
        return self._endpoint.listen(subject, on_message)

    def tick(self) -> None:
        if self.links is not None:
            self._towards.act(self.links.tick(self._endpoint.now_ms()))

    def _send(self, start: str, pieces: Sequence[Piece], now_ms: int) -> list[Effect]:
        return self.links.send(start, pieces, now_ms) if self.links is not None else []

    def _hear(self, data: bytes) -> None:
        frame = self._endpoint.read(data)
        if frame is not None and self.links is not None:
            self._towards.act(self.links.receive(frame, self._endpoint.now_ms()))
