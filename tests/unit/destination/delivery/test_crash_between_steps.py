"""A5 for the machines: an event is removed only when every intended recipient has confirmed it, whatever crashes when.

A crash takes everything but the channel: the directory is rebuilt from any snapshot taken before and the entries after it;
deliveries, and what recipients held, are gone. All combinations of crash and snapshot are tried.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from holdfast.destination.command import Attach, Claim, Command, Confirm, Create, Release, Subscribe
from holdfast.destination.delivery.delivery import Delivery
from holdfast.destination.directory import Directory
from holdfast.event.position import Ranges, entry_of, of
from tests.machines import Manager, ranges

RECIPIENTS = {("orders", ""): "ann", ("alerts", "audit"): "ann", ("alerts", "pager"): "bob"}


def set_up() -> Manager:
    manager = Manager()
    for command in (
        Create("orders", "queue"),
        Create("alerts", "topic"),
        Subscribe("alerts", "audit", True),
        Subscribe("alerts", "pager", True),
        Attach("ann", 1, "orders"),
        Attach("ann", 2, "alerts", "audit"),
        Attach("bob", 1, "alerts", "pager"),
        Claim(1, "north"),
    ):
        manager.ask(command)
    return manager


def delivered_after_a_crash(directory: Directory) -> dict[tuple[str, str], list[int]]:
    """What a new primary hands out, by backlog, when no recipient reports that it holds anything."""
    found = {}
    for key in RECIPIENTS:
        delivery = Delivery(directory.backlog(key))
        delivery.attach(("anyone", 1), Ranges())
        delivery.grant(("anyone", 1), 1_000, 1_000)
        handout = delivery.next(10_000)
        found[key] = [
            each for part in (handout.slices if handout else []) for each in range(part.first, part.first + part.events)
        ]
    return found


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_crash_between_any_two_steps_leaves_every_unconfirmed_event_to_its_recipient_a5(order: tuple[int, ...]) -> None:
    manager = set_up()
    order_entry, alert_entry = len(manager.log) + 1, len(manager.log) + 2
    confirms: list[Command] = [
        Confirm("orders", "", "ann", ranges(order_entry)),
        Confirm("alerts", "audit", "ann", ranges((of(alert_entry), of(alert_entry)))),
        Confirm("alerts", "pager", "bob", ranges(alert_entry)),
    ]
    snapshots = [(len(manager.log), list(manager.directory.snapshot()))]
    expected: list[tuple[int, dict[tuple[str, str], list[int]]]] = []

    def step() -> None:
        waiting = {key: manager.waiting(*key) for key in RECIPIENTS}
        expected.append((len(manager.log), waiting))
        snapshots.append((len(manager.log), list(manager.directory.snapshot())))

    manager.send("orders", 1)
    step()
    manager.send("alerts", 2)
    step()
    manager.ask(Release("alerts", "audit", "ann", ranges(alert_entry)))
    step()
    for at in order:
        manager.ask(confirms[at])
        step()
    manager.ask(Confirm("alerts", "audit", "ann", ranges(alert_entry)))
    step()

    for length, waiting in expected:
        for at, chunks in snapshots:
            if at <= length:
                rebuilt = Directory.restore(chunks)
                for entry in range(at + 1, length + 1):
                    rebuilt.apply(entry, manager.log[entry - 1])
                assert delivered_after_a_crash(rebuilt) == waiting
                unfinished = [entry_of(each) for events in waiting.values() for each in events]
                assert rebuilt.oldest_needed() == min(unfinished, default=length + 1)
    assert expected[-1][1] == {key: [] for key in RECIPIENTS}
    assert [sum(map(len, waiting.values())) for _, waiting in expected][:3] == [1, 5, 5]
