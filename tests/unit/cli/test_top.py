"""The rows of `holdfast top`, from what a server says at each look."""

from __future__ import annotations

from holdfast.cli.operations.top import Rates, Row
from holdfast.client.description import DestinationDescription


def queue(name: str, waiting: int = 0, accepted: int = 0, confirmed: int = 0, dead: int = 0) -> DestinationDescription:
    return {
        "name": name, "kind": "queue", "waiting": waiting, "in_flight": 0, "receivers": 1, "is_blocked": False,
        "accepted": accepted, "confirmed": confirmed, "dead": dead,
    }  # fmt: skip


def test_rates_are_those_since_the_look_before() -> None:
    rates = Rates()
    rates.rows(10.0, [queue("orders", waiting=5, accepted=100, confirmed=90, dead=1)])

    (row,) = rates.rows(12.0, [queue("orders", waiting=50, accepted=300, confirmed=140, dead=3)])

    assert row == Row("orders", "queue", 50, 0, 1, 100.0, 25.0, 1.0, 2.0, False)


def test_at_the_first_look_and_for_a_new_destination_nothing_is_known_of_rates() -> None:
    rates = Rates()

    (first,) = rates.rows(1.0, [queue("orders", accepted=100)])
    _, new = rates.rows(2.0, [queue("orders", accepted=200), queue("prices", accepted=500)])

    assert (first.accepted_per_second, new.destination, new.accepted_per_second) == (0, "prices", 0)


def test_a_destination_that_was_deleted_and_made_again_has_no_negative_rate() -> None:
    rates = Rates()
    rates.rows(1.0, [queue("orders", accepted=100, confirmed=100)])

    (row,) = rates.rows(2.0, [queue("orders", accepted=1)])

    assert (row.accepted_per_second, row.confirmed_per_second) == (0, 0)


def test_recipients_that_confirm_nothing_stand_still_and_with_nothing_waiting_nobody_is_behind() -> None:
    rows = Rates().rows(1.0, [queue("stuck", waiting=3), queue("done")])

    assert {row.destination: row.behind_seconds for row in rows} == {"stuck": None, "done": 0.0}


def test_the_busiest_come_first_then_those_with_most_waiting() -> None:
    rates = Rates()
    names = ("calm", "busy", "full")
    rates.rows(1.0, [queue(name, waiting=9 if name == "full" else 0) for name in names])

    rows = rates.rows(2.0, [queue(name, 9 if name == "full" else 0, accepted=7 if name == "busy" else 0) for name in names])

    assert [row.destination for row in rows] == ["busy", "full", "calm"]


def test_the_confirms_of_a_topic_are_those_of_all_its_subscriptions() -> None:
    topic: DestinationDescription = {
        "name": "prices", "kind": "topic", "waiting": 0, "in_flight": 0, "receivers": 2, "is_blocked": True, "accepted": 10,
        "subscriptions": [{"name": "a", "confirmed": 4, "dead": 0}, {"name": "b", "confirmed": 6, "dead": 1}],
    }  # fmt: skip
    rates = Rates()
    rates.rows(0.0, [{**topic, "accepted": 0, "subscriptions": []}])

    (row,) = rates.rows(1.0, [topic])

    assert (row.accepted_per_second, row.confirmed_per_second, row.dead_per_second, row.is_blocked) == (10, 10, 1, True)
