"""A selector: which events a recipient wants, by a condition over their attributes and properties (see the package)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import BadSelector
from holdfast.event.batch import Batch
from holdfast.event.event import NOT_READABLE, PRIORITY_DEFAULT
from holdfast.event.selector.like import STEP_COST

if TYPE_CHECKING:
    from holdfast.event.selector.compiler import Compiled

# Recipients of one kind have the same selector, and reconnect with it: this many different ones are kept ready.
KEPT_READY_MAX = 256
# As many of those that receivers and subscriptions have.
STORED_READY_MAX = 1_024


class View(NamedTuple):
    """The values that a selector may read: the head as it travels, and the attributes that the event has from its batch."""

    head: bytes | memoryview
    source: str = ""
    id_number: int = 0
    priority: int = PRIORITY_DEFAULT
    trail: int = 0  # of its batch


@dataclass(frozen=True, slots=True)
class Selector:
    """A condition, ready to be asked. Two are equal when their texts are. BadSelector for a text that is not one.

    A stored one was checked by the release that took it: it is made ready when it is first asked.
    """

    text: str
    is_stored: bool = field(default=False, repr=False, compare=False)
    _compiled: Compiled | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_is_text(self.text)
        if not self.is_stored:
            self.ready()

    @property
    def is_ready(self) -> bool:
        """Whether it was asked before: then it need not be parsed."""
        return self._compiled is not None

    def ready(self) -> Compiled:
        """The functions of this selector; BadSelector when there are none."""
        if self._compiled is None:
            try:
                made = _compiled(self.text)
            except BadSelector:
                if not self.is_stored:
                    raise
                made = _compiled(self.text, is_stored=True)
            object.__setattr__(self, "_compiled", made)
        assert self._compiled is not None
        return self._compiled

    def __str__(self) -> str:
        return self.text

    def matches(self, view: View) -> bool:
        """Whether the condition is TRUE for this event; not if it is unknown, nor for a head that cannot be read."""
        compiled = self.ready()
        try:
            head = compiled.read(view.head)
        except NOT_READABLE:
            return False
        return compiled.holds(head, view.source, view.id_number, view.priority, view.trail)

    def select(self, batch: Batch, indexes: Iterable[int]) -> list[int]:
        """The events among these of a batch that match, in the order asked. Reads heads, and no bodies."""
        compiled = self.ready()
        read, holds = compiled.read, compiled.holds
        source, first_id, priority, trail = batch.source, batch.first_id, batch.priority, batch.trail
        found = []
        for index in indexes:
            try:
                head = read(batch.head(index))
            except NOT_READABLE:
                continue
            if holds(head, source, first_id + index, priority, trail):
                found.append(index)
        return found

    def cost(self, batch: Batch, events: int) -> int:
        """The cost of asking about so many events of a batch, at most, by the bytes that are read."""
        compiled = self.ready()
        return events * compiled.event_cost + len(batch.heads) * compiled.byte_cost

    def select_in_steps(self, batch: Batch, indexes: Iterable[int]) -> Generator[int, None, list[int]]:
        """As `select`, a generator that yields the cost of each step: pause there, and go on when others had their turn."""
        compiled = self.ready()
        event_cost, byte_cost = compiled.event_cost, compiled.byte_cost
        found: list[int] = []
        small: list[int] = []  # asked in one step
        spent = 0
        for index in indexes:
            cost = event_cost + len(batch.head(index)) * byte_cost
            if spent + cost > STEP_COST:
                found += self.select(batch, small)
                yield spent
                small, spent = [], 0
            if cost <= STEP_COST:
                small.append(index)
                spent += cost
            elif (yield from self._matches_in_steps(compiled, batch, index)):
                found.append(index)
        found += self.select(batch, small)
        yield spent
        return found

    def _matches_in_steps(self, compiled: Compiled, batch: Batch, index: int) -> Generator[int, None, bool]:
        head = batch.head(index)
        try:
            read = compiled.read(head)
        except NOT_READABLE:
            return False
        finally:
            yield compiled.event_cost + len(head) * compiled.reading_cost
        whose = (batch.source, batch.first_id + index, batch.priority, batch.trail)
        return (yield from compiled.holds_in_steps(read, *whose))


@lru_cache(maxsize=KEPT_READY_MAX)
def _compiled(text: str, is_stored: bool = False) -> Compiled:
    # Here, not above: importing the parser takes a tenth of a second, and most programs have no selector.
    from holdfast.event.selector.compiler import Compiled
    from holdfast.event.selector.parser import parse

    return Compiled(parse(text, is_stored))


def parsed(text: str) -> Generator[int, None, None]:
    """Parse a text, and keep the selector ready, as one step. Whoever uses it finds its mistakes again."""
    with suppress(BadSelector):
        parse_optional(text)
    yield STEP_COST


def prepare() -> None:
    """Make the parser ready. It takes some tenths of a second: a server does so in a thread, before a selector comes."""
    from holdfast.event.selector.parser import parse

    for is_stored in (False, True):
        parse("TRUE", is_stored)


def parse_optional(text: str | None) -> Selector | None:
    """The selector of a text, or None for none: JMS takes an empty text for "every event".

    The same text gives the same object, while it is among those kept ready.
    """
    if text is None:
        return None
    _check_is_text(text)
    return _kept_ready(text) if text.strip(" \t\r\n\f") else None


def stored_selector(text: str) -> Selector | None:
    """The selector of a text in a journal, or None for none. Texts that an earlier release took are taken, and parsed when they
    are first asked."""
    return _stored_ready(text) if text.strip(" \t\r\n\f") else None


def _check_is_text(text: object) -> None:
    if not isinstance(text, str):
        raise BadSelector(f"a selector is text, not {type(text).__name__}; write it in quotes")


_kept_ready = lru_cache(maxsize=KEPT_READY_MAX)(Selector)
_stored_ready = lru_cache(maxsize=STORED_READY_MAX)(partial(Selector, is_stored=True))
