"""Receiving without a loop: slices come over whole, verdicts go over together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast.blocking.background import Background, HandOver
from holdfast.client.received import Handed, Received, checked_reason, milliseconds
from holdfast.client.recipient import Incoming as AsyncIncoming
from holdfast.client.verdicts import Verdict
from holdfast.errors import Closed, HoldfastError
from holdfast.event.position import Ranges


class Noted(NamedTuple):
    verdict: Verdict
    position: int
    generation: int
    delay_ms: int = 0
    reason: str = ""


class ReceivedEvent(Received, eq=False):
    """An event as `for event in incoming` hands it out. A verdict is noted, and travels together with others."""

    _verdicts: Any = None

    def confirm(self) -> None:
        """Finished with it."""
        if self._decide("confirmed"):
            self._note("confirm")

    def release(self, delay: float = 0.0) -> None:
        """Give it back, to be delivered again in `delay` seconds at the earliest."""
        delay_ms = milliseconds(delay)
        if self._decide("released"):
            self._note("release", delay_ms)

    def reject(self, reason: str) -> None:
        """Refuse it for good. The reason is kept with it."""
        said = checked_reason(reason)
        if self._decide("rejected"):
            self._note("reject", 0, said)

    def _note(self, verdict: Verdict, delay_ms: int = 0, reason: str = "") -> None:
        self._verdicts.put(Noted(verdict, self.position, self._handed.generation, delay_ms, reason))


class Incoming:
    """Events as they come in: `with queue.receive() as incoming: for event in incoming: …`."""

    def __init__(self, background: Background, make: Callable[[], AsyncIncoming]) -> None:
        self._background = background
        self._make = make
        self._incoming: AsyncIncoming | None = None
        self._handed: Handed | None = None
        self._indices = range(0)
        self._verdicts: HandOver[Noted] = HandOver(background, self._note)

    def _opened(self) -> AsyncIncoming:
        if self._incoming is None:
            raise Closed("the receiver is not open; use it inside `with queue.receive() as incoming`")
        return self._incoming

    def _note(self, noted: Noted) -> None:
        if noted.verdict == "confirm":
            self._opened().note_confirm(noted.position, noted.generation)
        else:
            self._opened().note(*noted)

    def open(self) -> Self:
        self._incoming = self._background.run(self._make_open())
        return self

    async def _make_open(self) -> AsyncIncoming:
        return await self._make().open()

    def close(self, timeout: float | None = None) -> None:
        """Send the verdicts, wait until they are applied, give back the rest."""
        self._background.run(self._close(timeout))
        self._verdicts.raise_error()

    async def _close(self, timeout: float | None) -> None:
        self._verdicts.take_over()
        unseen = Ranges()
        if self._handed is not None and self._indices:
            unseen = Ranges.of((self._handed.first + self._indices[0], self._handed.first + self._indices[-1]))
            self._indices = range(0)
        await self._opened().close(timeout, unseen)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except HoldfastError:
            if error is None:
                raise

    def __iter__(self) -> Iterator[ReceivedEvent]:
        self._opened()
        while True:
            try:
                event = self.next()
            except Closed:
                return
            yield event

    def next(self, timeout: float | None = None) -> ReceivedEvent:
        """The next event. TimedOut when none comes in time; Closed after the receiver was closed."""
        if not self._indices:
            self._handed, self._indices = self._background.run(self._next_run(timeout))
        assert self._handed is not None
        index = self._indices[0]
        self._indices = self._indices[1:]
        return ReceivedEvent(self._handed, index, _verdicts=self._verdicts)

    async def _next_run(self, timeout: float | None) -> tuple[Handed, range]:
        self._verdicts.take_over()
        return await self._opened().next_run(timeout)

    def settled(self, timeout: float | None = None) -> None:
        """Wait until all verdicts so far are applied. Raises the first that was refused."""
        self._background.run(self._settled(timeout))
        self._verdicts.raise_error()

    async def _settled(self, timeout: float | None) -> None:
        self._verdicts.take_over()
        await self._opened().settled(timeout)
