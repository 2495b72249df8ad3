"""Assemblies in the directory (rule 10, B11, B13): parts are invisible until a commit, which does all or nothing."""

from __future__ import annotations

import pytest

from holdfast.destination.command import (
    Abandon,
    Commit,
    Confirm,
    Create,
    Delete,
    Detach,
    Part,
    Reject,
    Settled,
    Subscribe,
    Unsubscribe,
)
from holdfast.destination.directory import Directory
from holdfast.destination.effect import Finished, Placed
from holdfast.destination.state.assembly import AHEAD_MAX, REMEMBERED_MAX
from holdfast.errors import Detached, NoSuchPosition, TransactionAborted
from holdfast.event import position
from tests.machines import Manager, batch_of, manager_at_work, positions, ranges


def add_part(manager: Manager, number: int, destination: str = "orders", events: int = 1, assembly: str = "t") -> int:
    manager.append(Part("ann", assembly, number, destination), batch_of(events, len(manager.log) + 1))
    return len(manager.log)


def add_fragment(manager: Manager, number: int, size: int = 100, assembly: str = "t") -> int:
    manager.append(Part("ann", assembly, number), b"f" * size)
    return len(manager.log)


def settled(*entries: int, destination: str = "orders", subscription: str = "") -> Settled:
    spans = [(position.of(entry), position.of(entry)) for entry in entries]
    return Settled(destination, subscription, ranges(*spans))


def commit(parts: int, *confirmed: Settled, assembly: str = "t") -> Commit:
    return Commit("ann", assembly, parts, list(confirmed))


def send_large(manager: Manager, destination: str, sizes: list[int], assembly: str = "t") -> int:
    """A committed large event; the entry of its batch."""
    for number, size in enumerate(sizes, 1):
        add_fragment(manager, number, size, assembly)
    last = len(sizes) + 1
    made = Part("ann", assembly, last, destination, (1, len(sizes)), sizes[0], sum(sizes))
    manager.append(made, batch_of(1, 7))
    entry = len(manager.log)
    manager.ask(commit(last, assembly=assembly))
    return entry


def restored(manager: Manager) -> Directory:
    made = Directory.restore(manager.directory.snapshot())
    assert made.digest() == manager.directory.digest()
    assert made.oldest_needed() == manager.directory.oldest_needed()
    return made


# --- transactions ----------------------------------------------------------------------------------------------------


def test_parts_are_visible_to_nobody_until_the_commit_and_then_wait_in_the_order_of_their_numbers() -> None:
    manager = manager_at_work()
    second = add_part(manager, 2, events=2)
    first = add_part(manager, 1)
    meanwhile = manager.send("orders")
    assert manager.waiting("orders") == positions(meanwhile)

    answer = manager.ask(commit(2))

    assert manager.waiting("orders") == [*positions(meanwhile), *positions(first), *positions(second, 2)]
    assert answer == (3, 0, first)
    assert [effect for effect in manager.effects if isinstance(effect, Placed)] == [
        Placed(("orders", ""), position.of(first), 1),
        Placed(("orders", ""), position.of(second), 2),
    ]


def test_a_commit_sends_to_several_destinations_and_confirms_from_several_at_one_place_in_the_order() -> None:
    manager = manager_at_work()
    order, alert = manager.send("orders"), manager.send("alerts")
    sent = [add_part(manager, 1, "orders"), add_part(manager, 2, "alerts")]

    answer = manager.ask(commit(2, settled(order), settled(alert, destination="alerts", subscription="audit")))

    assert answer == (2, 2, sent[0])
    assert manager.waiting("orders") == positions(sent[0])
    assert manager.waiting("alerts", "audit") == positions(sent[1])
    assert len([effect for effect in manager.effects if isinstance(effect, Finished)]) == 2


def test_a_commit_that_is_said_again_is_answered_as_before_and_does_nothing() -> None:
    manager = manager_at_work()
    order = manager.send("orders")
    add_part(manager, 1)
    answer = manager.ask(commit(1, settled(order)))
    digest = manager.directory.digest()

    assert manager.ask(commit(1, settled(order))) == answer
    assert manager.directory.digest() == digest
    assert len(manager.effects) == 1


def test_an_aborted_commit_stays_aborted_whatever_comes_later() -> None:
    manager = manager_at_work()
    add_part(manager, 2)

    with pytest.raises(TransactionAborted, match="part 1 of 2 is missing"):
        manager.ask(commit(2))
    add_part(manager, 1)
    with pytest.raises(TransactionAborted, match="part 1 of 2 is missing"):
        manager.ask(commit(2))

    assert manager.waiting("orders") == []
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_a_commit_that_confirms_what_another_has_finished_aborts_whole_rule_4() -> None:
    manager = manager_at_work()
    first, second = manager.send("orders"), manager.send("orders")
    add_part(manager, 1, "alerts")
    manager.ask(Confirm("orders", "", "ann", ranges(second)))

    with pytest.raises(TransactionAborted, match="finished already"):
        manager.ask(commit(1, settled(first, second)))

    assert manager.waiting("orders") == positions(first)
    assert manager.waiting("alerts", "audit") == []


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (Delete("alerts"), "no destination 'alerts'"),
        (Detach("ann", 1), "not attached"),
        (Delete("orders"), "no destination 'orders'"),
    ],
)
def test_a_commit_whose_destination_or_receiver_is_gone_aborts_whole(spoil: Delete | Detach, reason: str) -> None:
    manager = manager_at_work()
    order = manager.send("orders")
    add_part(manager, 1, "alerts")
    manager.ask(spoil)

    with pytest.raises(TransactionAborted, match=reason):
        manager.ask(commit(1, settled(order)))

    assert ("alerts", "audit") not in manager.directory.backlogs() or manager.waiting("alerts", "audit") == []


