"""The journal as a channel: one `Journal` in an event loop, with group commit.

    append, append, append ─▶ waiting ─▶ one group ─▶ write, sync ─▶ all receipts
                                 ▲                        │
                                 └── gathers meanwhile ◀──┘

No timer: a group is what waits when the one before is done; a lone command goes at once. A small group is committed in the
loop itself as long as syncs are short, because going through a thread costs as much as a sync; otherwise in one thread of its
own. Readers that keep up are served from memory; those that lag, from disk, in another thread. Spare segments are made in a
third, ahead of need.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from holdfast.channel.channel import AtOnce, Buffer, Entry, Pressure, Purpose, Receipt, Snapshot, Stretch, Told, whole
from holdfast.channel.journal.disk import Disk
from holdfast.channel.journal.follower import Follower
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.record import COMMAND, padded
from holdfast.channel.journal.settings import JournalSettings
from holdfast.channel.journal.tail import TailCache
from holdfast.channel.journal.writer import Draft, Outcome
from holdfast.errors import Closed, HoldfastError, OutcomeUnknown, TooLarge

# A group is closed at this size, so that those behind it do not wait for more than one long write.
GROUP_BYTES_MAX = 1 << 20
GROUP_COUNT_MAX = 8192
# Bytes of fragments of large events in one group, behind everything else that waits: with more, everyone's latency rises.
FRAGMENTS_BYTES_MAX = 256 << 10
# Committed in the loop: few commands, few bytes, and syncs that took less than this of late.
INLINE_COUNT_MAX = 4
INLINE_BYTES_MAX = 1 << 17
INLINE_SYNC_S = 0.002
# Entries handed to a reader at a time.
RUN_COUNT_MAX = 1024
# How soon a blocked journal looks for space again.
TEND_S = 1.0

Result = TypeVar("Result")


class _Waiting(NamedTuple):
    draft: Draft
    told: Told


class JournalChannel:
    """A `Channel` on one machine's disk. Use `await JournalChannel.open(folder, settings)`."""

    def __init__(self, journal: Journal, settings: JournalSettings, clock: Callable[[], float] = time.perf_counter) -> None:
        self._journal = journal
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._tail = TailCache(journal.durable + 1, settings.tail_cache_bytes)
        self._waiting: deque[_Waiting] = deque()
        self._fragments: deque[_Waiting] = deque()
        self._followers: list[Follower] = []  # that wait for more
        self._watchers: list[Callable[[Pressure], None]] = []
        self._saving = asyncio.Lock()
        self._writing = ThreadPoolExecutor(1, "journal-writer")
        self._reading = ThreadPoolExecutor(1, "journal-reader")
        self._growing = ThreadPoolExecutor(1, "journal-grower")
        self._group_done: asyncio.Future[None] | None = None
        self._growth: asyncio.Future[None] | None = None
        self._tending: asyncio.TimerHandle | None = None
        self._sync_s = 0.0
        self._is_scheduled = False
        self._is_tidying_due = False
        self._is_closed = False
        self._was_short = journal.is_short
        self._tend()

    @classmethod
    async def open(
        cls, folder: Path | str, settings: JournalSettings | None = None, *, disk: Disk | None = None
    ) -> JournalChannel:
        """Open or create the journal in this folder; see `Journal.open` for what can be wrong with it."""
        settings = settings or JournalSettings()
        journal = await asyncio.to_thread(Journal.open, folder, settings, disk=disk)
        return cls(journal, settings)

    # --- state ---------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._journal.id.hex()

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
        """Call `changed` whenever `is_short` turns, from the loop."""
        self._watchers.append(changed)

    # --- appending -----------------------------------------------------------------------------------------------------

    def append(self, command: Buffer, purpose: Purpose = Purpose.EVENTS) -> asyncio.Future[Receipt]:
        """Take its turn now, answer when it is durable. The caller leaves the command's bytes alone until then."""
        answer: asyncio.Future[Receipt] = self._loop.create_future()
        refusal = self._take(command, purpose, partial(_settle, answer))
        if refusal is not None:
            answer.set_exception(refusal)
        return answer

    def submit(self, command: Buffer, purpose: Purpose, told: Told) -> None:
        refusal = self._take(command, purpose, told)
        if refusal is not None:
            self._loop.call_soon(told, refusal)

    def _take(self, command: Buffer, purpose: Purpose, told: Told) -> HoldfastError | None:
        if self._is_closed:
            return self._closed()
        try:
            draft = self._journal.draft(command, purpose.reserve)
        except TooLarge as refusal:
            return refusal
        self._enqueue(draft, told, is_fragment=purpose is Purpose.FRAGMENTS)
        return None

    def _enqueue(self, draft: Draft, told: Told, is_fragment: bool = False) -> None:
        (self._fragments if is_fragment else self._waiting).append(_Waiting(draft, told))
        if not self._is_scheduled and self._group_done is None:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    async def _commit(self, drafts: Sequence[Draft]) -> None:
        """Notes take the same way as commands: through the one writer, in order."""
        answers: list[asyncio.Future[Receipt]] = []
        for draft in drafts:
            answers.append(self._loop.create_future())
            self._enqueue(draft, partial(_settle, answers[-1]))
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _turn(self) -> None:
        """Commit what waits."""
        self._is_scheduled = False
        if self._group_done is not None or not (self._waiting or self._fragments):
            return
        if self._growth is not None and self._journal.is_growth_late:
            self._growth.add_done_callback(lambda _: self._turn())
            return
        is_lone = len(self._waiting) == 1 and not self._fragments
        if is_lone and self._sync_s < INLINE_SYNC_S and len(self._waiting[0].draft.payload) <= INLINE_BYTES_MAX:
            lone = self._waiting.popleft()
            self._answer((lone,), self._timed_commit((lone.draft,)))
            return
        group, size = self._gather()
        drafts = [waiting.draft for waiting in group]
        is_all = not (self._waiting or self._fragments)
        if len(group) <= INLINE_COUNT_MAX and size <= INLINE_BYTES_MAX and self._sync_s < INLINE_SYNC_S and is_all:
            self._answer(group, self._timed_commit(drafts))
            return
        if self._is_tidying_due:  # callers that append as soon as they are told would keep the mark from being written for ever
            self._journal.write_mark()
        self._group_done = self._loop.create_future()
        committed = self._loop.run_in_executor(self._writing, self._timed_commit, drafts)
        committed.add_done_callback(lambda done: self._group_is_done(group, done))

    def _gather(self) -> tuple[list[_Waiting], int]:
        group: list[_Waiting] = []
        size, size_max = 0, min(GROUP_BYTES_MAX, self._journal.room)
        while self._waiting and (size < size_max or not group) and len(group) < GROUP_COUNT_MAX:
            waiting = self._waiting.popleft()
            group.append(waiting)
            size += padded(len(waiting.draft.payload))
        fragments = 0
        while self._fragments and fragments < FRAGMENTS_BYTES_MAX and (size < size_max or not fragments):
            waiting = self._fragments.popleft()
            group.append(waiting)
            fragments += padded(len(waiting.draft.payload))
            size += padded(len(waiting.draft.payload))
        return group, size

    def _timed_commit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        started = self._clock()
        try:
            outcomes = self._journal.commit(drafts, is_marked=False)
        except Exception as problem:  # no memory, or a fault of our own: nobody must be left waiting for an answer
            return [_unknown(problem)] * len(drafts)
        self._sync_s = 0.8 * self._sync_s + 0.2 * (self._clock() - started)
        return outcomes

    def _group_is_done(self, group: list[_Waiting], done: asyncio.Future[list[Outcome]]) -> None:
        finished, self._group_done = self._group_done, None
        assert finished is not None
        self._answer(group, done.result())
        finished.set_result(None)

    def _answer(self, group: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
        """Publish what is durable, then give the receipts; readers come next, and what can wait comes last."""
        for (draft, _), outcome in zip(group, outcomes, strict=True):
            if draft.kind == COMMAND and type(outcome) is int:
                self._tail.add(outcome, draft.payload)
        for (_, told), outcome in zip(group, outcomes, strict=True):
            try:
                told(Receipt(outcome, 1, True) if isinstance(outcome, int) else outcome)
            except Exception as problem:  # one caller's fault must not cost another its receipt
                self._loop.call_exception_handler({"message": "told of a receipt, a caller failed", "exception": problem})
        for follower in self._followers:
            follower.offer(self._tail)
        if not self._is_tidying_due:
            self._is_tidying_due = True
            self._loop.call_soon(self._tidy)
        if (self._waiting or self._fragments) and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _tidy(self) -> None:
        """What can wait until the receipts are on their way and readers have seen what is new."""
        self._is_tidying_due = False
        self._tail.trim()
        if self._group_done is None:  # otherwise what the mark says is being changed in another thread; it comes after that
            self._journal.write_mark()
        self._tend()

    # --- reading -------------------------------------------------------------------------------------------------------

    async def read(self, start: int, at_once: AtOnce | None = None) -> AsyncIterator[Sequence[Entry]]:
        """Every entry from `start` on, then live. Closed when the channel is closed meanwhile."""
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
        self._followers.append(follower)
        try:
            await follower.wait(self._loop)
        finally:
            self._followers.remove(follower)
        self._check_open()

    async def fetch(self, numbers: Sequence[int], bytes_max: int | None = None, front: int | None = None) -> list[Buffer]:
        """What is not in memory is read from disk, in one go up to the first that is."""
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
        return None if self._is_closed else whole(map(self._recent, numbers), bytes_max)

    def _recent(self, number: int) -> bytes | None:
        return self._tail.get(number) if number >= self.first else None

    async def _from_disk(self, call: Callable[..., Result], *arguments: object) -> Result:
        self._check_open()
        return await self._loop.run_in_executor(self._reading, call, *arguments)

    # --- snapshots and release -----------------------------------------------------------------------------------------

    async def save_snapshot(self, at: int, chunks: Iterable[Buffer]) -> None:
        """Commands that are appended meanwhile go between its parts."""
        async with self._saving:
            self._check_open()
            try:
                for group in self._journal.snapshot_groups(at, chunks):
                    await self._commit(group)
                await self._commit([self._journal.snapshot_end(at)])
            finally:
                self._journal.forget_snapshot()

    async def load_snapshot(self) -> Snapshot | None:
        return await self._from_disk(self._journal.load_snapshot)

    async def release(self, below: int) -> None:
        self._check_open()
        draft = self._journal.release_draft(below)
        if draft:
            await self._commit([draft])

    # --- space ---------------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Make a spare ahead of need, and tell watchers when space became short or is so no more."""
        if self._is_closed:
            return
        if self._growth is None and self._journal.wants_growth:
            self._growth = asyncio.ensure_future(self._grow())
        is_short = self._journal.is_short
        if is_short and self._tending is None:
            self._tending = self._loop.call_later(TEND_S, self._tend_again)
        if is_short != self._was_short:
            self._was_short = is_short
            for changed in self._watchers:
                changed(self._journal.pressure)

    def _tend_again(self) -> None:
        self._tending = None
        self._tend()

    async def _grow(self) -> None:
        try:
            self._journal.adopt(await self._loop.run_in_executor(self._growing, self._journal.make_segment))
        except OSError as problem:
            self._journal.could_not_grow(problem)
        self._growth = None
        self._tend()

    # --- the end -------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """The group that is being written is answered as it turns out; what only waited is answered with Closed."""
        if self._is_closed:
            return
        self._is_closed = True
        for waiting in (*self._waiting, *self._fragments):
            self._loop.call_soon(waiting.told, self._closed())
        self._waiting.clear()
        self._fragments.clear()
        if self._tending:
            self._tending.cancel()
        for busy in (self._group_done, self._growth):
            if busy is not None:
                await busy
        for follower in self._followers:
            follower.wake()
        for threads in (self._writing, self._growing, self._reading):
            await asyncio.to_thread(threads.shutdown)
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


def _settle(answer: asyncio.Future[Receipt], outcome: Receipt | HoldfastError) -> None:
    if answer.done():  # its caller may have given up waiting; the command stays
        return
    if isinstance(outcome, Receipt):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)


def _unknown(problem: Exception) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the journal stopped while this was being written ({problem!r}); it may or may not be found when it is opened again; "
        "repeat it then with the same id"
    )
