"""Delayed batches come in the order of their times, and take eight bytes each."""

from __future__ import annotations

import random
import tracemalloc

from holdfast.destination.delivery.delay_index import DelayIndex


def test_batches_are_due_when_their_time_comes_in_the_order_of_their_times() -> None:
    dice = random.Random(3)
    times = [(dice.randrange(1, 1_000), slot) for slot in dice.sample(range(100_000), 2_000)]
    delays = DelayIndex()
    for at_ms, slot in times:
        delays.add(slot, at_ms)

    due_slots: list[tuple[int, int]] = []
    for now_ms in range(0, 1_001, 50):
        while (next_slot := delays.take_due(now_ms)) is not None:
            due_slots.append((now_ms, next_slot))
        assert delays.due_at_ms is None or delays.due_at_ms > now_ms

    assert sorted(slot for _, slot in due_slots) == sorted(slot for _, slot in times)
    due = {slot: at_ms for at_ms, slot in times}
    assert all(now_ms - 50 < due[slot] <= now_ms for now_ms, slot in due_slots)
    assert [due[slot] for _, slot in due_slots] == sorted(due.values())
    assert not delays and len(delays) == 0


def test_a_delayed_batch_costs_about_eight_bytes() -> None:
    count = 100_000
    tracemalloc.start()
    delays = DelayIndex()
    for slot in range(count):
        delays.add(slot, 1_000_000 + slot)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used / count < 12
