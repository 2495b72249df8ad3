"""Group commit: all waiting commands become durable together, with one write and one sync.

    enqueue, enqueue, enqueue ─▶ waiting ─▶ one group ─▶ write, sync ─▶ all receipts
                                    ▲                        │
                                    └── gathers meanwhile ◀──┘

There is no timer: a group is all that waits when the group before it is done, and a lone command goes at once. While syncs are
short, a small group is committed in the loop itself, because a thread costs as much as a sync. Other groups are committed in a
thread. Fragments of large events come behind everything else, and few at a time.

Between groups, `Growth` makes spare segments ahead of need. A group waits for it when its space would come out of a reserve.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from holdfast.channel.channel import OnOutcome, Pressure, Receipt
from holdfast.channel.journal.files.record import COMMAND, padded
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.run import Draft, Outcome
from holdfast.channel.journal.tail_cache import TailCache
from holdfast.errors import HoldfastError, OutcomeUnknown

log = logging.getLogger("holdfast.journal")

# A group is closed at this size, so that commands behind it do not wait for more than one long write.
GROUP_BYTES_MAX = 1 << 20
GROUP_COUNT_MAX = 8192
# Bytes of fragments of large events in one group, behind all other commands. With more, the latency of everyone rises.
FRAGMENTS_BYTES_MAX = 256 << 10
# Groups are committed in the loop up to this count and size, while recent syncs took less than this time.
INLINE_COUNT_MAX = 4
INLINE_BYTES_MAX = 1 << 17
INLINE_SYNC_S = 0.002
# How soon a journal that is short of space looks for it again.
TEND_S = 1.0


class Growth:
    """Makes spare segments ahead of need, in a thread of its own, and tells watchers when space becomes short or free again.

    tend ─▶ a spare is wanted?                   make it ─▶ tend again
         ─▶ space is short?                      look again in a second
         ─▶ was it otherwise the last time?      tell the watchers
    """

    def __init__(self, journal: Journal) -> None:
        self.under_way: asyncio.Future[None] | None = None  # done when the spare that is being made can be used
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._watchers: list[Callable[[Pressure], None]] = []
        self._grower_thread = ThreadPoolExecutor(1, "journal-grower")
        self._next_tend: asyncio.TimerHandle | None = None
        self._was_short = journal.is_short
        self._is_stopped = False

    def watch(self, changed: Callable[[Pressure], None]) -> None:
        self._watchers.append(changed)

    def tend(self) -> None:
        """Make a spare ahead of need, and tell watchers when space became short or free again."""
        if self._is_stopped:
            return
        if self.under_way is None and self._journal.wants_growth:
            self.under_way = asyncio.ensure_future(self._grow())
        is_short = self._journal.is_short
        if is_short and self._next_tend is None:
            self._next_tend = self._loop.call_later(TEND_S, self._tend_again)
        if is_short != self._was_short:
            self._was_short = is_short
            for changed in self._watchers:
                try:
                    changed(self._journal.pressure)
                except Exception as problem:  # a fault of one watcher must not stop the others, or the journal
                    log.error("a watcher of space failed when it became %s: %r", "short" if is_short else "free", problem)

    def _tend_again(self) -> None:
        self._next_tend = None
        self.tend()

    async def _grow(self) -> None:
        try:
            self._journal.adopt(await self._loop.run_in_executor(self._grower_thread, self._journal.make_segment))
        except Exception as problem:  # no room, no memory, or a fault of our own: groups that wait for it must go on
            self._journal.could_not_grow(problem)
        self.under_way = None
        self.tend()

    # --- the end -------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Make no more spares."""
        self._is_stopped = True
        if self._next_tend:
            self._next_tend.cancel()

    async def finish(self) -> None:
        """Wait until the spare that is being made can be used."""
        if self.under_way is not None:
            await self.under_way

    async def close(self) -> None:
        await asyncio.to_thread(self._grower_thread.shutdown)


class _Waiting(NamedTuple):
    draft: Draft
    on_outcome: OnOutcome


