"""The copies of a stream: which server has a damaged one.

    an entry is suspect ─▶ consumers are made at it, until one was on each server ─▶ each says what its copy has

A direct get does not say who answered. A consumer with one replica reads the copy of one server, and says which. The entry was
read from a sound copy before; this only finds the name, in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from nats.aio.client import Client

from holdfast.channel.jetstream.machines.copy_judge import Found, judge
from holdfast.channel.jetstream.nats_errors import FOREIGN
from holdfast.channel.jetstream.pull import Pull
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import HoldfastError

log = logging.getLogger(__name__)

# The servers choose where a consumer goes. With three of them, one in a thousand searches misses one with so many.
CONSUMERS_MAX = 20
LOOK_S = 3.0
LOOK_AGAIN_S = 1.0


class Copies:
    """`check_held` raises when an entry was released: then a copy without it is as it should be."""

    def __init__(
        self, connection: Client, names: Names, settings: JetStreamSettings, check_held: Callable[[int], Awaitable[None]]
    ) -> None:
        self._connection = connection
        self._names = names
        self._settings = settings
        self._check_held = check_held
        self._looking: asyncio.Task[None] | None = None
        self._look_at = 0.0
        self.damaged: dict[str, str] = {}  # by server: what is wrong with its copy

    def suspect(self, number: int) -> None:
        """Find out in the background which copies lack this entry, or have it wrong; one search at a time, and few."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._look_at and (self._looking is None or self._looking.done()):
            self._look_at = loop.time() + LOOK_AGAIN_S
            self._looking = loop.create_task(self._look(number))

    async def _look(self, number: int) -> None:
        try:
            await self._check_held(number)
            seen: set[str] = set()
            for _ in range(CONSUMERS_MAX):
                if len(seen) < self._settings.replicas:
                    seen.add(await self._look_at_one(number, seen))
        except (*FOREIGN, HoldfastError) as problem:
            log.warning(
                "channel %s: it is not known yet whose copy of entry %d is damaged: %s", self._names.channel, number, problem
            )

    async def _look_at_one(self, number: int, seen: set[str]) -> str:
        """Look at the copy of some server; return its name."""
        pull = Pull(self._connection, self._names)
        try:
            async with asyncio.timeout(LOOK_S):
                await pull.open(number)
                if pull.server not in seen:
                    self._judge(pull.server, number, await pull.next_run())
        finally:
            await pull.close()
        return pull.server

    def _judge(self, server: str, number: int, found: list[Found]) -> None:
        if judge(found, number).whole:
            return
        wrong = f"entry {number} has a wrong checksum" if found[0].number == number else f"entry {number} is missing"
        if server not in self.damaged:
            log.error(
                "channel %s: the copy of stream %s on server %s is damaged: %s; it is read from another copy: stop that server, "
                "remove its copy of the stream, and start it again",
                self._names.channel, self._names.stream, server or "(the only one)", wrong,
            )  # fmt: skip
        self.damaged[server] = wrong

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
