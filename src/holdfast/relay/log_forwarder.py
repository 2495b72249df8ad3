"""The log forwarder: what the relay logs goes to the topic `_LOG` of its server, too.

    logging ─▶ handler ─▶ bounded buffer ─▶ 100 lines at a time, twice a second at most ─▶ server ─▶ `_LOG`
              any thread   oldest dropped

Logging never waits for it and never fails because of it. Lines that were dropped are counted, and the next that is sent says how
many. While the server cannot be reached the newest lines wait; nothing is logged about that here, or it would feed itself. A
server that does not take lines, because it is older or its rules do not allow it, is asked again now and then.

A relay whose journal is in its own process (`file:`) needs none: there the node itself hears what is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from itertools import islice

from holdfast.client.administration import LogLine
from holdfast.client.client import Client
from holdfast.errors import Closed, HoldfastError, Refused

LOGGER = "holdfast.relay"
BUFFER_MAX = 1_000
LINES_AT_ONCE = 100
PAUSE_S = 0.5
# A server that cannot be reached, and one that refuses, are tried again after this.
AGAIN_S = 2.0
REFUSED_S = 60.0
# How long the last lines may take.
LAST_S_MAX = 1.0
TEXT_LENGTH_MAX = 4_000


class LogForwarder(logging.Handler):
    def __init__(self, client: Client, program: str) -> None:
        super().__init__(logging.INFO)
        self.dropped = 0
        self._client = client
        self._program = program
        self._loop = asyncio.get_running_loop()
        self._lines: deque[LogLine] = deque()
        self._wanted = asyncio.Event()

    # --- in any thread -----------------------------------------------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        """Note a line. Never waits, never raises."""
        try:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + (record.exc_text or logging.Formatter().formatException(record.exc_info))
            self._lines.append(LogLine(_level(record), record.name, text[:TEXT_LENGTH_MAX], int(record.created * 1_000_000)))
            while len(self._lines) > BUFFER_MAX:
                self._lines.popleft()
                self.dropped += 1
            self._loop.call_soon_threadsafe(self._wanted.set)
        except Exception:  # a record that cannot be written down, or a loop that has ended: logging goes on
            self.dropped += 1

    # --- in the loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Listen, and send what comes, until cancelled."""
        logger = logging.getLogger(LOGGER)
        logger.addHandler(self)
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await asyncio.sleep(await self._send())
        finally:
            logger.removeHandler(self)

    async def _send(self) -> float:
        """Send the oldest lines. Return how long to wait before the next."""
        sent = list(islice(self._lines, LINES_AT_ONCE))
        dropped = self.dropped
        if dropped:
            told = f"{dropped:,} lines of the log were dropped: they came faster than they could be sent"
            sent.insert(0, LogLine("WARNING", LOGGER, told, sent[0].time_us if sent else 0))
        try:
            await self._client.log_lines(self._program, sent)
        except Closed:
            raise
        except Refused:
            self._lines.clear()
            return REFUSED_S
        except HoldfastError:
            self._wanted.set()
            return AGAIN_S
        self.dropped -= dropped
        known = set(map(id, sent))
        while self._lines and id(self._lines[0]) in known:  # some may have been dropped meanwhile
            self._lines.popleft()
        if self._lines:
            self._wanted.set()
        return PAUSE_S

    async def finish(self) -> None:
        """Send the last lines, if that does not take long."""
        with contextlib.suppress(TimeoutError, HoldfastError):
            async with asyncio.timeout(LAST_S_MAX):
                while self._lines:
                    await self._send()


def _level(record: logging.LogRecord) -> str:
    """The level that the server knows: that of the record, or the next below for one of a program's own."""
    known = (logging.CRITICAL, logging.ERROR, logging.WARNING)
    return logging.getLevelName(next((each for each in known if record.levelno >= each), logging.INFO))
