"""The directory: each rule for itself, and that a refusal changes nothing."""

from __future__ import annotations

import pytest

from holdfast.destination.command import (
    Attach,
    Carried,
    Claim,
    Confirm,
    Create,
    Dead,
    Delete,
    Detach,
    InHand,
    OpenProducer,
    Reject,
    Release,
    Subscribe,
    Unsubscribe,
)
from holdfast.destination.directory import Directory
from holdfast.destination.effect import (
    Attached,
    BacklogCreated,
    BacklogDeleted,
    Claimed,
    DetachedReceiver,
    Died,
    Finished,
    Placed,
    Returned,
)
from holdfast.errors import (
    Detached,
    NoSuchPosition,
    Refused,
)
from holdfast.event.position import Ranges, of
from tests.machines import Manager, batch_of, manager_at_work, positions, ranges

ORDERS, AUDIT, DEAD = ("orders", ""), ("alerts", "audit"), ("_DMQ", "")


@pytest.fixture
def manager() -> Manager:
    return manager_at_work()


# --- placing and confirming ------------------------------------------------------------------------------------------


def test_a_batch_to_a_queue_waits_there_until_it_is_confirmed(manager: Manager) -> None:
    entry = manager.send("orders", 3)
    assert manager.effects == [Placed(ORDERS, of(entry), 3)]

    finished = manager.ask(Confirm("orders", "", "ann", ranges((of(entry), of(entry, 1)))))

    assert finished == 2
    assert manager.effects[0] == Finished(ORDERS, Ranges.of((of(entry), of(entry, 1))))
    assert manager.waiting("orders") == [of(entry, 2)]


def test_an_event_of_a_topic_is_needed_until_every_subscription_has_confirmed_it_a5(manager: Manager) -> None:
    manager.ask(Subscribe("alerts", "pager", True))
    manager.ask(Attach("bob", 1, "alerts", "pager"))
    entry = manager.send("alerts")

    manager.ask(Confirm("alerts", "audit", "ann", ranges(entry)))
    assert manager.directory.oldest_needed() == entry
    assert manager.waiting("alerts", "pager") == positions(entry)

    manager.ask(Confirm("alerts", "pager", "bob", ranges(entry)))
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_a_batch_to_a_topic_without_subscriptions_is_finished_at_once(manager: Manager) -> None:
    manager.ask(Detach("ann"))
    manager.ask(Unsubscribe("alerts", "audit"))

    manager.send("alerts", 5)

    assert manager.effects == []
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_a_subscription_gets_only_what_is_sent_after_it(manager: Manager) -> None:
    manager.send("alerts")
    manager.ask(Subscribe("alerts", "pager", True))

    after = manager.send("alerts")

    assert manager.waiting("alerts", "pager") == positions(after)


def test_the_first_confirm_in_channel_order_counts_and_a_resent_one_passes_rule_4(manager: Manager) -> None:
    manager.ask(Attach("bob", 1, "orders"))
    entry = manager.send("orders")

    assert manager.ask(Confirm("orders", "", "bob", ranges(entry))) == 1
    assert manager.ask(Confirm("orders", "", "ann", ranges(entry))) == 0
    assert manager.ask(Confirm("orders", "", "bob", ranges(entry))) == 0


def test_a_release_brings_events_back_counted_and_not_before_its_time_rule_5(manager: Manager) -> None:
    entry = manager.send("orders", 2)

    manager.ask(Release("orders", "", "ann", ranges(entry), 5_000))

    backlog = manager.directory.backlog(ORDERS)
    assert manager.effects[0] == Returned(ORDERS, Ranges.of((of(entry), of(entry, 1))), 5_000, "ann")
    assert backlog.deliveries(of(entry)) == 1
    assert backlog.not_before_over(of(entry), of(entry, 1)) == [(of(entry), of(entry, 1), 5_000)]


def test_an_uncounted_release_leaves_the_delivery_count_alone_rule_5(manager: Manager) -> None:
    entry = manager.send("orders")

    manager.ask(Release("orders", "", "ann", ranges(entry), is_counted=False))

    assert manager.directory.backlog(ORDERS).deliveries(of(entry)) == 0


