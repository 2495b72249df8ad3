"""The turn of a carrier: what it knows and does while it is the one recipient of the effects queue.

    receive ─▶ machine ─▶ CarryOut ─▶ begun ─▶ call ─▶ record: result and confirms in one transaction ─▶ machine ─▶ Give
                          LookUp   ─▶ far side ──────┘
                          Refuse   ─▶ a note and the confirm in one transaction

A result is told to the machine only when it is durable. Any failure towards Holdfast ends the turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.client.receiving.received_event import ReceivedEvent
from holdfast.continuity import roll_call
from holdfast.continuity.domain import HISTORY, Domain
from holdfast.continuity.effects import results_history
from holdfast.continuity.effects.effect_events import (
    Ask,
    Outcome,
    decode_ask,
    decode_outcome,
    encode,
    outcome_fields,
)
from holdfast.continuity.effects.far_side import FarSide, NotReached, Unknown
from holdfast.continuity.machines.effects import CarryOut, Effects, Give, Identity, LookUp, Out, Refuse, Result, StopRebuild

log = logging.getLogger("holdfast.continuity")

# How often the members are asked who is current: while an ask waits for that, and otherwise.
MEMBERS_SECONDS = 0.5
MEMBERS_IDLE_SECONDS = 5.0
ROLL_SECONDS = 0.3
FAR_AGAIN_SECONDS = 0.2
# Keys of effects in doubt that the status shows.
KEYS_SHOWN = 10
# Servers in these states do not count, whatever the others are.
_OUT = ("rebuilding", "drained", "removed")

Calls = dict[Identity, "asyncio.Task[Result]"]


def current_of(described: Iterable[Mapping[str, Any]]) -> list[str]:
    """The servers that count: those that are current, or, if none is, those that catch up.

    After a restart of everything nobody is current, and a request that is in doubt everywhere needs its effect before anybody
    can become so.
    """
    servers = [each for each in described if each.get("part") == "listener" and each.get("role") == "server"]
    current = sorted(str(each["name"]) for each in servers if each.get("state") == "current")
    return current or sorted(str(each["name"]) for each in servers if each.get("state") not in _OUT)


class CarrierTurn:
    def __init__(self, client: Client, domain: Domain, fars: Mapping[str, FarSide], calls: Calls, ask_wait: float) -> None:
        """`calls`: under way at far sides, also from an earlier turn of this program."""
        self._client = client
        self._domain = domain
        self._fars = fars
        self._calls = calls
        self._ask_wait = ask_wait
        self._machine = Effects((), ask_wait)
        self._asks: dict[Identity, Ask] = {}
        self._events: dict[Identity, list[tuple[str, ReceivedEvent]]] = {}  # asks that are not confirmed, by whom
        self._begun: dict[Identity, None] = {}  # called, and without a result
        self._tasks: asyncio.TaskGroup

    # --- what is known -------------------------------------------------------------------------------------------------

    async def read_results(self) -> None:
        """Read what became of all effects so far (continuity rule 5)."""
        async with self._client.topic(self._domain.results).browse(HISTORY) as browser:
            async for event in browser:
                self._take(event.body)

    def _take(self, body: memoryview) -> None:
        try:
            told = decode_outcome(bytes(body))
        except ValueError as problem:
            log.warning("an event in %s is no outcome: %s", self._domain.results, problem)
            return
        if told.kind == "begun":
            self._begun[told.identity] = None
        elif told.kind == "not done":
            self._begun.pop(told.identity, None)
        elif told.kind == "result" and told.result is not None:
            self._begun.pop(told.identity, None)
            self._act(self._machine.result(told.identity, told.result, told.place))

    async def forget(self) -> None:
        """Give up results that nobody asks for again (continuity rule 5)."""
        place = await results_history.forgettable_up_to(self._client, self._domain)
        if await results_history.asks_waiting(self._client, self._domain) > sum(map(len, self._events.values())):
            return
        self._machine.forget_up_to(place)
        await results_history.give_up(self._client, self._domain, place, self._is_needed)

    def _is_needed(self, identity: Identity) -> bool:
        return identity in self._begun or self._machine.is_open(identity)

    def description(self, name: str) -> dict[str, Any]:
        """The answer to a roll call."""
        in_doubt = [identity.key for identity in self._begun if identity not in self._calls]
        return {
            "part": "carrier", "name": name, "waiting": self._machine.open, "under_way": len(self._calls),
            "in_doubt": len(in_doubt), "in_doubt_keys": in_doubt[:KEYS_SHOWN], "results": self._machine.results,
        }  # fmt: skip

    async def read_members(self) -> None:
        """Ask who is current."""
        current = current_of(await roll_call.ask(self._client, self._domain.name, ROLL_SECONDS))
        self._act(self._machine.change(current))

    # --- working -------------------------------------------------------------------------------------------------------

    async def run(self, place: Incoming, name: str) -> None:
        """Work until something fails. `place`: the subscription that makes this carrier the only one; `name` is for others."""
        described = partial(self.description, name)
        async with self._client.queue(self._domain.effects_queue).receive() as incoming, asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._hear(place))
            self._tasks.create_task(self._watch())
            self._tasks.create_task(roll_call.answer_for_ever(self._client, self._domain.name, described))
            async for event in incoming:
                await self._receive(event)

    async def _hear(self, place: Incoming) -> None:
        """Outcomes that others say: an operator who settles one."""
        async for event in place:
            self._take(event.body)
            await event.confirm()

    async def _watch(self) -> None:
        """Follow the membership, and refuse asks that have waited too long."""
        read_at = time.monotonic()
        while True:
            await asyncio.sleep(MEMBERS_SECONDS)
            if self._machine.wake_at is not None or time.monotonic() - read_at > MEMBERS_IDLE_SECONDS:
                await self.read_members()
                await self.forget()
                read_at = time.monotonic()
            self._act(self._machine.tick(time.monotonic()))

    async def _receive(self, event: ReceivedEvent) -> None:
        try:
            ask = decode_ask(bytes(event.body))
        except ValueError as problem:
            await event.reject(f"this is no ask for an effect: {problem}")
            return None
        if ask.far not in self._fars:
            reason = f"the carrier knows no far side {ask.far!r}; start it with --far {ask.far}=URL"
            return await self._decide([Outcome(ask.identity, "refused", None, ask.server, reason)], [event])
        self._asks.setdefault(ask.identity, ask)
        self._events.setdefault(ask.identity, []).append((ask.server, event))
        self._act(self._machine.ask(ask.server, ask.identity, ask.how, time.monotonic(), ask.is_replay, ask.place))
        return None

    def _act(self, outs: Iterable[Out]) -> None:
        for out in outs:
            if isinstance(out, CarryOut):
                self._begin(self._carry_out(out.identity))
            elif isinstance(out, LookUp):
                self._begin(self._look_up(out.identity))
            elif isinstance(out, Give):
                self._begin(self._give(out))
            else:
                self._begin(self._refuse(out))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work)

    # --- at the far side -----------------------------------------------------------------------------------------------

    async def _carry_out(self, identity: Identity) -> None:
        if identity not in self._calls:
            if identity in self._begun:
                return self._act(self._machine.interrupted(identity))
            ask = self._asks[identity]
            await self._tell(Outcome(identity, "begun", place=ask.place))
            self._begun[identity] = None
            self._calls[identity] = asyncio.create_task(self._call(ask))
        try:
            result = await asyncio.shield(self._calls[identity])
        except NotReached as problem:
            return await self._give_up(identity, str(problem))
        except Unknown as problem:
            log.warning("effect %s: %s", identity.key, problem)
            del self._calls[identity]
            return self._act(self._machine.interrupted(identity))
        await self._record(identity, result)
        del self._calls[identity]
        return self._act(self._machine.result(identity, result))

    async def _call(self, ask: Ask) -> Result:
        """Carry an effect out. While the far side takes no connection it is tried again: it has seen nothing."""
        until = time.monotonic() + self._ask_wait
        while True:
            try:
                return await self._fars[ask.far].carry_out(ask)
            except NotReached:
                if time.monotonic() >= until:
                    raise
                await asyncio.sleep(FAR_AGAIN_SECONDS)

    async def _give_up(self, identity: Identity, reason: str) -> None:
        await self._tell(Outcome(identity, "not done", reason=reason, place=self._machine.place_of(identity)))
        self._begun.pop(identity, None)
        del self._calls[identity]
        self._act(self._machine.failed(identity, f"it was not carried out: {reason}"))

    async def _look_up(self, identity: Identity) -> None:
        far, until = self._fars[self._asks[identity].far], time.monotonic() + self._ask_wait
        while True:
            try:
                found = await far.look_up(identity)
                break
            except (NotReached, Unknown) as problem:
                if time.monotonic() >= until:
                    log.warning("effect %s cannot be looked up: %s", identity.key, problem)
                    found = "cannot tell"
                    break
                await asyncio.sleep(FAR_AGAIN_SECONDS)
        if isinstance(found, Result):
            await self._record(identity, found)
        elif found == "not done":
            self._begun.pop(identity, None)
        else:
            log.error("nobody can tell whether effect %s was carried out at %s; settle it", identity.key, far.name)
        self._act(self._machine.looked_up(identity, found))

    # --- what is recorded ----------------------------------------------------------------------------------------------

    async def _record(self, identity: Identity, result: Result) -> None:
        """Publish a result and confirm the asks for it, in one transaction."""
        asked = self._events.pop(identity, [])
        self._asks.pop(identity, None)
        outcome = Outcome(identity, "result", result, place=self._machine.place_of(identity))
        await self._decide([outcome], [event for _, event in asked])
        self._begun.pop(identity, None)

    async def _give(self, out: Give) -> None:
        """Tell a result again, to a server that asked after it was published."""
        events = self._events_of(out.identity, out.server)
        if events:
            await self._decide([Outcome(out.identity, "again", out.result)], events)

    async def _refuse(self, out: Refuse | StopRebuild) -> None:
        events = self._events_of(out.identity, out.server)
        stops = isinstance(out, StopRebuild)
        log.warning("effect %s is refused to server %s: %s", out.identity.key, out.server, out.reason)
        await self._decide([Outcome(out.identity, "refused", None, out.server, out.reason, stops)], events)

    def _events_of(self, identity: Identity, server: str) -> list[ReceivedEvent]:
        """Take out the asks of a server for an effect."""
        asked = self._events.pop(identity, [])
        others = [each for each in asked if each[0] != server]
        if others:
            self._events[identity] = others
        elif not self._machine.is_open(identity):
            self._asks.pop(identity, None)
        return [event for each, event in asked if each == server]

    async def _decide(self, outcomes: Iterable[Outcome], events: Iterable[ReceivedEvent]) -> None:
        async with self._client.transaction() as transaction:
            for outcome in outcomes:
                await transaction.topic(self._domain.results).send(encode(outcome), **outcome_fields(outcome))
            for event in events:
                await transaction.confirm(event)

    async def _tell(self, outcome: Outcome) -> None:
        await self._client.topic(self._domain.results).send(encode(outcome), **outcome_fields(outcome))
