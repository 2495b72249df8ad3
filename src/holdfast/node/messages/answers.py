"""The answers of a message manager to questions about its state as applied: for `destination list`, `show` and `status`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.channel.channel import Channel
from holdfast.destination.backlog.bodies import body_in
from holdfast.destination.directory import Directory
from holdfast.destination.state.catalog import Catalog
from holdfast.destination.state.queue import Queue
from holdfast.destination.state.subscription import PatternSubscription, pattern_of_key
from holdfast.destination.state.topic import Topic
from holdfast.errors import HoldfastError, NoSuchPosition
from holdfast.event.position import INDEX_BITS
from holdfast.node.administration import arguments, cluster_arguments
from holdfast.node.administration.arguments import place_of_subscription
from holdfast.node.administration.touched import Arguments

if TYPE_CHECKING:
    from holdfast.node.messages.message_manager import MessageManager


ACCOUNT = frozenset(("accepted", "confirmed", "dead", "expired"))
# The rows and bytes of one answer: so it fits a frame, and an event.
PAGE_DESTINATIONS = 250
PAGE_BYTES = 256 << 10
# The bytes of the subscriptions of one topic, in a list of destinations.
LISTED_BYTES = 8 << 10
# Rows of a status: dead events, and events that came back often.
DEAD_ROWS_MAX = 200
OFTEN_ROWS_MAX = 200
# Transactions in doubt, of one answer.
TRANSACTIONS_MAX = 500
_encoded = msgspec.msgpack.Encoder().encode
# Backlogs that are surveyed before everyone else has a turn: a millisecond of work.
LOOKED_AT_ONCE = 500


def answer(manager: MessageManager, action: str, asked: Arguments) -> Any:
    """A value that msgpack can hold, or a coroutine of one; HoldfastError when there is nothing to say."""
    return ANSWERS[action](manager, asked)


def _list(manager: MessageManager, asked: arguments.List) -> dict[str, Any]:
    """A page of destinations, and the name after which the next page begins. The account of each is left to `describe`."""
    found = manager.directory.list(asked.after, PAGE_DESTINATIONS)
    known = [{**_shortened(each, LISTED_BYTES), **_now(manager, each["name"])} for each in found]
    rows = _fitting([{name: value for name, value in each.items() if name not in ACCOUNT} for each in known], PAGE_BYTES)
    is_end = len(rows) == len(found) < PAGE_DESTINATIONS
    return {"destinations": rows, "next": None if is_end else rows[-1]["name"]}


def _describe(manager: MessageManager, asked: arguments.Describe) -> dict[str, Any]:
    described = manager.directory.describe(asked.name)
    found = manager.directory.catalog.find(asked.name)
    patterns = [each.describe() for each in found.patterns] if isinstance(found, Topic) else []
    beside = {"pattern_subscriptions": _fitting(patterns, PAGE_BYTES)} if isinstance(found, Topic) else {}
    return {**_shortened(described, PAGE_BYTES), **beside, **_now(manager, described["name"])}


def _shortened(described: dict[str, Any], bytes_max: int) -> dict[str, Any]:
    """A topic with only the first of its many subscriptions, and how many are left: `subscriptions` gives all, in pages."""
    every = described.get("subscriptions", ())
    first = _fitting(every, bytes_max)
    if len(first) == len(every):
        return described
    return {**described, "subscriptions": first, "subscriptions_left": len(every) - len(first)}


def _fitting(rows: Sequence[dict[str, Any]], bytes_max: int) -> Sequence[dict[str, Any]]:
    """The first of these rows, as many as fit so many bytes; one at least."""
    size = 0
    for count, row in enumerate(rows):
        size += len(_encoded(row))
        if size > bytes_max and count:
            return rows[:count]
    return rows


def _now(manager: MessageManager, name: str) -> dict[str, Any]:
    """Facts that only the primary knows: how many events are in flight, and whether the destination is full."""
    in_flight = sum(manager.deliverer.in_flight(queue.key) for queue in manager.directory.catalog.queues_of(name))
    return {"in_flight": in_flight, "is_blocked": manager.flow.is_blocked(name), **_deduplication(manager, name)}


def _deduplication(manager: MessageManager, name: str) -> dict[str, Any]:
    """How many events a destination that deduplicates remembers, and for how many seconds, if less than its setting says."""
    known = manager.directory.deduplications.get(name)
    if known is None:
        return {}
    reach_ms = known.shortened_to_ms
    return {"remembered": len(known), "deduplicate_shortened_to": None if reach_ms is None else reach_ms / 1000}


def _subscriptions(manager: MessageManager, asked: arguments.Subscriptions) -> Any:
    """All subscriptions of a topic; with `after` ("" at first) a page of them, and the `after` of the next page."""
    every = manager.directory.catalog.subscriptions(asked.key)
    if asked.after is None:
        return every
    rest = sorted((each for each in every if place_of_subscription(each) > asked.after), key=place_of_subscription)
    rows = _fitting(rest, PAGE_BYTES)
    return {"subscriptions": rows, "next": None if len(rows) == len(rest) else place_of_subscription(rows[-1])}


def _all_subscriptions(manager: MessageManager, asked: arguments.AllSubscriptions) -> dict[str, Any]:
    """A page of the subscriptions of all topics and patterns, and the key after which the next page begins."""
    found = manager.directory.catalog.every_subscription(asked.after, PAGE_DESTINATIONS)
    rows = _fitting([{"topic": _topic_of(each), **each.describe()} for each in found], PAGE_BYTES)
    is_last = len(rows) == len(found) < PAGE_DESTINATIONS
    return {"subscriptions": rows, "next": None if is_last else found[len(rows) - 1].key}


def _topic_of(queue: Queue) -> str | None:
    """The topic of a subscription; None for that of a pattern."""
    return queue.key[0] if not isinstance(queue, PatternSubscription) else None


def _dead_cursor(manager: MessageManager, asked: arguments.DeadCursor) -> int:
    """The cursor at which a browser of the dead queue finds the event at a position."""
    if not manager.directory.dead.backlog.is_waiting(asked.position):
        raise NoSuchPosition(f"no dead event waits at position {asked.position}; look again at those that do")
    return manager.directory.dead.backlog.place_of(asked.position)


async def status(manager: MessageManager, asked: arguments.Status) -> dict[str, Any]:
    channel = manager.channel
    survey, oldest_waiting = await manager.surveys.take(manager.directory, channel)
    pressure = channel.pressure
    return {
        "node": manager.name,
        "is_primary": manager.is_primary,
        "epoch": manager.directory.epoch,
        "applied": manager.applied,
        "durable": channel.durable,
        "first": channel.first,
        "destinations": len(manager.directory.catalog.destinations),
        "sessions": len(list(manager.directory.sessions())),
        "stages": manager.directory.assemblies.staged.stages,
        "staged_bytes": manager.directory.assemblies.staged.bytes,
        "events_delivered": manager.deliverer.events_delivered,
        "transactions_in_doubt": len(manager.directory.transactions.open),
        "events_locked": sum(each["locked"] for each in _in_doubt(manager)),
        "waiting": survey.waiting,
        "oldest_waiting": oldest_waiting,
        "blocked": manager.flow.blocked(),
        "deduplicate_shortened": _short_windows(manager),
        "dead": _dead(manager),
        "redelivered_often": survey.often,
        "perhaps_topics": survey.perhaps_topics,
        "journal_used_bytes": pressure.used_bytes,
        "journal_size_bytes": pressure.size_bytes,
        "pins_space": _pin(channel, survey),
        "is_short": pressure.is_short,
        "free_bytes": pressure.free_bytes,
        "events_reserve_bytes": pressure.events_reserve_bytes,
        "upkeep_reserve_bytes": pressure.upkeep_reserve_bytes,
        "reason": pressure.reason,
    }


def _transactions(manager: MessageManager, asked: cluster_arguments.Transactions) -> list[dict[str, Any]]:
    """Those in doubt here, oldest first; with an id that one, also what became of it, as long as that is remembered."""
    rows = [row for row in _in_doubt(manager) if asked.id in ("", row["id"])]
    if not asked.id or rows:
        return rows[:TRANSACTIONS_MAX]
    session, _, assembly = asked.id.rpartition(":")
    outcome = manager.directory.transactions.outcomes.get((session, assembly))
    if outcome is None:
        return []
    state = ("abort", "aborted") if outcome.reason else ("commit", "committed")
    where = {"id": asked.id, "participants": [], "session": session, "assembly": assembly}
    return [{**where, **_told(*state, outcome.reason)}]


def _in_doubt(manager: MessageManager) -> Iterator[dict[str, Any]]:
    """Each has the id that its first participant knows it by."""
    for each, found in zip(
        manager.directory.transactions.in_doubt(), manager.directory.transactions.open.values(), strict=True
    ):  # fmt: skip
        prepared = found.prepared
        locked = sum(ranges.count for _, ranges in prepared.settled) if prepared is not None else 0
        names = {*prepared.destinations, *(key[0] for key, _ in prepared.settled)} if prepared is not None else ()
        ended = "committed" if each.decision == "commit" else "aborted"
        state = "prepared" if each.is_prepared else ended
        told = _told(each.decision, state, found.reason, each.since, each.since_ms, locked, sorted(names))
        id, where = ":".join(each.keys[0]), {"session": each.session, "assembly": each.assembly}
        yield {"id": id, "participants": list(each.participants), **where, **told}


def _told(
    decision: str, state: str, reason: str, entry: int = 0, since_ms: int = 0, locked: int = 0, names: Sequence[str] = ()
) -> dict[str, Any]:  # fmt: skip
    told = {"decision": decision, "state": state, "reason": reason, "entry": entry, "since_ms": since_ms}
    return {**told, "locked": locked, "destinations": list(names)}


def _dead(manager: MessageManager) -> list[dict[str, Any]]:
    """How many dead events there are, by the destination that gave them up and the code; the most first."""
    rows = []
    for (key, code), events in manager.directory.dead.counts.most_common(DEAD_ROWS_MAX):
        try:
            pattern = pattern_of_key(key)
        except HoldfastError:  # an event for what can have no destination
            continue
        where = (key, "name") if pattern is None else (pattern.text, pattern.kind)
        rows.append({"destination": where[0], "match": where[1], "code": code, "events": events})
    return rows


def _short_windows(manager: MessageManager) -> list[str]:
    """Destinations that deduplicate for less time than their setting says."""
    known = manager.directory.deduplications
    return sorted(name for name, each in known.items() if each.shortened_to_ms is not None)


class Survey:
    """How many events wait in all, and where the oldest lies: found by going through every backlog, a few at a time."""

    def __init__(self) -> None:
        self.waiting = 0
        self.oldest: tuple[int, Queue] | None = None  # the entry that was placed first in its backlog, and where that is
        self.often: list[dict[str, Any]] = []  # where events came back more than 20 times, and how many
        self.perhaps_topics: list[dict[str, str]] = []  # queues that nobody fills, or reads, with names like topics
        self.pin: tuple[int, Queue | None] | None = None  # the least entry that is needed, and by whom

    @classmethod
    async def made(cls, catalog: Catalog) -> Survey:
        made, beside = cls(), catalog.oldest_beside()
        if beside is not None:
            made.pin = beside[0], None
        for place, queue in enumerate(list(catalog.queues.values()), 1):
            made.look(queue, beside)
            made.look_at_name(queue, catalog)
            if place % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return made

    def look_at_name(self, queue: Queue, catalog: Catalog) -> None:
        """Note a queue that was made on first use, of which only one side is used, and whose name is like that of topics."""
        if not queue.is_unconfigured or len(self.perhaps_topics) >= OFTEN_ROWS_MAX:
            return
        is_read, is_filled = not queue.is_without_receivers, queue.is_used and bool(queue.account()["accepted"])
        if is_read != is_filled and (like := catalog.resembled(queue.name)):
            self.perhaps_topics.append({"destination": queue.name, "like": like})

    def look(self, queue: Queue, beside: tuple[int, int] | None) -> None:
        if not queue.is_used or not queue.backlog.waiting:
            return
        backlog = queue.backlog
        self.waiting += backlog.waiting
        if backlog.history.often and len(self.often) < OFTEN_ROWS_MAX:
            self.often.append({**_where(queue), "events": backlog.history.often})
        first, needed = backlog.first_waiting_entry(), backlog.oldest_entry()
        if self.oldest is None or first < self.oldest[0]:
            self.oldest = first, queue
        if needed is not None and (self.pin is None or needed < self.pin[0]):
            self.pin = needed, queue
        if beside is not None and self.pin == (beside[0], None) and backlog.needs(beside[1]):
            self.pin = beside[0], queue


class Surveys:
    """One survey at a time. All who ask while one is made share the next one: however many ask, each backlog is visited once in
    each pass."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._asked = 0
        self._made_for = 0  # those who had asked when it began
        self._made: tuple[Survey, dict[str, Any] | None] = Survey(), None

    async def take(self, directory: Directory, channel: Channel) -> tuple[Survey, dict[str, Any] | None]:
        """Return a survey that began after this call, and where the event lies that has waited longest."""
        self._asked += 1
        own = self._asked
        async with self._turn:
            if self._made_for < own:
                made_for = self._asked
                survey = await Survey.made(directory.catalog)
                self._made = survey, await _oldest_waiting(directory, channel, survey)
                self._made_for = made_for
            return self._made


