"""An action runner: the recipient of one action's queue. It does the action, and confirms when that succeeded.

    alert ─▶ do, in a thread of its own ─▶ confirm
                      └─ failed ─▶ released for 1 s, 2 s, 4 s … ─▶ after the last retry rejected: `_DMQ` has the error

An action that blocks holds up its own queue and nothing else. What it raises is told without secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from functools import partial

import msgspec

from holdfast.actions.alert import Alert
from holdfast.actions.errors import ActionRefused
from holdfast.actions.kinds.action import Action, Surroundings
from holdfast.actions.kinds.figures import Figure
from holdfast.actions.kinds.send import Send
from holdfast.actions.rule import CheckedRule, RuleAction
from holdfast.actions.running.action_thread import ActionThread
from holdfast.actions.running.finishing import finish_first
from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.errors import HoldfastError, OutcomeUnknown, TimedOut

log = logging.getLogger("holdfast.actions")

_decode = msgspec.json.Decoder(Alert).decode
REASON_LENGTH_MAX = 900
DOUBLINGS_MAX = 40


class ActionRunner:
    def __init__(self, client: Client, queue: str, rule: CheckedRule, action: RuleAction, surroundings: Surroundings) -> None:
        self.title = f"action {action.name} of rule {rule.name}"
        self._client, self._queue, self._rule, self._terms, self._surroundings = client, queue, rule, action, surroundings
        self._action: Action = action.make(surroundings)
        self._session = client.session()
        self._incoming: Incoming | None = None
        self._thread = ActionThread(f"holdfast-{rule.name}-{action.name}")

    async def open(self) -> None:
        await self._client.ensure_queue(self._queue, update=True, redelivery_limit=0)
        await self._session.open()
        try:
            await self._thread.call(self._action.open)
        except Exception as problem:
            log.warning("%s is not ready yet: %s", self.title, self._surroundings.secrets.redact(str(problem)))
        self._incoming = await self._session.queue(self._queue).receive(credit=max(self._action.BATCH_MAX, 16)).open()

    async def close(self) -> None:
        """Close it. A thread that is still at work is left: its alert goes back, and is done again with the same id."""
        self._thread.close()
        try:
            await self._session.close()
        finally:
            self._action.close()

    async def run(self) -> None:
        """Do alerts until cancelled. What was taken is done first: it would count as a try that failed."""
        while True:
            events: list[ReceivedEvent] = []
            try:
                await self._take(events)
            finally:
                if events:
                    await finish_first(self._attempt(events))

    async def _take(self, events: list[ReceivedEvent]) -> None:
        """The next alert, and those that are here if the action takes several. One that came back is tried alone: it may be what
        the others failed with."""
        assert self._incoming is not None
        events.append(await self._incoming.next())
        until_s = asyncio.get_running_loop().time() + self._action.gather_s
        with contextlib.suppress(TimedOut):
            while len(events) < self._action.BATCH_MAX and not events[-1].deliveries:
                left_s = until_s - asyncio.get_running_loop().time()
                events.append(await self._incoming.next(max(left_s, 0)))

    async def _attempt(self, events: Sequence[ReceivedEvent]) -> None:
        left = [event for event in events if not self._give_up_if_used_up(event)]
        alerts = [alert for event in left if (alert := self._read(event)) is not None]
        left = [event for event in left if not event.is_decided]
        if not left:
            return
        try:
            if isinstance(self._action, Send):
                await self._send(self._action, left[0], alerts[0])
            else:
                await self._thread.call(partial(self._action.do, alerts))
                for event in left:
                    event.confirm()
        except OutcomeUnknown:
            raise
        except Exception as problem:
            for event in left:
                self._fail(event, problem)
        else:
            self._note("actions_done", len(left))

    async def _send(self, action: Send, event: ReceivedEvent, alert: Alert) -> None:
        """Send an event and confirm the alert in one transaction."""
        made = action.outgoing(alert, self._rule.hops_max)
        transaction = self._session.transaction()
        transaction.keep_events()
        target = transaction.topic(made.destination) if made.is_topic else transaction.queue(made.destination)
        await target.send(made.event)
        await transaction.confirm(event)
        await transaction.commit()

    def _read(self, event: ReceivedEvent) -> Alert | None:
        try:
            alert = _decode(bytes(event.body))
        except (HoldfastError, msgspec.MsgspecError) as problem:
            event.reject(f"it is no alert: {problem}")
            return None
        return msgspec.structs.replace(alert, is_repeated=event.redelivered)

    def _give_up_if_used_up(self, event: ReceivedEvent) -> bool:
        """Reject an alert all of whose tries were begun, the last of which ended with its program."""
        if event.deliveries <= self._terms.retries:
            return False
        reason = f"{self.title}: it was begun {event.deliveries} times, and the last time the program ended before it did"
        log.error("%s; the alert goes to the dead events", reason)
        event.reject(reason, code="failed")
        self._note("actions_failed")
        return True

    def _note(self, figure: Figure, count: int = 1) -> None:
        self._surroundings.figures.add(figure, self._rule.name, self._terms.name, count)

    def _fail(self, event: ReceivedEvent, problem: Exception) -> None:
        self._note("actions_failed")
        said = str(problem) if isinstance(problem, HoldfastError) else f"{type(problem).__name__}: {problem}"
        reason = self._surroundings.secrets.redact(f"{self.title}: {said}")[:REASON_LENGTH_MAX]
        if event.is_decided:
            log.error("%s; the alert had its verdict already", reason)
        elif isinstance(problem, ActionRefused):
            log.error("%s; the alert goes to the dead events", reason)
            event.reject(reason)
        elif event.deliveries >= self._terms.retries:
            log.error("%s; that was the last try, the alert goes to the dead events", reason)
            event.reject(reason, code="failed")
        else:
            pause_s = min(self._terms.longest_s, self._terms.first_s * 2 ** min(event.deliveries, DOUBLINGS_MAX))
            log.warning("%s; it is tried again in %g s", reason, pause_s)
            event.release(pause_s, reason=reason)
