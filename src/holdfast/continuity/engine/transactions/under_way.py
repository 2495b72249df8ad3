"""Transactions under way at an engine: each with its gathering and whoever waits for it, and one timer for all of them.

    request ──▶ Transaction ──▶ gathering (machine) ──outs──▶ head and chunks, in order ──▶ whoever asked
                     └── stays after its end until every expected server has answered, for comparison

Memory: `requests_max` transactions that somebody waits for, and COMPARED_MAX that only wait to be compared; the oldest of these
are let go first. Chunks that the client has not taken are bounded by CHUNKS_BYTES_MAX: past it the answer is cut, and the retry
reads it from a store.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from typing import Literal, cast

from holdfast.continuity.answer import Answer, Head
from holdfast.continuity.errors import NotTaken
from holdfast.continuity.machines.effects import trace_of
from holdfast.continuity.machines.gathering import Begin, Chunk, Cut, Decided, End, Error, Gathering, Out, Resume

COMPARED_MAX = 4_096
CHUNKS_BYTES_MAX = 16 << 20


class AnswerCut(Exception):
    """The rest of a body cannot be had: the connection to the client is cut, and a retry gets the whole answer."""


class Transaction:
    """One request, as the engine follows it."""

    def __init__(self, number: str, gathering: Gathering, key: str, *, is_read: bool = False) -> None:
        self.number = number
        self.gathering = gathering
        self.key = key
        self.is_read = is_read
        self.streamed_by = ""  # the server of a stream that is passed through
        self.begin: Begin | None = None
        self.error: Error | None = None
        self.refusal: NotTaken | None = None  # it was not appended, which was learnt after it was begun
        self.places: dict[str, int] = {}  # where each server was when it answered
        self._chunks: list[bytes] = []
        self._chunks_bytes = 0
        self._is_ended = False
        self._cut: str | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.watcher: Callable[[], None] | None = None  # called once, when it is answered: instead of a task that waits
        self.due = 0.0  # when its gathering is looked at next

    @property
    def place(self) -> int:
        """The place of the request; of a read, the place that the server which answered had reached."""
        return self.places.get(self.begin.server, 0) if self.begin is not None else 0

    @property
    def is_comparable(self) -> bool:
        """All servers answered at the same place (19)."""
        return len(set(self.places.values())) <= 1

    @property
    def is_answered(self) -> bool:
        return self.begin is not None or self.error is not None

    def tell(self) -> None:
        """Call whoever watches, once."""
        if self.watcher is not None:
            watcher, self.watcher = self.watcher, None
            watcher()

    @property
    def is_over(self) -> bool:
        """Nothing more is handed on."""
        return self.error is not None or self._is_ended or self._cut is not None

    def take(self, out: Out) -> None:
        """An out of the gathering that concerns the client."""
        kind = type(out)
        if kind is Begin:
            self.begin = cast(Begin, out)
        elif kind is Chunk:
            body = cast(Chunk, out).body
            self._chunks.append(body)
            self._chunks_bytes += len(body)
            if self._chunks_bytes > CHUNKS_BYTES_MAX:
                self._cut = "the client takes the answer too slowly"
        elif kind is End:
            self._is_ended = True
        elif isinstance(out, Cut):
            self._cut = out.reason
        elif isinstance(out, Error):
            self.error = out
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def answered(self) -> None:
        """Wait for the head of an answer, or an error: the gathering says one of them in time."""
        while not self.is_answered:
            await self._more()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces. AnswerCut when the rest cannot be had."""
        while True:
            while self._chunks:
                chunk = self._chunks.pop(0)
                self._chunks_bytes -= len(chunk)
                yield chunk
            if self._cut is not None:
                raise AnswerCut(self._cut)
            if self._is_ended:
                return
            await self._more()

    def body_at_once(self) -> bytes | None:
        """The whole body, if all of it is here and none was taken."""
        if not self._is_ended or self._cut is not None:
            return None
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._chunks_bytes = 0
        return body

    async def whole(self) -> Answer:
        """The whole answer."""
        assert self.begin is not None
        body = b"".join([chunk async for chunk in self.chunks()])
        return Answer(self.begin.head, body, outcome="replayed" if self.begin.replayed else "answered")

    @property
    def head(self) -> Head:
        assert self.begin is not None
        return self.begin.head


