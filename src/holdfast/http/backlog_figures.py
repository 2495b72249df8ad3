"""The figures of backlogs: a row for each queue and subscription, up to a bound; the rest are summed as "other".

The first rows that are seen have series of their own. A backlog that was summed once stays summed until the server starts again,
and what a deleted one had counted stays in the sum: so no series of counts ever falls because others came and went. Temporary
destinations are always summed: they are many, and their names are secrets of their clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.bus.message import BacklogKey
from holdfast.destination.backlog.bodies import body_in
from holdfast.destination.name import is_temporary
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.subscription import PatternSubscription
from holdfast.errors import HoldfastError
from holdfast.node.messages.message_manager import MessageManager

SHOWN_MAX = 100
OTHER = "other"
# Backlogs that are looked at before everyone else has a turn: a millisecond of work.
LOOKED_AT_ONCE = 250
# Bytes of a command that surely hold its head, and so the time when it was accepted.
FRONT_BYTES = 4096


class Counts(NamedTuple):
    """Counts that only grow."""

    accepted: int = 0
    delivered: int = 0
    redelivered: int = 0
    confirmed: int = 0
    dead: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(self, other, strict=True)))


class Row(NamedTuple):
    destination: str
    subscription: str
    counts: Counts
    waiting: int
    in_flight: int
    blocked: int
    oldest_entry: int = 0  # 0: nothing waits
    oldest_seconds: float = 0.0


class Shown:
    """Chooses which rows have series of their own. Pure."""

    def __init__(self, shown_max: int = SHOWN_MAX) -> None:
        self._shown_max = shown_max
        self._shown: dict[BacklogKey, None] = {}
        self._summed: dict[BacklogKey, Counts] = {}  # as last seen
        self._gone = Counts()  # of those that were summed and are not there any more

    def choose(self, rows: dict[BacklogKey, Row]) -> tuple[list[Row], Row | None]:
        """The rows to show, and the sum of the others, if there are or were any."""
        for key in [key for key in self._shown if key not in rows]:
            del self._shown[key]
        for key in [key for key in self._summed if key not in rows]:
            self._gone = self._gone.plus(self._summed.pop(key))
        for key, row in rows.items():
            if key in self._shown:
                continue
            if key not in self._summed and len(self._shown) < self._shown_max and not is_temporary(key[0]):
                self._shown[key] = None
            else:
                self._summed[key] = row.counts
        others = [rows[key] for key in self._summed]
        is_any = bool(others) or any(self._gone)
        return [rows[key] for key in self._shown], self._sum(others) if is_any else None

    def _sum(self, rows: list[Row]) -> Row:
        counts = Counts(*(sum(each) for each in zip(self._gone, *(row.counts for row in rows), strict=True)))
        waiting, in_flight, blocked = (sum(getattr(row, name) for row in rows) for name in ("waiting", "in_flight", "blocked"))
        oldest = min((row.oldest_entry for row in rows if row.oldest_entry), default=0)
        return Row(OTHER, "", counts, waiting, in_flight, blocked, oldest)


def merged(rows: Iterable[Row]) -> list[Row]:
    """Rows of several message managers: each has a `_DMQ`, and a sum of others, which are shown as one."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = row.destination, row.subscription
        found[key] = _together(found[key], row) if key in found else row
    return list(found.values())


def _together(one: Row, other: Row) -> Row:
    return one._replace(
        counts=one.counts.plus(other.counts),
        waiting=one.waiting + other.waiting,
        in_flight=one.in_flight + other.in_flight,
        blocked=one.blocked + other.blocked,
        oldest_seconds=max(one.oldest_seconds, other.oldest_seconds),
    )


class BacklogFigures:
    """Goes through all backlogs of a message manager, in turns with all other work."""

    def __init__(self, messages: MessageManager) -> None:
        self._messages = messages
        self._shown = Shown()
        self._accepted_us: dict[int, int] = {}  # by entry: the oldest ones of the rows shown last

    async def take(self, now_us: int) -> list[Row]:
        """The rows to show, with the age of the oldest event that waits in each."""
        rows: dict[BacklogKey, Row] = {}
        for place, queue in enumerate(list(self._messages.directory.catalog.queues.values()), 1):
            rows[queue.key] = self._row(queue)
            if place % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        shown, other = self._shown.choose(rows)
        chosen = [*shown, other] if other is not None else shown
        await self._find_ages({row.oldest_entry for row in chosen if row.oldest_entry})
        return [row._replace(oldest_seconds=self._age_s(row, now_us)) for row in chosen]

    def _row(self, queue: Queue) -> Row:
        messages, key, oldest = self._messages, queue.key, 0
        accepted = confirmed = dead = waiting = 0
        if queue.is_used:
            account, waiting = queue.account(), queue.backlog.waiting
            accepted, confirmed, dead = account["accepted"], account["confirmed"], account["dead"]
            oldest = queue.backlog.first_waiting_entry() if waiting else 0
        figures = messages.figures
        counts = Counts(accepted, figures.delivered.get(key, 0), figures.redelivered.get(key, 0), confirmed, dead)
        name = queue.pattern.text if isinstance(queue, PatternSubscription) else key[0]
        blocked = int(messages.flow.is_blocked(key[0]))
        return Row(name, key[1], counts, waiting, messages.deliverer.in_flight(key), blocked, oldest)

    async def _find_ages(self, entries: Iterable[int]) -> None:
        """Read when entries were accepted; those that are known are not read again."""
        directory, channel = self._messages.directory, self._messages.channel
        self._accepted_us = {entry: self._accepted_us[entry] for entry in entries if entry in self._accepted_us}
        for entry in entries:
            if entry in self._accepted_us:
                continue
            try:
                (found,) = await channel.fetch([directory.locate(entry)], front=FRONT_BYTES)
                self._accepted_us[entry] = body_in(found, entry).accepted_us
            except HoldfastError:  # finished, and released, meanwhile
                continue

    def _age_s(self, row: Row, now_us: int) -> float:
        accepted_us = self._accepted_us.get(row.oldest_entry, 0)
        return max(0, now_us - accepted_us) / 1_000_000 if accepted_us else 0.0
