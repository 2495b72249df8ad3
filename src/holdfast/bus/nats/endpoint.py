"""The endpoint of a process on the bus of a cluster: its connection, its listeners in process, and what goes to all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from holdfast.bus.bus import InProcessBus, OnMessage
from holdfast.bus.link import frame as frames
from holdfast.bus.link.frame import Frame
from holdfast.bus.message_codec import MessageCodec
from holdfast.bus.nats.connection import Connection
from holdfast.bus.nats.subjects import Subjects, route_of

log = logging.getLogger("holdfast.bus")


class Endpoint:
    def __init__(self, connection: Connection, cluster: str, start: str, codec: MessageCodec) -> None:
        """`start` names this start of the process, and of its client manager."""
        self.connection = connection
        self.subjects = Subjects(cluster)
        self.start = start
        self.codec = codec
        self.local = InProcessBus()
        self.bad_frames = 0
        self._loop = asyncio.get_running_loop()
        self._to_all: dict[str, tuple[int, Callable[[], None]]] = {}

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def publish_to_all(self, subject: str, message: Any) -> None:
        """Publish to everyone who listens, in this process too, by way of the server."""
        run = self.codec.run([self.codec.encode(subject, message)])
        self.connection.publish(self.subjects.of_all(subject), run)

    def send(self, frame: Frame) -> None:
        of = self.subjects
        subject = of.of_client(frame.start) if frame.to_client else of.of_manager(frame.manager)
        self.connection.publish(subject, frames.encode(frame))

    def read(self, data: bytes) -> Frame | None:
        """A frame that came; None, counted and logged, for what is none."""
        try:
            return frames.decode(data)
        except frames.BadFrame as problem:
            self.bad_frames += 1
            log.warning("passed over: %s", problem)
            return None

    def hear(self, run: bytes) -> None:
        """Hand the messages of a run to their listeners."""
        for subject, message in self.codec.decode(run):
            self.local.hand_over(subject, message)

    def listen(self, subject: str, on_message: OnMessage) -> Callable[[], None]:
        stop = self.local.listen(subject, on_message)
        if route_of(subject).kind != "all":
            return stop
        self._subscribe(subject)

        def stop_both() -> None:
            stop()
            self._unsubscribe(subject)

        return stop_both

    def _subscribe(self, subject: str) -> None:
        """One subscription for all listeners of a subject, so that each message is decoded once."""
        listeners, end = self._to_all.get(subject, (0, None))
        if end is None:
            end = self.connection.subscribe(self.subjects.of_all(subject), self.hear)
        self._to_all[subject] = listeners + 1, end

    def _unsubscribe(self, subject: str) -> None:
        listeners, end = self._to_all.pop(subject)
        if listeners > 1:
            self._to_all[subject] = listeners - 1, end
        else:
            end()
