"""Looks: which heads are to be read before more can be handed out, and what is learnt when they were.

    view ─▶ a run ─▶ what of it nobody has, and is due ─▶ Look ─(the shell reads heads)─▶ Found ─▶ the groups of the view

Between asking and answering anything may have happened: what was found is judged by where it stands when the answer comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from holdfast.destination.backlog import Backlog
from holdfast.destination.credit import Receiver
from holdfast.destination.grouping import Offer
from holdfast.destination.standing import FREE, FRESH, Delayed, Standing
from holdfast.destination.traits import is_grouped, priority_of
from holdfast.destination.view import Found, Look, Scan, View
from holdfast.destination.waiting_room import WaitingRoom
from holdfast.destination.waking import Waking
from holdfast.event.position import INDEX_BITS, Ranges


class Looks:
    def __init__(self, room: WaitingRoom, waking: Waking, backlog: Backlog) -> None:
        self._room = room
        self._waking = waking
        self._backlog = backlog

    def ask(self, now_ms: int, count: int) -> list[Look]:
        """At most so many, of all views."""
        made: list[Look] = []
        for view in self._room.views.values():
            made += view.looks(count - len(made), partial(self._lookable, now_ms), self._unfinished)
        return made

    def _lookable(self, now_ms: int, first: int, last: int, scan: Scan) -> list[tuple[int, int]]:
        """What of a run nobody has. What waits for a time is looked at too if it has a group, which then stands still."""
        found = []
        for low, high, state in self._room.standing.filled(first, last, FRESH):
            if state in FREE:
                found += self._waking.due(low, high, now_ms, scan)
            if isinstance(state, Delayed) and is_grouped(scan.lane):
                found.append((low, high))
        return found

    def _unfinished(self, first: int, last: int) -> list[tuple[int, int]]:
        return list(self._backlog.unfinished(Ranges.of((first, last))))

    def learn(self, look: Look, found: Iterable[Found]) -> None:
        """What matches, and the group of each."""
        view = self._room.views.get(look.selector)
        if view is None or view.answered(look) is None:
            return
        descent = -priority_of(self._backlog.lane_of(look.first >> INDEX_BITS))
        for first, last, group in found:
            for low, high in self._unfinished(first, last):
                for start, end, state in self._room.standing.filled(low, high, FRESH):
                    hint = Offer(int(state is FRESH), descent, self._backlog.place_of(start), start, end)
                    self._learn(view, hint, state, group)

    def _learn(self, view: View, hint: Offer, state: Standing, group: str | None) -> None:
        if state in FREE:
            view.groups.add(hint, group)
        elif group is not None and isinstance(state, Delayed):
            view.groups.learn_stalled(hint.first, hint.last, group)
        elif group is not None and state in view.receivers:
            assert isinstance(state, Receiver)
            view.groups.give(view.groups.learn(hint.first, hint.last, group), state)

    def put_off(self, look: Look, not_before_ms: int) -> None:
        """What nobody has of it waits until then, and is looked at again."""
        view = self._room.views.get(look.selector)
        if view is None or view.answered(look) is None:
            return
        for first, last in self._unfinished(look.first, look.last):
            for low, high, state in self._room.standing.filled(first, last, FRESH):
                if state in FREE:
                    self._room.delay(low, high, not_before_ms)