def test_a_release_of_what_is_finished_does_not_bring_it_back(manager: Manager) -> None:
    entry = manager.send("orders")
    manager.ask(Confirm("orders", "", "ann", ranges(entry)))

    manager.ask(Release("orders", "", "ann", ranges(entry)))

    assert manager.effects[:-1] == []
    assert manager.waiting("orders") == []


def test_a_new_epoch_counts_what_was_noted_as_in_hand_and_nothing_that_was_only_fetched_rule_5(manager: Manager) -> None:
    first, second, third = (manager.send("orders") for _ in range(3))
    manager.append(InHand(0, ORDERS, ("ann", 1), ranges(first, second)))
    manager.ask(Confirm("orders", "", "ann", ranges(first), of(third)))

    manager.ask(Claim(1, "north"))

    backlog = manager.directory.backlog(ORDERS)
    assert [backlog.deliveries(of(second)), backlog.deliveries(of(third))] == [1, 0]


def test_only_the_present_primary_notes_what_is_in_hand_and_only_with_a_receiver_that_is_there_rule_7(manager: Manager) -> None:
    entry = manager.send("orders")
    manager.ask(Claim(1, "north"))
    manager.ask(Claim(2, "south"))

    manager.append(InHand(1, ORDERS, ("ann", 1), ranges(entry)))
    manager.append(InHand(2, ORDERS, ("nobody", 1), ranges(entry)))
    manager.append(InHand(2, ("nowhere", ""), ("ann", 1), ranges(entry)))
    manager.ask(Claim(3, "north"))

    assert manager.directory.backlog(ORDERS).deliveries(of(entry)) == 0


# --- the dead queue --------------------------------------------------------------------------------------------------


def test_a_rejected_event_goes_to_the_dead_queue_with_its_reason_rule_13(manager: Manager) -> None:
    entry = manager.send("orders", 3)

    manager.ask(Reject("orders", "", "ann", ranges((of(entry, 1), of(entry, 1))), "no such article"))

    assert manager.effects[:3] == [
        Finished(ORDERS, Ranges.of((of(entry, 1), of(entry, 1)))),
        Placed(DEAD, of(entry, 1), 1),
        Died(ORDERS, 1, "rejected"),
    ]
    assert manager.waiting("_DMQ") == [of(entry, 1)]
    assert [tuple(death) for death in manager.directory.deaths(of(entry, 1))] == [
        ("orders", "", "no such article", 1, len(manager.log), "rejected", 0)
    ]


def test_a_dead_event_is_received_and_confirmed_like_any_other_and_then_forgotten(manager: Manager) -> None:
    entry = manager.send("orders")
    manager.ask(Reject("orders", "", "ann", ranges(entry), "bad"))
    assert manager.directory.oldest_needed() == entry

    manager.ask(Confirm("_DMQ", "", "ann", ranges(entry)))

    assert manager.waiting("_DMQ") == []
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_an_event_given_up_by_two_subscriptions_waits_once_with_both_deaths(manager: Manager) -> None:
    manager.ask(Subscribe("alerts", "pager", True))
    manager.ask(Attach("ann", 4, "alerts", "pager"))
    entry = manager.send("alerts", 2)
    manager.ask(Reject("alerts", "audit", "ann", ranges(entry), "one"))

    manager.ask(Reject("alerts", "pager", "ann", ranges((of(entry, 1), of(entry, 1))), "two"))

    assert manager.waiting("_DMQ") == positions(entry, 2)
    assert [death.reason for death in manager.directory.deaths(of(entry, 0))] == ["one"]
    assert [death.reason for death in manager.directory.deaths(of(entry, 1))] == ["one", "two"]


def test_events_of_one_batch_that_die_one_after_the_other_all_wait_in_the_dead_queue(manager: Manager) -> None:
    entry = manager.send("orders", 4)
    for index in (2, 0, 3):
        manager.ask(Reject("orders", "", "ann", ranges((of(entry, index), of(entry, index))), f"reason {index}"))

    assert manager.waiting("_DMQ") == [of(entry, 0), of(entry, 2), of(entry, 3)]
    assert [manager.directory.deaths(of(entry, index))[0].reason for index in (0, 2, 3)] == ["reason 0", "reason 2", "reason 3"]


