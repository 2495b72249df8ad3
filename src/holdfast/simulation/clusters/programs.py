"""The programs of simulated clients: real clients that send, receive, and move events in transactions, and what they saw.

    orders          a queue: both clients send, both receive
    news.CLIENT     topics: both send, one receives all of them by a pattern
    work            a queue: both send; transactions move each event to `done` and `copy`, or are rolled back first
    done, copy      queues: each event of `work` arrives in both, once

A client that crashes begins again: its programs go on where the numbers of its events were. What a program is told (a receipt, an
event, a settled confirm) goes into the account, which knows everything that ought to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.client.client import Client
from holdfast.client.receiving.incoming import Incoming
from holdfast.errors import (
    AlreadyConfirmed,
    Detached,
    HoldfastError,
    OutcomeUnknown,
    SubscriptionInUse,
    TransactionAborted,
    Unavailable,
)
from holdfast.simulation.checkers.account import Account
from holdfast.simulation.checkers.transfers import Transfers
from holdfast.simulation.clusters.network import Network
from holdfast.simulation.clusters.process import Process
from holdfast.simulation.clusters.simulated_link import Listener, SimulatedDialer

ORDERS, NEWS, WORK, DONE, COPY = "orders", "news.*", "work", "done", "copy"
# A call fails after this; longer than any fault lasts.
CALL_S = 60.0
# Between two events of a producer.
PAUSE_MS = (20, 200)
# After so many of all events a recipient waits until its confirms are settled.
SETTLED = 0.4
# What may be told to a program that sends, receives or commits while the cluster is not whole.
TROUBLE = (OutcomeUnknown, Unavailable, Detached, AlreadyConfirmed, SubscriptionInUse, TransactionAborted)


class SimulatedClient(Client):
    """A client that reaches simulated nodes."""

    def __init__(self, dialer: SimulatedDialer, name: str) -> None:
        super().__init__("holdfast://simulated", name=name, timeout=CALL_S)
        self._dialer = dialer


class Observer:
    """What all programs of a run have sent, seen and settled."""

    def __init__(self) -> None:
        self.account = Account(ORDERS, NEWS, DONE, COPY)
        self.transfers = Transfers(WORK, DONE, COPY)
        self.may_send = False  # what is sent before a subscription is there is not meant for it
        self.is_ending = False
        self.numbers: dict[str, int] = {}
        self.places: dict[str, dict[tuple[str, int], set[int]]] = {DONE: {}, COPY: {}}
        self._work: set[tuple[str, int]] = set()  # accepted
        self.trouble = 0
        self.moved = 0
        self.problems: list[str] = []

    def next_number(self, producer: str) -> int:
        self.numbers[producer] = self.numbers.get(producer, 0) + 1
        return self.numbers[producer]

    def accepted(self, producer: str, number: int, audience: str) -> None:
        if audience == WORK:
            self._work.add((producer, number))
            self.transfers.sent((producer, number))
        else:
            self.account.accepted(producer, number, audience)

    def missing(self) -> int:
        """How many accepted events have not arrived where they ought to."""
        return self.account.missing() + sum(len(self._work - found.keys()) for found in self.places.values())

    def moved_events(self) -> dict[str, list[tuple[str, int]]]:
        """The events in each target of the transactions, each as often as it has a place there."""
        return {target: [name for name, places in found.items() for _ in places] for target, found in self.places.items()} | {
            WORK: []
        }


class ClientHost:
    """A machine with a client, which may crash and begin again."""

    def __init__(
        self, name: str, observer: Observer, network: Network, listeners: Sequence[Listener], make: Callable[[str], Process]
    ) -> None:
        self.name = name
        self.process = make(name)
        self.starts = 0
        self.sending: list[asyncio.Task[Any]] = []
        self.is_subscribed = False
        self._observer = observer
        self._network = network
        self._listeners = listeners
        self._make = make
        self._world = self.process.world

    def start(self) -> None:
        if self.starts:
            self.process = self._make(self.name)
        self.starts += 1
        self.sending = []
        self.process.start(self._guarded(self._run), f"{self.name}: programs")

    def crash(self) -> None:
        self.process.crash()

    @property
    def has_sent_all(self) -> bool:
        return bool(self.sending) and all(task.done() for task in self.sending)

    async def _guarded(self, work: Callable[..., Any], *arguments: Any) -> None:
        try:
            await work(*arguments)
        except Exception as problem:
            self._observer.problems.append(f"{self.name}: a program ended: {problem!r}")

    async def _run(self) -> None:
        listeners = list(self._listeners)
        self._world.dice.shuffle(listeners)
        client = SimulatedClient(SimulatedDialer(self._network, self.process, listeners), self.name)
        while True:
            try:
                await client.open()
                break
            except Unavailable:
                client = SimulatedClient(SimulatedDialer(self._network, self.process, listeners), self.name)
        recipient = f"{self.name}.{self.starts}"
        receiving: list[tuple[str, Callable[[], Incoming]]] = [(ORDERS, lambda: client.queue(ORDERS).receive())]
        if self.name == "one":
            receiving.append((DONE, lambda: client.queue(DONE).receive()))
            receiving.append((NEWS, lambda: client.subscribe(NEWS, name="all")))
        else:
            receiving.append((COPY, lambda: client.queue(COPY).receive()))
        for audience, make in receiving:
            self._start(self._receive, audience, make, recipient)
        self._start(self._move, client, f"mover-{recipient}")
        while not self._observer.may_send:  # noqa: ASYNC110  # the time is simulated, and another process says so
            await asyncio.sleep(0.05)
        self.sending = [
            self._start(self._send, f"{recipient}-{audience}", target, audience)
            for target, audience in (
                (client.queue(ORDERS), ORDERS),
                (client.topic(f"news.{self.name}"), NEWS),
                (client.queue(WORK), WORK),
            )
        ]

    def _start(self, work: Callable[..., Any], *arguments: Any) -> asyncio.Task[Any]:
        return self.process.start(self._guarded(work, *arguments), f"{self.name}: {work.__name__}")

    # --- sending -----------------------------------------------------------------------------------------------------

    async def _send(self, producer: str, target: Any, audience: str) -> None:
        observer, dice = self._observer, self._world.dice
        while not observer.is_ending:
            number = observer.next_number(producer)
            if audience == WORK:
                observer.transfers.sending((producer, number))
            else:
                observer.account.sent(producer, number)
            self._world.note(self.name, f"sends {producer} {number}")
            try:
                await target.send([producer, number])
            except (OutcomeUnknown, Unavailable) as problem:
                observer.trouble += 1
                self._world.note(self.name, f"was told of {producer} {number}: {problem.code}")
            else:
                self._world.note(self.name, f"has a receipt of {producer} {number}")
                observer.accepted(producer, number, audience)
            await asyncio.sleep(dice.randrange(*PAUSE_MS) / 1000)

    # --- receiving ---------------------------------------------------------------------------------------------------

    async def _receive(self, audience: str, make: Callable[[], Incoming], recipient: str) -> None:
        """Receive for ever: a receiver that ends, because its subscription or session did, is made anew."""
        while True:
            try:
                async with make() as incoming:
                    if audience == NEWS:
                        self.is_subscribed = True
                    confirmed: list[_Confirmed] = []
                    async for event in incoming:
                        confirmed.append(await self._take(audience, recipient, event))
                        if self._world.dice.random() < SETTLED:
                            await self._settle(audience, incoming, confirmed)
                            confirmed = []
            except TROUBLE as problem:
                self._trouble(f"stops receiving from {audience}", problem)
                await asyncio.sleep(0.2)

    async def _take(self, audience: str, recipient: str, event: Any) -> _Confirmed:
        observer = self._observer
        producer, number, *moved = event.data
        self._world.note(self.name, f"gets {producer} {number} of {audience} at {event.position} {event.redelivered}")
        # What was on its way to one recipient may come to another after later events, without a mark (docs/subscriptions.md):
        # order is for one alone, and one that begins again is another one.
        is_redelivered = event.redelivered or audience == ORDERS or self.starts > 1
        observer.account.delivered(audience, recipient, producer, number, is_redelivered=is_redelivered)
        if moved:
            observer.places[audience].setdefault(tuple(moved), set()).add(event.position)
        if self._world.dice.random() < 0.05:
            await asyncio.sleep(self._world.dice.random() / 10)
        await event.confirm()
        return _Confirmed(producer, number, event.position)

    async def _settle(self, audience: str, incoming: Incoming, confirmed: Sequence[_Confirmed]) -> None:
        """Wait until the confirms are applied; the error names those that were not."""
        unsettled: list[tuple[int, int]] = []
        try:
            await incoming.settled()
        except HoldfastError as problem:
            self._trouble(f"cannot settle all of {audience}", problem)
            unsettled = problem.fields.get("positions", [(0, 1 << 127)])
        for producer, number, position in confirmed:
            if not any(first <= position <= last for first, last in unsettled):
                self._world.note(self.name, f"has settled {producer} {number} of {audience}")
                self._observer.account.settled(audience, producer, number)

    def _trouble(self, what: str, problem: HoldfastError) -> None:
        self._observer.trouble += 1
        self._world.note(self.name, f"{what}: {problem.code}")

    # --- transactions ------------------------------------------------------------------------------------------------

    async def _move(self, client: Client, mover: str) -> None:
        while True:
            try:
                async with client.queue(WORK).receive() as incoming:
                    async for event in incoming:
                        await self._transact(client, event, mover)
            except TROUBLE as problem:
                self._trouble("stops moving", problem)
                await asyncio.sleep(0.2)

    async def _transact(self, client: Client, event: Any, mover: str) -> None:
        """Move an event, or change one's mind in the middle: then it comes again. What arrives is numbered by the mover: an event
        that came to it again may come later than others."""
        observer, number = self._observer, self._observer.next_number(mover)
        moved = tuple(event.data)
        is_rolled_back = self._world.dice.random() < 0.1
        observer.account.sent(mover, number)
        self._world.note(self.name, f"moves {moved} as {mover} {number}")
        try:
            async with client.transaction() as tx:
                await tx.queue(DONE).send([mover, number, *moved])
                await tx.queue(COPY).send([mover, number, *moved])
                await tx.confirm(event)
                if is_rolled_back:
                    raise _RolledBack
        except _RolledBack:
            self._world.note(self.name, f"rolls back {mover} {number}")
        except TROUBLE as problem:
            self._trouble(f"cannot move {mover} {number}", problem)
        else:
            self._world.note(self.name, f"has moved {mover} {number}")
            observer.moved += 1
            observer.account.accepted(mover, number, DONE, COPY)
            observer.transfers.commit(moved)


class _Confirmed(NamedTuple):
    producer: str
    number: int
    position: int


class _RolledBack(Exception):
    """The program changes its mind."""
