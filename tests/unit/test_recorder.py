"""The Recorder by itself: no server, no loop (A6)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from holdfast.destination import command
from holdfast.errors import BadEvent, BadName, BadSetting, BadUrl, Blocked, Closed, JournalInUse, Refused, TooLarge
from holdfast.event.batch import Batch
from holdfast.event.event import Event, decode_head
from holdfast.recorder.recorder import Recorder
from holdfast.recorder.recorder_contents import RecorderContents

SMALL_BYTES = 128 << 10


def _bodies(folder: Path) -> list[bytes]:
    contents = RecorderContents.open(folder)
    try:
        return [bytes(Batch(command.decode(each.command)[1]).body(0)) for each in contents.commands()]
    finally:
        contents.close()


def _fill(recorder: Recorder) -> int:
    """Record until it is full; how many were taken."""
    taken = 0
    with pytest.raises(Blocked):
        while True:
            recorder.record(b"x" * 1000, "orders")
            taken += 1
    return taken


def test_what_was_recorded_is_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    with Recorder(tmp_path / "recorder") as recorder:
        first = recorder.record(b"one", "orders")
        second = recorder.record(b"two", "orders")

    assert (first.sequence, second.sequence) == (1, 2)
    assert _bodies(tmp_path / "recorder") == [b"one", b"two"]


def test_a_record_is_a_ready_command_with_destination_kind_producer_and_sequence(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.record(Event(data={"a": 1}, type="t", priority=7, ttl_ms=1000, delay_ms=500, group="g"), "prices", "topic")
        (found,) = recorder.read(1, 1)

    made, payload = command.decode(found.command)
    batch = Batch(payload)
    batch.check()
    assert made == command.BatchCommand("prices", recorder_name(found.command), 1)
    assert (found.sequence, found.destination, found.kind) == (1, "prices", "topic")
    assert (batch.count, batch.priority, batch.has_groups, batch.has_expiry) == (1, 7, True, True)
    assert batch.not_before_ms > 0
    assert decode_head(batch.head(0)).type == "t"


def recorder_name(data: bytes | memoryview) -> str:
    made, _ = command.decode(data)
    assert isinstance(made, command.BatchCommand)
    assert made.producer.startswith("recorder-")
    return made.producer


def test_the_producer_outlives_the_process_and_differs_between_recorders(tmp_path: Path) -> None:
    names = []
    for folder in ("a", "a", "b"):
        with Recorder(tmp_path / folder) as recorder:
            names.append(recorder.producer)

    assert names[0] == names[1] != names[2]


def test_ids_and_sequences_are_never_reused_after_a_restart(tmp_path: Path) -> None:
    """B14: a recorder counts as a node."""
    made = []
    for _ in range(5):
        with Recorder(tmp_path) as recorder:
            made += [recorder.record(number, "orders") for number in range(3)]

    ids = [each.id for each in made]
    assert ids == sorted(set(ids))
    assert [each.sequence for each in made] == list(range(1, 16))


def test_an_id_that_the_event_brings_is_kept(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        assert recorder.record(Event(data=1, id="mine"), "orders").id == "mine"


def test_a_full_recorder_says_so_keeps_everything_and_has_room_after_it_was_forwarded(tmp_path: Path) -> None:
    with Recorder(tmp_path, SMALL_BYTES) as recorder:
        free = recorder.free_bytes
        taken = _fill(recorder)

        assert recorder.held == taken
        assert free >= taken * 1000
        assert recorder.free_bytes < 2000
        with pytest.raises(Blocked, match=f"is full and this event was not recorded; its {taken} events are safe"):
            recorder.record(b"x" * 1000, "orders")
        recorder.release(taken)

        assert recorder.record(b"again", "orders").sequence == taken + 1
        assert recorder.held == 1


def test_a_recorder_takes_most_of_its_size_and_all_of_it_is_allocated_before_the_first_event(tmp_path: Path) -> None:
    """A2: recording needs no new disk space."""
    with Recorder(tmp_path, SMALL_BYTES) as recorder:
        before = sum(path.stat().st_blocks for path in tmp_path.rglob("*"))
        taken = _fill(recorder)
        after = sum(path.stat().st_blocks for path in tmp_path.rglob("*"))

    assert taken * 1000 > SMALL_BYTES / 2
    assert after <= before


def test_a_recorder_used_for_twenty_times_its_size_never_grows(tmp_path: Path) -> None:
    with Recorder(tmp_path, SMALL_BYTES) as recorder:
        size = sum(path.stat().st_size for path in tmp_path.rglob("*"))
        for number in range(20 * SMALL_BYTES // 1000):
            made = recorder.record(b"x" * 1000, "orders")
            if number % 20 == 19:
                recorder.release(made.sequence)

        assert sum(path.stat().st_size for path in tmp_path.rglob("*")) == size


def test_of_events_noted_together_those_that_fit_are_recorded_and_the_others_refused(tmp_path: Path) -> None:
    """Threads at the edge of a full recorder: whoever got a sequence is in it, under that sequence."""
    outcomes: dict[int, list[int]] = {}
    with Recorder(tmp_path, SMALL_BYTES) as recorder:

        def work(name: int) -> None:
            outcomes[name] = []
            for number in range(60):
                size = 100 if number % 3 else 2500
                try:
                    made = recorder.record(bytes([name]) * size, "orders")
                except Blocked:
                    continue
                outcomes[name].append(made.sequence)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    expected = {sequence: name for name, sequences in outcomes.items() for sequence in sequences}
    found = {sequence: body[0] for sequence, body in enumerate(_bodies(tmp_path), 1)}
    assert found == expected
    assert 0 < len(found) < 360


@pytest.mark.parametrize(
    ("data", "destination", "kind", "error"),
    [
        (1, "_DMQ", "queue", BadName),
        (1, "", "queue", BadName),
        (1, "orders", "exchange", BadEvent),
        (object(), "orders", "queue", BadEvent),
        (Event(data=1, priority=10), "orders", "queue", BadEvent),
        (b"x" * (SMALL_BYTES // 8), "orders", "queue", TooLarge),
    ],
)
def test_what_could_never_be_sent_is_refused_at_once_and_not_recorded(
    tmp_path: Path, data: object, destination: str, kind: str, error: type[Exception]
) -> None:
    with Recorder(tmp_path, SMALL_BYTES) as recorder:
        with pytest.raises(error):
            recorder.record(data, destination, kind)  # type: ignore[arg-type]

        assert recorder.held == 0
        assert recorder.record(1, "orders").sequence == 1


def test_a_second_recorder_on_the_same_folder_is_told_who_has_it(tmp_path: Path) -> None:
    with Recorder(tmp_path), pytest.raises(JournalInUse, match=f"in use by process {os.getpid()}"):
        Recorder(tmp_path)


def test_a_child_process_does_not_write_into_its_parents_recorder(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        child = os.fork()
        if child == 0:
            try:
                recorder.record(1, "orders")
            except Refused:
                os._exit(7)
            os._exit(0)
        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 7
        assert recorder.record(1, "orders").sequence == 1


def test_a_closed_recorder_says_so(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.close()
    recorder.close()

    with pytest.raises(Closed):
        recorder.record(1, "orders")


def test_a_recorder_is_a_path_or_a_file_url_and_nothing_else(tmp_path: Path) -> None:
    Recorder(f"file:{tmp_path}/a").close()
    Recorder(f"file://{tmp_path}/b").close()

    assert (tmp_path / "a" / "recording").is_dir()
    assert (tmp_path / "b" / "recording").is_dir()
    with pytest.raises(BadUrl):
        Recorder("holdfast://host")
    with pytest.raises(BadSetting, match="too small"):
        Recorder(tmp_path / "c", 1000)


def test_what_was_released_is_not_held_any_more_after_a_restart(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for number in range(5):
            recorder.record(number, "orders")
        recorder.release(3)

    with Recorder(tmp_path) as recorder:
        assert recorder.held == 2
        assert [each.sequence for each in recorder.read(1, 5)] == [4, 5]


@pytest.mark.parametrize("damage", [b"", b"short", b"\xff" * 28])
def test_without_a_valid_mark_more_is_held_than_need_be_and_nothing_less(tmp_path: Path, damage: bytes) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.record(1, "orders")
        recorder.release(1)
    (tmp_path / "forwarded").write_bytes(damage)

    with Recorder(tmp_path) as recorder:
        assert recorder.held == 1


def test_the_mark_of_another_journal_is_not_believed(tmp_path: Path) -> None:
    for folder, released in (("a", 3), ("b", 0)):
        with Recorder(tmp_path / folder) as recorder:
            for number in range(3):
                recorder.record(number, "orders")
            recorder.release(released)
    (tmp_path / "b" / "forwarded").write_bytes((tmp_path / "a" / "forwarded").read_bytes())

    with Recorder(tmp_path / "b") as recorder:
        assert recorder.held == 3


async def test_forward_inside_a_running_loop_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder, pytest.raises(Refused, match="to_thread"):
        recorder.forward("memory:")


@pytest.mark.parametrize("place", ["~/kept", "file:~/kept", Path("~/kept")])
def test_a_tilde_in_the_folder_of_a_recorder_is_the_home_of_whoever_records(
    place: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    with Recorder(place) as recorder:
        recorder.record("one", "orders")

    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept"]
    assert RecorderContents.is_in(place)
