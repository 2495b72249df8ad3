"""Which batches are due to be read because an event of theirs may have expired, against a naive list."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from holdfast.destination.backlog import slots
from holdfast.destination.backlog.backlog import Backlog
from holdfast.destination.backlog.expiry_index import ExpiryIndex
from holdfast.destination.batch_traits import PLAIN, Traits
from holdfast.event.position import Ranges, of


@pytest.fixture(autouse=True)
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLOTS_MAX", 4)
        yield


def expires(at_ms: int) -> Traits:
    return Traits(earliest_expiry_ms=at_ms, latest_expiry_ms=at_ms)


@pytest.mark.parametrize("seed", range(30))
def test_every_batch_is_due_when_its_first_event_expires_and_once_for_every_look(seed: int) -> None:
    dice = random.Random(seed)
    backlog = Backlog()
    expiring = ExpiryIndex(backlog)
    due: dict[int, int] = {}  # the naive twin: when each entry is to be looked at next
    for now_ms in range(1, 120):
        entry = now_ms
        at_ms = now_ms + dice.randrange(1, 30) if dice.random() < 0.5 else 0
        backlog.place(entry, 1, 0, expires(at_ms) if at_ms else PLAIN)
        expiring.placed(of(entry))
        if at_ms:
            due[entry] = at_ms
        if dice.random() < 0.3:
            gone = dice.randrange(1, entry + 1)
            backlog.finish(Ranges.of((of(gone), of(gone))))
            due.pop(gone, None)

        found: list[int] = []
        while some := expiring.due(now_ms, dice.randrange(1, 4)):
            found += some
        assert sorted(found) == sorted(each for each, at in due.items() if at <= now_ms)
        for each in found:
            due[each] = now_ms + dice.randrange(1, 20) if dice.random() < 0.5 else 10**6
            expiring.heads_read([(each, due[each] if due[each] < 10**6 else 0)])


def test_what_waits_from_before_is_found_by_a_new_primary() -> None:
    backlog = Backlog()
    for entry in range(1, 20):
        backlog.place(entry, 1, 0, expires(100 + entry))

    expiring = ExpiryIndex(backlog)

    assert expiring.wake_at_ms == 101
    assert expiring.due(110, 100) == list(range(1, 11))
    assert expiring.wake_at_ms == 111