def test_an_accepted_event_without_a_destination_goes_to_the_dead_queue(manager: Manager) -> None:
    nowhere = manager.send("nowhere", 2)
    forbidden = manager.send("_DMQ")

    assert manager.waiting("_DMQ") == positions(nowhere, 2) + positions(forbidden)
    assert manager.directory.deaths(of(nowhere))[0].reason == "no such destination"
    assert manager.directory.deaths(of(forbidden))[0].reason == "nobody may send to the dead queue"


def test_what_the_primary_gives_up_goes_to_the_dead_queue_with_its_delivery_count(manager: Manager) -> None:
    manager.ask(Claim(1, "north"))
    entry = manager.send("orders")
    manager.ask(Release("orders", "", "ann", ranges(entry)))

    manager.append(Dead(1, "orders", "", ranges(entry), "redelivered too often"))

    assert manager.waiting("orders") == []
    assert manager.directory.deaths(of(entry))[0][2:4] == ("redelivered too often", 1)


# --- destinations ----------------------------------------------------------------------------------------------------


def test_deleting_a_destination_closes_its_receivers_and_moves_what_waits_to_the_dead_queue_b24(manager: Manager) -> None:
    first, second = manager.send("orders", 2), manager.send("orders")
    manager.ask(Confirm("orders", "", "ann", ranges((of(first), of(first)))))

    manager.ask(Delete("orders"))

    assert manager.effects[:4] == [
        DetachedReceiver("ann", 1, ORDERS, "destination deleted"),
        BacklogDeleted(ORDERS),
        Placed(DEAD, of(first, 1), 1),
        Died(ORDERS, 2, "deleted"),
    ]
    assert manager.waiting("_DMQ") == [of(first, 1), of(second)]
    assert manager.directory.deaths(of(second))[0][:3] == ("orders", "", "destination deleted")
    assert manager.directory.receivers_of("ann") == {2: AUDIT, 3: DEAD}


def test_unsubscribing_finishes_what_waited_and_leaves_nothing_dead(manager: Manager) -> None:
    manager.send("alerts")
    manager.ask(Detach("ann", 2))

    manager.ask(Unsubscribe("alerts", "audit"))

    assert manager.effects[:-1] == [BacklogDeleted(AUDIT)]
    assert manager.waiting("_DMQ") == []
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_creating_what_exists_is_fine_on_first_use_only(manager: Manager) -> None:
    assert manager.ask(Create("orders", "queue", is_implicit=True)) is False
    assert manager.ask(Create("invoices", "queue", is_implicit=True)) is True
    assert manager.effects[0] == BacklogCreated(("invoices", ""))


def test_administration_is_told_what_there_is(manager: Manager) -> None:
    manager.send("orders", 3)
    manager.send("alerts", 2)

    assert manager.directory.describe("orders") == {
        "name": "orders", "kind": "queue", "waiting": 3, "receivers": 1, "accepted": 3, "confirmed": 0,
        "dead": 0, "expired": 0, "redelivery_limit": 0, "redelivery_delay": 0.0,
        "redelivery_factor": 1, "redelivery_delay_max": 0.0, "events_max": 0, "bytes_max": 0, "low_percent": 80,
            "deduplicate": 0.0,
    }  # fmt: skip
    assert manager.directory.describe("alerts")["subscriptions"] == [
        {
            "name": "audit", "waiting": 2, "receivers": 1, "accepted": 2, "confirmed": 0, "dead": 0, "expired": 0,
            "is_durable": True, "is_shared": False, "no_local": False, "selector": None, "pattern": None,
            "remove_after_events": 0, "remove_after_bytes": 0, "remove_after": 0.0,
        }
    ]  # fmt: skip
    assert [each["name"] for each in manager.directory.list()] == ["_ADMIN", "_DMQ", "_LOG", "alerts", "orders"]


def test_its_own_three_destinations_exist_in_a_fresh_directory_b16() -> None:
    assert [each["name"] for each in Directory().list()] == ["_ADMIN", "_DMQ", "_LOG"]


# --- sessions --------------------------------------------------------------------------------------------------------


