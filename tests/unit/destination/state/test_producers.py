"""Rule 6: a producer's batches are placed in its order, each once, and nothing that was accepted is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from holdfast.destination.command import Create, ForgetProducer, OpenProducer
from holdfast.destination.directory import Directory
from holdfast.destination.state.producers import SKIPPED_MAX, WINDOW
from holdfast.errors import AccessDenied
from holdfast.event.position import entry_of
from tests.machines import Manager


@pytest.fixture
def manager() -> Manager:
    made = Manager()
    made.ask(Create("orders", "queue"))
    made.ask(OpenProducer("press", "ann"))
    return made


def send(manager: Manager, sequences: Sequence[int], producer: str = "press") -> dict[int, int]:
    """Send batches with these sequences in this order; the sequence that each entry has."""
    return {manager.send("orders", 1, producer, sequence): sequence for sequence in sequences}


def placed(manager: Manager, sent: dict[int, int]) -> list[int]:
    return [sent[entry_of(each)] for each in manager.waiting("orders")]


def test_batches_out_of_order_are_held_and_placed_in_order_when_the_hole_is_filled(manager: Manager) -> None:
    sent = send(manager, [1, 3, 4, 6])
    assert placed(manager, sent) == [1]

    sent |= send(manager, [2])
    assert placed(manager, sent) == [1, 2, 3, 4]

    sent |= send(manager, [5])
    assert placed(manager, sent) == [1, 2, 3, 4, 5, 6]


def test_duplicates_are_dropped_whether_placed_or_held(manager: Manager) -> None:
    sent = send(manager, [1, 2, 2, 1, 4, 4, 3, 4])

    assert placed(manager, sent) == [1, 2, 3, 4]


def test_a_held_batch_keeps_its_body_needed(manager: Manager) -> None:
    (held,) = send(manager, [2])

    assert manager.directory.oldest_needed() == held
    assert manager.directory.needed_between(1, held) == [held]


def test_forgetting_a_producer_skips_the_holes_and_places_what_is_held_in_order(manager: Manager) -> None:
    sent = send(manager, [5, 3, 1])

    manager.ask(ForgetProducer("press"))

    assert placed(manager, sent) == [1, 3, 5]
    assert manager.directory.producers.find("press") is None


def test_a_producer_that_comes_back_is_told_what_is_in_the_channel(manager: Manager) -> None:
    sent = send(manager, [1, 2, 4])
    entries = {sequence: entry for entry, sequence in sent.items()}

    answer = manager.ask(OpenProducer("press", "ann"))

    assert answer == {"producer": "press", "last_sequence": 2, "receipts": [[each, entries[each]] for each in (1, 2, 4)]}


def test_the_receipts_told_are_those_of_the_newest_window(manager: Manager) -> None:
    send(manager, range(1, 201))

    answer = manager.ask(OpenProducer("press", "ann"))

    assert answer["last_sequence"] == 200
    assert [sequence for sequence, _ in answer["receipts"]] == list(range(201 - WINDOW, 201))


def test_batches_of_a_producer_nobody_opened_are_placed_as_they_come_and_none_is_lost(manager: Manager) -> None:
    sent = (
        send(manager, [7, 3, 3, 9], producer="stranger")
        | send(manager, [0, 0], producer="")
        | send(manager, [0], producer="press")
    )

    assert placed(manager, sent) == [7, 3, 3, 9, 0, 0, 0]


def test_a_sequence_past_the_window_skips_holes_and_what_was_skipped_is_placed_when_it_comes_after_all(manager: Manager) -> None:
    sent = send(manager, [1, 3, 4 + WINDOW])
    assert placed(manager, sent) == [1, 3]

    sent |= send(manager, [2, 3, 2])
    assert placed(manager, sent) == [1, 3, 2]

    sent |= send(manager, range(4, 4 + WINDOW))
    assert placed(manager, sent) == [1, 3, 2, *range(4, 5 + WINDOW)]


def test_at_most_a_window_of_batches_is_held_and_holes_are_bounded_whatever_a_producer_sends(manager: Manager) -> None:
    sequences = list(range(2, 200 * (WINDOW + 3), WINDOW + 3))
    sent = send(manager, sequences)

    producer = manager.directory.producers.find("press")
    assert producer is not None
    assert len(producer.held) <= WINDOW and len(producer.skipped) <= SKIPPED_MAX
    assert sorted([*placed(manager, sent), *producer.held]) == sequences

    late = send(manager, [sequence + 1 for sequence in sequences[:-2]])
    assert sorted(placed(manager, sent | late)) == sorted([*sequences[:-1], *late.values()])


def test_a_producer_that_lost_nothing_before_a_sequence_begins_there(manager: Manager) -> None:
    manager.ask(OpenProducer("recorder", is_durable=True, first_sequence=41))

    sent = send(manager, [42, 41], producer="recorder")

    assert placed(manager, sent) == [41, 42]


def test_opening_under_another_session_moves_the_producer_there(manager: Manager) -> None:
    sent = send(manager, [1, 3])
    manager.ask(OpenProducer("press", "bob"))

    sent |= send(manager, [2])

    assert placed(manager, sent) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_two_thousand_batches_through_a_faulty_link_are_all_placed_once_and_in_order(seed: int) -> None:
    """A window of 4 and 1 % faults: a fault loses the link, and with it receipts, batches or their order.

    Then the producer asks for its last sequence and resends. A naive "drop what is not newer" loses some of these.
    """
    dice = random.Random(seed)
    manager = Manager()
    manager.ask(Create("orders", "queue"))
    manager.ask(OpenProducer("press", "ann"))
    sent: dict[int, int] = {}
    receipted, faults = 0, 0

    while receipted < 2_000:
        window = list(range(receipted + 1, min(receipted + 4, 2_000) + 1))
        if dice.random() < 0.01 * len(window):
            faults += 1
            arrived = dice.sample(window, dice.randrange(len(window) + 1))
            sent |= send(manager, arrived)
            receipted = manager.ask(OpenProducer("press", "ann"))["last_sequence"]
        else:
            sent |= send(manager, window)
            receipted = window[-1]

    assert faults > 5
    assert placed(manager, sent) == list(range(1, 2_001))


def test_a_producer_of_another_user_is_refused_and_nothing_changes_also_from_a_snapshot(manager: Manager) -> None:
    manager.ask(OpenProducer("recorder", "s1/ann", True, user="ann"))
    send(manager, [1, 2], "recorder")
    manager.directory = Directory.restore(manager.directory.snapshot())
    before = manager.directory.digest()

    with pytest.raises(AccessDenied, match="belongs to another user"):
        manager.ask(OpenProducer("recorder", "s2/bob", True, first_sequence=9, user="bob"))

    assert manager.directory.digest() == before
    assert manager.ask(OpenProducer("recorder", "s3/ann", True, user="ann"))["last_sequence"] == 2


def test_a_producer_of_nobody_is_that_of_the_first_user_who_opens_it_and_stays_so(manager: Manager) -> None:
    manager.ask(OpenProducer("recorder", "s1", True))
    manager.ask(OpenProducer("recorder", "s2/ann", True, user="ann"))
    manager.ask(OpenProducer("recorder", "s3", True))  # where there are no users, everyone may do everything

    with pytest.raises(AccessDenied):
        manager.ask(OpenProducer("recorder", "s4/bob", True, user="bob"))
    manager.ask(ForgetProducer("recorder"))
    manager.ask(OpenProducer("recorder", "s5/bob", True, user="bob"))


def test_what_a_producer_of_nobody_holds_back_is_its_first_user_s_and_a_snapshot_says_the_same(manager: Manager) -> None:
    manager.ask(OpenProducer("recorder", "s1", True))
    send(manager, [2], "recorder")
    manager.ask(OpenProducer("recorder", "s2/ann", True, user="ann"))
    restored = Directory.restore(manager.directory.snapshot())

    for directory in (manager.directory, restored):
        producer = directory.producers.find("recorder")
        assert producer is not None and [batch.user for batch in producer.held.values()] == ["ann"]


def test_what_a_producer_holds_back_is_that_of_the_client_that_opened_it_last_and_a_snapshot_says_the_same(
    manager: Manager,
) -> None:
    manager.ask(OpenProducer("recorder", "s1", True, client="c1"))
    send(manager, [2], "recorder")
    manager.ask(OpenProducer("recorder", "s2", True, client="c2"))
    restored = Directory.restore(manager.directory.snapshot())

    for directory in (manager.directory, restored):
        producer = directory.producers.find("recorder")
        assert producer is not None and [batch.client for batch in producer.held.values()] == ["c2"]
