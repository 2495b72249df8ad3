"""Credit: what the receivers of one backlog may still be given, whose turn it is, and what each client has prefetched.

Receivers with credit in events and in bytes stand in a line; the one that was served goes to its end. A receiver without credit
is not in the line and costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from holdfast.destination.effect import Holder

Span = tuple[int, int]  # first position, last position; of one entry
# Spans of finished events are thrown away when there are this many: a client need not say how far its program is.
SPANS_MAX = 1_000


class Prefetched:
    """Events that a receiver was handed and its program was not, as far as its client has said, in the order of handing over.

        handed over   │ 1..9 │ 20..29 │ 12..12 │ 30..39 │
        told: 24        ✓       ▲ 25..29 │ 12..12 │ 30..39      prefetched: a client holds them, no program has seen them

    When a receiver dies, the events it held and had not prefetched count as delivered, and so does the first prefetched one: the
    program may have been working on it (rule 5). A mark that names nothing prefetched is old, and changes nothing.
    """

    __slots__ = ("_bound", "_reached", "_spans")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._spans: deque[Span] = deque(spans)
        self._reached = 0
        self._bound = max(SPANS_MAX, 2 * len(self._spans))

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, first: int, last: int) -> None:
        """These were handed over, after all others."""
        spans, self._reached = self._spans, 0  # what was reached before may be among them, again
        if spans and spans[-1][1] == first - 1:
            spans[-1] = spans[-1][0], last
        else:
            spans.append((first, last))

    @property
    def is_long(self) -> bool:
        return len(self._spans) > self._bound

    def keep(self, parts_of: Callable[[int, int], Iterable[Span]]) -> None:
        """Keep only the parts that `parts_of` answers for each span."""
        self._spans = deque(part for first, last in self._spans for part in parts_of(first, last))
        self._bound = max(SPANS_MAX, 2 * len(self._spans))

    def reach(self, position: int) -> None:
        """The program was handed this one, and everything that was handed over before it."""
        if position == self._reached:
            return
        self._reached = position
        for index, (first, last) in enumerate(self._spans):
            if first <= position <= last:
                for _ in range(index + 1):
                    self._spans.popleft()
                if position < last:
                    self._spans.appendleft((position + 1, last))
                return


class Receiver:
    """A receiver as its delivery knows it: its credit, and in which entries it holds something."""

    def __init__(self, holder: Holder, selector: str = "") -> None:
        self.holder = holder
        self.selector = selector  # "" for all events
        self.events = 0
        self.bytes = 0
        self.entries: dict[int, None] = {}
        self.newest = 0  # the last position it was handed
        self.prefetched = Prefetched()
        self.is_telling = False  # its client says how far it has handed out, and asks for more (see `crash_care`)
        self.is_keeping = False  # nothing that it was handed counts as delivered when it is gone
        self.is_at_work = False
        self.is_in_line = False
        self.is_passed_over = False  # it takes nothing for the moment, whatever its credit

    def take(self, first: int, last: int) -> None:
        """It was handed these."""
        self.newest = last
        self.prefetched.add(first, last)

    @property
    def has_credit(self) -> bool:
        return self.events > 0 and self.bytes > 0 and not self.is_passed_over and not self.is_at_work


class Line:
    def __init__(self) -> None:
        self._waiting: deque[Receiver] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, receiver: Receiver) -> None:
        """Stand at the end, if there is credit and it does not stand in the line already."""
        if receiver.has_credit and not receiver.is_in_line:
            receiver.is_in_line = True
            self._waiting.append(receiver)

    def first(self) -> Receiver | None:
        """The receiver whose turn it is. Receivers without credit leave the line."""
        while self._waiting:
            if self._waiting[0].has_credit:
                return self._waiting[0]
            self._waiting.popleft().is_in_line = False
        return None

    def next(self) -> None:
        """The first was served."""
        self._waiting.rotate(-1)