def test_attaching_again_changes_nothing_and_is_told_again(manager: Manager) -> None:
    before = manager.directory.digest()

    manager.ask(Attach("ann", 1, "orders"))

    assert manager.directory.digest() == before
    assert manager.effects[0] == Attached("ann", 1, ORDERS)


def test_a_detached_receiver_of_a_session_with_another_one_leaves_the_session_attached_rule_4(manager: Manager) -> None:
    manager.ask(Attach("ann", 9, "orders"))
    entry = manager.send("orders")

    manager.ask(Detach("ann", 1))
    assert manager.ask(Confirm("orders", "", "ann", ranges(entry))) == 1

    manager.ask(Detach("ann", 9))
    assert isinstance(manager.refusal(Confirm("orders", "", "ann", ranges(entry))), Detached)


def test_the_end_of_a_session_takes_its_non_durable_subscriptions_and_producers_with_it(manager: Manager) -> None:
    manager.ask(Subscribe("alerts", "screen", False, "bob"))
    manager.ask(OpenProducer("press", "bob"))
    manager.ask(OpenProducer("recorder", "bob", is_durable=True))
    manager.send("alerts")
    held = manager.send("orders", 1, "press", 2)

    manager.ask(Detach("bob"))

    assert manager.effects[:-1] == [BacklogDeleted(("alerts", "screen")), Placed(ORDERS, of(held), 1)]
    assert "bob" not in manager.directory.sessions()
    assert manager.directory.producers.find("press") is None
    assert manager.directory.producers.find("recorder") is not None


def test_detaching_twice_is_fine(manager: Manager) -> None:
    manager.ask(Detach("ann"))
    before = manager.directory.digest()

    assert manager.ask(Detach("ann")) is None
    assert manager.ask(Detach("nobody", 3)) is None
    assert manager.directory.digest() == before


# --- the primary -----------------------------------------------------------------------------------------------------


def test_a_claim_must_be_of_the_next_epoch_rule_7(manager: Manager) -> None:
    assert manager.ask(Claim(1, "north")) == 1
    assert manager.effects[0] == Claimed(1, "north")

    for epoch in (0, 1, 3):
        error = manager.refusal(Claim(epoch, "south"))
        assert type(error) is Refused and error.fields == {"epoch": 1, "node": "north"}


def test_what_an_older_primary_issued_is_ignored_and_what_clients_ask_never_is_rule_7(manager: Manager) -> None:
    manager.ask(Claim(1, "north"))
    manager.ask(Claim(2, "south"))
    entry = manager.send("orders")
    before = manager.directory.digest()

    manager.append(Dead(1, "orders", "", ranges(entry), "late"))
    manager.append(Detach("ann", 1, epoch=1))
    manager.append(Carried(1, [entry], [len(batch_of(1))]), batch_of(1))
    assert manager.directory.digest() == before

    manager.append(Detach("ann", 1, epoch=0))
    assert manager.directory.digest() != before


def test_a_carried_body_is_found_where_it_is_now_and_its_positions_keep_their_names_rule_9(manager: Manager) -> None:
    first, second, third = manager.send("orders", 2), manager.send("orders"), manager.send("orders")
    manager.ask(Confirm("orders", "", "ann", ranges(second)))
    bodies = [batch_of(2, 77), batch_of(1, 78)]

    manager.append(Carried(0, [first, second], [len(body) for body in bodies]), b"".join(bodies))

    directory, carrier = manager.directory, len(manager.log)
    assert (directory.locate(first), directory.locate(second), directory.locate(third)) == (carrier, second, third)
    assert bytes(directory.batch_in(manager.log[-1], first)) == bodies[0]
    assert directory.oldest_needed() == third
    assert directory.needed_between(1, third) == [third]
    assert directory.needed_between(carrier, carrier) == [first]
    assert manager.ask(Confirm("orders", "", "ann", ranges(first, third))) == 3
    assert directory.bodies.carried == {}


def test_a_body_is_read_from_its_own_command_and_not_from_another(manager: Manager) -> None:
    entry = manager.send("orders", 2)

    assert bytes(Directory.batch_in(manager.log[-1], entry)) == batch_of(2, entry)
    with pytest.raises(NoSuchPosition):
        Directory.batch_in(manager.log[0], entry)
