"""Delivery: who holds what of one backlog, and who gets what next. Only a primary has it; `apply` never asks it (rule 3).

    what happens           fresh      held        returned    delayed     given up          (see `standing`)
    next                   held       -           held        -           -
    returned               fresh      returned or delayed, or given up when the limit is reached
    finished               forgotten in every place
    detach of its holder   -          returned    -           -           -
    its time has come      -          -           -           returned    -

Where positions stand is kept in the `waiting_room`. What goes next is a `choice`, and what a holder gets of it at once a
`handout`; where heads must be read before that, `looks` says which, the shell reads them and says what was found.

Only what is not fresh is remembered, as runs of positions: memory is bounded by what is in flight or has come back, and the
cost of everything is per slice, never per event. Holders with credit take turns; a holder without costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.destination.backlog import Backlog
from holdfast.destination.choice import Choices
from holdfast.destination.credit import Line, Receiver
from holdfast.destination.handout import Handout, Handouts, HandoutSlice
from holdfast.destination.looks import Looks
from holdfast.destination.receivers import Holder
from holdfast.destination.standing import FRESH, GIVEN_UP
from holdfast.destination.view import Found, Look
from holdfast.destination.waiting_room import WaitingRoom
from holdfast.destination.waking import Waking
from holdfast.event.position import Ranges


class Delivery:
    def __init__(self, backlog: Backlog, redelivery_limit: int = 0) -> None:
        """`redelivery_limit`: how often an event is delivered again before it is given up; 0 for no limit."""
        self._backlog = backlog
        self._receivers: dict[Holder, Receiver] = {}
        self._line = Line()
        self._room = WaitingRoom(backlog, redelivery_limit)
        self._waking = Waking(self._room, backlog)
        self._looks = Looks(self._room, self._waking, backlog)
        self._choices = Choices(self._room, self._waking, backlog)
        self._handouts = Handouts(self._room, self._choices, backlog)

    @property
    def in_flight(self) -> int:
        return self._room.in_flight

    @property
    def delivered_up_to(self) -> int:
        return self._room.delivered_up_to

    @property
    def has_views(self) -> bool:
        """Heads may have to be looked at before more can be handed out: `looks` says which."""
        return bool(self._room.views)

    @property
    def has_expiries(self) -> bool:
        return self._backlog.has_expiries

    def configure(self, redelivery_limit: int) -> None:
        """From now on this limit holds. What was given up under another one stays given up."""
        self._room.limit = redelivery_limit

    # --- holders and their credit ------------------------------------------------------------------------------------

    def attach(self, holder: Holder, held: Ranges, selector: str = "") -> None:
        """A holder comes (again), holding these. What it was thought to hold beside them is delivered again."""
        self.detach(holder)
        receiver = self._receivers[holder] = Receiver(holder, selector)
        self._room.join(receiver)
        for first, last in self._backlog.unfinished(held):
            for low, high, state in self._room.standing.filled(first, last, FRESH):
                if not isinstance(state, Receiver):
                    self._room.forget(low, high)
                    self._room.hold(receiver, low, high)
                    self._room.look_first(receiver, low, high)

    def detach(self, holder: Holder) -> Ranges:
        """A holder is gone: what it held (the answer) is to be delivered again."""
        receiver = self._receivers.pop(holder, None)
        if receiver is None:
            return Ranges()
        receiver.events = 0
        held = self._held_by(receiver)
        self._room.leave(receiver)
        for first, last in held:
            self._room.forget(first, last)
            self._room.put_back(first, last, 0)
        return Ranges.gather(held)

    def held(self, holder: Holder) -> Ranges:
        receiver = self._receivers.get(holder)
        return Ranges.gather(self._held_by(receiver)) if receiver else Ranges()

    def _held_by(self, receiver: Receiver) -> list[tuple[int, int]]:
        standing = self._room.standing
        return [
            (first, last) for entry in receiver.entries for first, last, state in standing.of_entry(entry) if state is receiver
        ]

    def holders(self) -> list[Holder]:
        return list(self._receivers)

    def grant(self, holder: Holder, events: int, bytes: int) -> None:
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.events += events
            receiver.bytes += bytes
            self._line.join(receiver)

    def charge(self, holder: Holder, bytes: int) -> None:
        """So many bytes were sent to it; with no credit in bytes left it gets nothing more."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.bytes -= bytes

    def revoke(self, holder: Holder) -> None:
        """Its link is lost: its credit is void. It keeps what it holds until it attaches again or is detached."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.events = receiver.bytes = 0

    def pass_over(self, holder: Holder, is_passed_over: bool) -> None:
        """It takes nothing for the moment, whatever its credit; or it does again."""
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
        self._room.placed()

    def finished(self, ranges: Ranges) -> None:
        for first, last in ranges:
            self._room.finish(first, last)

    def returned(self, ranges: Ranges, not_before_ms: int, session: str = "") -> None:
        """These wait again; if a session released them, those that another one holds stay with it.

        Those that are fresh stay so: the cursor has not come to them.
        """
        for first, last in self._backlog.unfinished(ranges):
            for low, high, state in self._room.standing.filled(first, last, FRESH):
                if session and isinstance(state, Receiver) and state.holder[0] != session:
                    continue
                if state is FRESH:
                    self._room.return_fresh(low, high, not_before_ms)
                else:
                    self._room.forget(low, high)
                    self._room.put_back(low, high, not_before_ms)

    def prefer(self, ranges: Ranges) -> None:
        """These fresh ones go out before all others, in the order of priority and placement (after a start, A7)."""
        for first, last in self._backlog.unfinished(ranges):
            self._room.prefer(first, last)

    def give_back(self, holder: Holder, slices: Iterable[HandoutSlice]) -> None:
        """These slices of a handout were not sent after all."""
        for first, last, receiver in self._unsent(holder, slices):
            self._room.forget(first, last)
            self._room.wait_again(first, last)
            receiver.events += last - first + 1
            self._line.join(receiver)

    def withdraw(self, holder: Holder, ranges: Ranges) -> None:
        """These of a handout were not sent: they have expired, or cannot be read, and go to the dead queue."""
        slices = [HandoutSlice(first, last - first + 1, 0, False) for first, last in ranges]
        for first, last, receiver in self._unsent(holder, slices):
            self._room.forget(first, last)
            self._room.put(first, last, GIVEN_UP)
            receiver.events += last - first + 1
            self._line.join(receiver)

    def _unsent(self, holder: Holder, slices: Iterable[HandoutSlice]) -> Iterator[tuple[int, int, Receiver]]:
        """What of these the holder still has. What it is handed next adjoins nothing."""
        receiver = self._receivers.get(holder)
        if receiver is not None:
            receiver.newest = 0
            for handed in slices:
                for first, last, state in self._room.standing.over(handed.first, handed.first + handed.events - 1):
                    if state is receiver:
                        yield first, last, receiver

    def expire(self, ranges: Ranges) -> Ranges:
        """These have expired: those that nobody holds, and that are not given up yet, are from now on."""
        gone: list[tuple[int, int]] = []
        for first, last in self._backlog.unfinished(ranges):
            for low, high, state in self._room.standing.filled(first, last, FRESH):
                if not isinstance(state, Receiver) and state is not GIVEN_UP:
                    self._room.forget(low, high)
                    self._room.put(low, high, GIVEN_UP)
                    gone.append((low, high))
        return Ranges.gather(gone)

    # --- looking at heads --------------------------------------------------------------------------------------------

    def looks(self, now_ms: int, count: int) -> list[Look]:
        """Heads to be looked at before more can be handed out. Each is to be answered: `looked_at`, or `look_later`."""
        self._waking.wake(now_ms)
        return self._looks.ask(now_ms, count)

    def looked_at(self, look: Look, found: Iterable[Found]) -> None:
        """The heads of a look were read: what matches, and the group of each."""
        self._looks.learn(look, found)

    def look_later(self, look: Look, not_before_ms: int) -> None:
        """The heads of a look cannot be read now."""
        self._looks.put_off(look, not_before_ms)

    # --- handing out -------------------------------------------------------------------------------------------------

    def next(self, now_ms: int, events_max: int = 1000) -> Handout | None:
        """What the next holder gets: at most `events_max` events. None when nobody has credit or there is nothing to deliver."""
        self._waking.wake(now_ms)
        for _ in range(len(self._line) if self._room.views else 1):
            receiver = self._line.first()
            if receiver is None:
                return None
            slices = self._handouts.slices(receiver, min(events_max, receiver.events), now_ms)
            if slices:
                receiver.events -= sum(handed.events for handed in slices)
                self._line.next()
                return Handout(receiver.holder, slices)
            if self._room.views:
                self._line.next()
        return None

    def is_ready(self, now_ms: int) -> bool:
        """There is something to do: a handout to be made, or exhausted events to be given up."""
        room = self._room
        self._waking.wake(now_ms)
        if room.exhausted:
            return True
        receiver = self._line.first()
        if receiver is None:
            return False
        if not room.views:
            return self._choices.has_any(now_ms)
        return any(each.has_credit and self._choices.choice(each, now_ms) is not None for each in self._receivers.values())

    def take_exhausted(self) -> Ranges:
        """What was redelivered as often as allowed; told once.

        When it cannot be given up, say `returned` and it is told again.
        """
        taken, self._room.exhausted = self._room.exhausted, []
        return Ranges.gather(taken)

    @property
    def wake_at_ms(self) -> int | None:
        """When the next delayed event may be delivered."""
        return self._waking.wake_at_ms
