"""Group commit: whatever waits becomes durable together, with one write and one sync.

    enqueue, enqueue, enqueue ─▶ waiting ─▶ one group ─▶ write, sync ─▶ all receipts
                                    ▲                        │
                                    └── gathers meanwhile ◀──┘

No timer: a group is what waits when the one before is done; a lone command goes at once. A small group is committed in the
loop itself as long as syncs are short, because going through a thread costs as much as a sync; otherwise in one thread of its
own. Fragments of large events come behind everything else, and few at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from holdfast.channel.channel import Receipt, Told
from holdfast.channel.journal.draft import Draft, Outcome
from holdfast.channel.journal.follower import Follower
from holdfast.channel.journal.growth import Growth
from holdfast.channel.journal.journal import Journal
from holdfast.channel.journal.record import COMMAND, padded
from holdfast.channel.journal.tail import TailCache
from holdfast.errors import HoldfastError, OutcomeUnknown

# A group is closed at this size, so that those behind it do not wait for more than one long write.
GROUP_BYTES_MAX = 1 << 20
GROUP_COUNT_MAX = 8192
# Bytes of fragments of large events in one group, behind everything else that waits: with more, everyone's latency rises.
FRAGMENTS_BYTES_MAX = 256 << 10
# Committed in the loop: few commands, few bytes, and syncs that took less than this of late.
INLINE_COUNT_MAX = 4
INLINE_BYTES_MAX = 1 << 17
INLINE_SYNC_S = 0.002


class _Waiting(NamedTuple):
    draft: Draft
    told: Told


class GroupCommit:
    """What is durable goes to the `tail` first, then the receipts are given, then `followers` are offered it."""

    def __init__(
        self, journal: Journal, tail: TailCache, followers: Iterable[Follower], growth: Growth, clock: Callable[[], float]
    ) -> None:
        self._journal = journal
        self._tail = tail
        self._followers = followers
        self._growth = growth
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._fragments: deque[_Waiting] = deque()
        self._writing = ThreadPoolExecutor(1, "journal-writer")
        self._group_done: asyncio.Future[None] | None = None
        self._sync_s = 0.0
        self._is_scheduled = False
        self._is_tidying_due = False
        self._refusal: Callable[[], HoldfastError] | None = None  # once it is closed

    # --- waiting -------------------------------------------------------------------------------------------------------

    def enqueue(self, draft: Draft, told: Told, is_fragment: bool = False) -> None:
        """Take its turn now; `told` is called when it is known what became of it."""
        (self._fragments if is_fragment else self._waiting).append(_Waiting(draft, told))
        if not self._is_scheduled and self._group_done is None:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    async def commit(self, drafts: Sequence[Draft]) -> None:
        """Notes take the same way as commands: through the one writer, in order. Raises why one was not taken."""
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
        """Commit what waits."""
        self._is_scheduled = False
        if self._group_done is not None or not (self._waiting or self._fragments):
            return
        if self._growth.under_way is not None and self._journal.is_growth_late:
            self._growth.under_way.add_done_callback(lambda _: self._turn())
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
        self._growth.tend()

    # --- the end -------------------------------------------------------------------------------------------------------

    def refuse_waiting(self, refusal: Callable[[], HoldfastError]) -> None:
        """What only waited is answered so, and what comes later; the group that is being written, as it turns out."""
        self._refusal = refusal
        for waiting in (*self._waiting, *self._fragments):
            self._loop.call_soon(waiting.told, refusal())
        self._waiting.clear()
        self._fragments.clear()

    async def finish(self) -> None:
        """Until the group that is being written is answered."""
        if self._group_done is not None:
            await self._group_done

    async def close(self) -> None:
        await asyncio.to_thread(self._writing.shutdown)


def tell_future(answer: asyncio.Future[Receipt], outcome: Receipt | HoldfastError) -> None:
    """What became of a command, for who waits with a future."""
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
