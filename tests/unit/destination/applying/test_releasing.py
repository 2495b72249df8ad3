"""Releases as a machine: who decides how long an event waits, and what is kept of the reason."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.destination import command as commands
from holdfast.destination.backlog.history import OFTEN
from holdfast.destination.command import Confirm, Create, Dead, Release
from holdfast.destination.directory import Directory
from holdfast.destination.effect import ReturnedOften
from holdfast.destination.settings import FIRST_USE_QUEUE, Settings
from holdfast.event.position import of
from tests.machines import Manager, manager_at_work, ranges


@pytest.fixture
def manager() -> Manager:
    made = manager_at_work()
    made.ask(commands.Delete("orders"))
    made.ask(Create("orders", "queue", FIRST_USE_QUEUE, True, is_unconfigured=True))
    made.ask(commands.Attach("ann", 1, "orders"))
    return made


def release(entry: int, **said: object) -> Release:
    return Release("orders", "", "ann", ranges(entry), at_ms=10_000, often_ms=commands.OFTEN_MS, **{"wait": "back-off", **said})  # type: ignore[arg-type]


def waits_until(manager: Manager, entry: int) -> int:
    return manager.directory.backlog(("orders", "")).not_before_over(of(entry), of(entry))[0][2]


def test_a_release_without_a_delay_waits_1_s_then_twice_as_long_up_to_60_s(manager: Manager) -> None:
    entry = manager.send("orders", 1)

    waited = []
    for _ in range(8):
        manager.ask(release(entry))
        waited.append(waits_until(manager, entry) - 10_000)

    assert waited == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_what_comes_back_without_a_word_of_the_program_waits_only_for_a_back_off_that_somebody_chose(manager: Manager) -> None:
    """Who leaves a receiver, recovers or rolls back finds the order as it was."""
    entry = manager.send("orders", 1)
    manager.ask(release(entry, wait=""))
    before = waits_until(manager, entry)
    manager.ask(commands.Configure("orders", Settings(redelivery_delay_ms=500), changed=["redelivery_delay_ms"]))
    manager.ask(release(entry, wait=""))

    assert (before, waits_until(manager, entry)) == (0, 10_500)


def test_a_delay_that_the_program_said_is_what_the_event_waits(manager: Manager) -> None:
    entry = manager.send("orders", 1)
    manager.ask(release(entry))

    manager.ask(release(entry, wait="exact"))
    at_once = waits_until(manager, entry)
    manager.ask(release(entry, wait="exact", not_before_ms=10_050))

    assert (at_once, waits_until(manager, entry)) == (0, 10_050)


def test_an_event_that_is_released_at_once_twenty_times_waits_a_second_each_time_from_then_on(manager: Manager) -> None:
    entry = manager.send("orders", 1)

    waited = []
    for _ in range(22):
        manager.ask(release(entry, wait="exact"))
        waited.append(waits_until(manager, entry))

    assert waited == [*[0] * 19, *[11_000] * 3]


def test_a_release_of_a_former_release_of_holdfast_is_applied_as_it_was(manager: Manager) -> None:
    """Its command ends before the fields that came later."""
    entry = manager.send("orders", 1)
    head = msgspec.msgpack.decode(commands.encode(Release("orders", "", "ann", ranges(entry)))[3:])[:10]
    data = msgspec.msgpack.encode(head)

    for _ in range(25):
        manager.log.append(bytes([3, len(data) & 255, len(data) >> 8]) + data)
        manager.directory.apply(len(manager.log), manager.log[-1])

    assert waits_until(manager, entry) == 0
    assert not manager.directory.backlog(("orders", "")).history.reasons


def test_the_last_reason_is_told_with_an_event_that_was_redelivered_too_often(manager: Manager) -> None:
    """A release that says no reason leaves the last one."""
    entry = manager.send("orders", 3)
    manager.ask(release(entry, reason="no stock"))
    manager.ask(Release("orders", "", "ann", ranges((of(entry, 1), of(entry, 1))), reason="timeout"))
    manager.ask(release(entry))

    manager.ask(Dead(0, "orders", "", ranges((of(entry), of(entry, 2))), "redelivered too often"))

    told = [manager.directory.deaths(of(entry, index))[0] for index in range(3)]
    assert [death.reason for death in told[:2]] == ["redelivered too often: no stock", "redelivered too often: timeout"]
    assert told[2].reason == "redelivered too often: no stock"


def test_the_reason_of_a_release_that_was_not_counted_is_told_too(manager: Manager) -> None:
    entry = manager.send("orders", 2)
    manager.ask(release(entry, is_counted=False, reason="no stock"))

    manager.append(Dead(0, "orders", "", ranges(entry), "redelivered too often"))

    assert [death.reason for death in manager.directory.deaths(of(entry))] == ["redelivered too often: no stock"]


def test_reasons_are_in_snapshots_and_digests_and_go_with_their_event(manager: Manager) -> None:
    entry = manager.send("orders", 1)
    manager.ask(release(entry))
    without = manager.directory.digest()
    manager.ask(Release("orders", "", "ann", ranges(entry), 11_000, is_counted=False, reason="no stock"))

    restored = Directory.restore(manager.directory.snapshot())

    assert restored.digest() == manager.directory.digest() != without
    assert list(restored.backlog(("orders", "")).history.reasons) == [(of(entry), of(entry), "no stock")]
    manager.ask(Confirm("orders", "", "ann", ranges(entry)))
    assert not manager.directory.backlog(("orders", "")).history.reasons


def test_events_that_came_back_more_than_twenty_times_are_counted_and_told_once(manager: Manager) -> None:
    entry = manager.send("orders", 1)
    backlog = manager.directory.backlog(("orders", ""))

    told = []
    for _ in range(OFTEN + 3):
        manager.ask(release(entry))
        told += [effect for effect in manager.effects if isinstance(effect, ReturnedOften)]

    assert told == [ReturnedOften(("orders", ""), 1)]
    assert backlog.history.often == 1
    assert Directory.restore(manager.directory.snapshot()).backlog(("orders", "")).history.often == 1
    manager.ask(Confirm("orders", "", "ann", ranges(entry)))
    assert backlog.history.often == 0
