"""Deduplication as a machine: which events are the same, how long they are remembered, and what that costs."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest

from holdfast.destination import command as commands
from holdfast.destination.command import BatchCommand, Commit, Configure, Create, OpenProducer, Part
from holdfast.destination.directory import Directory
from holdfast.destination.effect import WindowShortened
from holdfast.destination.settings import Settings, duration_ms
from holdfast.destination.state import deduplication
from holdfast.destination.state.deduplication import KEY_BYTES, CommandTime, Deduplication, keys_of
from holdfast.errors import BadSetting
from holdfast.event import batch, identifier, position
from holdfast.event.event import Head, encode_head
from tests.machines import Manager, manager_at_work, positions

WINDOW = Settings(deduplicate_ms=1_000)


@pytest.fixture
def manager() -> Manager:
    made = manager_at_work()
    made.ask(Create("once", "queue", WINDOW))
    return made


def batch_of(*ids: str | None, source: str = "till", first_id: int = 1 << 40) -> bytes:
    return batch.encode([encode_head(Head(id=id)) for id in ids], [b"x"] * len(ids), source=source, first_id=first_id)


def send(manager: Manager, *ids: str, at_ms: int = 5_000, producer: str = "", sequence: int = 0) -> tuple[int, int, object]:
    """What whoever waits for the receipt is told."""
    answer: tuple[int, int, object] = manager.ask(BatchCommand("once", producer, sequence, at_ms * 1000), batch_of(*ids))
    return answer


# --- which events are the same -------------------------------------------------------------------------------------------


def test_an_id_that_was_given_to_an_event_is_the_same_when_it_is_said_as_text() -> None:
    counted = keys_of(batch_of(None, None, first_id=7 << 90))
    said = keys_of(batch_of(identifier.to_text(7 << 90), identifier.to_text((7 << 90) + 1), first_id=1))

    assert counted == said
    assert len({counted[:KEY_BYTES], counted[KEY_BYTES:]}) == 2


def test_events_of_different_sources_are_never_the_same() -> None:
    named = batch.encode([encode_head(Head(id="1", source="other"))], [b"x"], source="till", first_id=1)

    assert len({keys_of(batch_of("1")), keys_of(batch_of("1", source="other")), keys_of(batch_of("1", source="til"))}) == 3
    assert keys_of(named) == keys_of(batch_of("1", source="other"))


def test_an_event_whose_head_cannot_be_read_goes_by_the_id_it_was_given() -> None:
    garbage = batch.encode([b"\xc1\xc1"], [b"x"], source="till", first_id=9)

    assert keys_of(garbage) == keys_of(batch_of(None, first_id=9))
    assert keys_of(b"too short") == b""


# --- what is told of a repetition ----------------------------------------------------------------------------------------


def test_a_repetition_is_answered_with_the_position_of_the_first_event_by_event(manager: Manager) -> None:
    first = send(manager, "a", "b", "c")[0]

    entry, taken_as, repeated = send(manager, "x", "b", "c", "y", "a")

    assert (taken_as, repeated) == (entry, ((1, 2, position.of(first, 1)), (4, 1, position.of(first, 0))))
    assert manager.waiting("once") == [*positions(first, 3), position.of(entry, 0), position.of(entry, 3)]
    assert manager.directory.describe("once")["accepted"] == 5


def test_an_event_that_is_twice_in_one_batch_is_placed_once(manager: Manager) -> None:
    entry, _, repeated = send(manager, "a", "a", "b", "a")

    assert repeated == ((1, 1, position.of(entry, 0)), (3, 1, position.of(entry, 0)))
    assert manager.waiting("once") == [position.of(entry, 0), position.of(entry, 2)]


def test_a_batch_of_repetitions_only_holds_no_space(manager: Manager) -> None:
    first = send(manager, "a")[0]
    again = send(manager, "a")[0]

    assert manager.directory.needed_between(1, again) == [first]


def test_a_producer_that_lost_its_link_is_told_where_the_first_ones_are(manager: Manager) -> None:
    manager.ask(OpenProducer("press", "ann"))
    first = send(manager, "a", "b")[0]
    again = send(manager, "b", "c", producer="press", sequence=1)[0]
    manager.directory = Directory.restore(manager.directory.snapshot())

    answer = manager.ask(OpenProducer("press", "ann"))
    resent = send(manager, "b", "c", producer="press", sequence=1)

    assert answer["receipts"] == [[1, again]]
    assert answer["repeated"] == [(again, ((0, 1, position.of(first, 1)),))]
    assert resent[1:] == (again, ((0, 1, position.of(first, 1)),))


def test_of_a_batch_with_very_many_repetitions_a_producer_is_told_only_that_it_arrived(manager: Manager) -> None:
    manager.ask(OpenProducer("press", "ann"))
    ids = [str(number) for number in range(200)]
    for id in reversed(ids):
        send(manager, id)
    send(manager, *ids, producer="press", sequence=1)

    answer = manager.ask(OpenProducer("press", "ann"))

    assert (answer["last_sequence"], answer["receipts"], "repeated" in answer) == (1, [], False)


def test_a_commit_drops_what_is_a_repetition_and_places_the_rest(manager: Manager) -> None:
    first = send(manager, "a")[0]
    manager.append(Part("ann", "tx", 1, "once"), batch_of("a", "b"))
    manager.append(Part("ann", "tx", 2, "orders"), batch_of("a"))

    placed, confirmed, entry, repeated = manager.ask(Commit("ann", "tx", 2, at_ms=5_500))

    assert (placed, confirmed, repeated) == (2, 0, position.of(first, 0))
    assert manager.waiting("once") == [position.of(first, 0), position.of(entry, 1)]
    manager.directory = Directory.restore(manager.directory.snapshot())
    assert manager.ask(Commit("ann", "tx", 2)) == (placed, confirmed, entry, repeated), "said again, it is answered the same"


def test_a_large_event_that_is_a_repetition_leaves_nothing_behind(manager: Manager) -> None:
    send(manager, "film")
    manager.append(Part("ann", "tx", 1), b"x" * 10)
    manager.append(Part("ann", "tx", 2, "once", (1, 1), 10, 10), batch_of("film"))

    manager.ask(Commit("ann", "tx", 2))

    assert not manager.directory.bodies.larges
    assert not manager.directory.is_pinned(1, len(manager.log))


def test_the_selectors_of_a_topic_choose_among_what_a_transaction_sends(manager: Manager) -> None:
    manager.ask(commands.Subscribe("alerts", "high", True, selector="level > 5"))
    heads = [encode_head(Head(properties={"level": level})) for level in (3, 7)]
    manager.append(Part("ann", "tx", 1, "alerts"), batch.encode(heads, [b"body"] * 2, source="till", first_id=1))

    _, _, entry = manager.ask(Commit("ann", "tx", 1))

    assert manager.waiting("alerts", "high") == [position.of(entry, 1)]


# --- how long ------------------------------------------------------------------------------------------------------------


def test_an_event_is_taken_again_when_the_window_is_over_by_the_times_of_commands(manager: Manager) -> None:
    send(manager, "a", at_ms=5_000)

    assert send(manager, "a", at_ms=5_999)[2] != ()
    assert send(manager, "a", at_ms=6_000)[2] == ()


def test_a_clock_that_is_set_back_lets_nothing_be_forgotten_early(manager: Manager) -> None:
    send(manager, "a", at_ms=5_000)
    send(manager, "b", at_ms=1_000)

    assert send(manager, "a", at_ms=5_900)[2] != ()
    assert send(manager, "b", at_ms=5_900)[2] != ()


def test_the_window_counts_from_the_commit_of_a_transaction_not_from_its_parts(manager: Manager) -> None:
    manager.append(Part("ann", "tx", 1, "once", accepted_us=1_000_000), batch_of("a"))
    manager.ask(Commit("ann", "tx", 1, at_ms=5_000))

    assert send(manager, "a", at_ms=5_900)[2] != ()


def test_a_window_is_set_changed_and_taken_away(manager: Manager) -> None:
    send(manager, "a", at_ms=5_000)
    send(manager, "b", at_ms=5_800)
    manager.ask(Configure("once", Settings(deduplicate_ms=500), changed=["deduplicate_ms"]))

    assert send(manager, "a", at_ms=5_900)[2] == ()
    assert send(manager, "b", at_ms=5_900)[2] != ()
    manager.ask(Configure("once", Settings(), changed=["deduplicate_ms"]))
    assert send(manager, "b", at_ms=5_900)[2] == ()
    assert manager.directory.deduplications == {}


def test_a_window_that_is_shortened_for_lack_of_room_is_told_once_and_shown_until_it_is_whole_again(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication.Deduplication.__init__, "__defaults__", (3,))
    manager.ask(Create("small", "queue", WINDOW))

    def send_small(id: str, at_ms: int) -> list[WindowShortened]:
        effects = manager.append(BatchCommand("small", "", 0, at_ms * 1000), batch_of(id))
        return [each for each in effects if isinstance(each, WindowShortened)]

    told = [send_small(str(number), 5_000 + 10 * number) for number in range(6)]
    known = manager.directory.deduplications["small"]

    assert [each for some in told for each in some] == [WindowShortened("small", 30, 1_000)]
    assert (len(known), known.shortened_to_ms) == (3, 30)
    assert Directory.restore(manager.directory.snapshot()).deduplications["small"].shortened_to_ms == 30
    send_small("later", 6_030)
    assert known.shortened_to_ms is None


# --- what it costs -------------------------------------------------------------------------------------------------------


def test_a_remembered_event_costs_less_than_fifty_bytes() -> None:
    keys = b"".join(hashlib.blake2b(b"%d" % number, digest_size=KEY_BYTES).digest() for number in range(8_000))
    tracemalloc.start()
    table = Deduplication(1_000, CommandTime())
    for at in range(0, 8_000, 500):
        table.take(keys[at * KEY_BYTES : (at + 500) * KEY_BYTES], at, 1_000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(table) == 8_000
    assert used / 8_000 < 50


@pytest.mark.parametrize(
    ("given", "ms"), [("10m", 600_000), ("90s", 90_000), ("1.5 h", 5_400_000), ("250ms", 250), (2, 2_000), ("7", 7_000)]
)
def test_a_duration_is_written_with_its_unit_or_in_seconds(given: str | float, ms: int) -> None:
    assert duration_ms(given, "deduplicate") == ms


@pytest.mark.parametrize("given", ["ten minutes", "-1s", "", "10 y", "9" * 400, True, None, -1, float("nan"), float("inf"), [1]])
def test_what_is_no_duration_is_refused_with_how_to_write_one(given: object) -> None:
    with pytest.raises(BadSetting, match="write it like 10m"):
        duration_ms(given, "deduplicate")
