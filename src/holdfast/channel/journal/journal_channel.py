"""The journal as a channel: one `Journal` in an event loop.

    append, submit ─▶ group_commit ─▶ Journal ◀─ read, fetch, load_snapshot

Commands and notes become durable in groups, and spare segments are made ahead of need (`group_commit`). Readers that keep up are
served from memory (`tail_cache`); readers that lag, from disk, in a thread of their own.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from holdfast.channel.channel import AtOnce, Buffer, Entry, OnOutcome, Pressure, Purpose, Receipt, Snapshot, Stretch, all_recent
from holdfast.channel.journal.files.disk import Disk
from holdfast.channel.journal.group_commit import GroupCommit, tell_future
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.settings import JournalSettings
from holdfast.channel.journal.tail_cache import Follower, TailCache
from holdfast.errors import Closed, HoldfastError, TooLarge
from holdfast.event.incarnation import NEVER_RESTORED, Restored

# Entries handed to a reader at a time.
RUN_COUNT_MAX = 1024

Result = TypeVar("Result")


class JournalChannel:
    """A `Channel` on one machine's disk. Use `await JournalChannel.open(folder, settings)`."""

    def __init__(
        self,
        journal: Journal,
        settings: JournalSettings,
        restored: Restored = NEVER_RESTORED,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.id = restored.incarnation(journal.id.hex())
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._tail = TailCache(journal.durable + 1, settings.tail_cache_bytes)
        self._group_commit = GroupCommit(journal, self._tail, clock)
        self._snapshot_lock = asyncio.Lock()
        self._reader_thread = ThreadPoolExecutor(1, "journal-reader")
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        folder: Path | str,
        settings: JournalSettings | None = None,
        *,
        disk: Disk | None = None,
        restored: Restored = NEVER_RESTORED,
    ) -> JournalChannel:
        """Open or create the journal in this folder; see `Journal.open` for its errors.

        A journal that was restored is another channel: its numbers were given to other entries before.
        """
        settings = settings or JournalSettings()
        journal = await asyncio.to_thread(Journal.open, folder, settings, disk=disk)
        return cls(journal, settings, restored)

    # --- state ---------------------------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        return self._journal.first

    @property
    def durable(self) -> int:
        return self._tail.next_entry - 1

    @property
    def bytes_appended(self) -> int:
        return self._journal.bytes_appended

    def oldest_stretch(self) -> Stretch | None:
        return self._journal.oldest_stretch()

    @property
    def pressure(self) -> Pressure:
        return self._journal.pressure

    def watch_pressure(self, changed: Callable[[Pressure], None]) -> None:
        """Call `changed` from the loop whenever `is_short` changes."""
        self._group_commit.growth.watch(changed)

    def watch_syncs(self, synced: Callable[[float], None]) -> None:
        """Call `synced` with the seconds of each write and sync: from the loop or the writer's thread, one at a time."""
        self._group_commit.on_sync = synced

    # --- appending -----------------------------------------------------------------------------------------------------

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        """Queue the command now, answer when it is durable. The caller must not change its bytes until then."""
        answer: asyncio.Future[Receipt] = self._loop.create_future()
        refusal = self._take(command, purpose, partial(tell_future, answer))
        if refusal is not None:
            answer.set_exception(refusal)
        return answer

    def submit(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> None:
        refusal = self._take(command, purpose, on_outcome)
        if refusal is not None:
            self._loop.call_soon(on_outcome, refusal)

    def _take(self, command: Buffer, purpose: Purpose, on_outcome: OnOutcome) -> HoldfastError | None:
        if self._is_closed:
            return self._closed()
        try:
            draft = self._journal.draft(command, purpose.reserve)
        except TooLarge as refusal:
            return refusal
        self._group_commit.enqueue(draft, on_outcome, is_fragment=purpose is Purpose.FRAGMENTS)
        return None

    # --- reading -------------------------------------------------------------------------------------------------------

    async def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        """Yield every entry from `start` on, then wait for more. Closed when the channel is closed meanwhile."""
        self._check_open()
        self._journal.check_readable(start)
        follower = Follower(start, at_once)
        while True:
            while follower.next > self.durable:
                await self._wait_for_more(follower)
            run = self._tail.run(follower.next, RUN_COUNT_MAX)
            run = run or await self._from_disk(self._journal.read_run, follower.next, self.durable)
            follower.next = run[-1].number + 1
            yield run

    async def _wait_for_more(self, follower: Follower) -> None:
        self._check_open()
        self._tail.followers.append(follower)
        try:
            await follower.wait(self._loop)
        finally:
            self._tail.followers.remove(follower)
        self._check_open()

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """Return the commands. Those not in memory are read from disk, in one go up to the first that is in memory."""
        self._check_open()
        found: list[Buffer] = []
        total = 0
        while len(found) < len(numbers) and (bytes_max is None or total < bytes_max):
            recent = self._recent(numbers[len(found)])
            if recent is not None:
                found.append(recent)
                total += len(recent)
                continue
            older = list(itertools.takewhile(lambda number: self._recent(number) is None, numbers[len(found) :]))
            read = await self._from_disk(self._journal.fetch, older, None if bytes_max is None else bytes_max - total, front)
            found += read
            total += sum(map(len, read))
        return found

    def recent(self, numbers: Sequence[int], bytes_max: int) -> list[Buffer] | None:
        return None if self._is_closed else all_recent(map(self._recent, numbers), bytes_max)

    def _recent(self, number: int) -> bytes | None:
        return self._tail.get(number) if number >= self.first else None

    async def _from_disk(self, call: Callable[..., Result], *arguments: object) -> Result:
        self._check_open()
        return await self._loop.run_in_executor(self._reader_thread, call, *arguments)

    # --- snapshots and release -----------------------------------------------------------------------------------------

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        """Save a snapshot. Commands that are appended meanwhile go between its parts."""
        async with self._snapshot_lock:
            self._check_open()
            try:
                for group in self._journal.snapshot_groups(at, chunks):
                    await self._group_commit.commit(group)
                await self._group_commit.commit([self._journal.snapshot_end(at)])
            finally:
                self._journal.forget_snapshot()

    async def load_snapshot(self) -> Snapshot | None:
        return await self._from_disk(self._journal.load_snapshot)

    async def release(self, below: int) -> None:
        self._check_open()
        draft = self._journal.release_draft(below)
        if draft:
            await self._group_commit.commit([draft])

    # --- the end -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Answer the group that is being written with its outcome, and waiting commands with Closed."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._group_commit.close(self._closed)
        await asyncio.to_thread(self._reader_thread.shutdown)
        self._journal.close()

    async def __aenter__(self) -> JournalChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> Closed:
        return Closed(f"the journal in {self._journal.folder} was closed by this program; open it again")
