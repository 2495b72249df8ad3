"""Flow control as pure decisions: when a destination is blocked, and what is refused so that order is kept (B12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.bus.message import Watermark
from holdfast.destination.backlog.sizes import SLOTS, Sizes
from holdfast.destination.command import BatchCommand
from holdfast.destination.settings import Settings
from holdfast.errors import Blocked
from holdfast.node.clients.client_flow import ClientFlow
from holdfast.node.messages.destination_flow import level
from holdfast.session.session import Session


@given(st.integers(1, 50), st.integers(1, 100), st.lists(st.integers(0, 80), max_size=40))
def test_a_destination_is_blocked_from_its_high_water_until_its_low_water(high: int, low: int, fillings: list[int]) -> None:
    settings = Settings(events_max=high, low_percent=low)
    is_blocked = False
    for waiting in fillings:
        found = level("q", settings, waiting, 0, is_blocked)

        if waiting >= high:
            assert found.is_blocked
        elif waiting <= high * low / 100:
            assert not found.is_blocked
        else:
            assert found.is_blocked == is_blocked
        assert found.is_refusing == (waiting > 1.25 * high)
        assert found.is_refusing <= found.is_blocked
        assert bool(found.reason) == found.is_blocked
        is_blocked = found.is_blocked


@given(
    st.lists(st.tuples(st.integers(0, 3 * SLOTS), st.integers(1, 1 << 20)), max_size=60, unique_by=lambda each: each[0]),
    st.data(),
)
def test_sizes_add_up_to_what_is_not_finished_and_are_rebuilt_from_their_stretches(
    put: list[tuple[int, int]], data: st.DataObject
) -> None:
    sizes, naive = Sizes(), dict(put)
    for slot, size in put:
        sizes.put(slot, size)
    for slot in data.draw(st.lists(st.sampled_from([each[0] for each in put]), unique=True)) if put else []:
        sizes.finish(slot)
        del naive[slot]

    rebuilt = Sizes()
    for number, stretch in sizes.stretches():
        rebuilt.rebuild(number, stretch)

    assert sizes.total == rebuilt.total == sum(naive.values())
    assert list(sizes.stretches()) == list(rebuilt.stretches())
    assert {slot >> 12 for slot in naive} == {number for number, _ in sizes.stretches()}


class Quiet:
    """A bus on which nobody speaks."""

    def listen(self, subject: str, heard: Callable[[Any], None]) -> Callable[[], None]:
        return lambda: None


class Client:
    """Sends numbered batches in a window, and goes back to the first that was refused when all are answered (rule 6)."""

    def __init__(self, sending: ClientFlow, wanted: list[str]) -> None:
        self.sending = sending
        self.session = Session("s", "", 64)
        self.waiting = list(enumerate(wanted))
        self.accepted: list[tuple[int, str]] = []
        self.producers = 0
        self.sequence = 1

    def send_window(self, count: int, between: Callable[[], None]) -> None:
        sent, self.waiting = self.waiting[:count], self.waiting[count:]
        refused, was_accepted_behind, hole = [], False, 0
        for at, (number, destination) in enumerate(sent):
            try:
                self.sending.check(self.session, BatchCommand(destination, f"p{self.producers}", self.sequence + at))
                self.accepted.append((number, destination))
                was_accepted_behind |= bool(hole)
            except Blocked:
                hole = hole or self.sequence + at
                refused.append((number, destination))
            between()
        self.waiting = refused + self.waiting
        if was_accepted_behind:
            self.producers, self.sequence = self.producers + 1, 1
        else:
            self.sequence = hole or self.sequence + len(sent)


@given(
    st.lists(st.sampled_from(["full", "free"]), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 8), st.lists(st.booleans(), min_size=8, max_size=8)), max_size=20),
)
def test_what_is_refused_and_sent_again_keeps_its_order_whenever_the_destination_becomes_free(
    wanted: list[str], rounds: list[tuple[int, list[bool]]]
) -> None:
    sending = ClientFlow(Quiet(), lambda session, told: None)  # type: ignore[arg-type]
    client = Client(sending, wanted)
    for count, changes in rounds:
        turns = iter(changes)

        def between(turns: Any = turns) -> None:
            is_full = next(turns)
            sending.hear(Watermark("full", True, is_full, is_full, "10 events wait" if is_full else ""))

        client.send_window(count, between)
    sending.hear(Watermark("full", True))
    while client.waiting:
        client.send_window(8, lambda: None)

    assert sorted(client.accepted) == list(enumerate(wanted))
    for destination in ("full", "free"):
        numbers = [number for number, to in client.accepted if to == destination]
        assert numbers == sorted(numbers)
