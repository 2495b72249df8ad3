"""The simulated network: who reaches whom, how long it takes, and what is lost, repeated or overtaken on the way.

    packet      may be lost, doubled, late, overtaken (the bus: core NATS, at most once)
    stream      arrives in order or not at all (links of clients, questions to the servers): what meets a cut waits for its end

Places are names: those of nodes and clients, and `SERVERS` for the NATS servers. The weather of a run is drawn once: most runs
have a good network and some a bad one, because faults of machines are met more often when packets arrive.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from holdfast.simulation.clusters.process import Process
from holdfast.simulation.clusters.world import World

SERVERS = "servers"


class Weather(NamedTuple):
    delay_us: int  # a usual one
    late: float  # of all packets are late, by up to fifty times that
    lost: float
    doubled: float
    is_in_order: bool  # packets of one sender to one recipient

    @classmethod
    def drawn(cls, dice: random.Random) -> Weather:
        return cls(
            delay_us=dice.choice((100, 300, 1_000, 4_000)),
            late=dice.choice((0.0, 0.01, 0.05)),
            lost=dice.choice((0.0, 0.0, 0.005, 0.03, 0.1)),
            doubled=dice.choice((0.0, 0.0, 0.01, 0.05)),
            is_in_order=dice.random() < 0.7,
        )


CALM = Weather(delay_us=300, late=0.0, lost=0.0, doubled=0.0, is_in_order=True)


class Network:
    def __init__(self, world: World, weather: Weather) -> None:
        self.weather = weather
        self._world = world
        self._cut: set[tuple[str, str]] = set()  # from, to
        self._arrived_us: dict[tuple[str, str, str], int] = {}  # the latest arrival, where order is kept
        self._held: list[tuple[str, str, Process | None, Callable[[], None], str]] = []

    # --- cuts --------------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str, *, one_way: bool = False) -> None:
        self._cut.add((one, other))
        if not one_way:
            self._cut.add((other, one))

    def mend(self, one: str, other: str) -> None:
        self._cut -= {(one, other), (other, one)}
        self._send_held()

    def mend_all(self) -> None:
        self._cut.clear()
        self._send_held()

    def is_cut(self, one: str, other: str) -> bool:
        return (one, other) in self._cut

    def _send_held(self) -> None:
        held, self._held = self._held, []
        for source, target, process, function, lane in held:
            self.stream(source, target, process, function, lane)

    # --- carrying ----------------------------------------------------------------------------------------------------

    def delay_us(self) -> int:
        dice, weather = self._world.dice, self.weather
        delay = int(weather.delay_us * (0.5 + dice.random()))
        return delay * dice.randrange(2, 50) if weather.late and dice.random() < weather.late else delay

    def packet(self, source: str, target: str, process: Process | None, function: Callable[[], None], lane: str = "") -> str:
        """Carry a packet to a process, or to the servers; return what becomes of it, for the trace. On a lane, those that arrive
        do so in order."""
        dice, weather = self._world.dice, self.weather
        if (source, target) in self._cut:
            return "cut"
        if weather.lost and dice.random() < weather.lost:
            return "lost"
        self._arrive(source, target, lane or ("packet" if weather.is_in_order else ""), process, function)
        if weather.doubled and dice.random() < weather.doubled:
            self._arrive(source, target, "", process, function)
            return "doubled"
        return ""

    def stream(
        self, source: str, target: str, process: Process | None, function: Callable[[], None], lane: str = "stream"
    ) -> None:
        """Carry something that is not lost: it waits while the way is cut."""
        if (source, target) in self._cut:
            self._held.append((source, target, process, function, lane))
        else:
            self._arrive(source, target, lane, process, function)

    def _arrive(self, source: str, target: str, lane: str, process: Process | None, function: Callable[[], None]) -> None:
        at_us = self._world.now_us + self.delay_us()
        if lane:
            way = source, target, lane
            at_us = self._arrived_us[way] = max(at_us, self._arrived_us.get(way, 0))
        self._world.at(at_us, function if process is None else lambda: process.deliver(function))