class UnderWay:
    def __init__(
        self,
        clock: Callable[[], float],
        resume: Callable[[str, Resume], None],
        ended: Callable[[Transaction, End], None],
        decided: Callable[[Transaction, Decided], None],
    ) -> None:
        """`resume` asks a server to go on with an answer; `ended` is told when one is whole, `decided` who answered what."""
        self._clock = clock
        self._resume = resume
        self._ended = ended
        self._decided = decided
        self._transactions: dict[str, Transaction] = {}
        self._compared: dict[str, None] = {}
        self._due: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.keeps_traces = False  # servers are told traces, so that a request may come back with one
        self._traces: dict[str, str] = {}

    def __len__(self) -> int:
        """How many somebody waits for."""
        return len(self._transactions) - len(self._compared)

    def begin(self, number: str, transaction: Transaction) -> None:
        self._transactions[number] = transaction
        if self.keeps_traces:
            self._traces[trace_of(number)] = number
        self._look_at_time(number, transaction)

    def get(self, number: str) -> Transaction | None:
        return self._transactions.get(number)

    def traced(self, trace: str) -> str | None:
        """The transaction under way that has this trace."""
        return self._traces.get(trace)

    def act(self, number: str, outs: list[Out]) -> None:
        """Act on the outs of a gathering."""
        transaction = self._transactions[number]
        for out in outs:
            kind = type(out)
            if kind is Resume:
                self._resume(number, cast(Resume, out))
            elif kind is Decided:
                self.forget(number)
                self._decided(transaction, cast(Decided, out))
            else:
                transaction.take(out)
                if kind is End:
                    self._ended(transaction, cast(End, out))
        if transaction.watcher is not None and transaction.is_answered:
            transaction.tell()
        if number in self._transactions:
            self._look_at_time(number, transaction)

    def lose(self, server: str, kind: Literal["link lost", "removed"]) -> None:
        """The link of a server is lost, or it is not current any more."""
        for number, transaction in list(self._transactions.items()):
            self.act(number, transaction.gathering.lost(server, self._clock(), kind))

    def find(self, server: str) -> None:
        """The link of a server is there again."""
        for number, transaction in list(self._transactions.items()):
            self.act(number, transaction.gathering.back(server, self._clock()))

    def leave(self, number: str) -> None:
        """Nobody waits for this one any more. It stays to be compared."""
        if number in self._transactions:
            self._compared[number] = None
            while len(self._compared) > COMPARED_MAX:
                self.forget(next(iter(self._compared)))

    def refuse(self, transaction: Transaction, refusal: NotTaken) -> None:
        """It was not appended: nobody will answer."""
        transaction.refusal = refusal
        self.forget(transaction.number)
        transaction.tell()

    def forget(self, number: str) -> None:
        """It is decided, was never sent, or is not compared."""
        self._transactions.pop(number, None)
        self._compared.pop(number, None)
        if self.keeps_traces:
            self._traces.pop(trace_of(number), None)

    # --- time --------------------------------------------------------------------------------------------------------

    def _look_at_time(self, number: str, transaction: Transaction) -> None:
        """See that its gathering is looked at in time. One entry counts, that at `due`; a later time waits for it."""
        at = transaction.gathering.wake_at
        if at is None or 0 < transaction.due <= at:
            return
        transaction.due = at
        heapq.heappush(self._due, (at, number))
        if self._due[0][1] == number:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, self._due[0][0] - self._clock()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._clock()
        while self._due and self._due[0][0] <= now:
            at, number = heapq.heappop(self._due)
            transaction = self._transactions.get(number)
            if transaction is None or transaction.due != at:
                continue
            transaction.due = 0.0
            if (wake_at := transaction.gathering.wake_at) is not None and wake_at <= now:
                self.act(number, transaction.gathering.tick(now))
            else:
                self._look_at_time(number, transaction)
        if self._due and self._timer is None:
            self._set_timer()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
