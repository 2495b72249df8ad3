"""The store of a listener is bounded: bodies by bytes, keys by the times of events. What must outlive them does."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.continuity.listener.durable.record import Record, in_order
from holdfast.continuity.listener.durable.store import Store
from tests.unit.continuity.listener.test_store import opened, record


def evict(store: Store) -> None:
    while (number := store.surplus()) is not None:
        store.write_keys(number)
        store.drop(number)


def test_bodies_are_given_up_by_bytes_and_their_keys_are_kept(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", kept_bytes=40_000)
    for place in range(1, 101):
        store.append(record(place, b"x" * 1000))
        evict(store)
    store.close()

    again = opened(tmp_path / "s", kept_bytes=40_000)

    assert 20_000 < again.bytes <= 40_000
    assert again.find(1) is None
    assert again.find(100) == record(100, b"x" * 1000).answer
    assert [each.key for each in again.history()] == [f"k{place}" for place in range(1, 101)]
    assert again.finished == 100


def test_an_end_between_writing_the_keys_and_giving_up_the_bodies_loses_neither(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", kept_bytes=40_000)
    for place in range(1, 60):
        store.append(record(place, b"x" * 1000))
    store.sync()
    number = store.surplus()
    assert number is not None
    store.write_keys(number)
    store.close()

    again = opened(tmp_path / "s", kept_bytes=40_000)

    assert sorted(each.place for each in again.history()) == list(range(1, 60))


def test_files_of_keys_are_forgotten_when_all_their_events_are_older_and_the_disk_is_bounded(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", kept_bytes=40_000)
    sizes = []
    for place in range(1, 1_001):
        store.append(record(place, b"x" * 1000))
        evict(store)
        if place % 10 == 0:
            store.sync()
        for number in store.forgettable((place - 50) * 1000):
            store.forget(number)
        sizes.append(sum(path.stat().st_size for path in (tmp_path / "s").glob("*-*")))
    store.close()

    again = opened(tmp_path / "s", kept_bytes=40_000)

    assert max(sizes) < 70_000
    assert {each.place for each in again.history()} >= set(range(951, 1_001))
    assert (again.finished, again.forgettable(0)) == (1_000, [])


def test_a_file_of_keys_behind_a_place_that_is_not_finished_is_not_forgotten_however_old(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", kept_bytes=40_000)
    for place in range(2, 101):
        store.append(record(place, b"x" * 1000))
        evict(store)
    store.sync()
    assert store.forgettable(1_000_000) == []

    store.append(record(1))
    store.sync()

    assert store.forgettable(1_000_000)


def test_membership_clock_and_aliases_outlive_the_files_of_keys_that_they_were_in(tmp_path: Path) -> None:
    store = opened(tmp_path / "s", kept_bytes=40_000)
    store.append(Record(1, 1, "m", time_us=900_000, members=b"members"))
    store.append(msgspec.structs.replace(record(2), aliases=b"aliases"))
    for place in range(3, 101):
        store.append(record(place, b"x" * 1000))
        evict(store)
    store.sync()
    first, *_ = forgotten = store.forgettable(1_000_000)
    for number in forgotten:
        store.forget(number)
    store.close()

    again = opened(tmp_path / "s", kept_bytes=40_000)
    kept = list(again.history())

    assert first == 1
    assert again.opened.members == b"members"
    assert max(each.time_us for each in kept[:1]) == 900_000
    assert [each.aliases for each in kept if each.aliases] == [b"aliases"]
    assert not {each.key for each in kept} & {"k2", "k3"}


def test_records_out_of_order_are_read_in_the_order_of_their_places() -> None:
    places = [3, 1, 2, 6, 5, 4, *range(5_000, 6_000), *range(4_000, 5_000)]

    assert [each.place for each in in_order(record(place) for place in places)] == sorted(places)
