"""Passing: a route at work, from attaching upstream to its first failure. Then it is opened anew, from its marks.

    upstream ─▶ draw ─▶ chunk ─▶ one local transaction: events and mark ─▶ verdicts ─▶ upstream
                 │ marked: not appended            │
                 └ sampled out, looped: confirmed  └ end-to-end: the outcome watch tells when

Drawing, appending, watching and settling are tasks of their own: none waits for another, but for room. While one transaction is
committed the next chunk gathers. Transactions follow each other, so that the order of upstream is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.errors import BadEvent, BadName, Blocked, HoldfastError, TimedOut, TooLarge, TransactionAborted, Unavailable
from holdfast.event.position import Ranges
from holdfast.relay.definition import RelayDefinition, Route
from holdfast.relay.line.figures import Figures
from holdfast.relay.line.mark_store import MarkStore
from holdfast.relay.line.outcome_watch import OutcomeWatch
from holdfast.relay.line.piece import Changes, Piece, pieces_of
from holdfast.relay.line.settlement import Look, Settlement
from holdfast.relay.line.together import until_one_ends
from holdfast.relay.machines.duties import Duties, Refusal, Verdicts
from holdfast.relay.machines.marks import Mark, Marks, Stretch
from holdfast.relay.machines.position_set import PositionSet, Run
from holdfast.relay.machines.renaming import Renaming
from holdfast.relay.machines.rules import Rate, Sampling

if TYPE_CHECKING:
    from holdfast.client.client_session import ClientSession
    from holdfast.client.receiving.incoming import Incoming

# A transaction takes so many events or bytes of what has come.
CHUNK_EVENTS = 20_000
CHUNK_BYTES = 4 << 20
# So many more may have come meanwhile.
DRAWN_EVENTS_MAX = 2 * CHUNK_EVENTS
DRAWN_BYTES_MAX = 2 * CHUNK_BYTES
# How long a route waits before it looks again whether there is room.
FULL_S = 0.2


class Origins(msgspec.Struct, frozen=True):
    """Where events come from, as the heads of batches name it: 0 where a server does not tell who it is."""

    upstream: int
    own: int


class Setting(msgspec.Struct):
    """What a route works with."""

    name: str
    route: Route
    definition: RelayDefinition
    local: Any  # the client
    origins: Origins
    figures: Figures
    sampling: Sampling


class Work(NamedTuple):
    """A setting, with what it has opened here."""

    setting: Setting
    session: ClientSession
    store: MarkStore


Leave = Callable[[int, int], Awaitable[Ranges]]


class Passing:
    def __init__(
        self, work: Work, renaming: Renaming, incoming: Incoming, marks: Marks, look: Look, identity: str,
        leave: Leave | None = None,
    ) -> None:  # fmt: skip
        """`leave`: which of these events are left to another subscription; here they are only confirmed."""
        setting, self._session, self._store = work
        self._setting = setting
        self._incoming = incoming
        self._marks = marks
        self._identity = identity
        self._leave = leave
        self._duties = Duties(setting.route.mode)
        setting.figures.count_waiting = lambda: self._duties.waiting_count
        self._settlement = Settlement(incoming, look, marks, self._duties, work.store.drop, setting.figures)
        self._watch = OutcomeWatch(setting.local, self._duties, self._settlement.tell)
        self._renaming = renaming
        self._changes = Changes.of(setting.route, setting.definition)
        self._rate = Rate(setting.route.rate, asyncio.get_running_loop().time()) if setting.route.rate else None
        self._drawn: deque[Piece] = deque()
        self._under_way = PositionSet()  # drawn, and not marked yet
        self._drawn_events = self._drawn_bytes = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Pass events until something fails."""
        await until_one_ends(draw=self._draw(), append=self._append_all(), settling=self.run_settling())
        raise Unavailable("the receiver upstream has ended")

    async def run_settling(self) -> None:
        """Only tell upstream what becomes of what is here."""
        for mark in self._marks:
            self._settlement.tell(self._duties.appended(mark.stretches))
        await until_one_ends(
            watch=self._watch.run(),
            settle=self._settlement.run(),
            look=self._settlement.run_looks(),
            marks=self._store.ended(),
        )

    # --- drawing -----------------------------------------------------------------------------------------------------

    async def _draw(self) -> None:
        """Take what comes, as long as there is room for it."""
        await self._until_room()
        async for batch in self._incoming.encoded():
            left = await self._leave(batch.first, batch.last) if self._leave is not None else Ranges()
            self._came(batch, PositionSet(left))
            await self._until_room()

    async def _until_room(self) -> None:
        route, figures = self._setting.route, self._setting.figures
        while True:
            waiting = self._duties.waiting_count
            if self._drawn_events >= DRAWN_EVENTS_MAX or self._drawn_bytes >= DRAWN_BYTES_MAX:
                await self._until_changed()
            elif route.mode != "receipt" and waiting + self._drawn_events >= route.waiting_max:
                figures.held_back = f"{waiting:,} events wait for their recipients here (waiting-max)"
                await self._until_changed()
            elif self._rate is not None and (wait_s := self._rate.wait_s(asyncio.get_running_loop().time())):
                figures.held_back = f"the rate of {route.rate:g} events a second"
                await asyncio.sleep(wait_s)
            else:
                break
        figures.held_back = ""

    async def _until_changed(self) -> None:
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), FULL_S)
        except TimeoutError:
            pass  # what is finished here is not told by an event: look again

    def _came(self, batch: Any, left: PositionSet) -> None:
        setting, counts = self._setting, self._setting.figures.counts
        counts.received += batch.count
        if self._rate is not None:
            self._rate.passed(batch.count, asyncio.get_running_loop().time())
        is_own = batch.origin and batch.origin == setting.origins.own
        if batch.hops >= setting.route.hops_max or is_own or setting.route.leaves_out(batch.destination):
            counts.looped += batch.count
            self._settlement.tell(Verdicts([(batch.first, batch.last)], []))
            return
        new, marked = self._marks.split(batch.first, batch.last)
        for first, last in marked:
            counts.again += last - first + 1
            self._settlement.tell(self._duties.came_again(first, last))
        for first, last in (run for each in new for run in self._under_way.without(*each)):
            if left.within(first, last):
                self._settlement.tell(Verdicts(left.within(first, last), []))
            for run in left.without(first, last):
                self._take(batch, *run)

    def _take(self, batch: Any, first: int, last: int) -> None:
        """Take new events of a batch, but for those that sampling leaves out."""
        kept = self._setting.sampling.kept(first, last)
        left_out = PositionSet([(first, last)])
        for run in kept:
            left_out.remove(*run)
        if left_out:
            self._setting.figures.counts.sampled += left_out.count
            self._settlement.tell(Verdicts(list(left_out), []))
        origin = self._setting.origins.upstream
        try:
            target = self._renaming.target_of(batch.destination)
            found = [piece for run in kept for piece in pieces_of(batch, *run, target, self._changes, origin)]
        except (BadEvent, BadName, TooLarge) as problem:
            self._settlement.tell(Verdicts([], [self._refusal(run, problem) for run in kept]))
            return
        for piece in found:
            self._under_way.add(piece.first, piece.last)
            self._drawn.append(piece)
            self._drawn_events += piece.count
            self._drawn_bytes += piece.size
        self._changed.set()

    # --- appending ---------------------------------------------------------------------------------------------------

    async def _append_all(self) -> None:
        while True:
            while not self._drawn:
                self._changed.clear()
                await self._changed.wait()
            chunk = self._chunk()
            await self._append(chunk)
            self._drawn_events -= sum(piece.count for piece in chunk)
            self._drawn_bytes -= sum(piece.size for piece in chunk)
            self._changed.set()

    def _chunk(self) -> list[Piece]:
        """The next pieces, up to a size. A large event is a chunk of its own."""
        chunk = [self._drawn.popleft()]
        events, size = chunk[0].count, chunk[0].size
        while self._drawn and not chunk[0].is_large and not self._drawn[0].is_large:
            piece = self._drawn[0]
            events, size = events + piece.count, size + piece.size
            if events > CHUNK_EVENTS or size > CHUNK_BYTES:
                break
            chunk.append(self._drawn.popleft())
        return chunk

    async def _append(self, chunk: list[Piece]) -> None:
        """Append a chunk with its mark, waiting while a local destination is full. What is more than the server here takes at
        once is halved; one event that is, is rejected upstream: it would stop all after it for ever."""
        while True:
            try:
                mark = await self._commit(chunk)
                break
            except (Blocked, TooLarge, TransactionAborted) as problem:
                reason = problem.__cause__ if isinstance(problem, TransactionAborted) else problem
                if isinstance(reason, TooLarge):
                    await self._append_less(chunk, reason)
                    return
                if not isinstance(reason, Blocked):
                    raise
                await self._until_free(reason)
        self._marks.add(mark)
        for each in mark.stretches:
            self._under_way.remove(each.first, each.last)
            if each.target:
                self._watch.add(each.target, each.local, each.local + each.last - each.first)
        self._setting.figures.appended(sum(piece.count for piece in chunk))
        self._setting.figures.held_back = ""
        self._settlement.tell(self._duties.appended(mark.stretches))

    async def _append_less(self, chunk: list[Piece], problem: TooLarge) -> None:
        if len(chunk) > 1:
            half = len(chunk) // 2
            await self._append(chunk[:half])
            await self._append(chunk[half:])
            return
        (piece,) = chunk
        self._under_way.remove(piece.first, piece.last)
        self._settlement.tell(Verdicts([], [self._refusal((piece.first, piece.last), problem)]))

    def _refusal(self, run: Run, problem: HoldfastError) -> Refusal:
        return Refusal(*run, "rejected", f"relay {self._setting.definition.name}: {problem.sentence}")

    async def _commit(self, chunk: list[Piece]) -> Mark:
        async with self._session.transaction() as transaction:
            for piece in chunk:
                await piece.send(transaction, self._setting.route.kind)
            if self._setting.route.mode == "receipt":
                stretches = tuple(Stretch(piece.first, piece.last) for piece in chunk)
            else:
                sent = await transaction.stored()
                stretches = tuple(
                    Stretch(piece.first, piece.last, where.first, where.destination)
                    for piece, where in zip(chunk, sent, strict=True)
                )
            mark = Mark(self._store.next_number(), self._identity, stretches)
            await self._store.add_to(transaction, mark)
        return mark

    async def _until_free(self, full: Blocked) -> None:
        """Wait until the server says that a destination has room again; for room in the journal, a while."""
        destination = full.fields.get("destination", "")
        self._setting.figures.held_back = f"full here: {full.sentence}"
        await asyncio.sleep(FULL_S)
        if destination:
            with contextlib.suppress(TimedOut):  # not yet: try, and be told again
                await self._session.topic(destination).unblocked()
