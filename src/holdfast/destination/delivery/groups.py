"""Groups of one view of a backlog: who has which, and what of each waits, in order.

    group "eu"     owner ann      waiting 17, 20, 21      one after the other to ann, while she is there
    group "us"     owner nobody   waiting 18              to whoever takes it, and from then on to the same
    no group                      waiting 19, 22          to anybody

Within a group what came back goes before what is new, and nothing goes while one that was given back with a delay waits: so
no event of a group overtakes an earlier one of it. A group that nobody has goes to a receiver that has no more groups than any
other with credit. Groups of which nothing is known to wait or to be held are remembered, the last used IDLE_MAX of them.

`waiting` has exactly the events that are known to wait. Heaps only point to it, and are checked against it.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.destination.backlog.runs import Runs
from holdfast.destination.delivery.credit import Receiver
from holdfast.event.event import PRIORITY_MAX
from holdfast.event.position import INDEX_BITS

# Groups with nothing waiting or held that keep their receiver: some 300 bytes each.
IDLE_MAX = 10_000


class Offer(NamedTuple):
    """Positions of one batch that waited when the offer was made. Offers sort as they are to go out."""

    rank: int  # 0: came back, 1: new
    descent: int  # the priority, negative
    place: int
    first: int
    last: int

    def cut(self, first: int, last: int) -> Offer:
        return Offer(self.rank, self.descent, self.place + first - self.first, first, last)


class Group:
    __slots__ = ("hints", "known", "name", "owner", "post", "stalled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.owner: Receiver | None = None
        self.hints: list[Offer] = []  # a heap
        self.known = 0  # its events that are known and not finished
        self.stalled = 0  # those of them that wait for a time
        self.post = 0  # the number of the post that stands for it


_NONE = Group("")
Post = tuple[Offer, int, Group | None]  # the next events of a group, or of none; numbered, so that groups are never compared
Place = tuple[Receiver | str, int]  # who may take it, and at which priority
ANYBODY = "anybody"  # events without a group
NOBODY = "nobody"  # events of a group that nobody has: the receiver that takes one has the group


class Kept(NamedTuple):
    """The priority and the group of an event that waits."""

    priority: int
    group: Group | None


class Groups:
    def __init__(self) -> None:
        self.waiting: Runs[Kept] = Runs()
        self._counts = [0] * (PRIORITY_MAX + 1)  # events in `waiting`, by priority
        self._known: Runs[Group] = Runs()  # the group of every event that is known and not finished
        self._by_name: dict[str, Group] = {}
        self._idle: OrderedDict[str, None] = OrderedDict()
        self._owned: dict[Receiver, dict[str, None]] = {}
        self._busy: dict[Receiver, int] = {}  # how many of them are not idle
        self._posts: dict[Place, list[Post]] = {}
        self._number = 0

    # --- what is known -----------------------------------------------------------------------------------------------

    def learn(self, first: int, last: int, name: str) -> Group:
        """These events belong to this group."""
        group = self._by_name.get(name)
        if group is None:
            group = self._by_name[name] = Group(name)
        group.known += last - first + 1
        for low, high, before in self._known.cut(first, last):
            before.known -= high - low + 1
        self._known.put(first, last, group)
        if self._idle.pop(name, 0) is None and group.owner is not None:
            self._busy[group.owner] += 1
        return group

    def learn_stalled(self, first: int, last: int, name: str) -> None:
        """These belong to this group and wait for a time."""
        for low, high, group in self._known.filled(first, last, _NONE):
            if group is _NONE:
                learnt = self.learn(low, high, name)
                learnt.stalled += high - low + 1
                self._show(learnt)

    def add(self, hint: Offer, name: str | None) -> None:
        """These wait, and go out when their turn comes."""
        self.remove(hint.first, hint.last)
        group = None if name is None else self.learn(hint.first, hint.last, name)
        self.waiting.put(hint.first, hint.last, Kept(-hint.descent, group))
        self._counts[-hint.descent] += hint.last - hint.first + 1
        if group is None:
            self._put_up(hint, None)
        else:
            heapq.heappush(group.hints, hint)
            self._show(group)

    def remove(self, first: int, last: int) -> None:
        """These do not wait any more: they are held, finished, or wait for a time."""
        for low, high, (priority, group) in self.waiting.cut(first, last):
            self._counts[priority] -= high - low + 1
            if group is not None:
                self._show(group)

    def count(self, priority: int) -> int:
        """Events that wait, of this priority and higher ones."""
        return sum(self._counts[priority:])

    def finish(self, first: int, last: int) -> None:
        self.remove(first, last)
        for low, high, group in self._known.cut(first, last):
            group.known -= high - low + 1
            if not group.known:
                self._rest(group)

    def _rest(self, group: Group) -> None:
        """No event of the group is known any more. The groups that are idle for longest are forgotten."""
        group.hints.clear()
        self._idle[group.name] = None
        if group.owner is not None:
            self._busy[group.owner] -= 1
        while len(self._idle) > IDLE_MAX:
            name = next(iter(self._idle))
            self._disown(self._by_name.pop(name))
            del self._idle[name]

    def stall(self, first: int, last: int, by: int) -> None:
        """These begin to wait for a time (by 1), or do so no more (by -1): their groups stand still meanwhile."""
        for low, high, group in self._known.over(first, last):
            group.stalled += by * (high - low + 1)
            self._show(group)

    # --- who has what ------------------------------------------------------------------------------------------------

    def give(self, group: Group, receiver: Receiver) -> None:
        if group.owner is not receiver:
            self._disown(group)
            group.owner = receiver
            self._owned.setdefault(receiver, {})[group.name] = None
            self._busy[receiver] = self._busy.get(receiver, 0) + (group.name not in self._idle)
            self._show(group)

    def _disown(self, group: Group) -> None:
        if group.owner is not None:
            del self._owned[group.owner][group.name]
            self._busy[group.owner] -= group.name not in self._idle
            group.owner = None

    def leave(self, receiver: Receiver) -> None:
        """The receiver is gone: its groups go to others."""
        for name in list(self._owned.get(receiver, ())):
            group = self._by_name[name]
            self._disown(group)
            self._show(group)
        self._owned.pop(receiver, None)
        self._busy.pop(receiver, None)
        self._posts = {place: posts for place, posts in self._posts.items() if place[0] is not receiver}

    def owner_of(self, name: str) -> Receiver | None:
        group = self._by_name.get(name)
        return group.owner if group else None

    def load(self, receiver: Receiver) -> int:
        """How many groups a receiver has of which something is known to wait or to be held."""
        return self._busy.get(receiver, 0)

    # --- whose turn it is --------------------------------------------------------------------------------------------

    def peek(self, receiver: Receiver, priority: int, others: Iterable[Receiver]) -> Offer | None:
        """The first events that this receiver may have: of its groups, of no group, or of a group that it may take."""
        fronts = [self._front((receiver, priority)), self._front((ANYBODY, priority))]
        if not self._has_more(receiver, others):
            fronts.append(self._front((NOBODY, priority)))
        return min((post[0] for post in fronts if post is not None), default=None)

    def _has_more(self, receiver: Receiver, others: Iterable[Receiver]) -> bool:
        """Another receiver, which could take it too, has fewer groups."""
        load = self.load(receiver)
        return load > 0 and any(self.load(other) < load for other in others)

    def take(self, receiver: Receiver, hint: Offer, last: int) -> None:
        """The receiver is handed hint.first .. last; the rest stays in front."""
        group = self.waiting.over(hint.first, hint.first)[0][2].group
        self.remove(hint.first, last)
        if group is None:
            if last < hint.last:
                self._put_up(hint.cut(last + 1, hint.last), None)
            return
        if last < hint.last:
            heapq.heappush(group.hints, hint.cut(last + 1, hint.last))
        self.give(group, receiver)
        self._show(group)

    def _show(self, group: Group) -> None:
        """Put up the next events of a group, where its owner, or anybody, finds them."""
        group.post = 0
        if not group.stalled and (hint := self._next_of(group)) is not None:
            group.post = self._put_up(hint, group)

    def _put_up(self, hint: Offer, group: Group | None) -> int:
        self._number += 1
        place: Place = (ANYBODY if group is None else group.owner or NOBODY, -hint.descent)
        heapq.heappush(self._posts.setdefault(place, []), (hint, self._number, group))
        return self._number

    def _front(self, place: Place) -> Post | None:
        """The first post that is still true. Posts before it, and parts of it that are not true, are removed."""
        posts = self._posts.get(place)
        while posts:
            hint, number, group = posts[0]
            if group is None:
                if self._first_run(hint, None) == hint:
                    return posts[0]
                heapq.heappop(posts)
                for run in self._runs(hint, None):
                    self._put_up(run, None)
            elif group.post != number:
                heapq.heappop(posts)
            elif self._next_of(group) == hint:
                return posts[0]
            else:
                heapq.heappop(posts)
                self._show(group)
        return None

    def _next_of(self, group: Group) -> Offer | None:
        hints = group.hints
        while hints:
            if self._first_run(hints[0], group) == hints[0]:
                return hints[0]
            for run in self._runs(heapq.heappop(hints), group):
                heapq.heappush(hints, run)
        return None

    def _first_run(self, hint: Offer, group: Group | None) -> Offer | None:
        return next(iter(self._runs(hint, group)), None)

    def _runs(self, hint: Offer, group: Group | None) -> list[Offer]:
        """The parts of a hint that really wait."""
        if not self.waiting.has(hint.first >> INDEX_BITS):
            return []
        return [hint.cut(low, high) for low, high, kept in self.waiting.over(hint.first, hint.last) if kept.group is group]
