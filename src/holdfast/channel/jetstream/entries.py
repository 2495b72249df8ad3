"""Single entries by their number, and which of them were released.

Before a prefix is purged, a durable mark in the state stream says so. It tells a released entry from a lost one: an entry at or
above the mark that no server has any more is damage.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from holdfast.channel.channel import Buffer, Entry, all_recent
from holdfast.channel.jetstream.nats_errors import FOREIGN, missing, translate
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import NoSuchPosition

# Entries that were just read are delivered next: so many bytes of them are kept.
RECENT_BYTES_MAX = 16 << 20
FETCHES_AT_ONCE_MAX = 16
# How often any copy is asked for an entry that the leader does not have. Chance decides which server answers.
COPIES_ASKED = 6


class Entries:
    def __init__(self, connection: Client, names: Names, settings: JetStreamSettings) -> None:
        self._context = connection.jetstream(timeout=settings.timeout_s)
        self._names = names
        self._released_subject = f"{names.state_subject}.released"
        self._released = 1  # entries below were released, as far as known here
        self._recent: OrderedDict[int, bytes] = OrderedDict()  # oldest first
        self._recent_bytes = 0
        self._fetches = asyncio.Semaphore(FETCHES_AT_ONCE_MAX)

    def remember(self, run: Sequence[Entry]) -> None:
        for number, command in run:
            if number not in self._recent:
                self._recent[number] = bytes(command)
                self._recent_bytes += len(command)
        while self._recent_bytes > RECENT_BYTES_MAX:
            _, oldest = self._recent.popitem(last=False)  # a plain dict would look through all that were taken out before
            self._recent_bytes -= len(oldest)

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        return all_recent(map(self._recent.get, numbers), bytes_max)

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None) -> list[Buffer]:
        """Fetch in turns of FETCHES_AT_ONCE_MAX; with `bytes_max`, end after the turn that reaches it."""
        found: list[Buffer] = []
        while len(found) < len(numbers) and (bytes_max is None or sum(map(len, found)) < bytes_max):
            found += await self._fetch(numbers[len(found) : len(found) + FETCHES_AT_ONCE_MAX])
        return found

    async def _fetch(self, numbers: Sequence[int]) -> list[Buffer]:
        recent = [self._recent.get(number) for number in numbers]
        absent = [number for number, command in zip(numbers, recent, strict=True) if command is None]
        fetched = dict(zip(absent, await asyncio.gather(*(self._get_in_turn(number) for number in absent)), strict=True))
        return [fetched[number] if command is None else command for number, command in zip(numbers, recent, strict=True)]

    async def _get_in_turn(self, number: int) -> bytes:
        async with self._fetches:
            try:
                return await self.get(number)
            except FOREIGN as problem:
                raise translate(problem, f"fetching entry {number}") from problem

    async def get(self, number: int) -> bytes:
        """Get an entry from any copy, then the leader, then any copy again. NoSuchPosition if released, Damaged if lost."""
        for is_direct in (True, False, *[True] * COPIES_ASKED):
            try:
                found = await self._context.get_msg(self._names.stream, seq=number, direct=is_direct)
            except NotFoundError:
                continue
            return found.data or b""
        await self.check_held(number)
        raise missing(self._names.stream, number)

    async def check_held(self, number: int) -> None:
        """Raise NoSuchPosition when the entry was released."""
        if number >= self._released:
            await self.learn_released()
        if number < self._released:
            raise NoSuchPosition(
                f"entry {number} was released; the oldest held is {self._released}: start there, or from a snapshot",
                entry=number,
                first=self._released,
            )

    async def learn_released(self) -> int:
        try:
            mark = await self._context.get_last_msg(self._names.state_stream, self._released_subject)
        except NotFoundError:
            return self._released
        self._released = max(self._released, int(mark.data or b"1"))
        return self._released

    async def release(self, below: int) -> None:
        """Write the mark, then purge. After a failure, repeat it to finish."""
        if below < await self.learn_released():
            return
        await self._context.publish(self._released_subject, str(below).encode(), stream=self._names.state_stream)
        self._released = below
        await self._context.purge_stream(self._names.stream, seq=below)
        for number in [number for number in self._recent if number < below]:
            self._recent_bytes -= len(self._recent.pop(number))