def test_a_commit_that_confirms_what_was_never_there_aborts() -> None:
    manager = manager_at_work()

    with pytest.raises(TransactionAborted, match="past the newest"):
        manager.ask(commit(0, settled(1000)))


def test_a_commit_names_as_many_parts_as_were_sent() -> None:
    manager = manager_at_work()
    add_part(manager, 1)
    add_part(manager, 2)

    with pytest.raises(TransactionAborted, match="2 parts were sent and the commit names 1"):
        manager.ask(commit(1))


def test_nobody_sends_to_the_dead_queue_in_a_transaction() -> None:
    manager = manager_at_work()
    add_part(manager, 1, "_DMQ")

    with pytest.raises(TransactionAborted, match="dead queue"):
        manager.ask(commit(1))


def test_a_part_that_comes_twice_counts_once_and_only_the_first_takes_space() -> None:
    manager = manager_at_work()
    first = add_part(manager, 1)
    again = add_part(manager, 1)

    assert manager.directory.needed_between(again, again) == []
    manager.ask(commit(1))
    assert manager.waiting("orders") == positions(first)


def test_an_abandoned_assembly_frees_its_space_and_cannot_be_committed() -> None:
    manager = manager_at_work()
    first = add_part(manager, 1)
    assert manager.directory.oldest_needed() == first

    assert manager.ask(Abandon("ann", "t")) is True

    assert manager.directory.oldest_needed() == len(manager.log) + 1
    late = add_part(manager, 2)
    assert manager.directory.needed_between(late, late) == []
    with pytest.raises(TransactionAborted, match="rolled back"):
        manager.ask(commit(1))


def test_abandoning_what_is_not_there_is_fine_and_what_was_committed_stays() -> None:
    manager = manager_at_work()
    assert manager.ask(Abandon("ann", "never")) is True
    assert manager.ask(Abandon("nobody", "never")) is True
    entry = add_part(manager, 1)
    manager.ask(commit(1))

    assert manager.ask(Abandon("ann", "t")) is False
    assert manager.waiting("orders") == positions(entry)


def test_a_session_that_ends_abandons_what_it_had_not_committed() -> None:
    manager = manager_at_work()
    add_part(manager, 1)
    add_fragment(manager, 1, assembly="u")

    manager.ask(Detach("ann"))

    assert manager.directory.oldest_needed() == len(manager.log) + 1
    assert list(manager.directory.assemblies) == []
    with pytest.raises(TransactionAborted, match="session is gone"):
        manager.ask(commit(1))


def test_a_part_that_comes_after_the_end_of_its_session_is_passed_over_and_takes_no_space() -> None:
    """Fragments may be overtaken: one that comes late must not revive a session that nobody would end again."""
    manager = manager_at_work()
    manager.ask(Detach("ann"))
    digest = manager.directory.digest()

    add_part(manager, 1)
    add_fragment(manager, 2)

    assert manager.directory.digest() == digest
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_a_wild_number_is_passed_over_and_sets_nothing_aside() -> None:
    manager = manager_at_work()
    digest = manager.directory.digest()

    for number in (0, AHEAD_MAX + 1, 1 << 60):
        add_part(manager, number)

    assert manager.directory.digest() == digest


def test_as_many_outcomes_are_remembered_as_a_session_can_have_asked_for() -> None:
    manager = manager_at_work()
    for number in range(REMEMBERED_MAX + 1):
        add_part(manager, 1, assembly=str(number))
        manager.ask(commit(1, assembly=str(number)))

    assert manager.directory.assemblies.outcome("ann", "0") is None
    for number in range(1, REMEMBERED_MAX + 1):
        assert manager.ask(commit(1, assembly=str(number)))[0] == 1


def test_no_range_spans_a_part_that_is_not_committed_rule_1() -> None:
    """A confirm that reached over it would confirm, once it is placed, what was never handed out."""
    manager = manager_at_work()
    before = manager.send("orders")
    part = add_part(manager, 1)
    after = manager.send("orders")
    backlog = manager.directory.backlog(("orders", ""))

    assert not backlog.may_span(before, after)
    manager.ask(commit(1))
    assert not backlog.may_span(before, after)
    assert manager.waiting("orders") == [*positions(before), *positions(after), *positions(part)]


