"""The faults of a run: which ones, when and for how long, drawn once at its beginning, and all of them healed at its end.

| fault | what happens |
| --- | --- |
| crash | a node, or a client, ends without a word and begins again later |
| machine | the same, but its links are not reset: others hear nothing |
| all | all nodes crash, and begin again in any order |
| pause | a process has no turns, and then goes on as if nothing had been |
| slow | each of its turns takes long |
| cut | two places do not reach each other, or only one way |
| island | one node reaches nobody, and nobody reaches it |
| clock | the machine's clock of a process jumps, forward or back |
| majority | the servers of the channel take nothing |
| late | the servers keep what comes, and store it later |
| forgetful | the servers forget ids: what is sent again is stored again |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from holdfast.simulation.clusters.channel_servers import ChannelServers
from holdfast.simulation.clusters.network import SERVERS, Network
from holdfast.simulation.clusters.programs import ClientHost
from holdfast.simulation.clusters.simulated_node import SimulatedNode
from holdfast.simulation.clusters.world import S_US, World

Heal = Callable[[], None]


class Faults:
    def __init__(
        self,
        world: World,
        network: Network,
        nodes: Sequence[SimulatedNode],
        clients: Sequence[ClientHost],
        channels: Sequence[ChannelServers],
    ) -> None:
        self.done: list[str] = []
        self._world = world
        self._network = network
        self._nodes = nodes
        self._clients = clients
        self._channels = channels
        self._hosts: tuple[SimulatedNode | ClientHost, ...] = (*nodes, *clients)
        self._is_over = False
        self._kinds: tuple[Callable[[], Heal | None], ...] = (
            self._crash, self._crash, self._machine, self._all, self._client, self._pause, self._pause, self._slow, self._cut,
            self._cut, self._island, self._clock, self._majority, self._late, self._forgetful,
        )  # fmt: skip

    def plan(self, length_us: int) -> None:
        """Begin from now on, within a time."""
        dice = self._world.dice
        for _ in range(dice.randrange(2 + int(length_us / S_US))):
            lasts_us = int(min(dice.expovariate(1.0), 6.0) * S_US)
            kind = dice.choice(self._kinds)
            self._world.after(dice.randrange(length_us), partial(self._begin, kind, lasts_us))

    def _begin(self, kind: Callable[[], Heal | None], lasts_us: int) -> None:
        if self._is_over:
            return
        heal = kind()
        if heal is not None:
            self._world.after(lasts_us, heal)

    def heal(self) -> None:
        """End all faults: everything runs, and everybody reaches everybody."""
        self._is_over = True
        self._world.note("world", "is healed")
        self._network.mend_all()
        for channel in self._channels:
            channel.has_majority = True
            channel.go_on()
        for each in self._hosts:
            each.process.slowness = 1
            each.process.go_on()
            if each.process.is_dead:
                each.start()

    def _note(self, what: str) -> None:
        self.done.append(f"{self._world.now_us / S_US:.3f} s: {what}")
        self._world.note("world", what)

    # --- kinds -------------------------------------------------------------------------------------------------------

    def _crash(self, *, is_machine: bool = False) -> Heal | None:
        node = self._world.dice.choice(self._nodes)
        if not node.is_up:
            return None
        self._note(f"the machine of {node.name} is gone" if is_machine else f"{node.name} crashes")
        node.crash(is_machine=is_machine)
        return lambda: self._start(node)

    def _machine(self) -> Heal | None:
        return self._crash(is_machine=True)

    def _all(self) -> Heal:
        self._note("all nodes crash")
        for node in self._nodes:
            if not node.process.is_dead:
                node.crash(is_machine=False)

        def start() -> None:
            for node in self._world.dice.sample(list(self._nodes), len(self._nodes)):
                self._start(node)

        return start

    def _start(self, each: SimulatedNode | ClientHost) -> None:
        if each.process.is_dead:
            self._world.note("world", f"{each.name} starts")
            each.start()

    def _client(self) -> Heal | None:
        client = self._world.dice.choice(self._clients)
        if client.process.is_dead:
            return None
        self._note(f"{client.name} crashes")
        client.crash()
        return lambda: self._start(client)

    def _any(self) -> SimulatedNode | ClientHost:
        return self._world.dice.choice(self._hosts)

    def _pause(self) -> Heal:
        process = self._any().process
        self._note(f"{process.name} is paused")
        process.pause()

        def go_on() -> None:
            self._world.note("world", f"{process.name} goes on")
            process.go_on()

        return go_on

    def _slow(self) -> Heal:
        process = self._any().process
        self._note(f"{process.name} is slow")
        process.slowness = self._world.dice.choice((20, 200, 1_000))

        def go_on() -> None:
            process.slowness = 1

        return go_on

    def _cut(self) -> Heal:
        dice = self._world.dice
        one = dice.choice(self._nodes).name
        other = dice.choice([each for each in (SERVERS, SERVERS, *self._names()) if each != one])
        one_way = dice.random() < 0.3
        one, other = (one, other) if dice.random() < 0.5 else (other, one)
        self._note(f"{one} does not reach {other}{'' if one_way else ', nor the other way'}")
        self._network.cut(one, other, one_way=one_way)
        return lambda: self._network.mend(one, other)

    def _names(self) -> list[str]:
        return [each.name for each in self._hosts]

    def _island(self) -> Heal:
        one = self._world.dice.choice(self._nodes).name
        others = [each for each in (SERVERS, *self._names()) if each != one]
        self._note(f"{one} reaches nobody")
        for other in others:
            self._network.cut(one, other)

        def mend() -> None:
            for other in others:
                self._network.mend(one, other)

        return mend

    def _clock(self) -> None:
        process = self._any().process
        by_s = self._world.dice.choice((-3600, -10, -1, 1, 10, 3600, 86_400))
        self._note(f"the clock of {process.name} jumps by {by_s} s")
        process.ahead_us += by_s * S_US

    def _majority(self) -> Heal:
        channel = self._world.dice.choice(self._channels)
        self._note("the servers have no majority")
        channel.has_majority = False

        def mend() -> None:
            channel.has_majority = True

        return mend

    def _late(self) -> Heal:
        channel = self._world.dice.choice(self._channels)
        self._note("a server is paused, with what comes to it")
        channel.pause()
        return channel.go_on

    def _forgetful(self) -> None:
        self._note("the servers forget ids")
        for channel in self._channels:
            channel.forget_ids()
