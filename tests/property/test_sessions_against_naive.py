"""Confirm modes and recovery, at random, against a naive twin that keeps one number for each event.

The twin knows of every event how often it was handed out and given back, and what of it is in the program's hands. Whatever a
session is asked to do, what is left in its queues afterwards, and how often each was delivered, must be what the twin says.
"""

from __future__ import annotations

import random

import pytest

import holdfast
from holdfast.client.checks import ConfirmMode
from holdfast.client.client import Client
from holdfast.client.client_session import ClientSession
from holdfast.client.receiving.incoming import Incoming
from tests import effort

QUEUES = 2
EVENTS = 30
STEPS = 40
Name = tuple[int, int]  # a queue, and a number in it


class Naive:
    def __init__(self, mode: ConfirmMode) -> None:
        self.mode = mode
        self.deliveries = {(queue, number): 0 for queue in range(QUEUES) for number in range(EVENTS)}
        self.finished: set[Name] = set()
        self.undecided: list[list[Name]] = [[] for _ in range(QUEUES)]

    def expected(self, queue: int) -> Name:
        """What this queue hands out next: the first that is neither finished nor in hand."""
        held = set(self.undecided[queue])
        return min(name for name in self.deliveries if name[0] == queue and name not in self.finished and name not in held)

    def ask(self, queue: int) -> None:
        if self.mode in ("auto", "duplicates-ok"):
            self.finished.update(self.undecided[queue])
            self.undecided[queue].clear()

    def hand_out(self, name: Name) -> None:
        self.undecided[name[0]].append(name)

    def confirm(self, name: Name) -> None:
        for queue in range(QUEUES) if self.mode == "client" else (name[0],):
            confirmed = self.undecided[queue] if self.mode == "client" else [name]
            self.finished.update(confirmed)
            self.undecided[queue] = [each for each in self.undecided[queue] if each not in confirmed]

    def give_back(self, queue: int) -> None:
        for name in self.undecided[queue]:
            self.deliveries[name] += 1
        self.undecided[queue].clear()

    def leave(self) -> None:
        for queue in range(QUEUES):
            self.ask(queue)
            self.give_back(queue)

    def left(self) -> dict[Name, int]:
        return {name: count for name, count in self.deliveries.items() if name not in self.finished}


class Program:
    """Does what the dice say, and tells the twin."""

    def __init__(self, dice: random.Random, mode: ConfirmMode) -> None:
        self.twin = Naive(mode)
        self._dice = dice
        self._in_hand: dict[Name, holdfast.ReceivedEvent] = {}

    async def run(self, session: ClientSession) -> None:
        receivers = [
            await session.queue(f"q{queue}").receive(credit=self._dice.choice((3, 1000))).open() for queue in range(QUEUES)
        ]
        for _ in range(STEPS):
            await self._step(session, receivers)
        for incoming in receivers:
            await incoming.close()
        self.twin.leave()

    async def _step(self, session: ClientSession, receivers: list[Incoming]) -> None:
        step = self._dice.random()
        if step < 0.65:
            await self._take(receivers)
        elif step < 0.9 and self._in_hand:
            name = self._dice.choice(sorted(self._in_hand))
            await self._in_hand[name].confirm()
            self.twin.confirm(name)
            self._forget_decided()
        elif step >= 0.9:
            await session.recover(timeout=20)
            for queue in range(QUEUES):
                self.twin.give_back(queue)
            self._in_hand.clear()

    async def _take(self, receivers: list[Incoming]) -> None:
        queue = self._dice.randrange(QUEUES)
        self.twin.ask(queue)
        if sum(name[0] == queue for name in self.twin.left()) == len(self.twin.undecided[queue]):
            return  # nothing is left to be handed out
        name = self.twin.expected(queue)
        event = await receivers[queue].next(timeout=20)
        assert (tuple(event.data), event.deliveries) == (name, self.twin.deliveries[name])
        self.twin.hand_out(name)
        self._in_hand[name] = event
        self._forget_decided()

    def _forget_decided(self) -> None:
        """The program confirms only what has no verdict yet."""
        undecided = {name for names in self.twin.undecided for name in names}
        self._in_hand = {name: event for name, event in self._in_hand.items() if name in undecided}


async def left(client: Client) -> dict[Name, int]:
    found = {}
    for queue in range(QUEUES):
        async with client.queue(f"q{queue}").receive() as incoming:
            for _ in range((await client.describe(f"q{queue}"))["waiting"]):
                event = await incoming.next(timeout=20)
                found[event.data[0], event.data[1]] = event.deliveries
    return found


@pytest.mark.parametrize("mode", ["event", "auto", "duplicates-ok", "client"])
@pytest.mark.parametrize("seed", effort.cases(range(3), long=range(3, 12)))
async def test_whatever_a_session_does_what_is_left_is_what_the_twin_says(mode: ConfirmMode, seed: int) -> None:
    program = Program(random.Random(seed), mode)
    async with holdfast.connect("memory:") as client:
        for queue in range(QUEUES):
            await client.queue(f"q{queue}").send_many((queue, number) for number in range(EVENTS))

        async with client.session(confirm=mode) as session:
            await program.run(session)

        assert await left(client) == program.twin.left()
