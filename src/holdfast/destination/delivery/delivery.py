"""Delivery: who holds what of one backlog, and who gets what next. Only a primary has it; `apply` never asks it (rule 3).

    what happens           fresh      held        returned    delayed     given up          (see `delivery_state`)
    next                   held       -           held        -           -
    returned               fresh      returned or delayed, or given up when the limit is reached
    finished               forgotten in every place
    detach of its holder   -          returned    -           -           -
    its time has come      -          -           -           returned    -
    locked, unlocked       see `delivery_state`: held stays held

The states of positions are kept in the `delivery_state`. `handout` chooses what a holder gets next; where heads must be read
before that, `head_reads` says which, the shell reads them and says what was found.

Only positions that are not fresh are remembered, as runs: memory is bounded by the events in flight and those that came back, and
every cost is per slice, never per event. Holders with credit take turns; a holder without costs nothing (see `credit`). After a
primary that may have died with its programs, events go out with `crash_care`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.destination.backlog.backlog import Backlog, Span
from holdfast.destination.backlog.runs import Runs
from holdfast.destination.delivery.crash_care import CrashCare
from holdfast.destination.delivery.credit import Line, Prefetched, Receiver
from holdfast.destination.delivery.delivery_state import FRESH, GIVEN_UP, LOCKED, DeliveryState
from holdfast.destination.delivery.due_timer import DueTimer
from holdfast.destination.delivery.handout import Handout, Handouts, HandoutSlice
from holdfast.destination.delivery.head_reads import HeadReads
from holdfast.destination.delivery.view import Found, HeadRead
from holdfast.destination.effect import Holder
from holdfast.event.position import INDEX_BITS, Ranges

# Ranges that a holder is told of when it attaches again and no longer holds them: a quarter of a frame.
LOST_MAX = 16_384


class Delivery:
    def __init__(self, backlog: Backlog, redelivery_limit: int = 0) -> None:
        """`redelivery_limit`: how often an event is delivered again before it is given up; 0 for no limit."""
        self._backlog = backlog
        self._receivers: dict[Holder, Receiver] = {}
        self._line = Line()
        self._state = DeliveryState(backlog, redelivery_limit)
        self._due_timer = DueTimer(self._state, backlog)
        self._head_reads = HeadReads(self._state, self._due_timer, backlog)
        self._handouts = Handouts(self._state, self._due_timer, backlog)
        self._crash_care: CrashCare | None = None
        if backlog.locks is not None:
            self.locked(backlog.locks.all())

    @property
    def in_flight(self) -> int:
        return self._state.in_flight

    @property
    def has_views(self) -> bool:
        """Heads may have to be read before more can be handed out: `head_reads` says which."""
        return bool(self._state.views)

    @property
    def has_expiries(self) -> bool:
        return self._backlog.has_expiries

    def configure(self, redelivery_limit: int) -> None:
        """This limit holds from now on. Events given up under another one stay given up."""
        self._state.limit = redelivery_limit

    # --- holders and their credit ------------------------------------------------------------------------------------

    def attach(
        self,
        holder: Holder,
        held: Ranges,
        selector: str = "",
        prefetched: Iterable[Span] | None = None,
        *,
        is_keeping: bool = False,
    ) -> Ranges:
        """A holder attaches, or attaches again, holding these. Others that it was thought to hold are delivered again.

        `prefetched` are those that its program was not handed, in order; None where the client does not say: then it has all of
        them prefetched.

        The answer names those that it holds no longer: they are finished, or with another. With more than LOST_MAX ranges, it
        holds nothing from the last of them on.
        """
        self.detach(holder)
        receiver = self._receivers[holder] = Receiver(holder, selector)
        self._state.join(receiver)
        kept: list[tuple[int, int]] = []
        for first, last in self._backlog.unfinished(held):
            for low, high, state in self._state.positions.filled(first, last, FRESH):
                if not isinstance(state, Receiver):
                    self._state.forget(low, high)
                    self._state.hold(receiver, low, high)
                    self._state.read_first(receiver, low, high)
                    kept.append((low, high))
        receiver.is_keeping = is_keeping
        receiver.is_telling = prefetched is not None and not is_keeping
        said = kept if prefetched is None else prefetched
        receiver.prefetched = Prefetched((first, last) for first, last in said if first >> INDEX_BITS == last >> INDEX_BITS)
        lost = held.without(Ranges.gather(kept))
        return lost if len(lost) <= LOST_MAX else self._shorten(lost, receiver, held.last)

    def _shorten(self, lost: Ranges, receiver: Receiver, end: int) -> Ranges:
        told = next(lost.portions(LOST_MAX))
        begin = told.last + 1
        for first, last in self._held_by(receiver):
            if last >= begin:
                self._state.forget(max(first, begin), last)
                self._state.put_back(max(first, begin), last, 0)
        told.add_last(begin, end)
        return told

    def detach(self, holder: Holder) -> Ranges:
        """A holder is gone. The events it held, which are answered, are delivered again."""
        receiver = self._receivers.pop(holder, None)
        if receiver is None:
            return Ranges()
        receiver.events = 0
        if self._crash_care is not None:
            self._crash_care.free(receiver)
        held = self._held_by(receiver)
        self._state.leave(receiver)
        for first, last in held:
            self._state.forget(first, last)
            self._state.put_back(first, last, 0)
        return Ranges.gather(held)

    def reached(self, holder: Holder, position: int) -> None:
        """The holder's program was handed this event, and everything that was handed over before it."""
        receiver = self._receivers.get(holder)
        if receiver is not None and position > 0:
            receiver.prefetched.reach(position)

    def seen(self, holder: Holder) -> Ranges:
        """The events it holds that its program was handed, as far as its client has said, and the next one, which the program may
        be working on. If the holder dies, these were delivered once more (rule 5). None of one that keeps what it is handed."""
        receiver = self._receivers.get(holder)
        if receiver is None or receiver.is_keeping:
            return Ranges()
        seen: Runs[bool] = Runs()
        for first, last in self._held_by(receiver):
            seen.put(first, last, True)
        prefetched = [part for first, last in receiver.prefetched for part in self._state.parts_held(receiver, first, last)]
        for first, last in prefetched:
            seen.cut(first, last)
        for first, _ in prefetched[:1]:
            seen.put(first, first, True)
        return Ranges.gather((first, last) for first, last, _ in seen)

    def unseen(self, holder: Holder) -> Ranges:
        """The events it holds that are not `seen`. Its program may have been handed some, if its client had not said so yet."""
        return self.held(holder).without(self.seen(holder))

    def held(self, holder: Holder) -> Ranges:
        receiver = self._receivers.get(holder)
        return Ranges.gather(self._held_by(receiver)) if receiver else Ranges()

    def unheld(self, up_to: int, spans_max: int) -> Ranges:
        """The events up to this position that wait and that nobody holds; of many, the first spans."""
        found = list(islice(self._backlog.unfinished(Ranges.of((0, up_to))), spans_max))
        if not found:
            return Ranges()
        others = Ranges.gather((first, last) for first, last, _ in self._state.positions)
        return Ranges.of((min(found)[0], max(found)[1])).without(others)

    def _held_by(self, receiver: Receiver) -> list[tuple[int, int]]:
        positions = self._state.positions
        return [
            (first, last) for entry in receiver.entries for first, last, state in positions.of_entry(entry) if state is receiver
        ]

    def holders(self) -> list[Holder]:
        return list(self._receivers)

    def grant(self, holder: Holder, events: int, bytes: int, withdrawn: int = 0) -> None:
        """The holder may be handed so many more. `withdrawn`: and so many fewer, of which some may be on their way already."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.events += events - withdrawn
            receiver.bytes += bytes
            if self._crash_care is not None:
                self._crash_care.free(receiver)
            self._line.join(receiver)

    def charge(self, holder: Holder, bytes: int) -> None:
        """So many bytes were sent to the holder. Without credit in bytes it gets nothing more."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.bytes -= bytes

    def revoke(self, holder: Holder) -> None:
        """The holder's link is lost: its credit is void. It keeps its events until it attaches again or is detached."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.events = receiver.bytes = 0

    def pass_over(self, holder: Holder, is_passed_over: bool) -> None:
        """The holder takes nothing for the moment, whatever its credit; or takes events again."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.is_passed_over = is_passed_over
            self._line.join(receiver)

    def has_credit(self, holder: Holder) -> bool:
        receiver = self._receivers.get(holder)
        return receiver is not None and receiver.has_credit

    # --- what happens to the backlog ---------------------------------------------------------------------------------

    def placed(self, first: int, events: int) -> None:
        """Something new waits at the end of the backlog, where a cursor will come to it."""
        self._state.placed()

    def finished(self, ranges: Ranges) -> None:
        if self._crash_care is not None:
            self._crash_care.finish(sum(self._state.held_in(first, last) for first, last in ranges))
        for first, last in ranges:
            self._state.finish(first, last)
        self._review_crash_care()

    def returned(self, ranges: Ranges, not_before_ms: int, session: str = "") -> None:
        """These wait again. If a session released them, those that another session holds stay with it.

        Fresh ones stay fresh: the cursor has not come to them.
        """
        for first, last in self._backlog.unfinished(ranges):
            for low, high, state in self._state.positions.filled(first, last, FRESH):
                if session and isinstance(state, Receiver) and state.holder[0] != session:
                    continue
                if state is FRESH:
                    self._state.return_fresh(low, high, not_before_ms)
                else:
                    self._state.forget(low, high)
                    self._state.put_back(low, high, not_before_ms)
        self._review_crash_care()

    def locked(self, ranges: Ranges) -> None:
        """A prepared transaction decides on these. Whoever holds them keeps them; nobody else is handed them."""
        for first, last in self._backlog.unfinished(ranges):
            for low, high, state in self._state.positions.filled(first, last, FRESH):
                if not isinstance(state, Receiver):
                    self._state.forget(low, high)
                    self._state.put(low, high, LOCKED)

    def unlocked(self, ranges: Ranges) -> None:
        """The transaction was aborted: those that nobody holds wait again."""
        for first, last in self._backlog.unfinished(ranges):
            for low, high, state in self._state.positions.over(first, last):
                if state is LOCKED:
                    self._state.forget(low, high)
                    self._state.return_fresh(low, high, 0)

    # --- crash care --------------------------------------------------------------------------------------------------

    def begin_crash_care(self) -> None:
        """A program may have died with the primary before: hand out with crash care what was placed until now."""
        self._crash_care = self._crash_care or CrashCare(self._backlog)

    @property
    def is_careful(self) -> bool:
        return self._crash_care is not None

    def _review_crash_care(self) -> None:
        if self._crash_care is not None:
            freed = self._crash_care.end() if self._crash_care.is_over else self._crash_care.free_idle()
            self._crash_care = None if self._crash_care.is_over else self._crash_care
            for receiver in freed:
                self._line.join(receiver)

    # --- what happens to handouts ------------------------------------------------------------------------------------

    def prefer(self, ranges: Ranges) -> None:
        """Hand these fresh ones out before all others, in the order of priority and placement (after a start, A7)."""
        for first, last in self._backlog.unfinished(ranges):
            self._state.prefer(first, last)

    def give_back(self, holder: Holder, slices: Iterable[HandoutSlice]) -> None:
        """These slices of a handout were not sent after all."""
        for first, last, receiver in self._unsent(holder, slices):
            self._state.forget(first, last)
            self._state.wait_again(first, last)
            receiver.events += last - first + 1
        self._not_sent(holder)

    def withdraw(self, holder: Holder, ranges: Ranges) -> None:
        """These positions of a handout were not sent: they have expired, or cannot be read, and go to the dead queue."""
        slices = [HandoutSlice(first, last - first + 1, 0, False) for first, last in ranges]
        for first, last, receiver in self._unsent(holder, slices):
            self._state.forget(first, last)
            self._state.put(first, last, GIVEN_UP)
            receiver.events += last - first + 1
        self._not_sent(holder)

    def _not_sent(self, holder: Holder) -> None:
        """Part of a handout was not sent: the holder may be handed more, and has not prefetched that part."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            self._state.shorten(receiver)
            if self._crash_care is not None:
                self._crash_care.free(receiver)
            self._line.join(receiver)

    def _unsent(self, holder: Holder, slices: Iterable[HandoutSlice]) -> Iterator[tuple[int, int, Receiver]]:
        """The parts of these that the holder still has. Its next slice adjoins nothing."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.newest = 0
            for handed in slices:
                for first, last, state in self._state.positions.over(handed.first, handed.first + handed.events - 1):
                    if state is receiver:
                        yield first, last, receiver

    def expire(self, ranges: Ranges) -> Ranges:
        """These have expired: give up those that nobody holds and that are not given up yet; which ones."""
        gone: list[tuple[int, int]] = []
        for first, last in self._backlog.unfinished(ranges):
            for low, high, state in self._state.positions.filled(first, last, FRESH):
                if not isinstance(state, Receiver) and state not in (GIVEN_UP, LOCKED):
                    self._state.forget(low, high)
                    self._state.put(low, high, GIVEN_UP)
                    gone.append((low, high))
        return Ranges.gather(gone)

    # --- reading heads -----------------------------------------------------------------------------------------------

    def head_reads(self, now_ms: int, count: int) -> list[HeadRead]:
        """Heads to be read before more can be handed out. Answer each with `heads_read` or `read_later`."""
        self._due_timer.advance(now_ms)
        return self._head_reads.ask(now_ms, count)

    def heads_read(self, head_read: HeadRead, found: Iterable[Found]) -> None:
        """These heads were read: `found` are the events that match, and the group of each."""
        self._head_reads.learn(head_read, found)

    def read_later(self, head_read: HeadRead, not_before_ms: int) -> None:
        """These heads cannot be read now."""
        self._head_reads.put_off(head_read, not_before_ms)

    # --- handing out -------------------------------------------------------------------------------------------------

    def next(self, now_ms: int, events_max: int = 1000) -> Handout | None:
        """The next holder's handout: at most `events_max` events. None when nobody has credit or there is nothing to deliver."""
        self._due_timer.advance(now_ms)
        for _ in range(len(self._line) if self._state.views else 1):
            receiver = self._line.first()
            if receiver is None:
                return None
            crash_care = self._crash_care if receiver.is_telling else None
            if crash_care is not None and not crash_care.allows_more(now_ms):
                return None
            slices = self._handouts.slices(receiver, 1 if crash_care is not None else min(events_max, receiver.events), now_ms)
            if slices:
                for handed in slices:
                    receiver.events -= handed.events
                self._line.next()
                if crash_care is not None:
                    crash_care.hand(receiver, now_ms)
                return Handout(receiver.holder, slices, crash_care is not None)
            if self._state.views:
                self._line.next()
        return None

    def is_ready(self, now_ms: int) -> bool:
        """There is something to do: a handout to be made, or exhausted events to be given up."""
        self._due_timer.advance(now_ms)
        if self._state.exhausted:
            return True
        is_held_up = self._crash_care is not None and not self._crash_care.allows_more(now_ms)
        receiver = self._line.first()
        if receiver is None or (is_held_up and receiver.is_telling):
            return False
        if not self._state.views:
            return self._handouts.has_any(now_ms)
        return any(each.has_credit and self._handouts.choice(each, now_ms) is not None for each in self._receivers.values())

    def take_exhausted(self) -> Ranges:
        """The events that were redelivered as often as allowed; told once.

        If they cannot be given up, say `returned`, and they are told again.
        """
        taken, self._state.exhausted = self._state.exhausted, []
        return Ranges.gather(taken)

    @property
    def wake_at_ms(self) -> int | None:
        """When the next delayed event is due, or when crash care allows another handout."""
        due_at_ms = self._due_timer.due_at_ms
        again_at_ms = self._crash_care.again_at_ms if self._crash_care is not None else None
        if due_at_ms is None or again_at_ms is None:
            return again_at_ms if due_at_ms is None else due_at_ms
        return min(due_at_ms, again_at_ms)
