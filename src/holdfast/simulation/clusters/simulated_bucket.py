"""The simulated bucket: keys and values that all nodes share, kept by the servers (`bus.bucket`).

get, put ──▶ servers ──▶ answer          none comes without a majority: Unavailable, or OutcomeUnknown after a put
watch    ◀── every change, in order      late where the way is cut
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from holdfast.bus.bucket import Entry, OnEntry, Stop
from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.simulation.clusters.channel_servers import ChannelServers
from holdfast.simulation.clusters.network import SERVERS, Network
from holdfast.simulation.clusters.process import Process

ANSWER_S = 5.0

Result = TypeVar("Result")


class BucketServers:
    """What the servers keep. They have a majority while those of this channel have one."""

    def __init__(self, beside: ChannelServers) -> None:
        self.entries: dict[str, Entry] = {}
        self.watchers: list[OnEntry] = []
        self._beside = beside
        self._revision = 0

    @property
    def can_answer(self) -> bool:
        return self._beside.has_majority and not self._beside.is_paused

    def put(self, key: str, value: bytes, after: int) -> int | None:
        known = self.entries.get(key)
        if (known.revision if known is not None else 0) != after:
            return None
        self._revision += 1
        entry = self.entries[key] = Entry(key, value, self._revision)
        for told in self.watchers:
            told(entry)
        return entry.revision


class SimulatedBucket:
    """The bucket as one node has it."""

    def __init__(self, servers: BucketServers, network: Network, process: Process) -> None:
        self._servers = servers
        self._network = network
        self._process = process

    async def get(self, key: str) -> Entry | None:
        return await self._ask(partial(self._servers.entries.get, key))

    async def put(self, key: str, value: bytes, after: int = 0) -> int | None:
        try:
            return await self._ask(partial(self._servers.put, key, value, after))
        except Unavailable as problem:
            raise OutcomeUnknown("the servers of the bucket did not answer; it may be set, read it again") from problem

    async def watch(self, on_entry: OnEntry) -> Stop:
        entries = await self._ask(lambda: list(self._servers.entries.values()))

        def tell(entry: Entry) -> None:
            if not self._process.is_dead:
                self._network.stream(SERVERS, self._process.name, self._process, partial(on_entry, entry), "bucket")

        self._servers.watchers.append(tell)
        newest = {entry.key: entry for entry in (*entries, *self._servers.entries.values())}
        for entry in sorted(newest.values(), key=lambda each: each.revision):
            on_entry(entry)
        return lambda: self._servers.watchers.remove(tell)

    async def _ask(self, look: Callable[[], Result]) -> Result:
        answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def hear(result: Result) -> None:
            if not answered.done():
                answered.set_result(result)

        def at_servers() -> None:
            if self._servers.can_answer:
                self._network.stream(SERVERS, self._process.name, self._process, partial(hear, look()), "bucket")

        self._network.stream(self._process.name, SERVERS, None, at_servers, "bucket")
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answered
        except TimeoutError as problem:
            raise Unavailable("the servers of the bucket do not answer; repeat later") from problem
