"""Simulated processes: time jumps, nothing waits for real, and a process may be paused or crash."""

from __future__ import annotations

import asyncio
import time

from holdfast.simulation.clusters.process import Process
from holdfast.simulation.clusters.surroundings import Surroundings
from holdfast.simulation.clusters.world import S_US, World

HOUR_S = 3600


class Place:
    """A world with one process, which notes the times at which it did something."""

    def __init__(self) -> None:
        self.world = World(1)
        self.surroundings = Surroundings(self.world)
        self.process = Process(self.world, "p", self.surroundings.enter)
        self.did: list[int] = []

    async def work(self) -> None:
        while True:
            self.did.append(round(asyncio.get_running_loop().time()))
            await asyncio.sleep(10)

    def run(self, seconds: int) -> None:
        self.world.run(lambda: False, self.world.now_us + seconds * S_US)


def test_an_hour_passes_without_waiting() -> None:
    place = Place()
    place.process.start(place.work(), "work")

    place.run(HOUR_S)

    assert len(place.did) == HOUR_S // 10
    assert place.world.now_us == HOUR_S * S_US
    place.process.bury()


def test_a_paused_process_does_nothing_and_goes_on_where_it_was() -> None:
    place = Place()
    place.process.start(place.work(), "work")
    place.run(15)

    place.process.pause()
    place.run(100)
    assert place.did == [0, 10]
    place.process.go_on()
    place.run(12)

    assert place.did == [0, 10, 115, 125]
    place.process.bury()


def test_a_crashed_process_never_has_a_turn_again() -> None:
    place = Place()
    place.process.start(place.work(), "work")
    place.run(5)

    place.process.crash()
    place.process.deliver(place.did.append, 99)
    place.run(100)

    assert place.did == [0]
    place.process.bury()


def test_clock_and_dice_of_the_machine_are_simulated_within_a_run_and_only_there() -> None:
    place = Place()
    place.surroundings.enter(place.process)
    real = time.time_ns()

    with place.surroundings.installed():
        before = time.time_ns()
        place.process.ahead_us += HOUR_S * S_US
        after = time.time_ns()

    assert after - before == HOUR_S * 10**9
    assert time.time_ns() >= real
    place.process.bury()
