"""Outcomes: what became of events, by their positions, as a program sees it. `destination.outcomes` says who counts.

    waiting = Ranges.of((receipt.position, receipt.position))
    while waiting:
        outcomes = await client.outcomes("orders", waiting, wait=10)
        …                                                    # confirmed, dead with code and reason, nobody
        waiting = waiting.without(outcomes.finished)

The server is asked about so many ranges at a time. It answers at once if anything of them is finished. Otherwise it waits, and is
asked again, until something is, or the time is over.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.client import checks
from holdfast.client.reading.lane import lane_of
from holdfast.client.receiving.receive_options import Match, place_of
from holdfast.errors import BadSetting
from holdfast.event.position import Ranges
from holdfast.wire.frame import Manage

if TYPE_CHECKING:
    from holdfast.client.connection.session import Session

# Ranges that are asked about at a time, and how long the server is asked to wait: less than it is willing to.
ASKED_MAX = 8_192
WAIT_MS_MAX = 5_000
# Where there are more ranges than that, each part is waited for in turn.
PART_WAIT_MS_MAX = 250
# A server that has no room for one who waits answers at once: it is asked again after this.
AGAIN_S = 0.1


class DeadRanges(NamedTuple):
    """Events that were given up alike."""

    ranges: Ranges
    code: str  # that of the dead event: expired, redelivered, failed, rejected, deleted …
    reason: str
    subscription: str  # which gave them up; "" for a queue


class Outcomes(NamedTuple):
    """What became of the positions that were asked about: each is in one of these."""

    waiting: Ranges
    confirmed: Ranges
    dead: tuple[DeadRanges, ...]
    nobody: Ranges  # nobody who counts now was there when they were placed
    counting: int  # how many count now: durable subscriptions, or the queue
    identity: str  # of the subscription that was named, as in `Extent`; "" for none

    @property
    def finished(self) -> Ranges:
        """All that are not waiting."""
        dead = (span for each in self.dead for span in each.ranges)
        return Ranges.gather((*self.confirmed, *self.nobody, *dead))

    @property
    def up_to(self) -> int:
        """Everything that was asked about is finished up to this position; 0 where not even the first is."""
        finished = self.finished
        if not self.waiting:
            return finished.last if finished else 0
        before = [min(last, self.waiting.first - 1) for first, last in finished if first < self.waiting.first]
        return before[-1] if before else 0


class OutcomeQuestion:
    """Asks about positions of one destination, or of one subscription."""

    def __init__(
        self,
        session: Session,
        destination: str,
        subscription: str,
        match: Match | None,
        timeout: float | None,
        channel: str = "",
    ) -> None:
        where, found = place_of(destination, match, subscription)
        self._session = session
        self._lane = partial(lane_of, session, where, found, channel)
        self._timeout = checks.seconds(timeout, session.connection.timeout)
        self._where: dict[str, Any] = {"topic": where, "subscription": subscription, "match": found}

    async def ask(self, asked: Ranges, wait: float) -> Outcomes:
        """What became of these; after so many seconds at most, if all of them still wait."""
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not wait >= 0:
            raise BadSetting(f"a wait of {wait!r} is no time; give seconds, 0 not to wait", setting="wait")
        self._session = await self._lane()
        loop = self._session.connection.loop
        deadline = self._session.connection.deadline(wait)
        parts = list(asked.portions(ASKED_MAX)) or [asked]
        longest = WAIT_MS_MAX if len(parts) == 1 else PART_WAIT_MS_MAX
        while True:
            began, found = loop.time(), list[Outcomes]()
            for part in parts:
                is_news = any(each.finished for each in found)
                wait_ms = 0 if is_news else min(longest, max(0, round(1000 * (deadline - loop.time()))))
                found.append(await self._ask_all(part, wait_ms))
            if not asked or any(each.finished for each in found) or loop.time() >= deadline:
                return _joined(found)
            await asyncio.sleep(max(0.0, min(began + AGAIN_S, deadline) - loop.time()))

    async def _ask_all(self, asked: Ranges, wait_ms: int) -> Outcomes:
        """Ask until all of it was answered: an answer has room for so many ranges."""
        found: list[Outcomes] = []
        while True:
            answer = await self._ask(asked, wait_ms if not found else 0)
            through = answer["through"]
            beyond = Ranges.gather((max(first, through + 1), last) for first, last in asked if last > through)
            found.append(_read(asked.without(beyond), answer))
            if not beyond:
                return _joined(found)
            asked = beyond

    async def _ask(self, asked: Ranges, wait_ms: int) -> dict[str, Any]:
        arguments = {**self._where, "ranges": asked.to_bytes(), "wait_ms": wait_ms}
        answer: dict[str, Any] = await self._session.ask_again(
            lambda token: Manage(token, "outcomes", arguments), self._timeout + wait_ms / 1000
        )
        return answer


def _read(asked: Ranges, answer: dict[str, Any]) -> Outcomes:
    waiting, nobody = Ranges.from_bytes(answer["waiting"]), Ranges.from_bytes(answer["nobody"])
    dead = tuple(DeadRanges(Ranges.from_bytes(ranges), *how) for ranges, *how in answer["dead"])
    known = Ranges.gather((*waiting, *nobody, *(span for each in dead for span in each.ranges)))
    return Outcomes(waiting, asked.without(known), dead, nobody, answer["counting"], answer["identity"])


def _joined(found: list[Outcomes]) -> Outcomes:
    if len(found) == 1:
        return found[0]
    return Outcomes(
        Ranges.gather(span for each in found for span in each.waiting),
        Ranges.gather(span for each in found for span in each.confirmed),
        tuple(dead for each in found for dead in each.dead),
        Ranges.gather(span for each in found for span in each.nobody),
        found[-1].counting,
        found[-1].identity,
    )
