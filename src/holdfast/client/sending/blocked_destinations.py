"""Flow control at the client: which destinations are blocked, and the batches that are held back for them. All others go on.

    open builder ─▶ waiting for the window ─▶ in flight ─▶ receipted
         │ stays open        │                     │ refused: back, before all that was not sent
         └── while blocked   └─▶ held back ◀───────┘
                                   │ unblocked
                                   └─▶ waiting, first

The server says when a destination that this session sends to reaches its high water, and when it is free again. It may refuse
batches that are in flight then; they are sent again, in their order, under new numbers. A new link begins with nothing blocked:
the server says it again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from holdfast.client.link.waiters import Waiters
from holdfast.client.sending.batch_builder import BatchBuilder
from holdfast.errors import Blocked, TimedOut


class BlockedDestinations:
    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}  # why each is blocked
        self._held: dict[str, deque[BatchBuilder]] = {}  # only for blocked ones
        self._returned: list[BatchBuilder] = []  # refused, in the order of their numbers, until all that is in flight is answered
        self._watching = Waiters()

    def __iter__(self) -> Iterator[BatchBuilder]:
        """Iterate over all that is kept here."""
        yield from self._returned
        for held in self._held.values():
            yield from held

    @property
    def is_empty(self) -> bool:
        return not (self._held or self._returned)

    def is_blocked(self, destination: str) -> bool:
        return destination in self.reasons

    def held_for(self, destination: str) -> int:
        return len(self._held.get(destination, ()))

    # --- what the server says ----------------------------------------------------------------------------------------

    def block(self, destination: str, reason: str) -> None:
        self.reasons[destination] = reason

    def unblock(self, destination: str) -> deque[BatchBuilder]:
        """Note that it is free again; return the batches that were held back for it, in order."""
        self.reasons.pop(destination, None)
        self._watching.wake()
        return self._held.pop(destination, deque())

    def unblock_all(self) -> list[BatchBuilder]:
        """Forget what is blocked, with the link; return the batches that were held back, in order for each destination."""
        self.reasons.clear()
        held, self._held = self._held, {}
        self._watching.wake()
        return [builder for each in held.values() for builder in each]

    # --- keeping batches ---------------------------------------------------------------------------------------------

    def hold(self, builder: BatchBuilder) -> None:
        """Keep it until its destination is free. One that was only tried is refused."""
        if builder.is_trying:
            builder.refuse(self.refusal(builder.destination))
        else:
            self._held.setdefault(builder.destination, deque()).append(builder)

    def take_back(self, builder: BatchBuilder) -> None:
        """Keep a batch that was sent and refused, because its destination was full."""
        builder.unseal()
        self._returned.append(builder)

    def is_behind(self, builder: BatchBuilder) -> bool:
        """Whether an earlier batch for the same destination was refused."""
        return any(each.destination == builder.destination for each in self._returned)

    def returned(self) -> list[BatchBuilder]:
        """Return the batches that were taken back, to be sent before all others. Those whose destination is blocked stay held."""
        returned, self._returned = sorted(self._returned, key=lambda each: each.sequence), []
        for builder in reversed(returned):
            if builder.destination in self.reasons:
                self._held.setdefault(builder.destination, deque()).appendleft(builder)
        return [builder for builder in returned if builder.destination not in self.reasons]

    def drop(self, builder: BatchBuilder) -> bool:
        """Forget an empty batch; return whether it was kept here."""
        if builder in self._returned:
            self._returned.remove(builder)
            return True
        held = self._held.get(builder.destination)
        if held is None or builder not in held:
            return False
        held.remove(builder)
        if not held:
            del self._held[builder.destination]
        return True

    def give_up(self) -> list[BatchBuilder]:
        """Forget and return all that is kept: the client is closed."""
        kept = list(self)
        self._held.clear()
        self._returned.clear()
        self._watching.wake()
        return kept

    # --- what callers are told ---------------------------------------------------------------------------------------

    def refusal(self, destination: str, timeout: float | None = None) -> Blocked:
        reason = self.reasons.get(destination, "it was when this was sent")
        within = "" if timeout is None else f" within {timeout:g} s"
        return Blocked(
            f"{destination!r} is full ({reason}) and took nothing more{within}; "
            "this was not accepted: send it again later, or wait with unblocked()",
            destination=destination,
        )

    async def unblocked(self, destination: str, timeout: float) -> None:
        """Wait until it is not blocked; TimedOut when that takes longer."""
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            while destination in self.reasons:
                await self._watching.wait(deadline)
        except TimeoutError as problem:
            raise TimedOut(
                f"{destination!r} is still full after {timeout:g} s ({self.reasons.get(destination, '')}); wait longer",
                destination=destination,
            ) from problem
