"""Order: which requests of a domain may be called now. By domain one at a time, by session or by key as many as do not touch.

    place       1      2       3       4      5         6
    keys       (a)    (b)    (a, b)   (c)   barrier    (a)

                1 ──────┐
                        ├──▶ 3 ──┐
                2 ──────┘        ├──▶ 5 ──▶ 6          an arrow: the right one waits until the left one is finished
                4 ───────────────┘

    waiting     admitted; something before it on one of its keys is not finished
    taken       told by `take`, once: its call may begin
    held        in doubt: not told, or not told again, until `resume`; nothing follows on its keys (continuity rule 3)
    finished    answered, known, skipped or resolved: what waited for it may go

A request enters all its key queues at once, in the order of the topic (continuity rule 11), so no two requests wait for each
other. A barrier, whose keys are None, waits for everything before it, and everything after it waits for the barrier: a request
without a key, a change of the membership, a snapshot.

A queue is not stored as such. Each request knows how many it waits for and which wait for it, and each key knows the newest
request on it: admitting and finishing cost as much as there are keys. Between two barriers lies a stretch, which counts what is
unfinished in it: a barrier costs the same as a request.
The window bounds memory: it counts from the oldest unfinished place to the newest admitted one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

Kind = Literal["domain", "session", "key"]

_WHOLE_DOMAIN = ("",)


class Order:
    """The order of one server's calls. `finished` is the place before the first that will be admitted."""

    def __init__(self, kind: Kind, window: int, finished: int = 0) -> None:
        self.kind = kind
        self.window = window
        self._finished = self._admitted = finished
        self._open: dict[int, _Request] = {}  # from admission until it has passed its turn on
        self._line: deque[_Request] = deque()  # from the oldest unfinished place on
        self._newest: dict[str, _Request] = {}  # by key: the newest request of this stretch
        self._stretch = _Stretch()
        self._ready: list[int] = []

    @property
    def finished(self) -> int:
        """Everything up to and with this place is finished."""
        return self._finished

    @property
    def admitted(self) -> int:
        """The newest place that was admitted."""
        return self._admitted

    @property
    def is_full(self) -> bool:
        """The window is reached: receive no more for now; the server lags."""
        return len(self._line) >= self.window

    @property
    def held(self) -> list[int]:
        """The places that are in doubt, oldest first."""
        return [each.place for each in self._line if each.is_held and not each.is_finished]

    def __len__(self) -> int:
        """Count the places from the oldest unfinished one to the newest."""
        return len(self._line)

    def admit(self, place: int, keys: Sequence[str] | None) -> None:
        """Enter a place, in the order of the topic. With order by domain, keys are not looked at; None is a barrier."""
        if place <= self._admitted:
            raise ValueError(f"place {place} comes after place {self._admitted}: places are admitted in the order of the topic")
        self._admitted = place
        request = self._open[place] = _Request(place)
        self._line.append(request)
        if keys is None or not keys:
            self._enter_barrier(request)
        else:
            self._enter(request, _WHOLE_DOMAIN if self.kind == "domain" else keys)
        if not request.waits:
            self._ready.append(place)

    def _enter_barrier(self, request: _Request) -> None:
        before = self._stretch
        self._newest = {}
        self._stretch = request.stretch = _Stretch(request)
        self._stretch.unfinished = 1
        if before.unfinished:
            before.barrier = request
            request.waits = 1

    def _enter(self, request: _Request, keys: Sequence[str]) -> None:
        newest, stretch = self._newest, self._stretch
        request.stretch = stretch
        stretch.unfinished += 1
        request.keys = keys
        for key in keys:
            before = newest.get(key)
            newest[key] = request
            if before is not None and before is not request:
                before.followers.append(request)
                request.waits += 1
        if not request.waits and stretch.head is not None:
            stretch.head.followers.append(request)
            request.waits = 1

    def take(self) -> list[int]:
        """The places whose calls may begin now, in order. Each is told once, and once more after `resume`."""
        if not self._ready:
            return []
        ready, self._ready = sorted(self._ready), []
        taken = []
        for place in ready:
            request = self._open.get(place)
            if request is not None and not request.is_held and not request.is_taken:
                request.is_taken = True
                taken.append(place)
        return taken

    def hold(self, place: int) -> None:
        """A place is in doubt, taken or not: nothing follows on its keys until it is finished. A finished one is passed over."""
        request = self._find(place)
        if request is not None:
            request.is_held = True

    def resume(self, place: int) -> None:
        """A held place is called, or called again: `take` tells it when its turn has come. Others are passed over."""
        request = self._find(place)
        if request is not None and request.is_held:
            request.is_held = request.is_taken = False
            if not request.waits:
                self._ready.append(place)

    def finish(self, place: int) -> None:
        """A place is finished, taken or not. Finished before its turn, it passes its turn on when it comes.

        A place that is finished already is passed over: the answer to a call in doubt may come after all.
        """
        request = self._find(place)
        if request is None:
            return
        request.is_finished = True
        if not request.waits:
            self._pass_on(request)
        self._move_on()

    def _find(self, place: int) -> _Request | None:
        if place > self._admitted:
            raise ValueError(f"place {place} is not admitted; the newest is {self._admitted}")
        request = self._open.get(place)
        return None if request is None or request.is_finished else request

    def _pass_on(self, request: _Request) -> None:
        """Let what waits for a finished request go, and, in turn, what waits for those that were finished before their turn."""
        passing = [request]
        for each in passing:
            self._leave(each)
            for follower in each.followers:
                follower.waits -= 1
                if not follower.waits:
                    self._come_up(follower, passing)
            each.followers = []
            stretch = each.stretch
            stretch.unfinished -= 1
            if not stretch.unfinished and stretch.barrier is not None:
                stretch.barrier.waits = 0
                self._come_up(stretch.barrier, passing)

    def _come_up(self, request: _Request, passing: list[_Request]) -> None:
        if request.is_finished:
            passing.append(request)
        elif not request.is_held:
            self._ready.append(request.place)

    def _leave(self, request: _Request) -> None:
        del self._open[request.place]
        if request.stretch is not self._stretch:
            return
        if request.stretch.head is request:
            request.stretch.head = None
        for key in request.keys:
            if self._newest.get(key) is request:
                del self._newest[key]

    def _move_on(self) -> None:
        line = self._line
        while line and line[0].is_finished:
            self._finished = line.popleft().place


class _Stretch:
    """What lies between two barriers, the one at its head included."""

    __slots__ = ("barrier", "head", "unfinished")

    def __init__(self, head: _Request | None = None) -> None:
        self.head = head  # the barrier that it begins with, until that is finished
        self.unfinished = 0
        self.barrier: _Request | None = None  # the one that waits for all of it


_NOWHERE = _Stretch()


class _Request:
    __slots__ = ("followers", "is_finished", "is_held", "is_taken", "keys", "place", "stretch", "waits")

    def __init__(self, place: int) -> None:
        self.place = place
        self.keys: Sequence[str] = ()
        self.waits = 0  # for so many: one for each key, or one for a barrier or a stretch
        self.followers: list[_Request] = []
        self.stretch = _NOWHERE
        self.is_taken = self.is_held = self.is_finished = False
