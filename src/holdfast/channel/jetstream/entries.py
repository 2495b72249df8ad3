"""Single entries by their number, and which of them were released.

Before a prefix is purged, a durable mark in the state stream says so. It tells a released entry from a lost one: an entry at or
above the mark that no server has any more is damage.

What one copy lacks, or has with a wrong checksum, is read from another, and the copies are suspected (`copies`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from holdfast.channel.channel import Buffer, Entry, all_recent
from holdfast.channel.jetstream.direct_get import RUN_BYTES_MAX, DirectGet, found_in
from holdfast.channel.jetstream.machines.copy_judge import Found, Span, judge, spans
from holdfast.channel.jetstream.nats_errors import FOREIGN, missing, translate
from holdfast.channel.jetstream.settings import JetStreamSettings, Names
from holdfast.errors import HoldfastError, NoSuchPosition, Unavailable

# Entries that were just read are delivered next: so many bytes of them are kept.
RECENT_BYTES_MAX = 16 << 20
# Entries that are fetched at a time, in requests of neighbours. A few between them that nobody wants cost less than a request.
FETCHED_AT_ONCE = 256
REQUESTS_AT_ONCE = 16
HOLE_MAX = 3
# How often any copy is asked for an entry that one does not have. Chance decides which server answers.
COPIES_ASKED = 12


class Entries:
    """`suspect` is called with an entry that one copy lacks, or has wrong, while another is sound."""

    def __init__(
        self, connection: Client, names: Names, settings: JetStreamSettings, direct: DirectGet, suspect: Callable[[int], None]
    ) -> None:
        self._context = connection.jetstream(timeout=settings.timeout_s)
        self._names = names
        self._direct = direct
        self._suspect = suspect
        self._released_subject = f"{names.state_subject}.released"
        self._released = 1  # entries below were released, as far as known here
        self._recent: OrderedDict[int, bytes] = OrderedDict()  # oldest first
        self._recent_bytes = 0
        self._requests = asyncio.Semaphore(REQUESTS_AT_ONCE)

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

    # --- fetching ------------------------------------------------------------------------------------------------------

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None) -> list[Buffer]:
        """Return the commands with these numbers, in their order; with `bytes_max`, end once that is reached."""
        found: list[Buffer] = []
        total = 0
        while len(found) < len(numbers) and (bytes_max is None or total < bytes_max):
            wanted = numbers[len(found) : len(found) + FETCHED_AT_ONCE]
            held = await self._fetch(wanted, RUN_BYTES_MAX if bytes_max is None else bytes_max - total)
            for number in wanted:
                command = held.get(number)
                if command is None or (bytes_max is not None and total >= bytes_max):
                    break
                found.append(command)
                total += len(command)
        return found

    async def _fetch(self, wanted: Sequence[int], bytes_max: int) -> dict[int, bytes]:
        """Return some of these entries, by number; always the first."""
        held = {number: self._recent[number] for number in wanted if number in self._recent}
        requests = spans([number for number in wanted if number not in held], FETCHED_AT_ONCE, HOLE_MAX)
        try:
            for answer in await asyncio.gather(*(self._get(span, bytes_max) for span in requests[:REQUESTS_AT_ONCE])):
                held.update((each.number, each.command) for each in answer)
            if wanted[0] not in held:
                held.update((each.number, each.command) for each in await self.recover(wanted[0], 1))
        except FOREIGN as problem:
            raise translate(problem, f"fetching entry {wanted[0]}") from problem
        return held

    async def _get(self, span: Span, bytes_max: int) -> list[Found]:
        async with self._requests:
            try:
                judged = judge(await self._direct.get(span.first, span.length, min(bytes_max, RUN_BYTES_MAX)), span.first)
            except Unavailable:
                return []  # what is still missing is asked for by itself
        if judged.fault_at:
            self._suspect(judged.fault_at)
        return judged.whole

    async def recover(self, number: int, count: int, *, is_suspect: bool = False) -> list[Found]:
        """Get sound entries from `number` on, at least one, after a copy did not have it: from any copy, then the leader.

        NoSuchPosition if it was released, Damaged if no copy has it, Unavailable if some could not be asked.
        """
        unasked: HoldfastError | None = None
        for attempt in range(COPIES_ASKED):
            try:
                found = await self._direct.get(number, count) if attempt != 1 else await self._ask_leader(number)
            except (*FOREIGN, Unavailable) as problem:
                unasked = problem if isinstance(problem, HoldfastError) else translate(problem, f"reading entry {number}")
                continue
            judged = judge(found, number)
            is_suspect = is_suspect or bool(judged.fault_at)
            if judged.whole:
                if is_suspect:
                    self._suspect(number)
                return judged.whole
            if attempt == 1:
                await self.check_held(number)
        await self.check_held(number)
        raise unasked or missing(self._names.stream, number)

    async def _ask_leader(self, number: int) -> list[Found]:
        try:
            found = await self._context.get_msg(self._names.stream, seq=number)
        except NotFoundError:
            return []
        return [found_in(number, found.data or b"", found.headers or {})]

    # --- released or not -----------------------------------------------------------------------------------------------

    async def check_held(self, number: int) -> None:
        """Raise NoSuchPosition when the entry was released."""
        if number >= self._released:
            try:
                await self.learn_released()
            except FOREIGN as problem:
                raise translate(problem, f"reading entry {number}") from problem
        self.check_known_held(number)

    def check_known_held(self, number: int) -> None:
        """Raise NoSuchPosition when the entry is known to be released, without a question."""
        if number < self._released:
            raise NoSuchPosition(
                f"entry {number} was released; the oldest held is {self._released}: start over, from the newest snapshot",
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
