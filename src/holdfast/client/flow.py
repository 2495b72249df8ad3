"""Flow control at the client: which destinations are blocked, and what is held back for them. Everything else goes on.

    open gathering ─▶ waiting for the window ─▶ in flight ─▶ receipted
         │ stays open        │                     │ refused: back, before all that was not sent
         └── while blocked   └─▶ held back ◀───────┘
                                   │ unblocked
                                   └─▶ waiting, first

The server says when a destination that this session sends to reaches its high water, and when it is free again. What is on its
way then may be refused; it is sent again, in its order, under a new number. A new link begins with nothing blocked: the server
says it again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from holdfast.client.alarm import wake
from holdfast.client.gathering import Gathering
from holdfast.errors import Blocked, TimedOut


class Flow:
    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._held: dict[str, deque[Gathering]] = {}
        self._returned: list[Gathering] = []  # refused, in the order of their numbers, until all that is in flight is answered
        self._watching: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        """Something is blocked or kept here."""
        return bool(self._reasons or self._held or self._returned)

    def __iter__(self) -> Iterator[Gathering]:
        """All that is kept here."""
        yield from self._returned
        for held in self._held.values():
            yield from held

    @property
    def is_empty(self) -> bool:
        return not (self._held or self._returned)

    def is_blocked(self, destination: str) -> bool:
        return destination in self._reasons

    def held_for(self, destination: str) -> int:
        return len(self._held.get(destination, ()))

    # --- what the server says ----------------------------------------------------------------------------------------

    def block(self, destination: str, reason: str) -> None:
        self._reasons[destination] = reason

    def unblock(self, destination: str) -> deque[Gathering]:
        """It is free again: what was held back for it, in order."""
        self._reasons.pop(destination, None)
        self._wake()
        return self._held.pop(destination, deque())

    def unblock_all(self) -> list[Gathering]:
        """The link is lost: what was held back, in order for each destination."""
        self._reasons.clear()
        held, self._held = self._held, {}
        self._wake()
        return [gathering for each in held.values() for gathering in each]

    def _wake(self) -> None:
        wake(self._watching)

    # --- what is kept ------------------------------------------------------------------------------------------------

    def hold(self, gathering: Gathering) -> None:
        """It must not be sent now. One that was only tried is refused."""
        if gathering.is_trying:
            gathering.refuse(self.refusal(gathering.destination))
        else:
            self._held.setdefault(gathering.destination, deque()).append(gathering)

    def take_back(self, gathering: Gathering) -> None:
        """It was sent and refused, because its destination was full."""
        gathering.unseal()
        self._returned.append(gathering)

    def is_behind(self, gathering: Gathering) -> bool:
        """Something for the same destination was refused before it."""
        return any(each.destination == gathering.destination for each in self._returned)

    def returned(self) -> list[Gathering]:
        """What was taken back and is to be sent before everything else: those whose destination is blocked stay held."""
        returned, self._returned = sorted(self._returned, key=lambda each: each.sequence), []
        for gathering in reversed(returned):
            if gathering.destination in self._reasons:
                self._held.setdefault(gathering.destination, deque()).appendleft(gathering)
        return [gathering for gathering in returned if gathering.destination not in self._reasons]

    def drop(self, gathering: Gathering) -> bool:
        """Nothing is left of it; whether it was kept here."""
        if gathering in self._returned:
            self._returned.remove(gathering)
            return True
        held = self._held.get(gathering.destination)
        if held is None or gathering not in held:
            return False
        held.remove(gathering)
        if not held:
            del self._held[gathering.destination]
        return True

    def give_up(self) -> list[Gathering]:
        """The client is closed: all that was kept."""
        kept = list(self)
        self._held.clear()
        self._returned.clear()
        self._wake()
        return kept

    # --- what callers are told ---------------------------------------------------------------------------------------

    def refusal(self, destination: str, timeout: float | None = None) -> Blocked:
        reason = self._reasons.get(destination, "it was when this was sent")
        within = "" if timeout is None else f" within {timeout:g} s"
        return Blocked(
            f"{destination!r} is full ({reason}) and took nothing more{within}; "
            "this was not accepted: send it again later, or wait with unblocked()",
            destination=destination,
        )

    async def unblocked(self, destination: str, timeout: float) -> None:
        """Wait until it is not blocked; TimedOut when that takes longer."""
        try:
            async with asyncio.timeout(timeout):
                while destination in self._reasons:
                    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._watching.append(future)
                    await future
        except TimeoutError as problem:
            raise TimedOut(
                f"{destination!r} is still full after {timeout:g} s ({self._reasons.get(destination, '')}); wait longer",
                destination=destination,
            ) from problem
