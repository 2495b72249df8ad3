"""Batches that sleep until their time: woken in the order of it, in eight bytes each."""

from __future__ import annotations

import random
import tracemalloc

from holdfast.destination.asleep import Asleep


def test_they_wake_when_their_time_comes_in_the_order_of_their_times() -> None:
    dice = random.Random(3)
    times = [(dice.randrange(1, 1_000), slot) for slot in dice.sample(range(100_000), 2_000)]
    asleep = Asleep()
    for at_ms, slot in times:
        asleep.add(slot, at_ms)

    woken: list[tuple[int, int]] = []
    for now_ms in range(0, 1_001, 50):
        while (next_slot := asleep.wake(now_ms)) is not None:
            woken.append((now_ms, next_slot))
        assert asleep.wake_at_ms is None or asleep.wake_at_ms > now_ms

    assert sorted(slot for _, slot in woken) == sorted(slot for _, slot in times)
    due = {slot: at_ms for at_ms, slot in times}
    assert all(now_ms - 50 < due[slot] <= now_ms for now_ms, slot in woken)
    assert [due[slot] for _, slot in woken] == sorted(due.values())
    assert not asleep and len(asleep) == 0


def test_a_sleeping_batch_costs_about_eight_bytes() -> None:
    count = 100_000
    tracemalloc.start()
    asleep = Asleep()
    for slot in range(count):
        asleep.add(slot, 1_000_000 + slot)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used / count < 12
