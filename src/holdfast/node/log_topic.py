"""The topic `_LOG`: what this server logs, as events, for whoever subscribes (B16, B19).

    logging ─▶ handler ─▶ bounded buffer ─▶ a batch at a time ─▶ channel ─▶ subscriptions of `_LOG`
              any thread    oldest dropped

Logging never waits for it and never fails because of it. It listens only while `_LOG` has a subscription, and appends one
batch at a time, with a pause between two: what is logged because of its own appending can never keep it busy. While `_LOG`
is at its high water, or the channel is short of room, records are dropped and counted; the next batch says how many.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable

from holdfast.channel.channel import Channel, Purpose
from holdfast.destination import command
from holdfast.destination.name import LOG
from holdfast.errors import HoldfastError
from holdfast.event import batch
from holdfast.event.event import TEXT, Head, PropertyValue, encode_head
from holdfast.event.identifier import Counter
from holdfast.node.identity import Identity

Properties = dict[str, PropertyValue]

TYPE = "holdfast.log"
ROOT = "holdfast"
# What a client in the same process logs is not this server's.
CLIENTS = "holdfast.client"
BUFFER_MAX = 1_000
RECORDS_AT_ONCE = 100
TEXT_LENGTH_MAX = 4_000
PAUSE_S = 0.05


class LogTopic(logging.Handler):
    def __init__(self, node: str, channel: Channel, identity: Identity, is_blocked: Callable[[], bool]) -> None:
        super().__init__(logging.INFO)
        self.dropped = 0
        self._node = node
        self._channel = channel
        self._identity = identity
        self._ids = Counter(identity.take_start())
        self._is_blocked = is_blocked
        self._loop = asyncio.get_running_loop()
        self._records: deque[tuple[bytes, bytes]] = deque()
        self._is_listening = False
        self._working: asyncio.Task[None] | None = None

    # --- in any thread -----------------------------------------------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record. Never waits, never raises."""
        if record.name == CLIENTS or record.name.startswith(CLIENTS + "."):
            return
        try:
            noted = self._noted(record)
            if len(self._records) >= BUFFER_MAX:
                self._records.popleft()
                self.dropped += 1
            self._records.append(noted)
            self._loop.call_soon_threadsafe(self._work_soon)
        except Exception:  # a record that cannot be written down, or a loop that has ended: logging goes on
            self.dropped += 1

    def _noted(self, record: logging.LogRecord) -> tuple[bytes, bytes]:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + (record.exc_text or logging.Formatter().formatException(record.exc_info))
        properties: Properties = {"level": record.levelname, "logger": record.name, "node": self._node}
        head = Head(type=TYPE, time_us=int(record.created * 1_000_000), datacontenttype=TEXT, properties=properties)
        return encode_head(head), text[:TEXT_LENGTH_MAX].encode(errors="replace")

    # --- in the loop -------------------------------------------------------------------------------------------------

    def listen(self, is_wanted: bool) -> None:
        """Begin or stop to listen: there is a subscription, or none."""
        if is_wanted == self._is_listening:
            return
        self._is_listening = is_wanted
        if is_wanted:
            logging.getLogger(ROOT).addHandler(self)
        else:
            logging.getLogger(ROOT).removeHandler(self)
            self._records.clear()

    def _work_soon(self) -> None:
        if self._is_listening and self._records and self._working is None:
            self._working = self._loop.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._records and self._is_listening:
                await self._append()
                await asyncio.sleep(PAUSE_S)
        finally:
            self._working = None

    async def _append(self) -> None:
        """One batch of what waits; what finds no room is dropped."""
        taken = [self._records.popleft() for _ in range(min(len(self._records), RECORDS_AT_ONCE))]
        if self._is_blocked() or self._channel.pressure.is_short:
            self.dropped += len(taken)
            return
        if self.dropped:
            taken.insert(0, self._gap())
        if self._ids.left < len(taken):
            self._ids = Counter(self._identity.take_start())
        try:
            first_id = self._ids.take(len(taken))
            made = batch.encode([head for head, _ in taken], [body for _, body in taken], source=self._node, first_id=first_id)
            sent = command.BatchCommand(LOG, "", 0, time.time_ns() // 1000)
            await self._channel.append(command.encode(sent, made), Purpose.EVENTS)
        except HoldfastError:
            self.dropped += len(taken)

    def _gap(self) -> tuple[bytes, bytes]:
        properties: Properties = {"level": "WARNING", "logger": __name__, "node": self._node, "dropped": self.dropped}
        text = f"{self.dropped} log records were dropped: they came faster than they could be kept"
        self.dropped = 0
        return encode_head(
            Head(type=TYPE, time_us=time.time_ns() // 1000, datacontenttype=TEXT, properties=properties)
        ), text.encode()

    async def stop(self) -> None:
        """What waits is appended, if that does not take long."""
        working = self._working
        logging.getLogger(ROOT).removeHandler(self)
        if working is not None:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        self._is_listening = False
        self._records.clear()
