"""A source reader: reads the events of one source, in order, for all rules that share it.

    events ─▶ machines of the rules ─▶ one transaction: the events confirmed, new states, one alert for each action ─▶ next events

The transaction is what makes a rule's alerts independent of kills: events that were counted are gone together with what they
were counted for. If a commit fails, or nobody knows whether it happened, the reader ends: the states in memory may be wrong,
and are read again from their queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from holdfast.actions.alert import TYPE, Alert, alert_of
from holdfast.actions.machines import state_log
from holdfast.actions.machines.rule_machine import RuleMachine, Told
from holdfast.actions.machines.seen import HOPS
from holdfast.actions.machines.sharing import TICK_TYPE, Placed, Source, is_own, type_condition
from holdfast.actions.machines.state_log import StateLog
from holdfast.actions.names import Names
from holdfast.actions.rule import CheckedRule
from holdfast.actions.running.event_view import Matcher, accepted_us, seen_of
from holdfast.actions.running.finishing import finish_first
from holdfast.actions.running.record_queue import RecordQueue, read
from holdfast.client.client import Client
from holdfast.client.client_session import ClientSession
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.client.transaction import Transaction
from holdfast.errors import NoSuchDestination, TimedOut

log = logging.getLogger("holdfast.actions")

STATE_TYPE = "holdfast.actions.state"
# Events of one transaction: enough that a sync is shared by many, few enough that an alert does not wait long.
RUN_MAX = 500


class ReadRule:
    """A rule as a reader has it: its machine, its state queue, and which events of the source are its own."""

    def __init__(self, rule: CheckedRule, placed: Placed, boundary_us: int, is_leaving: bool) -> None:
        self.rule, self.placed, self.boundary_us = rule, placed, boundary_us
        selector = " AND ".join(f"({each})" for each in (type_condition(rule.type), rule.selector) if each)
        self.matcher = Matcher(rule.topics, rule.queue, selector) if is_leaving else None
        self.queue: RecordQueue | None = None
        self.log = StateLog(rule.condition)
        self.machine = RuleMachine(rule.terms, placed.since_us or boundary_us)

    async def open(self, client: Client, session: ClientSession, name: str) -> None:
        """Read the state from before."""
        if not self.rule.terms.keeps_state:
            return
        self.queue = RecordQueue(session, name, STATE_TYPE)
        records = [read(state_log.decode, event) for event in await self.queue.open(client)]
        self.log = StateLog(self.rule.condition, records)
        since_us = self.log.since_us or self.placed.since_us or self.boundary_us
        self.machine = RuleMachine(self.rule.terms, since_us, self.log.kept())

    def takes(self, source: str, event: ReceivedEvent, at_us: int) -> bool:
        if not is_own(self.placed, source, at_us, self.boundary_us):
            return False
        return self.matcher is None or self.matcher.matches(event)


class SourceReader:
    def __init__(
        self,
        client: Client,
        names: Names,
        source: Source,
        rules: Sequence[ReadRule],
        heard: Callable[[], None] = lambda: None,
        told: Callable[[str], None] = lambda rule: None,
    ) -> None:
        """`heard` is called when machines have changed, and may want to be woken at another time; `told` for each alert, with
        its rule."""
        self._client, self._names, self.source, self.rules = client, names, source, rules
        self._heard, self._told = heard, told
        self._session = client.session()
        self._incoming: Incoming | None = None
        self.tick = 0  # the number of the newest tick of this life that was heard
        self._turn = asyncio.Lock()  # events and the passing of time come one after the other

    @property
    def wake_us(self) -> int | None:
        """When something becomes due next, if no event comes."""
        return min((wake for rule in self.rules if (wake := rule.machine.wake_us) is not None), default=None)

    async def open(self) -> None:
        await self._session.open()
        for rule in self.rules:
            await rule.open(self._client, self._session, self._names.state(rule.rule.name))
        await self._renew()
        self._incoming = await receiver(self._session, self._names, self.source).open()

    async def close(self) -> None:
        await self._session.close()

    async def run(self) -> None:
        """Read until cancelled. A transaction that was begun is finished first."""
        while True:
            events = await self.take()
            await finish_first(self.process(events))

    async def take(self, timeout: float | None = None) -> list[ReceivedEvent]:
        """Wait for an event; it and those that are here."""
        assert self._incoming is not None
        events = [await self._incoming.next(timeout)]
        try:
            while len(events) < RUN_MAX:
                events.append(await self._incoming.next(0))
        except TimedOut:
            pass
        return events

    async def _renew(self) -> None:
        """Write states anew that were handed out too often."""
        worn = [rule for rule in self.rules if rule.queue is not None and rule.queue.is_worn]
        if worn:
            async with self._session.transaction() as transaction:
                for rule in worn:
                    await self._put_state(transaction, rule, is_whole=True)

    async def process(self, events: Sequence[ReceivedEvent]) -> None:
        """Count these events, and make everything that follows from them happen at once."""
        async with self._turn:
            told = [(rule, each) for event in events for rule, each in self._counted(event)]
            await self._commit(events, told)
            self._note_ticks(events)
        self._heard()

    async def look(self, at_us: int) -> bool:
        """Look at a source that hears no ticks, after all that was accepted by this time is placed. If nothing is left in it, all
        of that was counted, and time passes. Whether it was so."""
        if await waiting_in(self._client, self._names, self.source):
            return False
        async with self._turn:
            told = [(rule, each) for rule in self.rules for each in rule.machine.advance(at_us)]
            await self._commit((), told)
        return True

    async def _commit(self, events: Sequence[ReceivedEvent], told: Sequence[tuple[ReadRule, Told]]) -> None:
        transaction = self._session.transaction()
        for event in events:
            await transaction.confirm(event)
        for rule in self.rules:
            await self._put_state(transaction, rule)
        for rule, each in told:
            await self._put_alerts(transaction, rule.rule, each)
        await transaction.commit()
        for rule, _ in told:
            self._told(rule.rule.name)

    def _counted(self, event: ReceivedEvent) -> list[tuple[ReadRule, Told]]:
        at_us = accepted_us(event)
        if event.head.type == TICK_TYPE:
            if event.destination != self._names.tick:
                return []
            return [(rule, each) for rule in self.rules for each in rule.machine.advance(at_us)]
        wanted = [rule for rule in self.rules if rule.takes(self.source.id, event, at_us)]
        if not wanted:
            return []
        seen = seen_of(event)
        return [(rule, each) for rule in wanted for each in rule.machine.event(seen)]

    async def _put_state(self, transaction: Transaction, rule: ReadRule, *, is_whole: bool = False) -> None:
        if rule.queue is not None:
            for written in rule.log.next(rule.machine, is_whole=is_whole):
                await rule.queue.put(transaction, written.body, is_whole=written.is_whole)

    async def _put_alerts(self, transaction: Transaction, rule: CheckedRule, told: Told) -> None:
        alert = alert_of(told, self._names.program, rule.name, rule.severity, rule.summary)
        log.debug("rule %s: %s", rule.name, alert.summary)
        for action in rule.actions:
            await put_alert(transaction, self._names.action(rule.name, action.name), alert, action.name)

    def _note_ticks(self, events: Sequence[ReceivedEvent]) -> None:
        for event in events:
            if event.head.type == TICK_TYPE and event.destination == self._names.tick:
                number = event.properties.get("tick")
                if event.properties.get("life") == self._client.name and isinstance(number, int):
                    self.tick = number


async def put_alert(transaction: Transaction, queue: str, alert: Alert, action: str) -> None:
    """Place an alert in the queue of an action."""
    made = msgspec.structs.replace(alert, action=action)
    await transaction.queue(queue).send(
        msgspec.json.encode(made),
        id=f"{alert.id}-{action}",
        type=TYPE,
        datacontenttype="application/json",
        subject=alert.key or None,
        properties={"rule": alert.rule, "severity": alert.severity, "action": action, HOPS: alert.hops},
    )


async def waiting_in(client: Client, names: Names, source: Source) -> int | None:
    """How many events wait in a source, those in flight included; None if it is not there."""
    regex = source.pattern if source.match == "regex" else None
    try:
        if source.match == "queue":
            return (await client.describe(source.pattern))["waiting"]
        rows = await client.subscriptions(None if regex else source.pattern, regex=regex)
    except NoSuchDestination:
        return None
    named = names.subscription(source.id)
    return next((row["waiting"] for row in rows if row["name"] == named), None)


def receiver(session: ClientSession, names: Names, source: Source) -> Incoming:
    """The receiver of a source."""
    if source.match == "queue":
        return session.queue(source.pattern).receive(selector=source.selector or None)
    subscription = names.subscription(source.id)
    if source.match == "regex":
        return session.subscribe(None, subscription, regex=source.pattern, selector=source.selector or None)
    return session.subscribe(source.pattern, subscription, selector=source.selector or None)
