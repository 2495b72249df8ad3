"""A deleted queue goes to the dead queue by whole pages where possible, with the same result as event by event."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.destination.backlog import slots
from holdfast.destination.command import Confirm, Create, Delete, Release
from holdfast.destination.directory import Directory
from holdfast.event import position
from holdfast.event.position import Ranges
from tests.machines import Manager, manager_at_work

Step = tuple[int, int, int]


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLOTS_MAX", 3)
        yield


def settle(manager: Manager, waiting: list[int], at: int, is_confirm: bool) -> None:
    """Confirm or release one of what waits in `orders`."""
    chosen = waiting[at % len(waiting)]
    made = Confirm if is_confirm else Release
    manager.ask(made("orders", "", "ann", Ranges.of((chosen, chosen)).to_bytes()))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3), st.integers(0, 99)), max_size=40), st.booleans())
def test_everything_that_waited_is_dead_once_in_order_with_its_deliveries(steps: list[Step], is_both: bool) -> None:
    manager = manager_at_work()
    manager.ask(Create("parcels", "queue"))
    for kind, events, at in steps:
        waiting = manager.waiting("orders")
        if kind < 6:
            manager.send(["orders", "parcels"][kind % 2], events)
        elif waiting:
            settle(manager, waiting, at, is_confirm=kind < 9)
    orders, parcels = manager.waiting("orders"), manager.waiting("parcels")
    backlog = manager.directory.backlog(("orders", ""))
    deliveries = {each: backlog.deliveries(each) for each in orders}

    manager.ask(Delete("orders", at_ms=7))
    if is_both:
        manager.ask(Delete("parcels", at_ms=8))

    dead = manager.waiting("_DMQ")
    assert dead == orders + (parcels if is_both else [])
    for each in orders:
        (death,) = manager.directory.deaths(each)
        assert (death.destination, death.code, death.deliveries, death.at_ms) == ("orders", "deleted", deliveries[each], 7)
    for each in parcels if is_both else []:
        (death,) = manager.directory.deaths(each)
        assert (death.destination, death.at_ms) == ("parcels", 8)
    restored = Directory.restore(manager.directory.snapshot())
    assert restored.digest() == manager.directory.digest()
    assert restored.oldest_needed() == manager.directory.oldest_needed()
    for each in dead[::2]:
        manager.ask(Confirm("_DMQ", "", "ann", Ranges.of((each, each)).to_bytes()))
    assert manager.waiting("_DMQ") == dead[1::2]
    assert manager.directory.needed_between(1, 1 << 40) == sorted(
        {position.entry_of(each) for each in [*dead[1::2], *([] if is_both else parcels)]}
    )
