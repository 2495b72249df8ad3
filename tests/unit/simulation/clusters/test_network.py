"""The simulated network: packets may be lost, streams are not, and cuts end."""

from __future__ import annotations

from functools import partial

from holdfast.simulation.clusters.network import CALM, Network
from holdfast.simulation.clusters.world import S_US, World


class Place:
    def __init__(self) -> None:
        self.world = World(1)
        self.network = Network(self.world, CALM)
        self.came: list[int] = []

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.network.packet("a", "b", None, partial(self.came.append, number))

    def stream(self, *numbers: int) -> None:
        for number in numbers:
            self.network.stream("a", "b", None, partial(self.came.append, number))

    def run(self) -> None:
        self.world.run(lambda: False, self.world.now_us + S_US)


def test_packets_of_a_calm_network_arrive_in_order() -> None:
    place = Place()

    place.send(*range(100))
    place.run()

    assert place.came == list(range(100))


def test_packets_are_lost_doubled_and_overtaken_as_the_weather_says() -> None:
    place = Place()
    place.network.weather = CALM._replace(lost=0.2, doubled=0.2, is_in_order=False)

    place.send(*range(1_000))
    place.run()

    assert 700 < len(set(place.came)) < 900
    assert len(place.came) > len(set(place.came)) + 100
    assert place.came != sorted(place.came)


def test_what_meets_a_cut_is_lost_as_a_packet_and_waits_as_a_stream() -> None:
    place = Place()
    place.network.cut("a", "b")

    place.send(1)
    place.stream(2, 3)
    place.run()
    assert place.came == []
    place.network.mend("a", "b")
    place.stream(4)
    place.run()

    assert place.came == [2, 3, 4]


def test_a_cut_may_be_one_way() -> None:
    place = Place()

    place.network.cut("b", "a", one_way=True)
    place.send(1)
    place.run()

    assert place.came == [1]
    assert place.network.is_cut("b", "a")
