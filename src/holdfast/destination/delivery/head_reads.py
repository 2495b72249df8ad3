"""Head reads: which heads must be read before more can be handed out, and what is learnt from them.

    view ─▶ a run ─▶ the parts that nobody has and are due ─▶ HeadRead ─(the shell reads heads)─▶ Found ─▶ groups of the view

Anything may happen between asking and answering: what was found is judged by the states of its positions when the answer comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.batch_traits import is_grouped, priority_of
from holdfast.destination.delivery.credit import Receiver
from holdfast.destination.delivery.delivery_state import FREE, FRESH, Delayed, DeliveryState, PositionState
from holdfast.destination.delivery.due_timer import DueTimer
from holdfast.destination.delivery.groups import Offer
from holdfast.destination.delivery.view import Found, HeadRead, Scan, View
from holdfast.event.position import INDEX_BITS, Ranges


class HeadReads:
    def __init__(self, state: DeliveryState, due_timer: DueTimer, backlog: Backlog) -> None:
        self._state = state
        self._due_timer = due_timer
        self._backlog = backlog

    def ask(self, now_ms: int, count: int) -> list[HeadRead]:
        """The next reads of all views, at most so many."""
        made: list[HeadRead] = []
        for view in self._state.views.values():
            made += view.head_reads(count - len(made), partial(self._readable, now_ms), self._unfinished)
        return made

    def _readable(self, now_ms: int, first: int, last: int, scan: Scan) -> list[tuple[int, int]]:
        """The parts of a run that nobody has. Delayed ones with a group are read too: their group stands still."""
        found = []
        for low, high, state in self._state.positions.filled(first, last, FRESH):
            if state in FREE:
                found += self._due_timer.due(low, high, now_ms, scan)
            if isinstance(state, Delayed) and is_grouped(scan.lane):
                found.append((low, high))
        return found

    def _unfinished(self, first: int, last: int) -> list[tuple[int, int]]:
        return list(self._backlog.unfinished(Ranges.of((first, last))))

    def learn(self, head_read: HeadRead, found: Iterable[Found]) -> None:
        """The heads were read: what matches, and the group of each."""
        view = self._state.views.get(head_read.selector)
        if view is None or view.answered(head_read) is None:
            return
        descent = -priority_of(self._backlog.lane_of(head_read.first >> INDEX_BITS))
        for first, last, group in found:
            for low, high in self._unfinished(first, last):
                for start, end, state in self._state.positions.filled(low, high, FRESH):
                    hint = Offer(int(state is FRESH), descent, self._backlog.place_of(start), start, end)
                    self._learn(view, hint, state, group)

    def _learn(self, view: View, hint: Offer, state: PositionState, group: str | None) -> None:
        if state in FREE:
            view.groups.add(hint, group)
        elif group is not None and isinstance(state, Delayed):
            view.groups.learn_stalled(hint.first, hint.last, group)
        elif group is not None and state in view.receivers:
            assert isinstance(state, Receiver)
            view.groups.give(view.groups.learn(hint.first, hint.last, group), state)

    def put_off(self, head_read: HeadRead, not_before_ms: int) -> None:
        """The parts that nobody has wait until then, and are read again."""
        view = self._state.views.get(head_read.selector)
        if view is None or view.answered(head_read) is None:
            return
        for first, last in self._unfinished(head_read.first, head_read.last):
            for low, high, state in self._state.positions.filled(first, last, FRESH):
                if state in FREE:
                    self._state.delay(low, high, not_before_ms)