def test_unfinished_parts_are_pinned_where_they_lie_and_committed_ones_may_be_carried_rule_9() -> None:
    manager = manager_at_work()
    entry = add_part(manager, 1)
    assert manager.directory.is_pinned(entry, entry)

    manager.ask(commit(1))

    assert not manager.directory.is_pinned(entry, entry)
    assert manager.directory.needed_between(entry, entry) == [entry]
    assert bytes(manager.directory.batch_in(manager.log[entry - 1], entry)) == batch_of(1, entry)


# --- large events ----------------------------------------------------------------------------------------------------


def test_a_large_event_keeps_its_fragments_until_the_last_one_has_confirmed_it() -> None:
    manager = manager_at_work()
    manager.ask(Subscribe("alerts", "pager", True))
    entry = send_large(manager, "alerts", [100, 100, 30])
    fragments = list(manager.directory.bodies.larges[entry].fragments)
    assert manager.waiting("alerts", "audit") == manager.waiting("alerts", "pager") == positions(entry)
    assert manager.directory.oldest_needed() == fragments[0]
    assert manager.directory.needed_between(fragments[0], fragments[-1]) == fragments

    manager.ask(Confirm("alerts", "audit", "ann", ranges(entry)))
    assert manager.directory.oldest_needed() == fragments[0]
    assert restored(manager).bodies.larges == manager.directory.bodies.larges
    manager.ask(Unsubscribe("alerts", "pager"))
    assert manager.directory.oldest_needed() == len(manager.log) + 1
    assert manager.directory.bodies.larges == {}


def test_fragments_are_found_by_a_receiver_attached_where_the_event_waits_and_by_nobody_else() -> None:
    manager = manager_at_work()
    entry = send_large(manager, "orders", [100, 30])
    fragments = manager.directory.bodies.larges[entry].fragments
    where = position.of(entry)

    assert [manager.directory.fragment("ann", 1, where, index) for index in (0, 1)] == list(fragments)
    with pytest.raises(NoSuchPosition, match="no large event"):
        manager.directory.fragment("ann", 2, where, 0)
    with pytest.raises(Detached):
        manager.directory.fragment("eve", 1, where, 0)
    for index in (-1, 2):
        with pytest.raises(NoSuchPosition, match=f"no fragment {index}"):
            manager.directory.fragment("ann", 1, where, index)
    manager.ask(Confirm("orders", "", "ann", ranges(entry)))
    with pytest.raises(NoSuchPosition, match="no large event"):
        manager.directory.fragment("ann", 1, where, 0)


def test_a_large_event_that_died_keeps_its_fragments_in_the_dead_queue() -> None:
    manager = manager_at_work()
    entry = send_large(manager, "orders", [100])
    manager.ask(Reject("orders", "", "ann", ranges(entry), "spoiled"))

    assert manager.waiting("_DMQ") == positions(entry)
    assert manager.directory.fragment("ann", 3, position.of(entry), 0) == entry - 1
    manager.ask(Confirm("_DMQ", "", "ann", ranges(entry)))
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_a_large_event_for_a_topic_that_nobody_subscribes_to_frees_its_space_at_once() -> None:
    manager = manager_at_work()
    manager.ask(Create("void", "topic"))

    send_large(manager, "void", [100, 100])

    assert manager.directory.oldest_needed() == len(manager.log) + 1


@pytest.mark.parametrize(
    ("fragments", "fragment_bytes", "large_bytes"),
    [((1, 2), 100, 199), ((1, 2), 99, 200), ((1, 3), 100, 200), ((2, 1), 100, 100), ((0, 1), 100, 100), ((1, 9), 100, 900)],
)
def test_a_large_event_whose_fragments_do_not_add_up_is_aborted(
    fragments: tuple[int, int], fragment_bytes: int, large_bytes: int
) -> None:
    manager = manager_at_work()
    add_fragment(manager, 1)
    add_fragment(manager, 2)
    manager.append(Part("ann", "t", 3, "orders", fragments, fragment_bytes, large_bytes), batch_of(1))

    with pytest.raises(TransactionAborted, match="large event"):
        manager.ask(commit(3))

    assert manager.waiting("orders") == []
    assert manager.directory.oldest_needed() == len(manager.log) + 1


def test_two_large_events_do_not_share_a_body() -> None:
    manager = manager_at_work()
    add_fragment(manager, 1)
    for number in (2, 3):
        manager.append(Part("ann", "t", number, "orders", (1, 1), 100, 100), batch_of(1))

    with pytest.raises(TransactionAborted, match="something else already"):
        manager.ask(commit(3))


def test_a_snapshot_between_any_two_parts_restores_the_assembly_and_what_is_remembered() -> None:
    manager = manager_at_work()
    copies = []
    for number in range(1, 4):
        add_fragment(manager, number)
        copies.append(restored(manager))
    manager.append(Part("ann", "t", 4, "orders", (1, 3), 100, 300), batch_of(1, 9))
    copies.append(restored(manager))
    manager.ask(commit(4))
    copies.append(restored(manager))

    for behind, copy in enumerate(reversed(copies)):
        for at in range(len(manager.log) - behind, len(manager.log)):
            copy.apply(at + 1, manager.log[at])
        assert copy.digest() == manager.directory.digest()
        assert copy.fragment("ann", 1, position.of(len(manager.log) - 1), 2) > 0
