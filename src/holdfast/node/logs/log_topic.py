"""The topic `_LOG`: the log of this server as events, for its subscribers (B16, B19).

    logging ─▶ handler ─▶ bounded buffer ─▶ a batch at a time ─▶ channel ─▶ subscriptions of `_LOG`
              any thread    oldest dropped

Logging never waits for it and never fails because of it. It listens only while `_LOG` has a subscription. It appends one batch at
a time, with a pause between two, so that lines logged because of its own appending never keep it busy. While `_LOG` is at its
high water, or the channel is short of space, records are dropped and counted; the next batch says how many. Records about the
shortage itself are kept: the reserve is there for them, too.

Programs that run beside a server, as a relay, have their lines taken here too (`client.log_lines`): while there is room.

Until it is known whether there is a subscription, records are kept: subscribers also get those of the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.channel.channel import Channel, Purpose
from holdfast.destination import command
from holdfast.destination.name import LOG
from holdfast.event import batch
from holdfast.event.event import TEXT, Head, PropertyValue, encode_head
from holdfast.event.identifier import Counter
from holdfast.node import supervision
from holdfast.node.identity import Identity
from holdfast.node.logs.log_line import LogLine
from holdfast.node.logs.operator_log import SPACE

Properties = dict[str, PropertyValue]


class Noted(NamedTuple):
    head: bytes
    text: bytes
    is_of_space: bool  # it tells of the journal's space


TYPE = "holdfast.log"
ROOT = "holdfast"
# A client in the same process has a log of its own.
CLIENTS = "holdfast.client"
BUFFER_MAX = 1_000
# Lines of other programs are taken up to here.
PROGRAMS_MAX = BUFFER_MAX // 2
LOGGER_LENGTH_MAX = 255
RECORDS_AT_ONCE = 100
TEXT_LENGTH_MAX = 4_000
PAUSE_S = 0.05
UNANSWERED_PAUSE_S = 1.0
# How long the last records may take when the server stops.
LAST_S_MAX = 1.0


class LogTopic(logging.Handler):
    def __init__(
        self,
        node: str,
        channel: Channel,
        identity: Identity,
        is_blocked: Callable[[], bool],
        can_append: Callable[[], bool] = lambda: True,
    ) -> None:
        """While it cannot append, records gather; the oldest are dropped past a limit."""
        super().__init__(logging.INFO)
        self.dropped_ever = 0
        self._dropped = 0  # since the last batch
        self._can_append = can_append
        self._node = node
        self._channel = channel
        self._identity = identity
        self._ids = Counter(identity.take_start())
        self._is_blocked = is_blocked
        self._loop = asyncio.get_running_loop()
        self._records: deque[Noted] = deque()
        self._is_listening = False
        self._is_decided = True  # whether to listen
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
                self._drop(1)
            self._records.append(noted)
            self._loop.call_soon_threadsafe(self._work_soon)
        except Exception:  # a record that cannot be written down, or a loop that has ended: logging goes on
            self._drop(1)

    def _drop(self, records: int) -> None:
        self._dropped += records
        self.dropped_ever += records

    def _noted(self, record: logging.LogRecord) -> Noted:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + (record.exc_text or logging.Formatter().formatException(record.exc_info))
        properties: Properties = {"level": record.levelname, "logger": record.name, "node": self._node}
        head = Head(type=TYPE, time_us=int(record.created * 1_000_000), datacontenttype=TEXT, properties=properties)
        return Noted(encode_head(head), text[:TEXT_LENGTH_MAX].encode(errors="replace"), record.name == SPACE)

    def take(self, program: str, lines: Sequence[LogLine]) -> bool:
        """Take lines of a program's log. Return whether somebody subscribes. Where there are too many, theirs are dropped: they
        push out nothing that the server itself logs."""
        if not self._is_listening:
            return False
        for line in lines:
            if len(self._records) >= PROGRAMS_MAX:
                self._drop(1)
                continue
            known: Properties = {"level": line.level, "logger": line.logger[:LOGGER_LENGTH_MAX], "node": self._node}
            head = Head(type=TYPE, time_us=line.time_us, datacontenttype=TEXT, properties={**known, "program": program})
            self._records.append(Noted(encode_head(head), line.text[:TEXT_LENGTH_MAX].encode(errors="replace"), False))
        self._work_soon()
        return True

    # --- in the loop -------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Keep records until `listen` says whether they are wanted."""
        self._is_decided = False
        logging.getLogger(ROOT).addHandler(self)

    def listen(self, is_wanted: bool) -> None:
        """Begin or stop to listen: there is a subscription, or none."""
        if is_wanted == self._is_listening and self._is_decided:
            return
        self._is_listening, self._is_decided = is_wanted, True
        if is_wanted:
            logging.getLogger(ROOT).addHandler(self)
            self._work_soon()
        else:
            logging.getLogger(ROOT).removeHandler(self)
            self._records.clear()

    def _work_soon(self) -> None:
        if self._is_listening and self._records and self._working is None:
            self._working = supervision.start(self._work(), f"writing to {LOG}")

    async def _work(self) -> None:
        try:
            while self._records and self._is_listening:
                if self._can_append():
                    await self._append()
                    await asyncio.sleep(PAUSE_S)
                else:
                    await asyncio.sleep(UNANSWERED_PAUSE_S)
        finally:
            self._working = None

    async def _append(self) -> None:
        """Append one batch of the records that wait; drop those that find no room."""
        waiting = [self._records.popleft() for _ in range(min(len(self._records), RECORDS_AT_ONCE))]
        is_short = self._channel.pressure.is_short
        taken = [] if self._is_blocked() else [noted for noted in waiting if noted.is_of_space or not is_short]
        self._drop(len(waiting) - len(taken))
        if not taken:
            return
        if self._dropped:
            taken.insert(0, self._gap())
        if self._ids.left < len(taken):
            self._ids = Counter(self._identity.take_start())
        try:
            first_id = self._ids.take(len(taken))
            made = batch.encode(
                [noted.head for noted in taken], [noted.text for noted in taken], source=self._node, first_id=first_id
            )
            sent = command.BatchCommand(LOG, "", 0, time.time_ns() // 1000)
            await self._channel.append(command.encode(sent, made), Purpose.EVENTS)
        except Exception:  # to log it would make one more record to append
            self._drop(len(taken))

    def _gap(self) -> Noted:
        properties: Properties = {"level": "WARNING", "logger": __name__, "node": self._node, "dropped": self._dropped}
        text = f"{self._dropped} log records were dropped: they came faster than they could be kept"
        self._dropped = 0
        head = Head(type=TYPE, time_us=time.time_ns() // 1000, datacontenttype=TEXT, properties=properties)
        return Noted(encode_head(head), text.encode(), False)

    async def stop(self) -> None:
        """Append the records that wait, if that does not take long, and stop."""
        working = self._working
        logging.getLogger(ROOT).removeHandler(self)
        if working is not None:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S_MAX):
                while self._records and self._is_listening and self._can_append():
                    await self._append()
        self._is_listening = False
        self._records.clear()
