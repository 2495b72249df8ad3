"""How work gets to the loop in its background thread (`node.background`).

waiting_for   one call: this thread waits while it is carried out over there; Ctrl-C ends the wait and cancels the call
HandOver      many small things: gathered here, taken over there together, so that a hot loop seldom changes threads
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from holdfast.node.background import Background

Item = TypeVar("Item")
Result = TypeVar("Result")
Twin = TypeVar("Twin")
TwinOf = TypeVar("TwinOf", covariant=True)
Arguments = ParamSpec("Arguments")


class HasTwin(Protocol[TwinOf]):
    """An object without a loop, and its twin in the loop."""

    _background: Background

    @property
    def _twin(self) -> TwinOf: ...


def waiting_for(
    call: Callable[Concatenate[Twin, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[HasTwin[Twin], Arguments], Result]:
    """A method that makes this call of its twin and waits for the result. It has the arguments and the docstring of the call."""

    @functools.wraps(call)
    def waiting(self: HasTwin[Twin], /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        return self._background.run(call(self._twin, *arguments, **named))

    return waiting


class HandOver(Generic[Item]):
    """Items put in this thread and taken in the other, many at a time."""

    def __init__(self, background: Background, take: Callable[[Item], object]) -> None:
        self._background = background
        self._take = take
        self._waiting: deque[Item] = deque()
        self._is_due = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: Item) -> None:
        self._waiting.append(item)
        if not self._is_due:
            self._is_due = True
            self._background.loop.call_soon_threadsafe(self.take_over)

    def take_over(self) -> None:
        """In the other thread. `_is_due` is taken back first: an item that is put from now on asks for another turn."""
        self._is_due = False
        while self._waiting:
            item = self._waiting.popleft()
            try:
                self._take(item)
            except Exception as problem:  # kept for `raise_error`: nobody waits here
                self._error = self._error or problem

    def raise_error(self) -> None:
        """Raise the first error since the last call."""
        error, self._error = self._error, None
        if error is not None:
            raise error
