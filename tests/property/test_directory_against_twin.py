"""The directory against its naive twin, over random commands; and against itself, restored from a snapshot at every point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given

from holdfast.destination import command as commands
from holdfast.destination.backlog import slots
from holdfast.destination.batch_traits import PLAIN
from holdfast.destination.directory import Directory
from holdfast.destination.effect import BacklogCreated, BacklogDeleted, Finished, Placed
from holdfast.event import position
from tests.naive_directory import DEAD, STAGES, traits_for
from tests.random_commands import Choice, Driver, choices


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    """Pages of three slots, so that a few batches fill several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "SLOTS_MAX", 3)
        yield


def check_backlogs(driver: Driver) -> None:
    """Everything that waits is the same: order, delivery counts, delays, deaths."""
    directory, naive = driver.manager.directory, driver.naive
    assert list(directory.backlogs()) == list(naive.queues)
    for key, events in naive.queues.items():
        backlog = directory.backlog(key)
        waiting = driver.manager.waiting(*key)
        expected = [event.position for event in events]
        assert (sorted(waiting), sorted(expected)) == (sorted(expected), sorted(waiting)) if key == DEAD else waiting == expected
        for event in events:
            assert backlog.is_waiting(event.position)
            assert backlog.deliveries(event.position) == event.deliveries
            assert backlog.not_before_over(event.position, event.position)[0][2] == event.not_before_ms
            traits = traits_for(position.entry_of(event.position)) if key != DEAD else PLAIN
            assert backlog.lane_of(position.entry_of(event.position)) == traits.lane
            assert backlog.expiry_of(position.entry_of(event.position)) == traits.earliest_expiry_ms
            if key == DEAD:
                assert [tuple(death) for death in directory.deaths(event.position)] == event.deaths
        assert (None if backlog.sizes is None else backlog.sizes.total) == (
            naive.bytes_waiting(key) if key in naive.sizes else None
        )
        for gone in naive.order[key]:
            assert backlog.is_waiting(gone) == (gone in expected)


def check_dead_counts(driver: Driver) -> None:
    """The dead events by destination and code, counted as they come and go."""
    told = Counter((death[0], death[5]) for event in driver.naive.queues[DEAD] for death in event.deaths)
    assert driver.manager.directory.dead.counts == told


def check_bodies(driver: Driver) -> None:
    """What of the channel is needed, and where it lies."""
    directory, naive = driver.manager.directory, driver.naive
    needed = {position.entry_of(event.position) for events in naive.queues.values() for event in events}
    needed |= {held[0] for producer in naive.producers.values() for held in producer.held.values()}
    needed |= {part.entry for parts in naive.assemblies.values() for part in parts.values()}
    needed |= {fragment for entry in list(needed) for fragment in naive.larges.get(entry, [])}
    places = {entry: driver.carried.get(entry, entry) for entry in needed}
    next_entry = len(driver.manager.log) + 1
    assert directory.oldest_needed() == min(places.values(), default=next_entry)
    assert directory.bodies.carried == {entry: place for entry, place in places.items() if entry != place}
    for first, last in ((1, next_entry), (next_entry // 3, next_entry // 2)):
        assert directory.needed_between(first, last) == sorted(entry for entry in needed if first <= places[entry] <= last)
    for entry in needed:
        assert directory.locate(entry) == places[entry]


def check_assemblies(driver: Driver) -> None:
    """What is under way and what was decided; and a large event knows its body for as long as somebody needs it."""
    directory, naive = driver.manager.directory, driver.naive
    under_way = {
        (each.session, each.name): {number for number in range(1, 99) if each.has(number)} for each in directory.assemblies
    }
    assert under_way == {key: set(parts) for key, parts in naive.assemblies.items()}
    for (session, name), is_committed in naive.outcomes.items():
        outcome = directory.assemblies.outcome(session, name)
        assert outcome is not None and (not outcome.reason) == is_committed
    assert {scope: number for _, scope, number, _ in directory.scopes} == naive.scopes
    staged = [parts for key, parts in naive.assemblies.items() if key[0] == STAGES]
    totals = directory.assemblies.staged
    assert (totals.stages, totals.parts) == (len(staged), sum(map(len, staged)))
    needed = {position.entry_of(event.position) for events in naive.queues.values() for event in events}
    larges = {entry: list(large.fragments) for entry, large in directory.bodies.larges.items()}
    assert larges == {entry: fragments for entry, fragments in naive.larges.items() if entry in needed}


def check_sessions(driver: Driver) -> None:
    directory, naive = driver.manager.directory, driver.naive
    assert list(directory.sessions()) == list(naive.sessions)
    for session in naive.sessions:
        expected = {holder[1]: key for holder, key in naive.attached.items() if holder[0] == session}
        assert directory.receivers_of(session) == expected


@given(choices)
def test_the_directory_does_what_its_naive_twin_does(made: list[Choice]) -> None:
    driver = Driver()
    for choice in made:
        driver.step(choice)
        check_backlogs(driver)
        check_dead_counts(driver)
        check_bodies(driver)
        check_sessions(driver)
        check_assemblies(driver)


@given(choices)
def test_the_effects_say_everything_that_came_to_wait_and_everything_that_no_longer_does(made: list[Choice]) -> None:
    driver = Driver()
    waiting: dict[tuple[str, str], set[int]] = {}
    for choice in made:
        if driver.step(choice):
            for effect in driver.manager.effects:
                match effect:
                    case Placed(key, first, events):
                        waiting.setdefault(key, set()).update(range(first, first + events))
                    case Finished(key, ranges):
                        for first, last in ranges:
                            waiting[key].difference_update(range(first, last + 1))
                    case BacklogDeleted(key):
                        waiting.pop(key, None)
                    case BacklogCreated(key) if isinstance(driver.commands[-1], commands.SubscribeLike):
                        waiting[key] = set(driver.manager.waiting(*key))  # the effect names the first batch of it
        for key in driver.manager.directory.backlogs():
            if key != DEAD:
                assert waiting.get(key, set()) == set(driver.manager.waiting(*key))


@given(choices)
def test_a_snapshot_at_any_point_restores_the_same_state_and_the_same_behaviour_ever_after(made: list[Choice]) -> None:
    driver = Driver()
    copies: list[Directory] = []
    for choice in made:
        if not driver.step(choice):
            continue
        entry, data = len(driver.manager.log), driver.manager.log[-1]
        for copy in copies:
            assert [repr(effect) for effect in copy.apply(entry, data)] == [repr(effect) for effect in driver.manager.effects]
        copies.append(Directory.restore(driver.manager.directory.snapshot()))
        digest = driver.manager.directory.digest()
        assert {copy.digest() for copy in copies} == {digest}
        assert {copy.assemblies.staged.bytes for copy in copies} == {driver.manager.directory.assemblies.staged.bytes}
        assert {copy.oldest_needed() for copy in copies} == {driver.manager.directory.oldest_needed()}


@given(choices)
def test_replaying_the_channel_gives_the_same_digest(made: list[Choice]) -> None:
    driver = Driver()
    for choice in made:
        driver.step(choice)

    replayed = Directory()
    for entry, data in enumerate(driver.manager.log, 1):
        replayed.apply(entry, data)

    assert replayed.digest() == driver.manager.directory.digest()
