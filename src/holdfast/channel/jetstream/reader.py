"""The reader: entries from any number on, in order, without a gap.

    pull         a consumer hands out entries, old ones and new ones
    directly     any copy is asked for the next entries: until there is a consumer, and while there is none

A consumer needs servers that agree, so that after the death of one it may take seconds until there is one again. It is made in
the background; meanwhile entries are read with direct gets, which one living copy is enough for. When anything is wrong with a
consumer, it is thrown away. So only time can be lost between server and reader.

What a copy leaves out, or has with a wrong checksum, is read from another (`entries`). If nobody has it and it was not released,
it is damage, and is reported: a flipped bit in a file can make a server leave out messages in silence.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable

from nats.aio.client import Client

from holdfast.channel.jetstream.direct_get import DirectGet
from holdfast.channel.jetstream.entries import Entries
from holdfast.channel.jetstream.machines.copy_judge import Found, judge
from holdfast.channel.jetstream.nats_errors import FOREIGN, translate
from holdfast.channel.jetstream.pull import Pull
from holdfast.channel.jetstream.settings import Names
from holdfast.errors import HoldfastError, OutcomeUnknown, Unavailable

log = logging.getLogger(__name__)

# A consumer that is not made within this time is tried again.
OPEN_S = 3.0
OPEN_AGAIN_S = 0.5
# How often copies are asked for news while there is no consumer.
ASK_AGAIN_S = 0.1
# Entries that are read from another copy at a time, where one has a hole.
RECOVERED_MAX = 256
PAUSE_MIN_S = 0.02
PAUSE_MAX_S = 0.2


class Reader:
    """Yields every entry from a number on, whatever happens to consumers on the way."""

    def __init__(
        self, connection: Client, names: Names, entries: Entries, direct: DirectGet, check_open: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._names = names
        self._entries = entries
        self._direct = direct
        self._check_open = check_open
        self._pull: Pull | None = None
        self._opening: asyncio.Task[Pull] | None = None
        self._open_at = 0.0
        self._rest: list[Found] = []  # arrived, and not handed out
        self._pause_s = PAUSE_MIN_S

    def renew(self) -> None:
        """Ask again: the request may have been lost with a connection."""
        if self._pull is not None:
            self._pull.stop()

    async def runs(self, start: int) -> AsyncGenerator[list[Found], None]:
        number = start
        self._entries.check_known_held(number)
        try:
            while True:
                run = await self._next_run(number)
                if run:
                    number += len(run)
                    yield run
        finally:
            await self._drop_opening()
            await self._drop_pull()

    async def _next_run(self, number: int) -> list[Found]:
        """Return entries from `number` on without a gap; none after a failure that may pass."""
        self._check_open()
        try:
            found = await self._arrived(number)
            whole, fault_at = judge(found, number)
            if fault_at and not whole:
                hole = found[0].number - number
                whole = await self._entries.recover(number, min(max(hole, 1), RECOVERED_MAX), is_suspect=True)
                whole = whole[: max(hole, 1)]
            end = number + len(whole)
            self._rest = [each for each in found if each.number >= end]
        except FOREIGN as problem:
            await self._recover(translate(problem, f"reading from entry {number}"))
            return []
        except HoldfastError as problem:
            await self._recover(problem)
            return []
        self._pause_s = PAUSE_MIN_S
        return whole

    async def _arrived(self, number: int) -> list[Found]:
        """Return entries from `number` on as they came; none when nothing came."""
        if self._rest:
            return self._rest
        await self._see_to_pull(number)
        if self._pull is not None:
            found = await self._pull.next_run()
        else:
            found = await self._directly(number)
        return [each for each in found if each.number >= number]

    # --- with a consumer -----------------------------------------------------------------------------------------------

    async def _see_to_pull(self, number: int) -> None:
        """Begin to make a consumer where there is none, and take the one that is made."""
        loop = asyncio.get_running_loop()
        if self._pull is None and self._opening is None and loop.time() >= self._open_at:
            self._opening = loop.create_task(self._open_pull(number))
        if self._opening is not None and self._opening.done():
            opening, self._opening = self._opening, None
            self._open_at = loop.time() + OPEN_AGAIN_S
            self._pull = opening.result()

    async def _open_pull(self, number: int) -> Pull:
        pull = Pull(self._connection, self._names)
        try:
            async with asyncio.timeout(OPEN_S):
                await pull.open(number)
        except BaseException:
            await pull.close()
            raise
        return pull

    async def _drop_opening(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            made = (await asyncio.gather(opening, return_exceptions=True))[0]
            if isinstance(made, Pull):
                await made.close()

    async def _drop_pull(self) -> None:
        pull, self._pull = self._pull, None
        if pull is not None:
            await pull.close()

    # --- without -------------------------------------------------------------------------------------------------------

    async def _directly(self, number: int) -> list[Found]:
        found = await self._direct.get(number)
        if not found:
            await self._wait_for_pull(ASK_AGAIN_S)
        return found

    async def _wait_for_pull(self, seconds: float) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening], timeout=seconds)
        else:
            await asyncio.sleep(seconds)

    async def _recover(self, problem: HoldfastError) -> None:
        """Wait if the problem may pass; otherwise raise it."""
        self._rest = []
        await self._drop_pull()
        self._check_open()
        if not isinstance(problem, Unavailable | OutcomeUnknown):
            raise problem
        log.log(
            logging.WARNING if self._pause_s == PAUSE_MIN_S else logging.DEBUG, "channel %s: %s", self._names.channel, problem
        )
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
