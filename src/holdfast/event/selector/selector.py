"""A selector: which events a recipient wants, by a condition over their attributes and properties. Taught in the package."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.errors import BadSelector
from holdfast.event.batch import Batch
from holdfast.event.event import PRIORITY_DEFAULT

if TYPE_CHECKING:
    from holdfast.event.selector.compiling import Compiled

# Recipients of one kind have the same selector, and reconnect with it: this many different ones are kept ready.
KEPT_READY_MAX = 256

# What decoding raises at bytes that are no head: damaged, or made by a producer that is broken.
_NOT_A_HEAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class View(NamedTuple):
    """What a selector may look at: the head as it travels, and what the event has from its batch."""

    head: bytes | memoryview
    source: str = ""
    id_number: int = 0
    priority: int = PRIORITY_DEFAULT


@dataclass(frozen=True, slots=True)
class Selector:
    """A condition, ready to be asked. Two are equal when their texts are. BadSelector for a text that is not one."""

    text: str
    _compiled: Compiled = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_is_text(self.text)
        # Here, not above: the parser takes a tenth of a second to import, and most programs have no selector.
        from holdfast.event.selector.compiling import compiled
        from holdfast.event.selector.parsing import parse

        object.__setattr__(self, "_compiled", compiled(parse(self.text)))

    def __str__(self) -> str:
        return self.text

    def matches(self, view: View) -> bool:
        """Whether the condition is TRUE of this event; it is not when it is unknown, nor for a head that cannot be read."""
        try:
            head = self._compiled.read(view.head)
        except _NOT_A_HEAD:
            return False
        return self._compiled.holds(head, view.source, view.id_number, view.priority)

    def select(self, batch: Batch, indexes: Iterable[int]) -> list[int]:
        """Those of these events of a batch that match, in the order asked. Looks at their heads only, and at no body."""
        read, holds = self._compiled
        source, first_id, priority = batch.source, batch.first_id, batch.priority
        found = []
        for index in indexes:
            try:
                head = read(batch.head(index))
            except _NOT_A_HEAD:
                continue
            if holds(head, source, first_id + index, priority):
                found.append(index)
        return found


def select(batch: Batch, selector: Selector, indexes: Iterable[int]) -> list[int]:
    """Those of these events of a batch that match, in the order asked."""
    return selector.select(batch, indexes)


def compile_selector(text: str) -> Selector:
    """The selector of a text; the same object for the same text, while it is among those kept ready."""
    _check_is_text(text)
    return _kept_ready(text)


def parse_optional(text: str | None) -> Selector | None:
    """The selector of a text, or None for none: JMS takes an empty text for "every event"."""
    if text is None:
        return None
    _check_is_text(text)
    return _kept_ready(text) if text.strip(" \t\r\n\f") else None


def _check_is_text(text: object) -> None:
    if not isinstance(text, str):
        raise BadSelector(f"a selector is text, not {type(text).__name__}; write it in quotes")


_kept_ready = lru_cache(maxsize=KEPT_READY_MAX)(Selector)