async def _oldest_waiting(directory: Directory, channel: Channel, survey: Survey) -> dict[str, Any] | None:
    """Where the event lies that has waited longest, and since when (ms since 1970; 0 where nobody wrote that down)."""
    if survey.oldest is None:
        return None
    entry, queue = survey.oldest
    try:
        (data,) = await channel.fetch([directory.locate(entry)])
        accepted_us = body_in(data, entry).accepted_us
    except HoldfastError:  # finished, and released, meanwhile
        accepted_us = 0
    return {**_where(queue), "position": entry << INDEX_BITS, "accepted_at_ms": accepted_us // 1000}


def _pin(channel: Channel, survey: Survey) -> dict[str, Any] | None:
    """The backlog that keeps the oldest part of the journal, and all behind it, from being used again."""
    if survey.pin is None:
        return None
    entry, queue = survey.pin
    return {**_where(queue), "entry": entry, "entries": channel.durable - entry + 1}


def _where(queue: Queue | None) -> dict[str, Any]:
    """A backlog, in names; None where no backlog has it yet: in a transaction, stage or large event that is not complete."""
    if queue is None:
        return {"destination": None, "subscription": None, "match": None}
    if isinstance(queue, PatternSubscription):
        return {"destination": queue.pattern.text, "subscription": queue.name, "match": queue.pattern.kind}
    return {"destination": queue.key[0], "subscription": queue.key[1] or None, "match": "name"}


ANSWERS: dict[str, Callable[[MessageManager, Any], Any]] = {
    "list": _list,
    "describe": _describe,
    "subscriptions": _subscriptions,
    "all_subscriptions": _all_subscriptions,
    "dead_cursor": _dead_cursor,
    "transactions": _transactions,
    "status": status,
}
