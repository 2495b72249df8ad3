"""The arrangement: from the rules that were to those that are, without an event missed or counted twice (`machines.sharing`).

    read the table ─▶ a move that was begun? finish it ─▶ plan ─▶ make new subscriptions ─▶ write the moving table: the boundary
      ─▶ read old sources up to the boundary, for the rules that leave them ─▶ delete what is left ─▶ write the settled table

Each step can be done again. A crash after any of them finds the table, settled or moving, and goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.actions.machines import sharing
from holdfast.actions.machines.sharing import Source, Table
from holdfast.actions.names import OWNER, Names
from holdfast.actions.rule import CheckedRule
from holdfast.actions.running.event_view import accepted_us
from holdfast.actions.running.record_queue import RecordQueue, read
from holdfast.actions.running.source_reader import ReadRule, SourceReader, waiting_in
from holdfast.client.client import Client
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.errors import NoSuchSubscription, TimedOut

log = logging.getLogger("holdfast.actions")

TABLE_TYPE = "holdfast.actions.rules"
_encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Table).decode
# How long an old source may be silent before it is asked whether it is empty.
SILENT_S = 0.05
# After so many silences in a row it is told what the change of rules waits for.
SILENT_MAX = 40
# Events past the boundary that are held at most while those before it are looked for.
LATER_MAX = 2_000


class Kept(NamedTuple):
    """The table that counts, when it was accepted, and its position: the boundary of a moving one."""

    table: Table
    at_us: int
    position: int


class Arrangement:
    """The table of a set of rules, and its changes. One program at a time has it."""

    def __init__(self, client: Client, names: Names) -> None:
        self._client, self._names = client, names
        self._owner = client.topic(names.tick).subscribe(OWNER, selector="FALSE")
        self._queue = RecordQueue(client, names.rules, TABLE_TYPE)

    async def open(self) -> None:
        """Become the one program of these rules. SubscriptionInUse while there is another."""
        await self._client.ensure_topic(self._names.tick)
        await self._owner.open()
        await self._queue.open(self._client)

    async def change_to(self, rules: Mapping[str, CheckedRule]) -> Table:
        """Arrange for these rules. Returns the settled table."""
        kept = self._newest()
        if not kept.table.is_settled:
            kept = await self._finish(kept, rules)
        sources = {name: rule.source(self._names.tick) for name, rule in rules.items()}
        for source in {source.id: source for source in sources.values()}.values():
            await self._make(source)
        moving = sharing.plan(kept.table, sources, {name: self._queues(rule) for name, rule in rules.items()})
        if moving is not None:
            kept = await self._finish(await self._write(moving), rules)
        elif self._queue.is_worn:
            await self._write(kept.table)
        await self._sweep(kept.table)
        return kept.table

    async def _sweep(self, table: Table) -> None:
        """Delete subscriptions that were made for rules which were never taken: nobody would ever read what they gather."""
        known = {self._names.subscription(source) for source in table.sources}
        for row in await self._client.subscriptions():
            if self._names.is_subscription(row["name"]) and row["name"] not in known:
                pattern = row.get("pattern")
                topic, regex = (None, pattern) if row.get("match") == "regex" else (pattern or row.get("topic"), None)
                await self._client.delete_subscription(topic, row["name"], regex=regex, force=True, missing_ok=True)
                log.info("subscription %s was deleted: it was made for rules that were not taken", row["name"])

    def _queues(self, rule: CheckedRule) -> list[str]:
        state = [self._names.state(rule.name)] if rule.terms.keeps_state else []
        return [*state, *(self._names.action(rule.name, action.name) for action in rule.actions)]

    def _newest(self) -> Kept:
        found = [Kept(read(decode, event), accepted_us(event), event.position) for event in self._queue.held]
        return max(found, key=lambda kept: kept.table.version, default=Kept(Table(), 0, 0))

    async def _write(self, table: Table) -> Kept:
        async with self._client.transaction() as transaction:
            await self._queue.put(transaction, _encode(table), is_whole=True)
        event = await self._queue.newest()
        return Kept(table, accepted_us(event), event.position)

    async def _make(self, source: Source) -> None:
        """Make the subscription of a source; one that is there is left as it is."""
        subscription, selector = self._names.subscription(source.id), source.selector or None
        if source.match == "queue":
            await self._client.ensure_queue(source.pattern)
        elif source.match == "regex":
            await self._client.ensure_subscription(None, subscription, regex=source.pattern, selector=selector)
        else:
            await self._client.ensure_subscription(source.pattern, subscription, selector=selector)

    # --- moving ------------------------------------------------------------------------------------------------------

    async def _finish(self, moving: Kept, rules: Mapping[str, CheckedRule]) -> Kept:
        """Carry out a move up to its end."""
        table, boundary_us, _ = moving
        for name in sorted({placed.before for placed in table.rules.values() if placed.before}):
            await self._read_to_the_boundary(table.sources[name], moving, rules)
        for name in table.retired:
            await self._delete(table.sources[name])
        for queue in table.removed:
            if self._names.is_state(queue):
                await self._forget(queue)
            if await self._client.delete(queue, force=True, missing_ok=True):
                log.info("queue %s was deleted with its rule or action", queue)
        return await self._write(sharing.settled(table, boundary_us))

    async def _read_to_the_boundary(self, source: Source, moving: Kept, rules: Mapping[str, CheckedRule]) -> None:
        """Let rules that leave a source, and those that stay, count what was accepted before the boundary.

        Events past the boundary are left to those who read the source next. But events of a high priority overtake others: when
        many of them have come, or hold up those before the boundary, they are counted here, by the rules that stay.
        """
        if source.match == "queue" or await waiting_in(self._client, self._names, source) is None:
            return  # a queue that is left keeps its events; a subscription that is gone was read before
        own = [
            ReadRule(rules[name], placed, moving.at_us, is_leaving=placed.before == source.id)
            for name, placed in moving.table.rules.items()
            if name in rules and source.id in (placed.before, placed.source)
        ]
        reader = SourceReader(self._client, self._names, source, own)
        await reader.open()
        patience = _Patience(source)
        try:
            later: list[ReceivedEvent] = []
            while left := await self._left_before(source, moving.position):
                events = await _taken(reader)
                patience.note(left if not events else 0)
                before = [event for event in events if accepted_us(event) < moving.at_us]
                later += [event for event in events if accepted_us(event) >= moving.at_us]
                if len(later) >= LATER_MAX or not events:
                    before, later = before + later, []
                if before:
                    await reader.process(before)
        finally:
            await reader.close()

    async def _left_before(self, source: Source, position: int) -> int:
        """How many events before this position the rules have not counted yet, through this source."""
        found = await self._client.outcomes(
            source.pattern,
            [(1, position - 1)],
            subscription=self._names.subscription(source.id),
            match=source.match,  # type: ignore[arg-type]
        )
        return found.waiting.count

    async def _forget(self, queue: str) -> None:
        """Confirm the state of a rule that is gone: it is nothing for the dead events. Alerts that nobody did are."""
        async with self._client.session() as session:
            records = RecordQueue(session, queue, "")
            for event in await records.open(self._client):
                event.confirm()

    async def _delete(self, source: Source) -> None:
        if source.match == "queue":
            return
        named, regex = self._names.subscription(source.id), source.pattern if source.match == "regex" else None
        try:
            topic = None if regex else source.pattern
            await self._client.delete_subscription(topic, named, regex=regex, force=True, missing_ok=True)
        except NoSuchSubscription:
            return
        log.info("subscription %s was deleted: no rule reads from it any more", named)


async def _taken(reader: SourceReader) -> list[ReceivedEvent]:
    """What comes from a source; nothing after a short silence."""
    try:
        return await reader.take(SILENT_S)
    except TimedOut:
        return []


class _Patience:
    """Says that a change of rules waits for events that do not come: they are delayed, and not due yet."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._silent = 0

    def note(self, left: int) -> None:
        """`left`: events that are waited for and did not come; 0 when some came."""
        self._silent = self._silent + 1 if left else 0
        if self._silent == SILENT_MAX:
            log.warning(
                "the new rules wait for %d events of %s that are delayed: they were sent before the rules were changed, and are "
                "counted when they are due",
                left, self._source.pattern,
            )  # fmt: skip