class GroupCommit:
    """Durable commands go to the tail cache first; then receipts are given; then followers are offered the commands."""

    def __init__(self, journal: Journal, tail: TailCache, clock: Callable[[], float]) -> None:
        self.growth = Growth(journal)
        self._journal = journal
        self._tail = tail
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._fragments: deque[_Waiting] = deque()
        self._writer_thread = ThreadPoolExecutor(1, "journal-writer")
        self._group_done: asyncio.Future[None] | None = None
        self.on_sync: Callable[[float], None] | None = None
        self._sync_s = 0.0
        self._is_scheduled = False
        self._is_tidy_due = False
        self._refusal: Callable[[], HoldfastError] | None = None  # once it is closed
        self.growth.tend()

    # --- waiting -------------------------------------------------------------------------------------------------------

    def enqueue(self, draft: Draft, on_outcome: OnOutcome, is_fragment: bool = False) -> None:
        """Queue a draft now; `on_outcome` is called when its outcome is known."""
        (self._fragments if is_fragment else self._waiting).append(_Waiting(draft, on_outcome))
        if not self._is_scheduled and self._group_done is None:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    async def commit(self, drafts: Sequence[Draft]) -> None:
        """Commit notes the way commands go: through the one writer, in order. Raises why one was refused."""
        if self._refusal is not None:
            raise self._refusal()
        answers: list[asyncio.Future[Receipt]] = []
        for draft in drafts:
            answers.append(self._loop.create_future())
            self.enqueue(draft, partial(tell_future, answers[-1]))
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

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

    # --- a group -------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Commit all that waits."""
        self._is_scheduled = False
        if self._group_done is not None or not (self._waiting or self._fragments):
            return
        if self.growth.under_way is not None and self._journal.is_growth_late:
            self.growth.under_way.add_done_callback(lambda _: self._turn())
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
        if self._is_tidy_due:  # callers that append again at once would otherwise keep the mark from ever being written
            self._journal.write_mark()
        self._group_done = self._loop.create_future()
        committed = self._loop.run_in_executor(self._writer_thread, self._timed_commit, drafts)
        committed.add_done_callback(lambda done: self._group_is_done(group, done))

    def _timed_commit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        started = self._clock()
        try:
            outcomes = self._journal.commit(drafts, is_marked=False)
        except Exception as problem:  # no memory, or a fault of our own: every caller must get an answer
            return [_unknown(problem)] * len(drafts)
        took_s = self._clock() - started
        self._sync_s = 0.8 * self._sync_s + 0.2 * took_s
        if self.on_sync is not None:
            self.on_sync(took_s)
        return outcomes

    def _group_is_done(self, group: list[_Waiting], done: asyncio.Future[list[Outcome]]) -> None:
        finished, self._group_done = self._group_done, None
        assert finished is not None
        self._answer(group, done.result())
        finished.set_result(None)

    def _answer(self, group: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
        """Publish durable commands, then give the receipts, then serve readers; tidying comes last."""
        for (draft, _), outcome in zip(group, outcomes, strict=True):
            if draft.kind == COMMAND and type(outcome) is int:
                self._tail.add(outcome, draft.payload)
        for (_, on_outcome), outcome in zip(group, outcomes, strict=True):
            try:
                on_outcome(Receipt(outcome, 1, True) if isinstance(outcome, int) else outcome)
            except Exception as problem:  # a fault of one caller must not cost another its receipt
                log.error("a caller failed when it got its receipt: %r", problem)
        for follower in self._tail.followers:
            follower.offer(self._tail)
        if not self._is_tidy_due:
            self._is_tidy_due = True
            self._loop.call_soon(self._tidy)
        if (self._waiting or self._fragments) and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _tidy(self) -> None:
        """Trim, mark and grow: after the receipts are on their way and readers have seen the new commands."""
        self._is_tidy_due = False
        self._tail.trim()
        if self._group_done is None:  # otherwise another thread changes what the mark says; it is written after that
            self._journal.write_mark()
        self.growth.tend()

    # --- the end -------------------------------------------------------------------------------------------------------

    async def close(self, refusal: Callable[[], HoldfastError]) -> None:
        """Answer the group that is being written with its outcome, and all that waits or comes later with `refusal`."""
        self._refusal = refusal
        for waiting in (*self._waiting, *self._fragments):
            self._loop.call_soon(waiting.on_outcome, refusal())
        self._waiting.clear()
        self._fragments.clear()
        self.growth.stop()
        if self._group_done is not None:
            await self._group_done
        await self.growth.finish()
        for follower in self._tail.followers:
            follower.wake()
        await asyncio.to_thread(self._writer_thread.shutdown)
        await self.growth.close()


def tell_future(answer: asyncio.Future[Receipt], outcome: Receipt | HoldfastError) -> None:
    """Give the outcome of a command to a caller that waits with a future."""
    if answer.done():  # its caller may have stopped waiting; the command stays
        return
    if isinstance(outcome, Receipt):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)


def _unknown(problem: Exception) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the journal stopped while this was written ({problem!r}); it may be there when the journal is opened again; repeat it "
        "then with the same source and id"
    )
